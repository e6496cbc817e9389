//! Lines of JSON that every reader of lines takes for one line.

use memchr::memchr2;

/// First bytes of the characters that JSON allows in texts and that readers of lines split at: U+0085 is `C2 85`,
/// U+2028 and U+2029 are `E2 80 A8` and `E2 80 A9`.
const LEADS: (u8, u8) = (0xc2, 0xe2);

/// Ends the line of JSON that begins at `begin`: characters at which a reader might split it are escaped, and a newline is added. The value
/// stays what it is, because such characters stand in texts only.
pub fn end_line(out: &mut Vec<u8>, begin: usize) {
    if let Some(escaped) = out.get(begin..).and_then(escaped) {
        out.truncate(begin);
        out.extend_from_slice(&escaped);
    }
    out.push(b'\n');
}

fn escaped(line: &[u8]) -> Option<Vec<u8>> {
    let (mut from, mut kept) = (0, 0);
    let mut out = Vec::new();
    while let Some(found) = memchr2(LEADS.0, LEADS.1, &line[from..]) {
        let at = from + found;
        let escape: &[u8] = match &line[at..] {
            [0xc2, 0x85, ..] => b"\\u0085",
            [0xe2, 0x80, 0xa8, ..] => b"\\u2028",
            [0xe2, 0x80, 0xa9, ..] => b"\\u2029",
            _ => {
                from = at + 1;
                continue;
            }
        };
        out.extend_from_slice(&line[kept..at]);
        out.extend_from_slice(escape);
        kept = at + if line[at] == LEADS.0 { 2 } else { 3 };
        from = kept;
    }
    if kept == 0 {
        return None;
    }
    out.extend_from_slice(&line[kept..]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_and_says_the_same() {
        for text in [
            "plain",
            "é ¢ € \u{86} \u{2027} \u{202a}",
            "\u{2028}",
            "a\u{2028}b\u{2029}\u{2029}c\u{85}",
            "\u{85}€\u{85}",
            "\\u2028",
        ] {
            let mut line = "\u{2028}".as_bytes().to_vec();
            serde_json::to_writer(&mut line, &serde_json::json!({ text: [text] })).unwrap();
            end_line(&mut line, 3);
            let read = String::from_utf8(line).unwrap();
            let body = read.strip_prefix('\u{2028}').unwrap().strip_suffix('\n').unwrap();
            assert!(!body.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']), "{body}");
            let value: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!(value, serde_json::json!({ text: [text] }));
        }
    }

    #[test]
    fn what_needs_no_escape_is_not_copied() {
        assert_eq!(escaped("{\"a\":\"é€ \"}".as_bytes()), None);
    }
}
