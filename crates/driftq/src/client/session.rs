//! One connection, opened when it is needed and opened again when it is gone.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{Method, Request, Response, StatusCode, body::Incoming, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use serde::{Serialize, de::DeserializeOwned};
use tokio::net::TcpStream;

use super::{CallError, Client, Retry, Stream, answer::Answer};

/// A server on the same machine or network either takes the connection by then or is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// An answer that takes longer than this will not come; streams are exempt.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest answer that is read. The server has none near it; whoever else answers must not fill the memory.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// Where an answer says which request it is to.
const REQUEST_ID: &str = "x-request-id";
const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";

/// Sends calls one after the other over one connection.
pub(crate) struct Session {
    client: Client,
    sender: Option<http1::SendRequest<Full<Bytes>>>,
    answer_timeout: Duration,
}

/// What a request carries.
struct Payload {
    bytes: Bytes,
    content_type: &'static str,
}

impl Payload {
    const fn json(bytes: Bytes) -> Self {
        Self { bytes, content_type: JSON }
    }
}

impl Session {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, sender: None, answer_timeout: ANSWER_TIMEOUT }
    }

    /// For calls that the server answers only after a wait: it comes on top of the usual patience.
    #[must_use]
    pub(crate) fn waiting(mut self, wait: Duration) -> Self {
        self.answer_timeout = ANSWER_TIMEOUT + wait;
        self
    }

    pub(crate) async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, CallError> {
        let body = self.call(Method::GET, path, Bytes::new()).await?;
        self.parse(&body)
    }

    /// The body of the answer as text.
    pub(crate) async fn get_text(&mut self, path: &str) -> Result<String, CallError> {
        let sent = Payload::json(Bytes::new());
        let answer = self.exchange(Method::GET, path, sent).await?;
        String::from_utf8(answer.body.into()).map_err(|_| self.client.not_ours("not UTF-8".to_owned()))
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, CallError> {
        self.send_json(Method::POST, path, body).await
    }

    pub(crate) async fn put<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, CallError> {
        self.send_json(Method::PUT, path, body).await
    }

    pub(crate) async fn patch<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, CallError> {
        self.send_json(Method::PATCH, path, body).await
    }

    /// A call whose path says it all.
    pub(crate) async fn post_bare<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, CallError> {
        let body = self.call(Method::POST, path, Bytes::new()).await?;
        self.parse(&body)
    }

    pub(crate) async fn delete<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, CallError> {
        let body = self.call(Method::DELETE, path, Bytes::new()).await?;
        self.parse(&body)
    }

    /// A deletion whose answer has no content.
    pub(crate) async fn delete_empty(&mut self, path: &str) -> Result<(), CallError> {
        self.call(Method::DELETE, path, Bytes::new()).await.map(drop)
    }

    /// Lines of JSON there, lines of JSON back: one result per line, in order.
    pub(crate) async fn post_lines<T: DeserializeOwned>(
        &mut self,
        path: &str,
        lines: Bytes,
    ) -> Result<Vec<T>, CallError> {
        let sent = Payload { bytes: lines, content_type: LINES };
        let answer = self.exchange(Method::POST, path, sent).await?.ours(&self.client)?;
        let results = answer.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        results.map(|line| self.parse(line)).collect()
    }

    async fn send_json<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, CallError> {
        let body = self.call(method, path, render(body)?).await?;
        self.parse(&body)
    }

    /// A call whose answer has no content.
    pub(crate) async fn post_empty(&mut self, path: &str, body: &impl Serialize) -> Result<(), CallError> {
        self.call(Method::POST, path, render(body)?).await.map(drop)
    }

    /// The same call again and again until it is answered for good or patience ends. The session stays usable.
    pub(crate) async fn post_retrying<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
        mut retry: Retry,
    ) -> (Result<T, CallError>, u32) {
        let mut retries = 0;
        loop {
            match self.post(path, body).await {
                Ok(answer) => return (Ok(answer), retries),
                Err(error) => match retry.after(&error) {
                    None => return (Err(error), retries),
                    Some(wait) => tokio::time::sleep(wait).await,
                },
            }
            retries += 1;
        }
    }

    /// Opens a stream. It takes the connection with it.
    pub(crate) async fn stream(mut self, path: &str) -> Result<Stream, CallError> {
        let response = self.send(Method::GET, path, Payload::json(Bytes::new())).await?;
        if response.status() != StatusCode::OK {
            return Err(self.collect(response).await?.refused(&self.client));
        }
        Ok(Stream::new(self.client, response.into_body()))
    }

    async fn call(&mut self, method: Method, path: &str, body: Bytes) -> Result<Bytes, CallError> {
        self.exchange(method, path, Payload::json(body)).await?.ours(&self.client)
    }

    /// A good answer, whatever it says.
    async fn exchange(&mut self, method: Method, path: &str, sent: Payload) -> Result<Answer, CallError> {
        let limit = self.answer_timeout;
        let outcome = tokio::time::timeout(limit, async {
            let response = self.send(method, path, sent).await?;
            let answer = self.collect(response).await?;
            if answer.status.is_success() { Ok(answer) } else { Err(answer.refused(&self.client)) }
        })
        .await;
        outcome.unwrap_or_else(|_| {
            // The late answer must not be taken for the answer to the next call.
            self.sender = None;
            Err(self.broken(format!("no answer within {} s", limit.as_secs())))
        })
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        sent: Payload,
    ) -> Result<Response<Incoming>, CallError> {
        let mut sender = self.connection().await?;
        let mut request =
            Request::builder().method(method).uri(path).header(header::HOST, self.client.authority());
        if !sent.bytes.is_empty() {
            request = request.header(header::CONTENT_TYPE, sent.content_type);
        }
        let request = request
            .body(Full::new(sent.bytes))
            .map_err(|error| CallError::Strange(format!("request: {error}")))?;
        let response = sender.send_request(request).await.map_err(|error| {
            // Bytes that are no HTTP will not be any the next time either.
            if error.is_parse() {
                self.client.not_ours(error.to_string())
            } else {
                self.broken(error.to_string())
            }
        })?;
        self.sender = Some(sender);
        Ok(response)
    }

    /// The open connection if it still is one, else a new one.
    async fn connection(&mut self) -> Result<http1::SendRequest<Full<Bytes>>, CallError> {
        if let Some(mut sender) = self.sender.take()
            && sender.ready().await.is_ok()
        {
            return Ok(sender);
        }
        let authority = self.client.authority();
        let unreachable = |why: String| self.client.unreachable(why);
        let socket = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(authority))
            .await
            .map_err(|_| unreachable("no connection in time".to_owned()))?
            .map_err(|error| unreachable(reason(&error)))?;
        // Requests are small and each waits for its answer: there is nothing to coalesce. A failure costs only speed.
        drop(socket.set_nodelay(true));
        let (sender, connection) =
            http1::handshake(TokioIo::new(socket)).await.map_err(|error| unreachable(error.to_string()))?;
        // The sender reports what goes wrong on the connection; its own end is of no interest.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }

    async fn collect(&self, response: Response<Incoming>) -> Result<Answer, CallError> {
        let (head, body) = response.into_parts();
        let text = |name: &str| head.headers.get(name).and_then(|text| text.to_str().ok());
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                self.client.not_ours(format!("an answer of more than {ANSWER_BYTES_MAX} bytes"))
            } else {
                self.broken(error.to_string())
            }
        })?;
        Ok(Answer {
            status: head.status,
            content_type: text(header::CONTENT_TYPE.as_str()).unwrap_or_default().to_owned(),
            request_id: text(REQUEST_ID).map(str::to_owned),
            body: body.to_bytes(),
        })
    }

    fn parse<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, CallError> {
        serde_json::from_slice(body).map_err(|error| self.client.not_ours(error.to_string()))
    }

    fn broken(&self, why: String) -> CallError {
        CallError::Broken { authority: self.client.authority().to_owned(), why }
    }
}

/// In words. What the system's number means is enough where there is one; a failed lookup of the name has none and
/// says more by itself.
fn reason(error: &std::io::Error) -> String {
    if error.raw_os_error().is_some() { error.kind().to_string() } else { error.to_string() }
}

fn render(body: &impl Serialize) -> Result<Bytes, CallError> {
    let text = serde_json::to_vec(body).map_err(|error| CallError::Strange(format!("request: {error}")))?;
    Ok(text.into())
}
