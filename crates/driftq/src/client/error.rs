//! How a call can fail, and what that means for the user.

use std::{fmt, sync::Arc};

use serde::Deserialize;

use crate::cli::exit::{Exit, Fault};

/// Why there is no good answer.
#[derive(Debug)]
pub(crate) enum CallError {
    /// Nobody listens there; the request never left.
    Unreachable { authority: String, why: String, context: Option<Arc<str>> },
    /// The connection broke before the answer was complete: the server may or may not have done it.
    Broken { authority: String, why: String },
    /// The server answered no.
    Refused(Box<Refusal>),
    /// The server answered something that is not of this protocol.
    Strange(String),
}

/// An error answer.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) message: String,
    /// Whether the server says that the same call may succeed later.
    pub(crate) retryable: bool,
    /// How long the server asks us to wait.
    pub(crate) retry_after_ms: Option<u64>,
    /// What the server advises; empty if it says nothing.
    pub(crate) advice: String,
    /// The attempt that is current now, if a lease is stale.
    pub(crate) attempt: Option<u32>,
    /// The part of a commit that was refused, such as `ack[0]`.
    pub(crate) part: Option<String>,
}

/// Both error shapes at once: `/v1` says error and message, problem documents say code and detail.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorBody {
    error: String,
    message: String,
    code: String,
    detail: String,
    title: String,
    retryable: bool,
    retry_after_ms: Option<u64>,
    help: String,
    attempt: Option<u32>,
    part: Option<String>,
}

impl Refusal {
    pub(crate) fn new(status: u16, body: &[u8]) -> Self {
        let parsed: ErrorBody = serde_json::from_slice(body).unwrap_or_default();
        let first = |texts: [String; 3]| texts.into_iter().find(|text| !text.is_empty());
        let raw = || String::from_utf8_lossy(body).trim().to_owned();
        let message = first([parsed.message, parsed.detail, parsed.title]).unwrap_or_else(raw);
        Self {
            status,
            code: first([parsed.error, parsed.code, String::new()]).unwrap_or_default(),
            message: match &parsed.part {
                // What is wrong with a single field says the part by itself.
                Some(part) if !message.starts_with(&**part) => format!("{part}: {message}"),
                _ => message,
            },
            retryable: parsed.retryable,
            retry_after_ms: parsed.retry_after_ms,
            advice: parsed.help,
            attempt: parsed.attempt,
            part: parsed.part,
        }
    }

    fn exit(&self) -> Exit {
        match self.status {
            409 => Exit::Conflict,
            429 => Exit::Overloaded,
            400..=499 => Exit::Invalid,
            _ => Exit::ServerFault,
        }
    }

    /// What the user can do next in the words of this command line, else in the server's, which speak of requests.
    fn help(&self) -> Option<&str> {
        let message = self.message.as_str();
        let own = match self.code.as_str() {
            "TOPIC_UNKNOWN" => Some(TOPIC_HELP),
            "GROUP_UNKNOWN" => {
                Some("a group begins with its first `driftq consume`; see `driftq group list TOPIC`")
            }
            "MESSAGE_UNKNOWN" => Some("see what is kept with `driftq message list TOPIC`"),
            "JOB_UNKNOWN" => Some("see `driftq job list`; jobs are forgotten when the server restarts"),
            "SETTINGS_DIFFER" => Some("change settings with `driftq topic set NAME setting=value`"),
            "EFFECT_UNKNOWN" | "EFFECT_RUNNING" | "EFFECT_FINISHED" | "ATTEMPTS_EXHAUSTED" => {
                effect_help(&self.code)
            }
            "OUTPUT_UNKNOWN" | "VERSION_DIFFERS" | "VERSION_IN_USE" => output_help(&self.code),
            "RUN_UNKNOWN" => {
                Some("see `driftq run list`; a run is known while one of its messages or effects is kept")
            }
            _ if message.contains("topic does not exist") => Some(TOPIC_HELP),
            _ if !self.advice.is_empty() => return Some(&self.advice),
            _ => None,
        };
        own.or_else(|| self.status_help())
    }

    /// For `/v1`, whose errors bring no advice.
    fn status_help(&self) -> Option<&'static str> {
        match self.status {
            409 if self.message.contains("not owner") => Some(
                "name the --owner that received the message; if its lease lapsed, another reader may have it now",
            ),
            409 => Some("the message is not on loan to this group: consume it first"),
            429 => Some(
                "consumers are behind: wait, add consumers, or raise partition_messages_max on the server",
            ),
            _ => None,
        }
    }
}

const TOPIC_HELP: &str = "create it with `driftq topic create NAME`, or see `driftq topic list`";

fn effect_help(code: &str) -> Option<&'static str> {
    match code {
        "EFFECT_UNKNOWN" => Some(
            "see `driftq effect list`, and name the --tenant if it has one; what has ended is forgotten after its --ttl",
        ),
        "EFFECT_RUNNING" => {
            Some("`driftq effect get` shows when its lease ends; wait until it is finished or has lapsed")
        }
        "EFFECT_FINISHED" => Some("that is final; see it with `driftq effect get`"),
        "ATTEMPTS_EXHAUSTED" => Some(
            "find out what happened; `driftq effect resolve --status failed-retryable` grants one more attempt",
        ),
        _ => None,
    }
}

fn output_help(code: &str) -> Option<&'static str> {
    match code {
        "OUTPUT_UNKNOWN" => Some("see `driftq output list` for datasets, and name one to see its versions"),
        "VERSION_DIFFERS" => {
            Some("see what is current, and what it can go back to, with `driftq output list DATASET`")
        }
        "VERSION_IN_USE" => {
            Some("first let readers see another one with `driftq output cutover` or `driftq output rollback`")
        }
        _ => None,
    }
}

impl CallError {
    /// True if the same call may succeed later: overload, a fault of the server, or no server.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Broken { .. } => true,
            Self::Refused(refusal) => refusal.retryable || refusal.status == 429 || refusal.status >= 500,
            Self::Strange(_) => false,
        }
    }

    pub(crate) fn retry_after_ms(&self) -> Option<u64> {
        match self {
            Self::Refused(refusal) => refusal.retry_after_ms,
            _ => None,
        }
    }

    /// The part of a commit that was refused, if the server names it.
    pub(crate) fn part(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => refusal.part.as_deref(),
            _ => None,
        }
    }

    /// True if `/v1` says that there is no such topic; it has no code for that.
    pub(crate) fn is_topic_unknown_in_v1(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.message.contains("topic does not exist"))
    }

    /// The code of the server's refusal; empty if it is something else.
    pub(crate) fn code(&self) -> &str {
        match self {
            Self::Refused(refusal) => &refusal.code,
            _ => "",
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { authority, why, context: None } => {
                write!(f, "no server answers at http://{authority} ({why})")
            }
            Self::Unreachable { authority, why, context: Some(context) } => {
                write!(f, "no server answers at http://{authority} ({why}); that is {context}")
            }
            Self::Broken { authority, why } => {
                write!(f, "the connection to http://{authority} broke ({why})")
            }
            Self::Refused(refusal) if refusal.code.is_empty() => {
                write!(f, "{} (HTTP {})", refusal.message, refusal.status)
            }
            Self::Refused(refusal) => {
                write!(f, "{} (HTTP {} {})", refusal.message, refusal.status, refusal.code)
            }
            Self::Strange(what) => write!(f, "the answer was not understood: {what}"),
        }
    }
}

impl std::error::Error for CallError {}

impl From<CallError> for Fault {
    fn from(error: CallError) -> Self {
        let message = error.to_string();
        match &error {
            CallError::Unreachable { authority, context: None, .. } => {
                Self::new(Exit::Unreachable, message).help(format!(
                    "start one with `driftq serve --listen {authority}`, or name another with --server or DRIFTQ_SERVER"
                ))
            }
            CallError::Unreachable { context: Some(_), .. } => Self::new(Exit::Unreachable, message)
                .help("start a server there, or choose another context: `driftq context list`, then `driftq context use NAME`"),
            CallError::Broken { .. } => {
                Self::new(Exit::Unreachable, message).help("the server may be restarting; try again")
            }
            CallError::Refused(refusal) => {
                let fault = Self::new(refusal.exit(), message);
                match refusal.help() {
                    Some(help) => fault.help(help),
                    None => fault,
                }
            }
            CallError::Strange(_) => Self::new(Exit::Failure, message).help("is --server a DriftQ server?"),
        }
    }
}

impl CallError {
    /// As an error of the command.
    pub(crate) fn into_error(self) -> anyhow::Error {
        anyhow::Error::new(Fault::from(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_error_shapes_are_understood() {
        let v1 = Refusal::new(409, br#"{"error":"FAILED_PRECONDITION","message":"not owner"}"#);
        assert_eq!((&*v1.code, &*v1.message), ("FAILED_PRECONDITION", "not owner"));
        let v2 = Refusal::new(
            404,
            br#"{"code":"TOPIC_UNKNOWN","title":"t","detail":"no such topic","retry_after_ms":5}"#,
        );
        assert_eq!((&*v2.code, &*v2.message, v2.retry_after_ms), ("TOPIC_UNKNOWN", "no such topic", Some(5)));
        assert_eq!(Refusal::new(502, b"bad gateway\n").message, "bad gateway");
    }

    #[test]
    fn a_refused_commit_names_the_part() {
        let stale =
            Refusal::new(409, br#"{"code":"STALE_LEASE","detail":"the lease is stale","part":"ack[1]"}"#);
        assert_eq!((&*stale.message, stale.part.as_deref()), ("ack[1]: the lease is stale", Some("ack[1]")));
        let field = br#"{"detail":"outputs[0].dedupe_key: must be given","part":"outputs[0]"}"#;
        assert_eq!(Refusal::new(400, field).message, "outputs[0].dedupe_key: must be given", "said once");
    }

    #[test]
    fn every_code_of_effects_outputs_and_runs_has_a_next_step() {
        for code in driftq_api::Code::ALL.iter().map(|code| code.entry().code) {
            let body = format!(r#"{{"code":"{code}","detail":"d"}}"#);
            let help = Refusal::new(409, body.as_bytes()).help().map(str::to_owned).unwrap_or_default();
            if ["EFFECT_", "ATTEMPTS_EX", "OUTPUT_UN", "VERSION_", "RUN_"].iter().any(|s| code.starts_with(s))
            {
                assert!(help.contains("driftq "), "{code}: {help}");
            }
        }
    }

    #[test]
    fn the_help_is_about_what_is_missing() {
        let help = |body: &[u8]| Refusal::new(404, body).help().unwrap_or_default().to_owned();
        let topic = help(br#"{"code":"TOPIC_UNKNOWN","detail":"topic does not exist"}"#);
        assert!(topic.contains("driftq topic create"), "{topic}");
        let group = help(br#"{"code":"GROUP_UNKNOWN","detail":"the topic has no group of that name"}"#);
        assert!(group.contains("driftq group list") && !group.contains("topic create"), "{group}");
        let other = help(br#"{"code":"SOMETHING_NEW","detail":"d","help":"ask again tomorrow"}"#);
        assert_eq!(other, "ask again tomorrow", "the server knows its own codes best");
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
            let fault = Fault::from(CallError::Refused(Refusal::new(status, b"{}").into()));
            assert_eq!(fault.exit, exit, "{status}");
        }
        let down = |context: Option<Arc<str>>| {
            let (authority, why) = ("127.0.0.1:1".to_owned(), "refused".to_owned());
            Fault::from(CallError::Unreachable { authority, why, context })
        };
        let fault = down(None);
        assert_eq!(fault.exit, Exit::Unreachable);
        assert!(fault.help.unwrap().contains("driftq serve"));
        let fault = down(Some("context `staging`".into()));
        assert!(fault.message.contains("that is context `staging`"), "{fault}");
        assert!(fault.help.unwrap().contains("driftq context"));
    }
}
