//! A brain behind HTTP.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use driftq_engine::core::Message;
use driftq_engine::router::{AskError, Asked, Opinion, Router};
use http_body_util::Full;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap};
use hyper::{Request, StatusCode, Uri};

use super::pool::{Answer, Pool};
use super::{answer, question};

/// The header in which a brain says how many messages it takes in one question.
pub(crate) const BATCH_HEADER: &str = "driftq-batch-max";
/// So much of a brain's complaint is passed on.
const COMPLAINT_BYTES_MAX: usize = 120;

/// Asks a brain over plain HTTP/1.1, on connections that are kept open.
pub(crate) struct HttpRouter {
    pool: Pool,
    host: String,
    path: String,
    /// More messages than this are never asked about at once, whatever the brain says.
    batch_most: usize,
    /// What the brain said last.
    batch_max: AtomicUsize,
}

impl HttpRouter {
    /// A brain at `url`; at most `idle_max` connections wait for their next use.
    pub(crate) fn new(url: &str, batch_most: usize, idle_max: usize) -> Result<Self, &'static str> {
        let uri: Uri = url.parse().map_err(|_| "it is not a URL")?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err("TLS is not spoken here; put a TLS proxy next to the broker and name that one");
            }
            _ => return Err("it must begin with http://"),
        }
        let authority = uri.authority().ok_or("it has no host")?;
        if authority.as_str().contains('@') {
            return Err("it must not contain a user name");
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or("it has no host")?;
        let port = uri.port_u16().unwrap_or(80);
        Ok(Self {
            pool: Pool::new(format!("{host}:{port}"), idle_max),
            host: authority.as_str().to_owned(),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            batch_most,
            batch_max: AtomicUsize::new(1),
        })
    }

    async fn question(&self, topic: &str, messages: &[&Message<'_>]) -> Result<Vec<Opinion>, AskError> {
        let failed = |error: &dyn std::error::Error| AskError::Failed(format!("the question: {error}"));
        let body = question::write(topic, messages).map_err(|error| failed(&error))?;
        let request = Request::post(&*self.path)
            .header(HOST, &*self.host)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| failed(&error))?;
        let Answer { status, headers, body } = self.pool.call(request).await?;
        // A brain that came back in another version may have lost the ability: it must say so each time.
        self.batch_max.store(batch_max(&headers).min(self.batch_most), Relaxed);
        match status {
            StatusCode::OK => answer::read(&body, messages.len()),
            StatusCode::NO_CONTENT => Ok(vec![Opinion::default(); messages.len()]),
            status => Err(AskError::Failed(complaint(status, &body))),
        }
    }
}

impl Router for HttpRouter {
    fn ask<'a>(&'a self, topic: &'a str, messages: &'a [&'a Message<'a>]) -> Asked<'a> {
        Box::pin(self.question(topic, messages))
    }

    fn batch_max(&self) -> usize {
        self.batch_max.load(Relaxed)
    }

    fn is_remote(&self) -> bool {
        true
    }
}

fn batch_max(headers: &HeaderMap) -> usize {
    let said = headers.get(BATCH_HEADER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    said.unwrap_or(1)
}

fn complaint(status: StatusCode, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(COMPLAINT_BYTES_MAX)]);
    let text = text.trim();
    if text.is_empty() { format!("status {status}") } else { format!("status {status}: {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_plain_http() {
        for (url, authority, path) in [
            ("http://127.0.0.1:9000/route?v=1", "127.0.0.1:9000", "/route?v=1"),
            ("http://brain", "brain:80", "/"),
            ("http://[::1]:9/", "[::1]:9", "/"),
        ] {
            let router = HttpRouter::new(url, 1, 1).unwrap_or_else(|why| panic!("{url}: {why}"));
            assert_eq!((&*router.path, &*router.pool.authority), (path, authority));
        }
        for (url, expected) in [
            ("https://brain/route", "TLS"),
            ("ftp://brain", "http://"),
            ("brain:9000", "http://"),
            ("/route", "http://"),
            ("http://me:secret@brain/", "user"),
            ("", "URL"),
        ] {
            let Err(why) = HttpRouter::new(url, 1, 1) else { panic!("{url} was accepted") };
            assert!(why.contains(expected), "{url}: {why}");
        }
    }
}
