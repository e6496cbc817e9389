//! Headers as the ledger keeps them.

use std::collections::BTreeMap;

use ::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::{HEADER_NAME_BYTES_MAX, HEADER_VALUE_BYTES_MAX, HEADERS_MAX, KeptHeaders, OMITTED, SEALED};

/// Says that an answer is a stored one.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Belong to one connection or to one moment, or are made anew with every answer. Cookies are for one client and carry
/// secrets, which a ledger has no business to keep.
const LEFT_OUT: [HeaderName; 13] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::DATE,
    header::SET_COOKIE,
    header::CONTENT_LENGTH,
    REPLAYED,
];

/// What the ledger notes among the headers.
const NOTES: [&str; 2] = [OMITTED, SEALED];

/// Without these a body cannot be read or is of no use: they come first where there is no room for all.
const FIRST: [HeaderName; 4] =
    [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::LOCATION, header::CONTENT_DISPOSITION];

/// Adds headers to those that are kept, under a prefix, as far as there is room for them, with places left for the notes
/// that stand for a payload and for a seal. What is not listed is left out. What comes more than once is put into one value (RFC 9110, 5.3). What is not text,
/// or is longer than a ledger takes, is left out.
pub(crate) fn kept(
    headers: &HeaderMap,
    listed: &KeptHeaders,
    prefix: &str,
    into: &mut BTreeMap<String, String>,
) {
    let named_by_connection: Vec<&str> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(str::trim))
        .collect();
    let is_kept = |name: &HeaderName| {
        !LEFT_OUT.contains(name)
            && !NOTES.contains(&name.as_str())
            && listed.has(name.as_str())
            && !named_by_connection.iter().any(|hop| hop.eq_ignore_ascii_case(name.as_str()))
    };
    let others = headers.keys().filter(|name| !FIRST.contains(name));
    for name in FIRST.iter().chain(others).filter(|name| is_kept(name)) {
        if into.len() + NOTES.len() >= HEADERS_MAX {
            return;
        }
        if let Some(value) = joined(headers, name) {
            let name = format!("{prefix}{name}");
            if name.len() <= HEADER_NAME_BYTES_MAX {
                into.insert(name, value);
            }
        }
    }
}

/// All values of a header in one, if that can be kept. Metadata of gRPC that is not text has no blank behind the comma.
fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let comma = if name.as_str().ends_with("-bin") { "," } else { ", " };
    let mut all: Option<String> = None;
    for value in headers.get_all(name) {
        let value = std::str::from_utf8(value.as_bytes()).ok()?;
        match &mut all {
            None => all = Some(value.to_owned()),
            Some(all) => {
                all.push_str(comma);
                all.push_str(value);
            }
        }
    }
    all.filter(|all| all.len() <= HEADER_VALUE_BYTES_MAX && !all.chars().any(char::is_control))
}

/// What was kept under a prefix, as headers again. A record may have been resolved by hand: what is no header is left
/// out, and so is what no answer may bring along.
pub(crate) fn restored(kept: &BTreeMap<String, String>, prefix: &str) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(kept.len());
    for (name, value) in kept {
        let Some(name) = name.strip_prefix(prefix) else { continue };
        let name = HeaderName::from_bytes(name.as_bytes()).ok();
        let name = name.filter(|name| !LEFT_OUT.contains(name) && !NOTES.contains(&name.as_str()));
        if let (Some(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_bytes())) {
            headers.insert(name, value);
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(headers: &HeaderMap) -> BTreeMap<String, String> {
        let listed = headers.keys().fold(KeptHeaders::default(), |listed, name| listed.and(name.as_str()));
        let mut into = BTreeMap::new();
        kept(headers, &listed, "", &mut into);
        into
    }

    fn headers(pairs: &[(&str, &[u8])]) -> HeaderMap {
        let pair = |(name, value): &(&str, &[u8])| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_bytes(value).unwrap())
        };
        let mut headers = HeaderMap::new();
        for (name, value) in pairs.iter().map(pair) {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn what_belongs_to_a_connection_or_a_moment_is_left_out() {
        let given = headers(&[
            ("content-type", b"text/plain"),
            ("x-hop", b"1"),
            ("connection", b"close, X-Hop"),
            ("keep-alive", b"timeout=5"),
            ("transfer-encoding", b"chunked"),
            ("date", b"Sun, 21 Dec 2025 12:00:00 GMT"),
            ("set-cookie", b"session=1"),
            ("content-length", b"5"),
            ("idempotent-replayed", b"true"),
            (OMITTED, b"5"),
            (SEALED, b"1"),
            ("vary", b"origin"),
            ("vary", b"accept"),
            ("x-bin", b"AA=="),
            ("x-bin", b"AQ=="),
            ("x-name", "Zoë".as_bytes()),
            ("x-latin", b"Zo\xeb"),
            ("x-tab", b"a\tb"),
        ]);
        let kept = round(&given);
        let expected = [
            ("content-type", "text/plain"),
            ("vary", "origin, accept"),
            ("x-bin", "AA==,AQ=="),
            ("x-name", "Zoë"),
        ];
        assert_eq!(kept, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        let again = restored(&kept, "");
        assert_eq!(again.len(), 4);
        assert_eq!(again["x-name"].as_bytes(), "Zoë".as_bytes());
    }

    #[test]
    fn there_is_room_for_what_matters_and_for_the_note() {
        let mut given = HeaderMap::new();
        for at in 0..100 {
            given.insert(HeaderName::from_bytes(format!("x-{at}").as_bytes()).unwrap(), "v".parse().unwrap());
        }
        given.insert("x-long", "v".repeat(HEADER_VALUE_BYTES_MAX + 1).parse().unwrap());
        given.insert("location", "/payments/7".parse().unwrap());
        let kept = round(&given);
        assert_eq!(kept.len(), HEADERS_MAX - NOTES.len());
        assert!(kept.contains_key("location") && !kept.contains_key("x-long"));
    }

    #[test]
    fn what_a_record_holds_that_is_no_header_is_left_out() {
        let odd = [
            ("a b", "v"),
            ("trailer:x", "t"),
            ("x", "ok"),
            ("content-length", "9"),
            (OMITTED, "3"),
            (SEALED, "1"),
        ];
        let odd = odd.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(restored(&odd, ""), headers(&[("x", b"ok")]));
        assert_eq!(restored(&odd, "trailer:"), headers(&[("x", b"t")]));
    }
}
