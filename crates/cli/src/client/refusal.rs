//! How the server says no.

use driftq_http::Refusal;

use crate::{Exit, exit::Origin};

/// For programs.
pub(super) fn origin(refusal: &Refusal) -> Origin {
    Origin {
        code: refusal.word.clone(),
        status: Some(refusal.status),
        request_id: refusal.request_id.clone(),
    }
}

pub(super) const fn exit(refusal: &Refusal) -> Exit {
    match refusal.status {
        409 => Exit::Conflict,
        429 => Exit::Overloaded,
        400..=499 => Exit::Invalid,
        _ => Exit::ServerFault,
    }
}

/// What the user can do next in the words of this command line, else in the server's, which speak of requests.
pub(super) fn help(refusal: &Refusal) -> Option<&str> {
    let detail = refusal.detail.as_str();
    let own = match refusal.word.as_str() {
        "TOPIC_UNKNOWN" => Some(TOPIC_HELP),
        "GROUP_UNKNOWN" => {
            Some("a group begins with its first `driftq consume`; see `driftq group list TOPIC`")
        }
        "MESSAGE_UNKNOWN" => Some("see what is kept with `driftq message list TOPIC`"),
        "JOB_UNKNOWN" => Some("see `driftq job list`; jobs are forgotten when the server restarts"),
        "SETTINGS_DIFFER" => Some("change settings with `driftq topic set NAME setting=value`"),
        "EFFECT_UNKNOWN" | "EFFECT_RUNNING" | "EFFECT_FINISHED" | "ATTEMPTS_EXHAUSTED" => {
            effect_help(&refusal.word)
        }
        "OUTPUT_UNKNOWN" | "VERSION_DIFFERS" | "VERSION_IN_USE" | "VERSION_SEALED" => {
            output_help(&refusal.word)
        }
        "ENTITY_UNKNOWN" => Some("see `driftq entity list`, and name the --tenant if it has one"),
        "COMMIT_UNKNOWN" => {
            Some("nothing was committed under this key, or it was forgotten since: send the commit again")
        }
        "RUN_UNKNOWN" => {
            Some("see `driftq run list`; a run is known while one of its messages or effects is kept")
        }
        _ if detail.contains("topic does not exist") => Some(TOPIC_HELP),
        _ if !refusal.help.is_empty() => return Some(&refusal.help),
        _ => None,
    };
    own.or_else(|| status_help(refusal))
}

/// For `/v1`, whose errors bring no advice.
fn status_help(refusal: &Refusal) -> Option<&'static str> {
    match refusal.status {
        409 if refusal.detail.contains("not owner") => Some(
            "name the --owner that received the message; if its lease lapsed, another reader may have it now",
        ),
        409 => Some("the message is not on loan to this group: consume it first"),
        429 => {
            Some("consumers are behind: wait, add consumers, or raise partition_messages_max on the server")
        }
        _ => None,
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

    fn helped(status: u16, code: &str, detail: &str, help: &str) -> String {
        let body = serde_json::json!({"code": code, "status": status, "title": "t", "detail": detail,
            "retryable": false, "help": help});
        let refusal = Refusal::read(body.to_string().as_bytes(), None).unwrap();
        super::help(&refusal).map(str::to_owned).unwrap_or_default()
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
