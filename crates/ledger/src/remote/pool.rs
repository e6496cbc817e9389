//! Connections to a server that are used again.

use std::error::Error;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::LedgerError;

/// Most connections that are kept open for the next call.
pub const KEPT_MAX: usize = 32;
/// A server on the same machine or network takes the connection by then, or is not there.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest answer that is read: a page of a thousand records with long errors is some ten megabytes.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Largest head of an answer.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Open connections to one server that nobody uses at the moment.
pub(super) struct Pool {
    /// `host:port`.
    authority: String,
    kept: Mutex<Vec<Connection>>,
}

/// An open connection. It closes when this is dropped, whatever the other side does.
struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    task: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What came back.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

impl Pool {
    pub(super) const fn new(authority: String) -> Self {
        Self { authority, kept: Mutex::new(Vec::new()) }
    }

    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// Sends a request and reads the whole answer. If this is dropped in between, so is the connection.
    pub(super) async fn call(&self, request: Request<Full<Bytes>>) -> Result<Answer, LedgerError> {
        // A kept connection may have been closed by the other side without our knowing. Every call of the ledger is
        // safe to repeat; but a new connection that fails means that there is nobody to talk to.
        if let Some(connection) = self.take() {
            match self.exchange(connection, request.clone()).await {
                Err(LedgerError::Unavailable(_)) => {}
                other => return other,
            }
        }
        let connection = self.connect().await?;
        self.exchange(connection, request).await
    }

    async fn exchange(
        &self,
        mut connection: Connection,
        request: Request<Full<Bytes>>,
    ) -> Result<Answer, LedgerError> {
        let sent = connection.sender.send_request(request).await;
        let (head, body) = sent.map_err(|error| self.broken(&error))?.into_parts();
        let body = match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return Err(LedgerError::Corrupt(format!(
                    "http://{} answered with more than {ANSWER_BYTES_MAX} bytes; ask for less at once",
                    self.authority
                )));
            }
            Err(error) => return Err(self.unavailable(&*error)),
        };
        if connection.sender.ready().await.is_ok() {
            self.keep(connection);
        }
        Ok(Answer { status: head.status, body })
    }

    async fn connect(&self) -> Result<Connection, LedgerError> {
        let socket = match timeout(CONNECT_TIMEOUT, TcpStream::connect(&self.authority)).await {
            Ok(connected) => connected.map_err(|error| self.unavailable(&error))?,
            Err(_) => return Err(self.unavailable(&"no connection in time")),
        };
        // A call is one small write that waits for its answer. A failure costs only speed.
        drop(socket.set_nodelay(true));
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(socket))
            .await
            .map_err(|error| self.broken(&error))?;
        // The sender reports what goes wrong on the connection; its own end is of no interest.
        let task = tokio::spawn(async move { drop(connection.await) });
        Ok(Connection { sender, task })
    }

    /// The connection that was used last, because it is the least likely to be closed; closed ones are dropped.
    fn take(&self) -> Option<Connection> {
        let mut kept = self.kept();
        while let Some(connection) = kept.pop() {
            if connection.sender.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    fn keep(&self, connection: Connection) {
        let mut kept = self.kept();
        if kept.len() < KEPT_MAX {
            kept.push(connection);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Connection>> {
        // The list is whole at every point, so a panic elsewhere says nothing about it.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that are no HTTP will not be any the next time either.
    fn broken(&self, error: &hyper::Error) -> LedgerError {
        match error.is_parse() {
            true => LedgerError::Corrupt(format!("http://{} does not speak HTTP", self.authority)),
            false => self.unavailable(&with_causes(error)),
        }
    }

    fn unavailable(&self, why: &(impl fmt::Display + ?Sized)) -> LedgerError {
        LedgerError::Unavailable(format!("http://{}: {why}", self.authority))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("authority", &self.authority).finish_non_exhaustive()
    }
}

/// The error with the causes under it: the outermost alone often says nothing.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
