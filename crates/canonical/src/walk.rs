//! The canonical form of a text: the tokens are walked over, and no number is read.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::number::write_number;
use super::{Flaw, write_text};

/// Most levels of arrays and objects within each other; the walk goes down by calls of itself.
pub const DEPTH_MAX: usize = 128;

/// The canonical form of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// The form.
    pub text: String,
    /// Whether all numbers stand in it as they came.
    pub is_as_written: bool,
}

/// The canonical form of a document.
///
/// # Errors
/// If it is no JSON, or means two things.
pub fn of_json(json: &[u8]) -> Result<Form, Flaw> {
    walked(json, false)
}

/// The form in which numbers stand as they came, which an older release of the ledger has made hashes of.
///
/// # Errors
/// As [`of_json`].
pub fn of_json_as_written(json: &[u8]) -> Result<String, Flaw> {
    walked(json, true).map(|form| form.text)
}

fn walked(json: &[u8], leaves_numbers: bool) -> Result<Form, Flaw> {
    // The grammar is checked by a parser that is proven, without reading numbers and without recursion. What is left
    // to do here is to walk over tokens that are known to be right.
    let document: &RawValue = serde_json::from_slice(json).map_err(refused)?;
    let mut out = String::with_capacity(json.len());
    let mut walk = Walk { text: document.get(), at: 0, leaves_numbers, is_as_written: true };
    walk.value(&mut out, 0)?;
    Ok(Form { text: out, is_as_written: walk.is_as_written })
}

fn refused(why: impl std::fmt::Display) -> Flaw {
    Flaw(why.to_string())
}

struct Walk<'a> {
    text: &'a str,
    at: usize,
    leaves_numbers: bool,
    is_as_written: bool,
}

impl<'a> Walk<'a> {
    fn value(&mut self, out: &mut String, depth: usize) -> Result<(), Flaw> {
        self.skip_blanks();
        match self.peek() {
            Some(b'{' | b'[') if depth >= DEPTH_MAX => {
                Err(refused(format!("it is nested more than {DEPTH_MAX} levels deep")))
            }
            Some(b'{') => self.object(out, depth + 1),
            Some(b'[') => self.array(out, depth + 1),
            Some(b'"') => {
                write_text(&self.string()?, out);
                Ok(())
            }
            Some(_) => {
                self.scalar(out);
                Ok(())
            }
            None => Err(refused("it ends too early")),
        }
    }

    fn object(&mut self, out: &mut String, depth: usize) -> Result<(), Flaw> {
        self.at += 1;
        let mut members: Vec<(Cow<'a, str>, String)> = Vec::new();
        while !self.ends(b'}') {
            let name = self.string()?;
            self.skip_blanks();
            // The colon.
            self.at += 1;
            let mut value = String::new();
            self.value(&mut value, depth)?;
            members.push((name, value));
        }
        members.sort_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
        if let Some(pair) = members.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(refused(format!("it has two members {:?} in one object", pair[0].0)));
        }
        out.push('{');
        for (at, (name, value)) in members.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            write_text(name, out);
            out.push(':');
            out.push_str(value);
        }
        out.push('}');
        Ok(())
    }

    fn array(&mut self, out: &mut String, depth: usize) -> Result<(), Flaw> {
        self.at += 1;
        out.push('[');
        let mut is_first = true;
        while !self.ends(b']') {
            if !is_first {
                out.push(',');
            }
            is_first = false;
            self.value(out, depth)?;
        }
        out.push(']');
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
    fn string(&mut self) -> Result<Cow<'a, str>, Flaw> {
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
            serde_json::from_str::<String>(literal).map(Cow::Owned).map_err(refused)
        } else {
            Ok(Cow::Borrowed(&literal[1..literal.len() - 1]))
        }
    }

    /// A number, `true`, `false` or `null`.
    fn scalar(&mut self, out: &mut String) {
        let rest = &self.text[self.at..];
        let end = rest.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(rest.len());
        let (literal, from) = (&rest[..end], out.len());
        self.at += end;
        if self.leaves_numbers || literal.starts_with(['t', 'f', 'n']) {
            out.push_str(literal);
        } else {
            write_number(literal, out);
            self.is_as_written &= &out[from..] == literal;
        }
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

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
    use proptest::{prop_assert_eq, prop_assert_ne};

    use super::*;

    fn form(json: &str) -> String {
        of_json(json.as_bytes()).unwrap().text
    }

    #[test]
    fn there_is_one_form_of_a_document() {
        for (json, expected) in [
            (" { \"b\" : [ 1 , 2.50,{} , [ ] ] , \"a\":null}\n", r#"{"a":null,"b":[1,2.5,{},[]]}"#),
            (r#"{"\u0062":1,"a":"\u00e9\/\n\"\\\ud83d\ude00"}"#, "{\"a\":\"é/\\u000a\\\"\\\\😀\",\"b\":1}"),
            // By bytes, not by UTF-16 units: U+FFFD comes before U+1F600.
            ("{\"😀\":1,\"\u{fffd}\":2}", "{\"\u{fffd}\":2,\"😀\":1}"),
            ("\ttrue ", "true"),
            ("\"a,]}: b\"", "\"a,]}: b\""),
            (r#""\\""#, r#""\\""#),
            (r#"["\"",{"x]":"\\\""}]"#, r#"["\"",{"x]":"\\\""}]"#),
            ("-0.0E+10", "0"),
            ("[9007199254740993,1.0]", "[9007199254740993,1]"),
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
            assert!(of_json(json.as_bytes()).is_err(), "{short}");
        }
        assert!(of_json(b"\"\xff\"").is_err());
        assert_eq!(form(&deep(DEPTH_MAX)), deep(DEPTH_MAX));
        assert_eq!(form(&wide(DEPTH_MAX)), wide(DEPTH_MAX));
    }

    #[test]
    fn the_older_form_is_told_from_it_by_its_numbers() {
        let json = br#"{"b": 1.0, "a": [1, -2.50, "1.0"]}"#;
        assert_eq!(of_json_as_written(json).unwrap(), r#"{"a":[1,-2.50,"1.0"],"b":1.0}"#);
        let form = of_json(json).unwrap();
        assert_eq!((&*form.text, form.is_as_written), (r#"{"a":[1,-2.5,"1.0"],"b":1}"#, false));
        assert!(of_json(form.text.as_bytes()).unwrap().is_as_written);
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
            // Larger than any that is made.
            Node::Number(_) => Node::Number("1e4000".to_owned()),
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
