//! JSON in the one form that every writing of the same document comes to.
//!
//! The form, which must never change, because hashes of it are kept:
//! - Members of an object stand in the order of the bytes of their names in UTF-8, after escapes are undone. (RFC 8785
//!   sorts by UTF-16 units, which differs beyond the basic plane, and reads numbers as floats; this is not that.)
//! - There are no blanks between tokens.
//! - In strings and names, `"` and `\` are written as `\"` and `\\`, characters below U+0020 as `\u00` and two
//!   lowercase digits, and every other character as itself in UTF-8. Nothing is normalised: `é` as one character and as
//!   two are different.
//! - Numbers are written as they came. A detour over floats would make `9007199254740993` and `9007199254740992` one
//!   amount, so no number is ever read. `1`, `1.0`, `1e0` and `1E0` count as different for the same reason that nobody
//!   has to decide what a number means: a client that changes how it writes an amount between two tries is refused
//!   without need, which it notices; one that changes the amount and is given the answer to another one does not.
//! - An object with two members of one name is refused: which of them counts depends on who reads it.
//! - Half a surrogate pair, text that is not UTF-8, and more than [`DEPTH_MAX`] levels are refused.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::LedgerError;

/// Most levels of arrays and objects within each other; the walk goes down by calls of itself.
pub const DEPTH_MAX: usize = 128;

/// The canonical form of a document.
pub(crate) fn canonical(json: &[u8]) -> Result<Vec<u8>, LedgerError> {
    // The grammar is checked by a parser that is proven, without reading numbers and without recursion. What is left
    // to do here is to walk over tokens that are known to be right.
    let document: &RawValue = serde_json::from_slice(json).map_err(|error| refused(&error.to_string()))?;
    let mut out = Vec::with_capacity(json.len());
    let mut walk = Walk { text: document.get(), at: 0 };
    walk.value(&mut out, 0)?;
    Ok(out)
}

fn refused(why: &str) -> LedgerError {
    LedgerError::Invalid(format!("this is no JSON that can be hashed: {why}"))
}

struct Walk<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Walk<'a> {
    fn value(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<(), LedgerError> {
        self.skip_blanks();
        match self.peek() {
            Some(b'{' | b'[') if depth >= DEPTH_MAX => {
                Err(refused(&format!("it is nested more than {DEPTH_MAX} levels deep")))
            }
            Some(b'{') => self.object(out, depth + 1),
            Some(b'[') => self.array(out, depth + 1),
            Some(b'"') => {
                write_string(&self.string()?, out);
                Ok(())
            }
            Some(_) => {
                out.extend_from_slice(self.scalar().as_bytes());
                Ok(())
            }
            None => Err(refused("it ends too early")),
        }
    }

    fn object(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<(), LedgerError> {
        self.at += 1;
        let mut members: Vec<(Cow<'a, str>, Vec<u8>)> = Vec::new();
        while !self.ends(b'}') {
            let name = self.string()?;
            self.skip_blanks();
            // The colon.
            self.at += 1;
            let mut value = Vec::new();
            self.value(&mut value, depth)?;
            members.push((name, value));
        }
        members.sort_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
        if let Some(pair) = members.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(refused(&format!("it has two members {:?} in one object", pair[0].0)));
        }
        out.push(b'{');
        for (at, (name, value)) in members.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            write_string(name, out);
            out.push(b':');
            out.extend_from_slice(value);
        }
        out.push(b'}');
        Ok(())
    }

    fn array(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<(), LedgerError> {
        self.at += 1;
        out.push(b'[');
        let mut is_first = true;
        while !self.ends(b']') {
            if !is_first {
                out.push(b',');
            }
            is_first = false;
            self.value(out, depth)?;
        }
        out.push(b']');
        Ok(())
    }

    /// Goes over blanks and commas, and over the end of an array or object if it is there. The text is known to be
    /// right, so a comma stands only where one must.
    fn ends(&mut self, end: u8) -> bool {
        self.skip_blanks();
        if self.peek() == Some(b',') {
            self.at += 1;
            self.skip_blanks();
        }
        let is_end = self.peek().is_none_or(|byte| byte == end);
        self.at += usize::from(is_end);
        is_end
    }

    /// A string or a name with its escapes undone.
    fn string(&mut self) -> Result<Cow<'a, str>, LedgerError> {
        let rest = &self.text[self.at..];
        let mut is_escaped = false;
        let end = rest.bytes().skip(1).position(|byte| {
            let is_end = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            is_end
        });
        let Some(end) = end else { return Err(refused("a string does not end")) };
        let literal = &rest[..end + 2];
        self.at += literal.len();
        if literal.contains('\\') {
            // Undone by the parser that knows every escape; it refuses half a surrogate pair.
            serde_json::from_str::<String>(literal)
                .map(Cow::Owned)
                .map_err(|error| refused(&error.to_string()))
        } else {
            Ok(Cow::Borrowed(&literal[1..literal.len() - 1]))
        }
    }

    /// A number, `true`, `false` or `null`, as it is written.
    fn scalar(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..0x20 => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
    use proptest::{prop_assert_eq, prop_assert_ne};

    use super::*;

    fn form(json: &str) -> String {
        String::from_utf8(canonical(json.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn there_is_one_form_of_a_document() {
        for (json, expected) in [
            (" { \"b\" : [ 1 , 2.50,{} , [ ] ] , \"a\":null}\n", r#"{"a":null,"b":[1,2.50,{},[]]}"#),
            (r#"{"\u0062":1,"a":"\u00e9\/\n\"\\\ud83d\ude00"}"#, "{\"a\":\"é/\\u000a\\\"\\\\😀\",\"b\":1}"),
            // By bytes, not by UTF-16 units: U+FFFD comes before U+1F600.
            ("{\"😀\":1,\"\u{fffd}\":2}", "{\"\u{fffd}\":2,\"😀\":1}"),
            ("\ttrue ", "true"),
            ("\"a,]}: b\"", "\"a,]}: b\""),
            (r#""\\""#, r#""\\""#),
            (r#"["\"",{"x]":"\\\""}]"#, r#"["\"",{"x]":"\\\""}]"#),
            ("-0.0E+10", "-0.0E+10"),
        ] {
            assert_eq!(form(json), expected);
            assert_eq!(form(expected), expected, "its own form");
        }
    }

    #[test]
    fn what_means_two_things_or_nothing_is_refused() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let wide = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        for json in [
            "",
            " ",
            "{",
            "[1,]",
            "[1 2]",
            "{\"a\" 1}",
            "{\"a\":1,}",
            "01",
            "1.",
            "+1",
            "NaN",
            "tru",
            "1 1",
            "'a'",
            "\"\n\"",
            r#""\x""#,
            r#""\ud83d""#,
            r#"{"\udc00":1}"#,
            r#"{"a":1,"a":1}"#,
            r#"[{"a":1,"b":2,"\u0061":1}]"#,
            &deep(DEPTH_MAX + 1),
            &wide(DEPTH_MAX + 1),
            &deep(1_000_000),
        ] {
            let short = &json[..json.len().min(40)];
            assert!(matches!(canonical(json.as_bytes()), Err(LedgerError::Invalid(_))), "{short}");
        }
        assert!(matches!(canonical(b"\"\xff\""), Err(LedgerError::Invalid(_))));
        assert_eq!(form(&deep(DEPTH_MAX)), deep(DEPTH_MAX));
        assert_eq!(form(&wide(DEPTH_MAX)), wide(DEPTH_MAX));
    }

    /// A document, apart from how it is written.
    #[derive(Clone, Debug, PartialEq)]
    enum Node {
        Word(&'static str),
        Number(String),
        Text(String),
        List(Vec<Self>),
        Object(Vec<(String, Self)>),
    }

    fn nodes() -> impl Strategy<Value = Node> {
        let number = "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?";
        let leaf = prop_oneof![
            prop_oneof![Just("null"), Just("true"), Just("false")].prop_map(Node::Word),
            number.prop_map(Node::Number),
            any::<String>().prop_map(Node::Text),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..6).prop_map(Node::List),
                btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|members| Node::Object(members.into_iter().collect())),
            ]
        })
    }

    /// Writes a document in one of many ways, as the bits of `taste` say.
    fn written(node: &Node, taste: &mut u64, out: &mut String) {
        let mut coin = || {
            *taste = taste.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *taste >> 40
        };
        let blanks = ["", " ", "\n\t", "\r  "];
        out.push_str(blanks[(coin() % 4) as usize]);
        let after = blanks[(coin() % 4) as usize];
        match node {
            Node::Word(word) => out.push_str(word),
            Node::Number(number) => out.push_str(number),
            Node::Text(text) => written_text(text, coin() % 2 == 0, out),
            Node::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    written(item, taste, out);
                }
                out.push(']');
            }
            Node::Object(members) => {
                let mut members: Vec<_> = members.iter().map(|member| (coin(), member)).collect();
                members.sort_by_key(|(order, _)| *order);
                out.push('{');
                for (at, (order, (name, value))) in members.into_iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    out.push_str(after);
                    written_text(name, order % 2 == 0, out);
                    out.push_str(after);
                    out.push(':');
                    written(value, taste, out);
                }
                out.push('}');
            }
        }
        out.push_str(after);
    }

    fn written_text(text: &str, all_escaped: bool, out: &mut String) {
        if all_escaped {
            out.push('"');
            text.encode_utf16().for_each(|unit| out.push_str(&format!("\\u{unit:04X}")));
            out.push('"');
        } else {
            out.push_str(&serde_json::to_string(text).unwrap());
        }
    }

    /// A copy that differs in exactly one place.
    fn changed(node: &Node, place: usize) -> Node {
        match node {
            Node::Word("null") => Node::Word("true"),
            Node::Word(_) => Node::Word("null"),
            Node::Number(number) if number.contains(['.', 'e', 'E']) => Node::Number("1".to_owned()),
            Node::Number(number) => Node::Number(format!("{number}.0")),
            Node::Text(text) => Node::Text(format!("{text} ")),
            Node::List(items) if items.is_empty() => Node::List(vec![Node::Word("null")]),
            Node::List(items) => {
                let mut items = items.clone();
                let at = place % items.len();
                items[at] = changed(&items[at], place / 7);
                Node::List(items)
            }
            Node::Object(members) if members.is_empty() => Node::List(Vec::new()),
            Node::Object(members) => {
                let mut members = members.clone();
                let at = place % members.len();
                match place % 3 {
                    0 => members[at].0 += "\u{10ffff}",
                    1 => drop(members.remove(at)),
                    _ => members[at].1 = changed(&members[at].1, place / 7),
                }
                Node::Object(members)
            }
        }
    }

    proptest! {
        #[test]
        fn order_blanks_and_escapes_do_not_matter_and_everything_else_does(
            node in nodes(),
            tastes in prop::array::uniform2(any::<u64>()),
            place in any::<u16>(),
        ) {
            let [one, other] = tastes.map(|mut taste| {
                let mut json = String::new();
                written(&node, &mut taste, &mut json);
                json
            });
            let expected = form(&one);
            prop_assert_eq!(&form(&other), &expected);
            prop_assert_eq!(&form(&expected), &expected, "the form is its own form");
            let mut json = String::new();
            written(&changed(&node, usize::from(place)), &mut 1, &mut json);
            prop_assert_ne!(form(&json), expected);
        }
    }
}
