//! Connections to a brain that are used again.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use driftq_engine::router::AskError;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response, StatusCode, header::HeaderMap};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// Largest answer that is read; a brain that has more to say is cut off.
pub(crate) const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Largest head of an answer.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Open connections to one place that nobody uses at the moment.
pub(super) struct Pool {
    /// `host:port`.
    pub(super) authority: String,
    idle: Mutex<Vec<Connection>>,
    idle_max: usize,
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
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Pool {
    pub(super) const fn new(authority: String, idle_max: usize) -> Self {
        Self { authority, idle: Mutex::new(Vec::new()), idle_max }
    }

    /// Sends a request and reads the whole answer. If this is dropped in between, so is the connection.
    pub(super) async fn call(&self, request: Request<Full<Bytes>>) -> Result<Answer, AskError> {
        let (mut connection, response) = self.send(request).await?;
        let (head, body) = response.into_parts();
        let body = read(body).await?;
        if connection.sender.ready().await.is_ok() {
            self.give_back(connection);
        }
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(Connection, Response<Incoming>), AskError> {
        // A connection that waited may have been closed by the other side without our knowing. A question changes
        // nothing, so it may be put twice; but a new connection that fails means that there is nobody to talk to.
        if let Some(mut connection) = self.take()
            && let Ok(response) = connection.sender.send_request(request.clone()).await
        {
            return Ok((connection, response));
        }
        let mut connection = self.connect().await?;
        match connection.sender.send_request(request).await {
            Ok(response) => Ok((connection, response)),
            Err(error) => Err(failed(&error)),
        }
    }

    async fn connect(&self) -> Result<Connection, AskError> {
        let socket = TcpStream::connect(&self.authority).await.map_err(|error| failed(&error))?;
        // A question is one small write that waits for its answer. A failure costs only speed.
        drop(socket.set_nodelay(true));
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(socket))
            .await
            .map_err(|error| failed(&error))?;
        // The sender reports what goes wrong on the connection; its own end is of no interest.
        let task = tokio::spawn(async move { drop(connection.await) });
        Ok(Connection { sender, task })
    }

    /// The connection that was used last, because it is the least likely to be closed; closed ones are dropped.
    fn take(&self) -> Option<Connection> {
        let mut idle = self.idle();
        while let Some(connection) = idle.pop() {
            if connection.sender.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle();
        if idle.len() < self.idle_max {
            idle.push(connection);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        // The list is whole at every point, so a panic elsewhere says nothing about it.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The whole body, as long as it keeps within its bound.
async fn read(body: Incoming) -> Result<Bytes, AskError> {
    let too_long = || AskError::Nonsense(format!("the answer is longer than {ANSWER_BYTES_MAX} bytes"));
    if body.size_hint().lower() > ANSWER_BYTES_MAX as u64 {
        return Err(too_long());
    }
    match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_long()),
        Err(error) => Err(failed(&*error)),
    }
}

/// The error with the causes under it: the outermost alone often says nothing.
fn failed(error: &dyn std::error::Error) -> AskError {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    AskError::Failed(text)
}
