//! How the server says no.

use serde::Deserialize;

use crate::cli::exit::{Exit, Origin};

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
    /// The server's name for the request, for its logs.
    pub(crate) request_id: Option<String>,
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
    instance: Option<String>,
}

impl Refusal {
    /// Reads an error answer; none if it is not one of ours: all of them have a code.
    pub(crate) fn read(status: u16, body: &[u8], request_id: Option<String>) -> Option<Self> {
        let parsed: ErrorBody = serde_json::from_slice(body).ok()?;
        let first = |texts: [String; 3]| texts.into_iter().find(|text| !text.is_empty());
        let code = first([parsed.error, parsed.code, String::new()])?;
        let message = first([parsed.message, parsed.detail, parsed.title]).unwrap_or_default();
        Some(Self {
            status,
            code,
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
            request_id: parsed.instance.or(request_id),
        })
    }

    /// For programs.
    pub(super) fn origin(&self) -> Origin {
        Origin { code: self.code.clone(), status: Some(self.status), request_id: self.request_id.clone() }
    }

    pub(super) fn exit(&self) -> Exit {
        match self.status {
            409 => Exit::Conflict,
            429 => Exit::Overloaded,
            400..=499 => Exit::Invalid,
            _ => Exit::ServerFault,
        }
    }

    /// What the user can do next in the words of this command line, else in the server's, which speak of requests.
    pub(super) fn help(&self) -> Option<&str> {
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
            "OUTPUT_UNKNOWN" | "VERSION_DIFFERS" | "VERSION_IN_USE" | "VERSION_SEALED" => {
                output_help(&self.code)
            }
            "ENTITY_UNKNOWN" => Some("see `driftq entity list`, and name the --tenant if it has one"),
            "COMMIT_UNKNOWN" => {
                Some("nothing was committed under this key, or it was forgotten since: send the commit again")
            }
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
        "VERSION_SEALED" => {
            Some("put it into a new version; `driftq output list DATASET` shows those there are")
        }
        "VERSION_IN_USE" => {
            Some("first let readers see another one with `driftq output cutover` or `driftq output rollback`")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(status: u16, body: &[u8]) -> Refusal {
        Refusal::read(status, body, None).unwrap()
    }

    #[test]
    fn both_error_shapes_are_understood() {
        let v1 = read(409, br#"{"error":"FAILED_PRECONDITION","message":"not owner"}"#);
        assert_eq!((&*v1.code, &*v1.message), ("FAILED_PRECONDITION", "not owner"));
        let v2 =
            read(404, br#"{"code":"TOPIC_UNKNOWN","title":"t","detail":"no such topic","retry_after_ms":5}"#);
        assert_eq!((&*v2.code, &*v2.message, v2.retry_after_ms), ("TOPIC_UNKNOWN", "no such topic", Some(5)));
    }

    #[test]
    fn what_has_no_code_is_none_of_ours() {
        for body in ["", "bad gateway\n", "<html>", "[]", "{}", r#"{"message":"no"}"#, r#"{"code":5}"#] {
            assert!(Refusal::read(404, body.as_bytes(), None).is_none(), "{body}");
        }
        let named = br#"{"code":"X","instance":"req-1"}"#;
        assert_eq!(read(404, named).request_id.as_deref(), Some("req-1"));
        assert_eq!(
            Refusal::read(404, br#"{"code":"X"}"#, Some("h".into())).unwrap().request_id.unwrap(),
            "h"
        );
    }

    #[test]
    fn a_refused_commit_names_the_part() {
        let stale = read(409, br#"{"code":"STALE_LEASE","detail":"the lease is stale","part":"ack[1]"}"#);
        assert_eq!((&*stale.message, stale.part.as_deref()), ("ack[1]: the lease is stale", Some("ack[1]")));
        let field = br#"{"code":"X","detail":"outputs[0].dedupe_key: must be given","part":"outputs[0]"}"#;
        assert_eq!(read(400, field).message, "outputs[0].dedupe_key: must be given", "said once");
    }

    #[test]
    fn every_code_of_effects_outputs_and_runs_has_a_next_step() {
        for code in driftq_api::Code::ALL.iter().map(|code| code.entry().code) {
            let body = format!(r#"{{"code":"{code}","detail":"d"}}"#);
            let help = read(409, body.as_bytes()).help().map(str::to_owned).unwrap_or_default();
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
        let help = |body: &[u8]| read(404, body).help().unwrap_or_default().to_owned();
        let topic = help(br#"{"code":"TOPIC_UNKNOWN","detail":"topic does not exist"}"#);
        assert!(topic.contains("driftq topic create"), "{topic}");
        let group = help(br#"{"code":"GROUP_UNKNOWN","detail":"the topic has no group of that name"}"#);
        assert!(group.contains("driftq group list") && !group.contains("topic create"), "{group}");
        let other = help(br#"{"code":"SOMETHING_NEW","detail":"d","help":"ask again tomorrow"}"#);
        assert_eq!(other, "ask again tomorrow", "the server knows its own codes best");
    }
}
