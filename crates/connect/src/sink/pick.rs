//! Parts of a JSON document by their pointers, as the text that they are: in one pass, and no number becomes a float.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Deeper pointers are refused: reading one takes as many calls.
const DEPTH_MAX: usize = 64;

/// A JSON pointer (RFC 6901).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pointer(Vec<String>);

impl Pointer {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self(Vec::new()));
        }
        let steps: Vec<&str> = text.strip_prefix('/')?.split('/').collect();
        if steps.len() > DEPTH_MAX {
            return None;
        }
        steps.into_iter().map(unescaped).collect::<Option<_>>().map(Self)
    }
}

/// A step with `~1` and `~0` undone; none if it has another `~`.
fn unescaped(step: &str) -> Option<String> {
    let mut parts = step.split('~');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let sign = match part.chars().next()? {
            '0' => '~',
            '1' => '/',
            _ => return None,
        };
        name.push(sign);
        name.push_str(&part[1..]);
    }
    Some(name)
}

/// All pointers of a sink, by their first steps. What stands at pointer `n` goes into slot `n`.
#[derive(Clone, Debug, Default)]
pub(super) struct Picker {
    /// The slots of what stands here.
    here: Vec<usize>,
    /// The slots of what stands here or below.
    all: Vec<usize>,
    below: Vec<(String, Self)>,
}

impl Picker {
    pub(super) fn new<'a>(pointers: impl IntoIterator<Item = (usize, &'a Pointer)>) -> Self {
        let mut root = Self::default();
        for (slot, Pointer(steps)) in pointers {
            let mut node = &mut root;
            node.all.push(slot);
            for step in steps {
                let place = node.below.iter().position(|(name, _)| name == step).unwrap_or_else(|| {
                    node.below.push((step.clone(), Self::default()));
                    node.below.len() - 1
                });
                node = &mut node.below[place].1;
                node.all.push(slot);
            }
            node.here.push(slot);
        }
        root
    }

    /// Whether nothing is asked for.
    pub(super) const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Fills the slots with what stands at their pointers. The whole document is read, so that what is no JSON is found.
    pub(super) fn pick<'de>(
        &self,
        document: &'de str,
        slots: &mut [Option<&'de RawValue>],
    ) -> Result<(), serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_str(document);
        Seed { node: self, slots }.deserialize(&mut reader)?;
        reader.end()
    }

    fn child(&self, name: &str) -> Option<&Self> {
        self.below.iter().find(|(step, _)| step == name).map(|(_, node)| node)
    }
}

struct Seed<'p, 's, 'de> {
    node: &'p Picker,
    slots: &'s mut [Option<&'de RawValue>],
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        // Of two members with the same name the last one counts, as everywhere.
        for slot in &self.node.all {
            self.slots[*slot] = None;
        }
        if self.node.here.is_empty() {
            return reader.deserialize_any(self);
        }
        let text: &'de RawValue = serde::Deserialize::deserialize(reader)?;
        for slot in &self.node.here {
            self.slots[*slot] = Some(text);
        }
        if self.node.below.is_empty() {
            return Ok(());
        }
        let mut again = serde_json::Deserializer::from_str(text.get());
        again.deserialize_any(self).map_err(serde::de::Error::custom)
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(name)) = map.next_key()? {
            match self.node.child(&name) {
                Some(node) => map.next_value_seed(Seed { node, slots: &mut *self.slots })?,
                None => map.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut index = 0_usize;
        loop {
            let more = match self.node.child(&index.to_string()) {
                Some(node) => list.next_element_seed(Seed { node, slots: &mut *self.slots })?.is_some(),
                None => list.next_element::<IgnoredAny>()?.is_some(),
            };
            if !more {
                return Ok(());
            }
            index += 1;
        }
    }

    // Nothing is below a value that has no parts.
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// A text, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(document: &str, pointers: &[&str]) -> Result<Vec<Option<String>>, serde_json::Error> {
        let pointers: Vec<Pointer> = pointers.iter().map(|text| Pointer::parse(text).unwrap()).collect();
        let picker = Picker::new(pointers.iter().enumerate());
        let mut slots = vec![None; pointers.len()];
        picker.pick(document, &mut slots)?;
        Ok(slots.into_iter().map(|slot| slot.map(|text: &RawValue| text.get().to_owned())).collect())
    }

    #[test]
    fn parts_are_found_by_their_pointers_as_they_were_written() {
        let document =
            r#" {"a": {"b": 12345678901234567890.10, "c": [7, {"d": "x"}]}, "m~n": 1, "p/q": 2, "é": null} "#;
        let pointers = ["/a/b", "/a/c/1/d", "/a/c/0", "/m~0n", "/p~1q", "/é", "/no", "/a/b/c", "/a/c"];
        let expected = [
            Some("12345678901234567890.10"),
            Some("\"x\""),
            Some("7"),
            Some("1"),
            Some("2"),
            Some("null"),
            None,
            None,
            Some("[7, {\"d\": \"x\"}]"),
        ];
        let found = picked(document, &pointers).unwrap();
        assert_eq!(found.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
        assert_eq!(picked("[1]", &["", "/0", "/1"]).unwrap()[..2], [Some("[1]".into()), Some("1".into())]);
    }

    #[test]
    fn the_last_of_two_members_counts_with_all_its_parts() {
        assert_eq!(picked(r#"{"a": {"b": 1}, "a": {}}"#, &["/a/b"]).unwrap(), [None]);
        assert_eq!(picked(r#"{"a": 1, "a": 2}"#, &["/a"]).unwrap(), [Some("2".to_owned())]);
    }

    #[test]
    fn what_is_no_json_is_refused_wherever_the_flaw_is() {
        for document in ["", "{", r#"{"a": 1} x"#, r#"{"a": 1, "b": tru}"#, "{\"a\": \"\u{1}\"}"] {
            assert!(picked(document, &["/a"]).is_err(), "{document}");
        }
        // As deep as it likes where nobody looks.
        let deep = format!(r#"{{"x": {}{}, "a": 1}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(picked(&deep, &["/a"]).unwrap(), [Some("1".to_owned())]);
    }

    #[test]
    fn what_is_no_pointer_is_refused() {
        for text in ["a", "a/b", "/a~2", "/a~"] {
            assert_eq!(Pointer::parse(text), None, "{text}");
        }
    }
}
