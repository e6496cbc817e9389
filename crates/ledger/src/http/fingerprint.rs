//! What counts as the same request.

use ::http::header::CONTENT_TYPE;
use ::http::request::Parts;

use driftq_canonical as canonical;

use crate::{RequestHash, VERSION_HTTP};

/// What counts as the same request unless a layer is told otherwise: method, path and query, content type, and body, JSON
/// by its canonical form. The content type counts as it is written: what one client sends twice is the same.
#[must_use]
pub fn fingerprint(parts: &Parts, body: &[u8]) -> RequestHash {
    let content_type = parts.headers.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    let form = if is_json(content_type) { canonical::of_json(body).ok() } else { None };
    let Some(form) = form else { return hashed(parts, content_type, b"bytes", body) };
    let hash = hashed(parts, content_type, b"json", form.text.as_bytes());
    if form.is_as_written {
        return hash;
    }
    // What an older release has begun, which told the spellings of a number apart.
    match canonical::of_json_as_written(body) {
        Ok(before) => hash.or_before(hashed(parts, content_type, b"json", before.as_bytes())),
        Err(_) => hash,
    }
}

fn hashed(parts: &Parts, content_type: &[u8], kind: &[u8], body: &[u8]) -> RequestHash {
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let fields = [parts.method.as_str().as_bytes(), path.as_bytes(), content_type, kind, body];
    // Each field after its length, so that no two requests run together to the same bytes.
    let lengths = fields.map(|field| (field.len() as u64).to_le_bytes());
    let mut pieces: Vec<&[u8]> = vec![b"driftq request http 4\0"];
    for (length, field) in lengths.iter().zip(fields) {
        pieces.push(length);
        pieces.push(field);
    }
    RequestHash::made(VERSION_HTTP, &pieces)
}

fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let essence = essence.to_ascii_lowercase();
    essence == b"application/json" || (essence.starts_with(b"application/") && essence.ends_with(b"+json"))
}

#[cfg(test)]
mod tests {
    use ::http::Request;

    use super::*;

    fn hash(method: &str, uri: &str, content_type: &str, body: &str) -> RequestHash {
        let request = Request::builder().method(method).uri(uri).header(CONTENT_TYPE, content_type);
        fingerprint(&request.body(()).unwrap().into_parts().0, body.as_bytes())
    }

    fn of(method: &str, uri: &str, content_type: &str, body: &str) -> String {
        hash(method, uri, content_type, body).to_string()
    }

    /// These are in people's tables. A change here makes every request of yesterday another one.
    #[test]
    fn fingerprints_never_change() {
        let json = hash("POST", "/pay?dry=1", "application/json", r#"{"b": 1.0, "a": [9007199254740993]}"#);
        let text = of("PATCH", "/", "text/plain", "hello");
        let expected = [
            "4:dcde5eb870aa64a8290d318266e67ab8ea21946eeb0d8525d3490a5656398c41",
            "4:c0cc20af41cb3d4c9281ce04c326ec98614e356b8fd2348500236d7c31f51360",
        ];
        assert_eq!([json.to_string(), text], expected);
        // What was stored when the spelling of a number still counted, and what never had two.
        let stored = "00d2cd3b0b6c47aea023ceb5164c4fe76e09ddfafb60eb1e6541c17ba6c8ec72";
        assert!(json.matches(VERSION_HTTP, stored));
        assert_eq!(hash("POST", "/", "application/json", r#"{"a":[1,0.5]}"#).all().count(), 1);
    }

    #[test]
    fn requests_that_differ_anywhere_are_different() {
        let all = [
            of("POST", "/pay", "application/json", r#"{"a":1}"#),
            of("PATCH", "/pay", "application/json", r#"{"a":1}"#),
            of("POST", "/pay?", "application/json", r#"{"a":1}"#),
            of("POST", "/pay?a", "application/json", r#"{"a":1}"#),
            of("POST", "/payy", "application/json", r#"{"a":1}"#),
            of("POST", "/pay", "application/vnd.pay+json", r#"{"a":1}"#),
            of("POST", "/pay", "text/plain", r#"{"a":1}"#),
            of("POST", "/pay", "text/plain", r#"{"a": 1}"#),
            of("POST", "/pay", "application/json", r#"{"a":1.1}"#),
            of("POST", "/pay", "application/json", r#"{"a":1,"a":1}"#),
            of("POST", "/pay", "application/json", r#"{"a":1, "a":1}"#),
            of("POST", "/pay", "application/json", ""),
            of("POST", "/pay", "", ""),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(all[at + 1..].iter().all(|other| other != one), "{at}");
        }
    }

    #[test]
    fn json_counts_by_its_form() {
        for content_type in
            ["application/json", "Application/JSON; charset=utf-8", "application/problem+json"]
        {
            assert_eq!(
                of("POST", "/pay", content_type, r#"{"a":1,"b":2}"#),
                of("POST", "/pay", content_type, " {\"b\":2.0 ,\n\"\\u0061\": 1}"),
            );
        }
    }
}
