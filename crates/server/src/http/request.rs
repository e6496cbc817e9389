//! Reading what a request brings, within limits of size and time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use driftq_api::{Code, Fault};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::EXPECT;
use hyper::http::request::Parts;

use super::budget::{Budget, UNCHARGED_BYTES_MAX};
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
    budget: &Arc<Budget>,
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
    match tokio::time::timeout(options.body_timeout, collect(body, expected, limit, budget)).await {
        Ok(result) => result.map(Some),
        Err(_) => Err(Fault::new(Code::RequestTimeout, "the request body did not arrive in time")),
    }
}

/// Reads a body to its end. The budget is charged as its bytes come: what a peer only promises to send takes nothing
/// from others.
async fn collect(
    mut body: Incoming,
    expected: usize,
    limit: usize,
    budget: &Arc<Budget>,
) -> Result<Bytes, Fault> {
    let first = next(&mut body).await?.unwrap_or_default();
    let mut charge = budget.open();
    // The usual case: everything came with the headers, and nothing is copied.
    if body.is_end_stream() && first.len() <= limit {
        charge.grow(first.len()).await?;
        return Ok(charge.carried_by(first));
    }
    let mut whole: Vec<u8> = Vec::new();
    let mut piece = Some(first);
    while let Some(bytes) = piece {
        let length = whole.len() + bytes.len();
        if length > limit {
            discard(body).await;
            return Err(too_large(limit));
        }
        if length > whole.capacity() {
            let capacity = next_capacity(whole.capacity(), length, expected);
            if let Err(fault) = charge.grow(capacity).await {
                drop((whole, bytes));
                discard(body).await;
                return Err(fault);
            }
            whole.reserve_exact(capacity - whole.len());
        }
        whole.extend_from_slice(&bytes);
        piece = next(&mut body).await?;
    }
    Ok(charge.carried_by(whole.into()))
}

/// Twice the room each time, so that little is copied, and no more than the peer is going to fill.
fn next_capacity(capacity: usize, length: usize, expected: usize) -> usize {
    let doubled = (2 * capacity).max(UNCHARGED_BYTES_MAX);
    let promised = if expected == 0 { doubled } else { expected };
    doubled.min(promised).max(length)
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

/// Reads a body that is not needed, so that the connection can go on.
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
