//! A whole answer, and whether it is one of ours.

use bytes::Bytes;
use hyper::StatusCode;

use super::{CallError, Client, Refusal};

/// So much of an answer that is not ours is shown.
const EXCERPT_CHARS_MAX: usize = 80;

/// What came back.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) content_type: String,
    pub(super) request_id: Option<String>,
    pub(super) body: Bytes,
}

impl Answer {
    /// The body of a good answer: the server speaks JSON, or says nothing.
    pub(super) fn ours(self, client: &Client) -> Result<Bytes, CallError> {
        if self.body.is_empty() || self.is_json() { Ok(self.body) } else { Err(self.foreign(client)) }
    }

    /// The error of a bad answer.
    pub(super) fn refused(self, client: &Client) -> CallError {
        let status = self.status.as_u16();
        match Refusal::read(status, &self.body, self.request_id.clone()) {
            Some(refusal) => CallError::Refused(refusal.into()),
            // A proxy in front of a server that is away.
            None if matches!(status, 429 | 502..=504) => {
                let authority = client.authority().to_owned();
                CallError::Broken { authority, why: format!("HTTP {status} without a word of the server") }
            }
            None => self.foreign(client),
        }
    }

    fn is_json(&self) -> bool {
        self.kind().contains("json")
    }

    /// The content type without its parameters.
    fn kind(&self) -> &str {
        self.content_type.split(';').next().unwrap_or_default().trim()
    }

    /// Pages for people are not repeated: what they are says enough.
    fn foreign(&self, client: &Client) -> CallError {
        let status = self.status.as_u16();
        let kind = self.kind();
        let what = if kind.is_empty() || self.is_json() { excerpt(&self.body) } else { line(kind) };
        let what = if what.is_empty() { "nothing more".to_owned() } else { what };
        client.not_ours(format!("HTTP {status}, {what}"))
    }
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

    fn answer(status: u16, content_type: &str, body: &str) -> Answer {
        Answer {
            status: StatusCode::from_u16(status).unwrap(),
            content_type: content_type.to_owned(),
            request_id: None,
            body: body.to_owned().into(),
        }
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
            let text = answer(status, kind, body).refused(&client).to_string();
            assert!(text.contains(expected), "{text}");
        }
        let long = answer(404, "", &"x".repeat(1 << 20)).refused(&client).to_string();
        assert!(long.len() < 200, "{long}");
        assert!(answer(200, "text/html", &page).ours(&client).is_err(), "a page is no good answer either");
        assert!(answer(204, "", "").ours(&client).is_ok());
        assert!(answer(200, "application/json", "{}").ours(&client).is_ok());
    }
}
