//! The dashboard: files that were built from `ui/` and are part of the binary, compressed as they lie there.
//!
//! Its pages speak the public API like any other client. What a browser may do for them is said by the headers: load
//! scripts and styles from here, ask this server, and nothing else.

mod table;

use bytes::Bytes;
use driftq_api::{Code, Fault};
use hyper::StatusCode;
use hyper::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH,
    LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::request::Parts;

use super::answer::{Answer, no_content, put, whole};
use super::v1::Handled;

/// Where the page is; what it loads lies below.
const ROOT: &str = "/ui/";
/// The page itself, in the table.
const PAGE: &str = "index.html";

/// No inline code, no foreign code, no frames, no forms that lead away.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' \
                      data:; base-uri 'none'; frame-ancestors 'none'; form-action 'none'";
/// Names of files change with what is in them; the page's does not.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
const ASK_AGAIN: &str = "no-cache";

/// A file of the dashboard.
struct Asset {
    /// Its path below the root.
    path: &'static str,
    content_type: &'static str,
    /// Changes with what is in it.
    tag: &'static str,
    /// Compressed by gzip.
    bytes: &'static [u8],
}

/// Answers a request for a file.
pub(crate) fn answer(head: &Parts) -> Handled {
    let Some(path) = head.uri.path().strip_prefix(ROOT) else {
        return Ok(moved());
    };
    let name = if path.is_empty() { PAGE } else { path };
    let asset = table::ASSETS.iter().find(|asset| asset.path == name);
    let asset = asset.ok_or_else(|| Fault::new(Code::NotFound, "the dashboard has no such file"))?;
    let has_it = head.headers.get_all(IF_NONE_MATCH).iter().any(|tag| tag == asset.tag);
    let mut answer = if has_it { not_modified() } else { whole_file(asset) };
    let cached = if name == PAGE { ASK_AGAIN } else { FOR_EVER };
    for (header, value) in [
        (CACHE_CONTROL, cached),
        (ETAG, asset.tag),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        put(&mut answer, header, HeaderValue::from_static(value));
    }
    Ok(answer)
}

fn whole_file(asset: &Asset) -> Answer {
    let mut answer = whole(StatusCode::OK, asset.content_type, Bytes::from_static(asset.bytes));
    // Whoever names no encodings takes any, and every browser takes this one.
    put(&mut answer, CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    answer
}

fn not_modified() -> Answer {
    let mut answer = no_content();
    *answer.status_mut() = StatusCode::NOT_MODIFIED;
    answer
}

fn moved() -> Answer {
    let mut answer = no_content();
    *answer.status_mut() = StatusCode::PERMANENT_REDIRECT;
    put(&mut answer, LOCATION, HeaderValue::from_static(ROOT));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that a browser loads, as it is sent.
    const BYTES_MAX: usize = 150 << 10;

    fn asked(path: &str, tag: Option<&str>) -> Handled {
        let mut request = hyper::Request::get(path);
        if let Some(tag) = tag {
            request = request.header(IF_NONE_MATCH, tag);
        }
        answer(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn the_page_is_asked_for_again_and_what_it_loads_is_not() {
        let page = asked("/ui/", None).unwrap();
        assert_eq!(page.headers()[CACHE_CONTROL], ASK_AGAIN);
        assert_eq!(page.headers()[CONTENT_ENCODING], "gzip");
        let tag = page.headers()[ETAG].to_str().unwrap();
        assert_eq!(asked("/ui/", Some(tag)).unwrap().status(), StatusCode::NOT_MODIFIED);
        assert_eq!(asked("/ui/", Some("\"old\"")).unwrap().status(), StatusCode::OK);
        for asset in table::ASSETS.iter().filter(|asset| asset.path != PAGE) {
            let file = asked(&format!("/ui/{}", asset.path), None).unwrap();
            assert_eq!(file.headers()[CACHE_CONTROL], FOR_EVER, "{}", asset.path);
        }
    }

    #[test]
    fn every_file_comes_under_the_policy() {
        for asset in &table::ASSETS {
            let file = asked(&format!("/ui/{}", asset.path), None).unwrap();
            let policy = file.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
            assert!(!policy.contains("unsafe"), "{policy}");
            assert_eq!(file.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
        }
    }

    #[test]
    fn what_is_not_there_and_what_is_elsewhere() {
        assert_eq!(asked("/ui", None).unwrap().headers()[LOCATION], ROOT);
        for path in ["/ui/x", "/ui/../v2/keys", "/ui/assets/", "/ui//"] {
            assert_eq!(asked(path, None).err().map(|fault| fault.code), Some(Code::NotFound), "{path}");
        }
    }

    #[test]
    fn it_is_small() {
        let bytes: usize = table::ASSETS.iter().map(|asset| asset.bytes.len()).sum();
        assert!(bytes <= BYTES_MAX, "{bytes} bytes");
    }
}
