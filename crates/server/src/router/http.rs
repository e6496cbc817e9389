//! A brain behind HTTP.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use driftq_engine::core::Message;
use driftq_engine::router::{AskError, Asked, Opinion, Router};
use driftq_http::{Address, Answer, Call, Client, Failure, HeaderMap, Method, Options, StatusCode};

use super::{answer, question};

/// The header in which a brain says how many messages it takes in one question.
pub const BATCH_HEADER: &str = "driftq-batch-max";
/// Largest answer that is read; a brain that has more to say is cut off.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
/// So much of a brain's complaint is passed on.
const COMPLAINT_BYTES_MAX: usize = 120;

/// Asks a brain over HTTP/1.1, on connections that are kept open.
pub struct HttpRouter {
    http: Client,
    /// More messages than this are never asked about at once, whatever the brain says.
    batch_most: usize,
    /// What the brain said last.
    batch_max: AtomicUsize,
}

impl HttpRouter {
    /// A brain at `url`; at most `idle_max` connections wait for their next use.
    pub fn new(url: &str, batch_most: usize, idle_max: usize) -> Result<Self, String> {
        let address = Address::parse_with_path(url).map_err(|why| why.to_string())?;
        // The producer's own patience ends connecting, and a question changes nothing.
        let usual = Options::new(ANSWER_BYTES_MAX);
        let options = Options { connect_timeout: None, kept_max: idle_max, repeats: true, ..usual };
        let http = Client::new(address, &options).map_err(|why| why.to_string())?;
        Ok(Self { http, batch_most, batch_max: AtomicUsize::new(1) })
    }

    async fn question(&self, topic: &str, messages: &[&Message<'_>]) -> Result<Vec<Opinion>, AskError> {
        let body = question::write(topic, messages);
        let body = body.map_err(|error| AskError::Failed(format!("the question: {error}")))?;
        let call = Call::new(Method::POST, self.http.address().path()).json(body).accepting_json();
        let answer = self.http.call(&call, None).await;
        let Answer { status, headers, body } = answer.map_err(|failure| match failure {
            Failure::TooLong(limit) => AskError::Nonsense(format!("the answer is longer than {limit} bytes")),
            Failure::Invalid(why) => AskError::Failed(format!("the question: {why}")),
            other => AskError::Failed(other.to_string()),
        })?;
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
    fn a_brain_is_named_by_its_whole_url() {
        for (url, path) in [("http://127.0.0.1:9000/route?v=1", "/route?v=1"), ("http://brain", "/")] {
            let router = HttpRouter::new(url, 1, 1).unwrap_or_else(|why| panic!("{url}: {why}"));
            assert_eq!(router.http.address().path(), path);
        }
        for (url, expected) in [
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
