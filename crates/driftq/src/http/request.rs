//! Reading what a request brings, within limits of size and time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use driftq_api::{Code, Fault};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::EXPECT;
use hyper::http::request::Parts;

use super::options::Options;

/// Of a body that is too large, this much is read and thrown away before the refusal is sent. A peer that is still
/// sending when the connection closes may lose the refusal with it.
const DISCARD_BYTES_MAX: usize = 16 << 20;

/// And for this long.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);

/// The body of a request; `None` if there is none and the query counts.
pub(crate) async fn read_body(
    head: &Parts,
    body: Incoming,
    options: &Options,
) -> Result<Option<Bytes>, Fault> {
    // A length of zero ends at once; a chunked body does not, even if nothing is in it.
    if body.is_end_stream() {
        return Ok(None);
    }
    let limit = options.body_bytes_max;
    let expected = body.size_hint().exact().map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX));
    if expected > limit {
        // Who asked before sending has not sent anything, and need not.
        if !head.headers.contains_key(EXPECT) {
            discard(body).await;
        }
        return Err(too_large(limit));
    }
    match tokio::time::timeout(options.body_timeout, collect(body, expected, limit)).await {
        Ok(result) => result.map(Some),
        Err(_) => Err(Fault::new(Code::RequestTimeout, "the request body did not arrive in time")),
    }
}

async fn collect(mut body: Incoming, expected: usize, limit: usize) -> Result<Bytes, Fault> {
    let first = next(&mut body).await?.unwrap_or_default();
    // The usual case: everything came with the headers, and nothing is copied.
    if body.is_end_stream() && first.len() <= limit {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(expected.max(first.len()).min(limit));
    let mut piece = Some(first);
    while let Some(bytes) = piece {
        if whole.len() + bytes.len() > limit {
            discard(body).await;
            return Err(too_large(limit));
        }
        whole.extend_from_slice(&bytes);
        piece = next(&mut body).await?;
    }
    Ok(whole.freeze())
}

/// The next piece of data; trailers are passed over.
async fn next(body: &mut Incoming) -> Result<Option<Bytes>, Fault> {
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| Fault::invalid(format!("cannot read the request body: {error}")))?;
        if let Ok(bytes) = frame.into_data() {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

/// Reads a body that nobody wants, so that the connection can go on.
pub(crate) async fn discard_body(body: Incoming) {
    if !body.is_end_stream() {
        discard(body).await;
    }
}

async fn discard(mut body: Incoming) {
    let discarding = async {
        let mut left = DISCARD_BYTES_MAX;
        while let Ok(Some(bytes)) = next(&mut body).await {
            left = left.saturating_sub(bytes.len());
            if left == 0 {
                break;
            }
        }
    };
    // Whether it came to an end or not, the refusal goes out now.
    let _ = tokio::time::timeout(DISCARD_TIMEOUT, discarding).await;
}

fn too_large(limit: usize) -> Fault {
    Fault::new(Code::BodyTooLarge, format!("the request body is larger than {limit} bytes"))
}

/// The query of a request, still encoded.
pub(crate) fn raw_query(head: &Parts) -> &str {
    head.uri.query().unwrap_or("")
}

/// Refuses a URL that is too long.
pub(crate) fn check_url(head: &Parts, limit: usize) -> Result<(), Fault> {
    let length = head.uri.path_and_query().map_or(0, |path| path.as_str().len());
    if length > limit {
        let message = format!("the URL is longer than {limit} bytes; send a JSON body instead");
        return Err(Fault::new(Code::UrlTooLong, message));
    }
    Ok(())
}
