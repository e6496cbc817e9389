//! How a call can fail, and what that means for the user.

use std::{fmt, sync::Arc, time::Duration};

use driftq_http::{Patience, Refusal};
use tokio::time::Instant;

use super::CA_FILE_HELP;
use crate::{Exit, Fault, exit::Origin};

/// Why there is no good answer.
#[derive(Debug)]
pub enum CallError {
    /// No process listens there; the request never left.
    Unreachable { url: String, why: String, context: Option<Arc<str>> },
    /// The connection broke before the answer was complete: the server may or may not have done it.
    Broken { url: String, why: String },
    /// The server answered no.
    Refused(Box<Refusal>),
    /// Another program answers there.
    NotDriftQ { url: String, why: String, context: Option<Arc<str>> },
    /// The certificate of what answers there is not trusted here; the request never left.
    Untrusted { url: String, why: String, context: Option<Arc<str>> },
    /// An answer of the server, or a request of ours, that makes no sense.
    Strange(String),
}

impl CallError {
    /// True if the same call may succeed later: overload, a fault of the server, or no server.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Broken { .. } => true,
            Self::Refused(refusal) => refusal.retryable || refusal.status == 429 || refusal.status >= 500,
            Self::NotDriftQ { .. } | Self::Untrusted { .. } | Self::Strange(_) => false,
        }
    }

    /// How long to wait before the next try; none if the error is final or the time is up.
    pub fn wait(&self, patience: &mut Patience) -> Option<Duration> {
        let told_ms = if let Self::Refused(refusal) = self { refusal.retry_after_ms } else { None };
        let wait = patience.wait(told_ms.map(Duration::from_millis), Instant::now(), 1.0);
        wait.filter(|_| self.is_transient())
    }

    /// The part of a commit that was refused, if the server names it.
    pub fn part(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => refusal.part.as_deref(),
            _ => None,
        }
    }

    /// The code of the server's refusal; empty if it is something else.
    pub fn code(&self) -> &str {
        match self {
            Self::Refused(refusal) => &refusal.word,
            _ => "",
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { url, why, context } => {
                write!(f, "no server answers at {url} ({why}){}", named(context.as_deref()))
            }
            Self::NotDriftQ { url, why, context } => {
                let named = named(context.as_deref());
                write!(f, "what answers at {url} is no DriftQ server ({why}){named}")
            }
            Self::Untrusted { url, why, context } => {
                write!(f, "the certificate of {url} is not trusted ({why}){}", named(context.as_deref()))
            }
            Self::Broken { url, why } => {
                write!(f, "the connection to {url} broke ({why})")
            }
            Self::Refused(refusal) => {
                write!(f, "{} (HTTP {} {})", refusal.message(), refusal.status, refusal.word)
            }
            Self::Strange(what) => write!(f, "the answer was not understood: {what}"),
        }
    }
}

/// The context that named the server, if it was one.
fn named(context: Option<&str>) -> String {
    context.map_or_else(String::new, |context| format!("; that is {context}"))
}

impl std::error::Error for CallError {}

impl From<CallError> for Fault {
    fn from(error: CallError) -> Self {
        let message = error.to_string();
        match &error {
            CallError::Unreachable { url, context: None, .. } => {
                let authority = url.split("//").last().unwrap_or_default();
                let start = if url.contains(',') {
                    "start one of them".to_owned()
                } else {
                    format!("start one with `driftq serve --listen {authority}`")
                };
                let help = format!("{start}, or name another with --server or DRIFTQ_SERVER");
                Self::new(Exit::Unreachable, message).help(help)
            }
            CallError::Unreachable { context: Some(_), .. } => Self::new(Exit::Unreachable, message)
                .help("start a server there, or choose another context: `driftq context list`, then `driftq context use NAME`"),
            CallError::Broken { .. } => {
                Self::new(Exit::Unreachable, message).help("the server may be restarting; try again")
            }
            CallError::Refused(refusal) => {
                let exit = match refusal.status {
                    409 => Exit::Conflict,
                    429 => Exit::Overloaded,
                    400..=499 => Exit::Invalid,
                    _ => Exit::ServerFault,
                };
                let origin = Origin {
                    code: refusal.word.clone(),
                    status: Some(refusal.status),
                    request_id: refusal.request_id.clone(),
                };
                let fault = Self::new(exit, message).with_origin(origin);
                match help(refusal) {
                    Some(help) => fault.help(help),
                    None => fault,
                }
            }
            CallError::NotDriftQ { .. } => Self::new(Exit::Failure, message).with_origin(Origin::new("NOT_DRIFTQ")).help(
                "check --server and any proxy on the way; `driftq context show` says which server is meant, and why",
            ),
            CallError::Untrusted { .. } => {
                Self::new(Exit::Failure, message).with_origin(Origin::new("UNTRUSTED")).help(CA_FILE_HELP)
            }
            CallError::Strange(_) => Self::new(Exit::Failure, message).help("is --server a DriftQ server?"),
        }
    }
}

impl CallError {
    /// As an error of the command.
    pub fn into_error(self) -> anyhow::Error {
        anyhow::Error::new(Fault::from(self))
    }
}

/// What the user can do next about these codes. The server's own advice speaks of requests.
const HELP: [(&str, &str); 17] = [
    ("TOPIC_UNKNOWN", "create it with `driftq topic create NAME`, or see `driftq topic list`"),
    (
        "NOT_OWNER",
        "name the --owner that received the message; if its lease lapsed, another reader may have it now",
    ),
    ("GROUP_UNKNOWN", "a group begins with its first `driftq consume`; see `driftq group list TOPIC`"),
    ("MESSAGE_UNKNOWN", "see what is kept with `driftq message list TOPIC`"),
    ("JOB_UNKNOWN", "see `driftq job list`; jobs are forgotten when the server restarts"),
    ("SETTINGS_DIFFER", "change settings with `driftq topic set NAME setting=value`"),
    (
        "EFFECT_UNKNOWN",
        "see `driftq effect list`, and name the --tenant if it has one; what has ended is forgotten after its --ttl",
    ),
    (
        "EFFECT_RUNNING",
        "`driftq effect get` shows when its lease ends; wait until it is finished or has lapsed",
    ),
    ("EFFECT_FINISHED", "that is final; see it with `driftq effect get`"),
    (
        "ATTEMPTS_EXHAUSTED",
        "find out what happened; `driftq effect resolve --status failed-retryable` grants one more attempt",
    ),
    ("OUTPUT_UNKNOWN", "see `driftq output list` for datasets, and name one to see its versions"),
    ("VERSION_DIFFERS", "see what is current, and what it can go back to, with `driftq output list DATASET`"),
    ("VERSION_SEALED", "put it into a new version; `driftq output list DATASET` shows those there are"),
    (
        "VERSION_IN_USE",
        "first let readers see another one with `driftq output cutover` or `driftq output rollback`",
    ),
    ("ENTITY_UNKNOWN", "see `driftq entity list`, and name the --tenant if it has one"),
    (
        "COMMIT_UNKNOWN",
        "nothing was committed under this key, or it was forgotten since: send the commit again",
    ),
    ("RUN_UNKNOWN", "see `driftq run list`; a run is known while one of its messages or effects is kept"),
];

/// What the user can do next, in the words of this command line where it has some.
fn help(refusal: &Refusal) -> Option<&str> {
    let own = HELP.iter().find(|(code, _)| *code == refusal.word).map(|(_, help)| *help);
    own.or_else(|| Some(&*refusal.help).filter(|help| !help.is_empty())).or_else(|| status_help(refusal))
}

/// For `/v1`, whose errors bring no advice.
fn status_help(refusal: &Refusal) -> Option<&'static str> {
    match refusal.status {
        409 => Some("the message is not on loan to this group: consume it first"),
        429 => {
            Some("consumers are behind: wait, add consumers, or raise partition_messages_max on the server")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, retry_after_ms: Option<u64>) -> CallError {
        let body = serde_json::json!({"error": "X", "message": "m", "retry_after_ms": retry_after_ms});
        CallError::Refused(Refusal::read_v1(status, None, body.to_string().as_bytes(), None).unwrap().into())
    }

    #[test]
    fn what_may_pass_is_tried_again_and_the_server_s_word_comes_first() {
        let mut patience = Patience::lasting(Duration::from_secs(60));
        assert_eq!(refused(429, Some(1000)).wait(&mut patience), Some(Duration::from_secs(1)));
        assert_eq!(refused(503, None).wait(&mut patience), Some(Duration::from_millis(200)));
        for status in [400, 409] {
            assert_eq!(refused(status, None).wait(&mut patience), None);
        }
    }

    #[test]
    fn every_status_has_its_exit_code() {
        for (status, exit) in [
            (400, Exit::Invalid),
            (404, Exit::Invalid),
            (409, Exit::Conflict),
            (429, Exit::Overloaded),
            (500, Exit::ServerFault),
            (503, Exit::ServerFault),
        ] {
            let fault = Fault::from(refused(status, None));
            assert_eq!(fault.exit, exit, "{status}");
        }
        let down = |context: Option<Arc<str>>| {
            let (url, why) = ("127.0.0.1:1".to_owned(), "refused".to_owned());
            Fault::from(CallError::Unreachable { url, why, context })
        };
        let fault = down(None);
        assert_eq!(fault.exit, Exit::Unreachable);
        assert!(fault.help.unwrap().contains("driftq serve --listen 127.0.0.1:1`"));
        let fault = down(Some("context `staging`".into()));
        assert!(fault.message.contains("that is context `staging`"), "{fault}");
        assert!(fault.help.unwrap().contains("driftq context"));
    }

    fn helped(status: u16, code: &str, detail: &str, own: &str) -> String {
        let body = serde_json::json!({"code": code, "status": status, "title": "t", "detail": detail,
            "retryable": false, "help": own});
        let refusal = Refusal::read(body.to_string().as_bytes(), None).unwrap();
        help(&refusal).map(str::to_owned).unwrap_or_default()
    }

    #[test]
    fn every_code_of_effects_outputs_and_runs_has_a_next_step() {
        for code in driftq_api::Code::ALL.iter().map(|code| code.entry().code) {
            let help = helped(409, code, "d", "");
            if ["EFFECT_", "ATTEMPTS_EX", "OUTPUT_UN", "VERSION_", "RUN_", "ENTITY_"]
                .iter()
                .any(|s| code.starts_with(s))
            {
                assert!(help.contains("driftq "), "{code}: {help}");
            }
        }
    }

    #[test]
    fn the_help_is_about_what_is_missing() {
        let topic = helped(404, "TOPIC_UNKNOWN", "topic does not exist", "");
        assert!(topic.contains("driftq topic create"), "{topic}");
        let group = helped(404, "GROUP_UNKNOWN", "the topic has no group of that name", "");
        assert!(group.contains("driftq group list") && !group.contains("topic create"), "{group}");
        let other = helped(404, "SOMETHING_NEW", "d", "ask again tomorrow");
        assert_eq!(other, "ask again tomorrow", "the server knows its own codes best");
    }
}
