//! A stream of lines, as `/v1/consume` sends them.

use bytes::BytesMut;
use driftq_http::Body;

use super::{CallError, Client};

/// A line longer than this is no message of ours: the server accepts no payload near it.
const LINE_BYTES_MAX: usize = 256 << 20;

/// An open stream. Dropping it closes the connection.
pub struct Stream {
    client: Client,
    body: Body,
    buffer: BytesMut,
    /// How much of the buffer holds no line end, so that a long line is searched once.
    searched: usize,
}

impl Stream {
    pub fn new(client: Client, body: Body) -> Self {
        Self { client, body, buffer: BytesMut::new(), searched: 0 }
    }

    /// The next line that is not blank (blank ones only keep the connection alive); none when the server ended the
    /// stream. Cancel-safe: what has arrived stays in the buffer.
    pub async fn next_line(&mut self) -> Result<Option<BytesMut>, CallError> {
        loop {
            while let Some(line) = self.take_line() {
                if !line.trim_ascii().is_empty() {
                    return Ok(Some(line));
                }
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                return Err(CallError::Strange(format!("a line of more than {LINE_BYTES_MAX} bytes")));
            }
            match self.body.next().await.map_err(|failure| self.client.failed(failure))? {
                None => return Ok(None),
                Some(data) => self.buffer.extend_from_slice(&data),
            }
        }
    }

    fn take_line(&mut self) -> Option<BytesMut> {
        let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(self.searched + at + 1);
        self.searched = 0;
        Some(line)
    }
}
