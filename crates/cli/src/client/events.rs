//! `GET /v2/events`: what changes, as it does.

use driftq_api::v2::Event;
use driftq_http::{Body, Call, Method};

use super::{CallError, Client, answer};

/// Longest event that is read. The server's are far shorter.
const EVENT_BYTES_MAX: usize = 64 << 20;
/// What the line of an event's content begins with.
const DATA: &[u8] = b"data:";

/// An open stream.
pub(crate) struct Events {
    client: Client,
    body: Body,
    /// Bytes whose line is not whole yet.
    rest: Vec<u8>,
}

impl Client {
    /// Opens the stream of events.
    pub(crate) async fn events(&self) -> Result<Events, CallError> {
        let opened = self.http.open(&Call::new(Method::GET, "/v2/events")).await;
        match opened.map_err(|failure| self.failed(failure))? {
            Ok(body) => Ok(Events { client: self.clone(), body, rest: Vec::new() }),
            Err(refused) => Err(answer::refused(&refused, self)),
        }
    }
}

impl Events {
    /// The next event. Heartbeats and what else a stream carries are passed over.
    pub(crate) async fn next(&mut self) -> Result<Event, CallError> {
        loop {
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                if let Some(data) = line.strip_prefix(DATA) {
                    return serde_json::from_slice(data)
                        .map_err(|error| CallError::Strange(format!("an event: {error}")));
                }
            }
            if self.rest.len() > EVENT_BYTES_MAX {
                return Err(self.client.not_ours(format!("an event of more than {EVENT_BYTES_MAX} bytes")));
            }
            match self.body.next().await.map_err(|failure| self.client.failed(failure))? {
                Some(bytes) => self.rest.extend_from_slice(&bytes),
                None => return Err(self.client.broken("the stream of events has ended".to_owned())),
            }
        }
    }
}
