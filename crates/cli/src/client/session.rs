//! Calls of the command line: JSON there, JSON back.

use std::time::Duration;

use bytes::Bytes;
use driftq_http::{Answer, Call, Method, Patience};
use serde::{Serialize, de::DeserializeOwned};

use super::{CallError, Client, answer};

/// An answer that takes longer than this will not come; streams are exempt.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// A lost answer to a call that is safe to repeat is asked for again for this long.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Sends calls one after the other.
pub struct Session {
    client: Client,
    answer_timeout: Duration,
}

impl Session {
    pub const fn new(client: Client) -> Self {
        Self { client, answer_timeout: ANSWER_TIMEOUT }
    }

    /// For calls that the server answers only after a wait: it comes on top of the usual patience.
    #[must_use]
    pub fn waiting(mut self, wait: Duration) -> Self {
        self.answer_timeout = ANSWER_TIMEOUT + wait;
        self
    }

    pub async fn get<T: DeserializeOwned>(&mut self, path: impl AsRef<str>) -> Result<T, CallError> {
        self.call(Call::new(Method::GET, path.as_ref()).json(Bytes::new())).await
    }

    pub async fn post<T: DeserializeOwned>(
        &mut self,
        path: impl AsRef<str>,
        body: &impl Serialize,
    ) -> Result<T, CallError> {
        self.call(Call::new(Method::POST, path.as_ref()).json(render(body)?)).await
    }

    /// A call that changes something, by `PUT` or `PATCH`.
    pub async fn send<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: impl AsRef<str>,
        body: &impl Serialize,
    ) -> Result<T, CallError> {
        self.call(Call::new(method, path.as_ref()).json(render(body)?)).await
    }

    /// A post whose path says it all.
    pub async fn order<T: DeserializeOwned>(&mut self, path: impl AsRef<str>) -> Result<T, CallError> {
        self.call(Call::new(Method::POST, path.as_ref()).json(Bytes::new())).await
    }

    pub async fn delete<T: DeserializeOwned>(&mut self, path: impl AsRef<str>) -> Result<T, CallError> {
        self.call(Call::new(Method::DELETE, path.as_ref()).json(Bytes::new())).await
    }

    /// Lines of JSON there, lines of JSON back: one result per line, in order.
    pub async fn post_lines<T: DeserializeOwned>(
        &mut self,
        path: impl AsRef<str>,
        lines: Bytes,
    ) -> Result<Vec<T>, CallError> {
        let answer = self.exchange(&Call::new(Method::POST, path.as_ref()).lines(lines)).await?;
        let answer = answer::ours(answer, &self.client)?;
        let results = answer.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        results.map(|line| self.parse(line)).collect()
    }

    /// Makes a call that is safe to repeat, again and again while the server is away or overloaded; the server may
    /// take `wait_ms` for each answer.
    pub async fn patiently<T: DeserializeOwned>(
        &mut self,
        path: impl AsRef<str>,
        body: &impl Serialize,
        wait_ms: u64,
    ) -> Result<T, CallError> {
        let patience = Patience::lasting(PATIENCE + Duration::from_millis(wait_ms));
        self.post_retrying(path, body, patience).await.0
    }

    /// The same call again and again until it is answered for good or patience ends. The session stays usable.
    pub async fn post_retrying<T: DeserializeOwned>(
        &mut self,
        path: impl AsRef<str>,
        body: &impl Serialize,
        mut patience: Patience,
    ) -> (Result<T, CallError>, u32) {
        let mut retries = 0;
        loop {
            match self.post(&path, body).await {
                Ok(answer) => return (Ok(answer), retries),
                Err(error) => match error.wait(&mut patience) {
                    None => return (Err(error), retries),
                    Some(wait) => tokio::time::sleep(wait).await,
                },
            }
            retries += 1;
        }
    }

    async fn call<T: DeserializeOwned>(&mut self, call: Call) -> Result<T, CallError> {
        let answer = self.exchange(&call).await?;
        let body = answer::ours(answer, &self.client)?;
        // An answer that has no content says as much as `null`.
        self.parse(if body.is_empty() { b"null" } else { &body })
    }

    /// A good answer, whatever it says.
    async fn exchange(&mut self, call: &Call) -> Result<Answer, CallError> {
        let answer = self.client.http.call(call, Some(self.answer_timeout)).await;
        let answer = answer.map_err(|failure| self.client.failed(failure))?;
        if answer.status.is_success() { Ok(answer) } else { Err(answer::refused(&answer, &self.client)) }
    }

    fn parse<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, CallError> {
        serde_json::from_slice(body).map_err(|error| self.client.not_ours(error.to_string()))
    }
}

fn render(body: &impl Serialize) -> Result<Bytes, CallError> {
    let text = serde_json::to_vec(body).map_err(|error| CallError::Strange(format!("request: {error}")))?;
    Ok(text.into())
}
