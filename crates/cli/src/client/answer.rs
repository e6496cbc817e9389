//! A whole answer, and whether it is one of ours.

use bytes::Bytes;
use driftq_api::v1::CODE_HEADER;
use driftq_http::{Answer, Refusal, header::CONTENT_TYPE};

use super::{CallError, Client};

/// So much of an answer that is not ours is shown.
const EXCERPT_CHARS_MAX: usize = 80;

/// The body of a good answer: the server speaks JSON, or says nothing.
pub(super) fn ours(answer: Answer, client: &Client) -> Result<Bytes, CallError> {
    if answer.body.is_empty() || is_json(&answer) { Ok(answer.body) } else { Err(foreign(&answer, client)) }
}

/// The error of a bad answer.
pub(super) fn refused(answer: &Answer, client: &Client) -> CallError {
    let (status, id) = (answer.status.as_u16(), answer.request_id());
    let read = Refusal::read(&answer.body, id.clone());
    match read.or_else(|| Refusal::read_v1(status, answer.header(CODE_HEADER), &answer.body, id)) {
        Some(refusal) => CallError::Refused(refusal.into()),
        // A proxy in front of a server that is away.
        None if matches!(status, 429 | 502..=504) => {
            client.broken(format!("HTTP {status} without a word of the server"))
        }
        None => foreign(answer, client),
    }
}

fn is_json(answer: &Answer) -> bool {
    kind(answer).contains("json")
}

/// The content type without its parameters.
fn kind(answer: &Answer) -> &str {
    answer.header(CONTENT_TYPE.as_str()).and_then(|kind| kind.split(';').next()).unwrap_or_default().trim()
}

/// Pages for people are not repeated: what they are says enough.
fn foreign(answer: &Answer, client: &Client) -> CallError {
    let (status, kind) = (answer.status.as_u16(), kind(answer));
    let what = if kind.is_empty() || is_json(answer) { excerpt(&answer.body) } else { line(kind) };
    let what = if what.is_empty() { "nothing more".to_owned() } else { what };
    client.not_ours(format!("HTTP {status}, {what}"))
}

/// The beginning of a text, fit for a line.
fn excerpt(body: &[u8]) -> String {
    // A character has four bytes at the most.
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * EXCERPT_CHARS_MAX)]);
    line(&text)
}

fn line(text: &str) -> String {
    let words: Vec<&str> = text.split(|c: char| c.is_control() || c.is_whitespace()).collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(EXCERPT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, content_type: &'static str, body: &str) -> Answer {
        let mut headers = driftq_http::HeaderMap::new();
        headers.insert(CONTENT_TYPE, content_type.parse().unwrap());
        Answer { status: status.try_into().unwrap(), headers, body: body.to_owned().into() }
    }

    #[test]
    fn what_is_not_ours_is_said_in_a_line() {
        let client = Client::new("http://127.0.0.1:1").unwrap();
        let page = "<html>\n".repeat(1000);
        for (status, kind, body, expected) in [
            (404, "text/html; charset=utf-8", &*page, "is no DriftQ server (HTTP 404, text/html)"),
            (501, "", "no\u{1b}[2J\nsuch", "is no DriftQ server (HTTP 501, no [2J such)"),
            (404, "application/json", "{}", "is no DriftQ server (HTTP 404, {})"),
            (404, "", "", "is no DriftQ server (HTTP 404, nothing more)"),
            (502, "text/html", &page, "broke (HTTP 502 without a word of the server)"),
            (503, "", "", "broke (HTTP 503 without a word of the server)"),
        ] {
            let text = refused(&answer(status, kind, body), &client).to_string();
            assert!(text.contains(expected), "{text}");
        }
        let long = refused(&answer(404, "", &"x".repeat(1 << 20)), &client).to_string();
        assert!(long.len() < 200, "{long}");
        assert!(ours(answer(200, "text/html", &page), &client).is_err(), "a page is no good answer either");
        assert!(ours(answer(204, "", ""), &client).is_ok());
        assert!(ours(answer(200, "application/json", "{}"), &client).is_ok());
    }
}
