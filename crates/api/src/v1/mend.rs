//! Texts that are not quite Unicode, taken as the first broker took them.

/// The escape of U+FFFD, which stands for what cannot be read.
const REPLACEMENT: &[u8] = b"\\ufffd";

/// A body of JSON in which half of a surrogate pair, or bytes that are no UTF-8, are U+FFFD. `None` if there is
/// nothing to mend. A program that cuts a text by UTF-16 units, as JavaScript does, sends such halves.
#[must_use]
pub fn mended(body: &[u8]) -> Option<Vec<u8>> {
    let mut mended = match std::str::from_utf8(body) {
        Ok(_) => None,
        Err(_) => Some(String::from_utf8_lossy(body).into_owned().into_bytes()),
    };
    if let Some(whole) = without_halves(mended.as_deref().unwrap_or(body)) {
        mended = Some(whole);
    }
    mended
}

fn without_halves(body: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut at, mut kept) = (0, 0);
    while let Some(found) = memchr::memchr(b'\\', body.get(at..).unwrap_or_default()) {
        at += found;
        match unit(&body[at..]) {
            // A pair, or a character of its own.
            Some(0xd800..=0xdbff) if matches!(unit(&body[at + 6..]), Some(0xdc00..=0xdfff)) => at += 12,
            Some(0xd800..=0xdfff) => {
                out.extend_from_slice(&body[kept..at]);
                out.extend_from_slice(REPLACEMENT);
                at += 6;
                kept = at;
            }
            // Any other escape: the byte behind the backslash begins none.
            _ => at += 2,
        }
    }
    if kept == 0 {
        return None;
    }
    out.extend_from_slice(&body[kept..]);
    Some(out)
}

/// The UTF-16 unit that `text` begins with, if it begins with the escape of one.
fn unit(text: &[u8]) -> Option<u16> {
    let [b'\\', b'u', digits @ ..] = text else { return None };
    let digits = std::str::from_utf8(digits.get(..4)?).ok()?;
    if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        u16::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_replaced_and_nothing_else() {
        for (body, expected) in [
            (r#"{"a":"\ud83d"}"#, Some(r#"{"a":"\ufffd"}"#)),
            (r#"{"a":"x\ude00\ud83d"}"#, Some(r#"{"a":"x\ufffd\ufffd"}"#)),
            (r#"{"a":"\ud83d\ud83d\ude00"}"#, Some(r#"{"a":"\ufffd\ud83d\ude00"}"#)),
            (r#"{"a":"\ud83dA"}"#, Some(r#"{"a":"\ufffdA"}"#)),
            (r#"{"a":"\uD83D\n"}"#, Some(r#"{"a":"\ufffd\n"}"#)),
            (r#"{"a":"\\\ud83d"}"#, Some(r#"{"a":"\\\ufffd"}"#)),
            (r#"{"a":"\ud83d\ude00"}"#, None),
            (r#"{"a":"\\ud83d"}"#, None),
            (r#"{"a":"\u12"}"#, None),
            (r#"{"a":"\ud83"#, None),
            (r"\", None),
            (r#"\ud83d\"#, Some(r#"\ufffd\"#)),
            ("", None),
            ("plain é", None),
        ] {
            let found = mended(body.as_bytes()).map(|body| String::from_utf8(body).unwrap());
            assert_eq!(found.as_deref(), expected, "{body}");
        }
        assert_eq!(mended(b"\"\xff\\ud800\"").unwrap(), "\"\u{fffd}\\ufffd\"".as_bytes());
    }
}
