//! The connection to the servers, for threads that may wait.
//!
//! JetStream is asked by requests and answers in JSON, but for messages, which come as they are. The connection has a
//! thread of its own, which keeps it alive and makes it again after it broke.

use std::time::Duration;

use async_nats::{Client, ConnectOptions, HeaderMap, Message, Request, ServerInfo, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout, timeout_at};

use super::address::{Address, Login};
use super::fault::Trouble;
use crate::log::extent::Patience;

/// How long a connection to one of the servers may take to be made.
const CONNECT_WAIT: Duration = Duration::from_secs(2);
/// How long a call may take. A server that takes over has answered by then, or the call is made again.
const ANSWER_WAIT: Duration = Duration::from_secs(2);
/// How soon that is said again which may be said twice. A stream that has lost its leader hears nothing for some seconds,
/// and what it is told in that time is lost: the next leader may be there a moment later.
const AGAIN: Duration = Duration::from_millis(250);
/// Longest pause between two attempts to connect again.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_millis(500);
/// Messages that one call for several asks for.
const FETCHED_MAX: u32 = 512;
/// Bytes after which the answer to such a call ends.
const FETCHED_BYTES_MAX: u32 = 4 << 20;

/// A message of a stream.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) sequence: u64,
    pub(super) subject: String,
    /// When the servers took it, as they write it.
    pub(super) time: String,
    pub(super) payload: Bytes,
}

/// What must be so for a message to be taken.
pub(super) enum Expect {
    /// The stream ends here.
    Last(u64),
    /// The newest message of the subject is this one; 0 if there is none.
    LastOfSubject(u64),
    Nothing,
}

/// Which messages of a stream are asked for.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) from: u64,
    /// Those of all subjects if there is none.
    pub(super) subject: Option<&'a str>,
    pub(super) count: u32,
    /// The answer ends when it has as many, but not before the first message.
    pub(super) bytes: u32,
}

impl<'a> Wanted<'a> {
    /// The first from here on.
    pub(super) const fn one(from: u64, subject: Option<&'a str>) -> Self {
        Self { from, subject, count: 1, bytes: FETCHED_BYTES_MAX }
    }

    /// As many as one answer may hold.
    pub(super) const fn many(from: u64, subject: Option<&'a str>) -> Self {
        Self { from, subject, count: FETCHED_MAX, bytes: FETCHED_BYTES_MAX }
    }
}

/// Where a message was put.
#[derive(Deserialize)]
struct Taken {
    seq: u64,
}

#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    description: String,
    err_code: Option<u64>,
}

/// A connection, for any number of threads.
pub(super) struct Link {
    client: Client,
    runtime: Option<Runtime>,
}

impl Link {
    pub(super) fn new(address: &Address) -> Result<Self, Trouble> {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("driftq-nats").enable_all().build();
        let runtime = runtime.map_err(|error| Trouble::Unreachable(error.to_string()))?;
        let mut options = ConnectOptions::new()
            .name("driftq-log")
            .connection_timeout(CONNECT_WAIT)
            .request_timeout(Some(ANSWER_WAIT))
            .reconnect_delay_callback(|attempts| {
                let attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
                Duration::from_millis(20).saturating_mul(attempts).min(RECONNECT_PAUSE_MAX)
            });
        options = match &address.login {
            Login::Nobody => options,
            Login::Token(token) => options.token(token.clone()),
            Login::User(user, password) => options.user_and_password(user.clone(), password.clone()),
        };
        if address.tls {
            options = options.require_tls(true);
        }
        if let Some(file) = &address.authority {
            options = options.add_root_certificates(file.into());
        }
        let wait = CONNECT_WAIT * u32::try_from(address.servers.len() + 1).unwrap_or(u32::MAX);
        let connected = runtime.block_on(async { timeout(wait, options.connect(&address.servers)).await });
        let client = match connected {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(Trouble::Unreachable(error.to_string())),
            Err(_) => {
                return Err(Trouble::Unreachable(format!("no answer within {} s", wait.as_secs())));
            }
        };
        Ok(Self { client, runtime: Some(runtime) })
    }

    fn block_on<R>(&self, call: impl Future<Output = R>) -> R {
        self.runtime.as_ref().expect("the runtime goes when the link does").block_on(call)
    }

    /// What the connected server says of itself.
    pub(super) fn server(&self) -> ServerInfo {
        self.client.server_info()
    }

    fn ask(&self, subject: String, request: Request) -> Result<Message, Trouble> {
        self.block_on(self.client.send_request(subject, request)).map_err(|error| Trouble::of(&error))
    }

    /// Calls JetStream.
    pub(super) fn call<R: DeserializeOwned>(&self, name: &str, body: &Value) -> Result<R, Trouble> {
        let request = Request::new().payload(body.to_string().into());
        understood(&self.ask(format!("$JS.API.{name}"), request)?.payload)
    }

    /// Says the same again and again, until the first answer. It has a name, so that a stream keeps it once: a message that
    /// comes twice would say twice that a server lives.
    fn insist(&self, subject: &str, mut headers: HeaderMap, payload: &Bytes) -> Result<Message, Trouble> {
        let unsure = |error: String| Trouble::Unsure(error);
        self.block_on(async {
            let until = Instant::now() + ANSWER_WAIT;
            let inbox = self.client.new_inbox();
            let answers = self.client.subscribe(inbox.clone()).await;
            let mut answers = answers.map_err(|error| unsure(error.to_string()))?;
            headers.insert("Nats-Msg-Id", inbox.as_str());
            while Instant::now() < until {
                let (subject, inbox) = (subject.to_owned(), inbox.clone());
                let (headers, payload) = (headers.clone(), payload.clone());
                let sent = self.client.publish_with_reply_and_headers(subject, inbox, headers, payload).await;
                sent.map_err(|error| unsure(error.to_string()))?;
                let again = until.min(Instant::now() + AGAIN);
                while let Ok(answer) = timeout_at(again, answers.next()).await {
                    let answer = answer.ok_or_else(|| unsure("the connection is gone".into()))?;
                    let is_unheard = answer.status == Some(StatusCode::NO_RESPONDERS);
                    if !is_unheard && !is_under_way(&answer) {
                        return Ok(answer);
                    }
                }
            }
            Err(unsure("no answer in time".into()))
        })
    }

    /// Asks JetStream what may be asked twice.
    pub(super) fn question<R: DeserializeOwned>(&self, name: &str, body: &Value) -> Result<R, Trouble> {
        let answer = self.insist(&format!("$JS.API.{name}"), HeaderMap::new(), &body.to_string().into())?;
        understood(&answer.payload)
    }

    /// Calls JetStream again and again while there is hope that it answers.
    pub(super) fn patiently<R>(
        &self,
        mut call: impl FnMut(&Self) -> Result<R, Trouble>,
    ) -> Result<R, Trouble> {
        let mut patience = Patience::new();
        loop {
            match call(self) {
                Err(trouble) if trouble.passes() && patience.wait() => {}
                answer => return answer,
            }
        }
    }

    /// Puts a message into a stream; the answer is its sequence.
    pub(super) fn publish(
        &self,
        stream: &str,
        subject: &str,
        expect: &Expect,
        payload: Bytes,
    ) -> Result<u64, Trouble> {
        let request = Request::new().headers(conditions(stream, expect)).payload(payload);
        let taken: Taken = understood(&self.ask(subject.to_owned(), request)?.payload)?;
        Ok(taken.seq)
    }

    /// Puts a message that may be there twice: the newest one of its subject counts.
    pub(super) fn tell(
        &self,
        stream: &str,
        subject: &str,
        expect: &Expect,
        payload: &Bytes,
    ) -> Result<u64, Trouble> {
        let answer = self.insist(subject, conditions(stream, expect), payload)?;
        let taken: Taken = understood(&answer.payload)?;
        Ok(taken.seq)
    }

    /// The newest message of a subject, as the leader of the stream knows it.
    pub(super) fn last(&self, stream: &str, subject: &str) -> Result<Option<Stored>, Trouble> {
        #[derive(Deserialize)]
        struct Got {
            message: Told,
        }
        #[derive(Deserialize)]
        struct Told {
            seq: u64,
            subject: String,
            time: String,
            #[serde(default)]
            data: String,
        }
        let got =
            self.question::<Got>(&format!("STREAM.MSG.GET.{stream}"), &json!({"last_by_subj": subject}));
        let told = match got {
            Ok(got) => got.message,
            Err(trouble) if trouble.is_absence() => return Ok(None),
            Err(trouble) => return Err(trouble),
        };
        let payload = STANDARD.decode(told.data).map_err(|error| puzzling(&error.to_string()))?;
        let Told { seq, subject, time, .. } = told;
        Ok(Some(Stored { sequence: seq, subject, time, payload: payload.into() }))
    }

    /// Messages of a stream in order, from any replica: one that lags behind may lack the newest.
    pub(super) fn fetch(&self, stream: &str, wanted: Wanted<'_>) -> Result<Vec<Stored>, Trouble> {
        let Wanted { from, subject, count, bytes } = wanted;
        let mut body = json!({"seq": from.max(1), "batch": count, "max_bytes": bytes});
        if let Some(subject) = subject {
            body["next_by_subj"] = subject.into();
        }
        self.gather(stream, &body)
    }

    /// The newest message of every subject that matches.
    pub(super) fn newest(&self, stream: &str, subjects: &str, count: u32) -> Result<Vec<Stored>, Trouble> {
        self.gather(stream, &json!({"multi_last": [subjects], "batch": count}))
    }

    fn gather(&self, stream: &str, body: &Value) -> Result<Vec<Stored>, Trouble> {
        let gather = async {
            let broken = |error: String| Trouble::Unsure(error);
            let inbox = self.client.new_inbox();
            let mut answers =
                self.client.subscribe(inbox.clone()).await.map_err(|error| broken(error.to_string()))?;
            let (subject, body) = (format!("$JS.API.DIRECT.GET.{stream}"), body.to_string());
            let sent = self.client.publish_with_reply(subject, inbox, body.into()).await;
            sent.map_err(|error| broken(error.to_string()))?;
            let mut stored = Vec::new();
            loop {
                let next = timeout(ANSWER_WAIT, answers.next()).await;
                let next = next.map_err(|_| broken("no answer in time".into()))?;
                let message = next.ok_or_else(|| broken("the connection is gone".into()))?;
                match message.status.map(|status| status.as_u16()) {
                    None => stored.push(as_stored(message)?),
                    // The end of the answer, or nothing there.
                    Some(204 | 404) => return Ok(stored),
                    Some(503) => return Err(Trouble::Unreachable("no server has this stream".into())),
                    Some(_) => return Err(Trouble::Refused(message.description.unwrap_or_default(), None)),
                }
            }
        };
        self.block_on(gather)
    }
}

/// Gone at once, wherever it is dropped: a runtime that is waited for must not be dropped in a task.
impl Drop for Link {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// What must be so for a message to be taken, as the servers read it.
fn conditions(stream: &str, expect: &Expect) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Expected-Stream", stream);
    match expect {
        Expect::Last(sequence) => headers.insert("Nats-Expected-Last-Sequence", sequence.to_string()),
        Expect::LastOfSubject(sequence) => {
            headers.insert("Nats-Expected-Last-Subject-Sequence", sequence.to_string());
        }
        Expect::Nothing => {}
    }
    headers
}

fn puzzling(what: &str) -> Trouble {
    Trouble::Refused(format!("an answer makes no sense: {what}"), None)
}

fn understood<R: DeserializeOwned>(payload: &[u8]) -> Result<R, Trouble> {
    #[derive(Deserialize)]
    struct Failure {
        error: Option<Said>,
    }
    let failure: Failure = serde_json::from_slice(payload).map_err(|error| puzzling(&error.to_string()))?;
    match failure.error {
        Some(Said { description, err_code }) => Err(Trouble::Refused(description, err_code)),
        None => serde_json::from_slice(payload).map_err(|error| puzzling(&error.to_string())),
    }
}

/// Whether the servers only say that they have heard it before, and will answer that.
fn is_under_way(answer: &Message) -> bool {
    understood::<IgnoredAny>(&answer.payload).is_err_and(|trouble| trouble.is_under_way())
}

fn as_stored(message: Message) -> Result<Stored, Trouble> {
    let headers = message.headers.unwrap_or_default();
    let header = |name: &str| headers.get(name).map(|value| value.as_str().to_owned());
    let sequence = header("Nats-Sequence").and_then(|text| text.parse().ok());
    let sequence = sequence.ok_or_else(|| puzzling("a message without its sequence"))?;
    let subject = header("Nats-Subject").unwrap_or_default();
    let time = header("Nats-Time-Stamp").unwrap_or_default();
    Ok(Stored { sequence, subject, time, payload: message.payload })
}

#[cfg(test)]
mod tests;
