//! Writing by hand what is written for every message. The text is the same, byte for byte, as what serde makes of the
//! same value, and tests hold it to that; but a text without anything to escape is copied as a whole, and not looked at
//! byte by byte.

use serde::Serialize;

/// Bytes that are looked at together.
const STRIDE: usize = 16;

/// Writes an object, field by field.
pub(super) struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
    /// What comes before the next field.
    before: u8,
}

impl<'a> ObjectWriter<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, before: b'{' }
    }

    /// The next field's name, which needs no escapes.
    fn name(&mut self, name: &'static str) {
        self.out.extend_from_slice(&[self.before, b'"']);
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.before = b',';
    }

    pub(super) fn text(&mut self, name: &'static str, text: &str) {
        self.name(name);
        put_text(self.out, text);
    }

    /// A text whose name is the caller's.
    pub(super) fn pair(&mut self, name: &str, text: &str) {
        self.out.push(self.before);
        put_text(self.out, name);
        self.out.push(b':');
        put_text(self.out, text);
        self.before = b',';
    }

    /// A text that is left out if there is none.
    pub(super) fn text_if_any(&mut self, name: &'static str, text: &str) {
        if !text.is_empty() {
            self.text(name, text);
        }
    }

    pub(super) fn value(&mut self, name: &'static str, value: &impl Serialize) {
        self.name(name);
        put_json(self.out, value);
    }

    /// A value that is left out if there is none.
    pub(super) fn value_if_some(&mut self, name: &'static str, value: Option<impl Serialize>) {
        if let Some(value) = value {
            self.value(name, &value);
        }
    }

    /// A flag that is left out unless it is set.
    pub(super) fn flag(&mut self, name: &'static str, flag: bool) {
        if flag {
            self.value(name, &true);
        }
    }

    /// A field that is an object itself.
    pub(super) fn object(&mut self, name: &'static str, write: impl FnOnce(&mut ObjectWriter<'_>)) {
        self.name(name);
        let mut object = ObjectWriter::new(self.out);
        write(&mut object);
        object.end();
    }

    /// A field that writes itself.
    pub(super) fn with(&mut self, name: &'static str, write: impl FnOnce(&mut Vec<u8>)) {
        self.name(name);
        write(self.out);
    }

    /// A list that is left out if it is empty.
    pub(super) fn list_if_any<T>(
        &mut self,
        name: &'static str,
        items: &[T],
        write: impl Fn(&mut Vec<u8>, &T),
    ) {
        if !items.is_empty() {
            self.list(name, items, write);
        }
    }

    pub(super) fn list<T>(&mut self, name: &'static str, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
        self.name(name);
        self.out.push(b'[');
        for (place, item) in items.iter().enumerate() {
            if place > 0 {
                self.out.push(b',');
            }
            write(self.out, item);
        }
        self.out.push(b']');
    }

    pub(super) fn end(self) {
        // An object without fields is still one.
        self.out.extend_from_slice(if self.before == b'{' { b"{}" } else { b"}" });
    }
}

pub(super) fn put_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("texts and numbers always have a JSON form");
}

/// A text with its quotes.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    if !is_plain(text.as_bytes()) {
        return put_json(out, text);
    }
    out.reserve(text.len() + 2);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Whether nothing in it is escaped in JSON.
fn is_plain(text: &[u8]) -> bool {
    // Without a way out in the middle, so that the compiler may look at all of a stride at once.
    let all = |bytes: &[u8]| {
        bytes.iter().fold(true, |plain, byte| plain & (*byte >= 0x20) & (*byte != b'"') & (*byte != b'\\'))
    };
    let (strides, rest) = text.as_chunks::<STRIDE>();
    strides.iter().all(|stride| all(stride)) && all(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_as_serde_does_wherever_it_is_needed() {
        let mut odd: Vec<String> = (0..=0x7f_u8).map(|byte| char::from(byte).to_string()).collect();
        odd.extend(["", "é", "\u{2028}", "\u{10ffff}", "plain"].map(String::from));
        for odd in odd {
            for before in [0, 1, 15, 16, 17, 40] {
                let text = format!("{}{odd}{}", "x".repeat(before), "y".repeat(40 - before));
                let mut out = b"before".to_vec();
                put_text(&mut out, &text);
                let expected = format!("before{}", serde_json::to_string(&text).unwrap());
                assert_eq!(String::from_utf8(out).unwrap(), expected);
            }
        }
    }

    #[test]
    fn objects_have_commas_between_fields_and_nothing_else() {
        let mut out = Vec::new();
        let mut object = ObjectWriter::new(&mut out);
        object.text_if_any("none", "");
        object.flag("not set", false);
        object.value_if_some("no value", None::<u8>);
        object.list_if_any("no items", &[0_u8; 0], put_json);
        object.object("empty", |_| {});
        object.list("none", &[0_u8; 0], put_json);
        object.list_if_any("items", &[1, 2], put_json);
        object.text_if_any("text", "a\"b");
        object.flag("set", true);
        object.value_if_some("value", Some(7));
        object.pair("na\"me", "x");
        object.with("self", |out| put_text(out, "x"));
        object.object("inner", |inner| inner.value("n", &1));
        object.end();
        let expected = r#"{"empty":{},"none":[],"items":[1,2],"text":"a\"b","set":true,"value":7,"na\"me":"x","self":"x","inner":{"n":1}}"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
