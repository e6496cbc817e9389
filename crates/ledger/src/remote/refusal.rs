//! A server's refusals as the ledger's errors.

use driftq_api::Code;
use driftq_http::{Answer, Refusal};

use crate::LedgerError;

/// How much of an answer that is no problem document is passed on.
const COMPLAINT_BYTES_MAX: usize = 200;

/// Why there is no good answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The server said no.
    Refused(Refusal),
    /// There was no answer, or none that makes sense.
    Failed(LedgerError),
}

impl Trouble {
    /// Whether the server said no for this reason.
    pub(super) fn is(&self, code: Code) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.code == Some(code))
    }
}

impl From<LedgerError> for Trouble {
    fn from(error: LedgerError) -> Self {
        Self::Failed(error)
    }
}

impl From<Trouble> for LedgerError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Failed(error) => error,
            Trouble::Refused(refusal) => of_code(refusal),
        }
    }
}

impl Trouble {
    /// What a bad answer says.
    pub(super) fn read(url: &str, answer: &Answer) -> Self {
        let (status, body) = (answer.status.as_u16(), &*answer.body);
        if let Some(refusal) = Refusal::read(body, None) {
            return Self::Refused(refusal);
        }
        let text = String::from_utf8_lossy(&body[..body.len().min(COMPLAINT_BYTES_MAX)]);
        let text: String = text.trim().chars().filter(|c| !c.is_control()).collect();
        let detail = format!("{url} answered with HTTP status {status}: {text}");
        Self::Failed(foreign(status, detail.trim_end_matches([':', ' ']).to_owned()))
    }
}

fn of_code(refusal: Refusal) -> LedgerError {
    let Refusal { code, status, detail, reason, .. } = refusal;
    let Some(code) = code else { return foreign(status, detail) };
    match code {
        Code::KeyReused => LedgerError::Conflict(None),
        // A token that the server cannot read was given by another server, or before its data were lost. Whatever
        // was done under it must not count.
        Code::StaleLease | Code::LeaseUnknown => LedgerError::Stale(detail),
        Code::EffectUnknown => LedgerError::NotFound,
        // The store that asks knows better numbers than these, and puts them in.
        Code::AttemptsExhausted => LedgerError::Exhausted { attempts: 0 },
        Code::ResultTooLarge | Code::BodyTooLarge => LedgerError::TooLarge { bytes: 0, limit: 0 },
        Code::EffectRunning => LedgerError::Running,
        Code::EffectFinished => LedgerError::Final,
        Code::Overloaded if reason.as_deref() == Some(RECORDS_FULL) => {
            LedgerError::Full(format!("{detail}; raise the server's effects_max"))
        }
        Code::Overloaded | Code::QuotaExceeded | Code::KeyInFlight => LedgerError::Busy(detail),
        Code::LimitReached | Code::DiskFull => LedgerError::Full(detail),
        Code::Unavailable | Code::Internal | Code::RequestTimeout | Code::RouterRefused => {
            LedgerError::Unavailable(detail)
        }
        Code::Unauthenticated | Code::Forbidden | Code::ForeignOrigin | Code::ForeignHost => {
            LedgerError::Denied(detail)
        }
        Code::InvalidArgument | Code::InvalidJson | Code::UrlTooLong => LedgerError::Invalid(detail),
        Code::NotFound | Code::MethodNotAllowed => {
            LedgerError::Corrupt(format!("the server keeps no ledger ({detail}); it may be too old"))
        }
        other => LedgerError::Corrupt(format!("{} is no answer to this: {detail}", other.entry().code)),
    }
}

/// How the server says that it keeps as many effects as it may.
const RECORDS_FULL: &str = "effect_records_full";

/// What was not said by a DriftQ server as this version knows it: by a proxy mostly, or by a newer server.
fn foreign(status: u16, detail: String) -> LedgerError {
    match status {
        401 | 403 | 407 => LedgerError::Denied(detail),
        429 => LedgerError::Busy(detail),
        408 | 500..=599 => LedgerError::Unavailable(detail),
        _ => LedgerError::Corrupt(detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: u16, body: &str) -> LedgerError {
        let (status, body) = (status.try_into().unwrap(), body.to_owned().into());
        Trouble::read("http://broker:80", &Answer { status, headers: driftq_http::HeaderMap::new(), body })
            .into()
    }

    fn problem(code: Code, detail: &str) -> LedgerError {
        problem_about(code, detail, None)
    }

    fn problem_about(code: Code, detail: &str, reason: Option<&str>) -> LedgerError {
        let entry = code.entry();
        let body = serde_json::json!({
            "code": entry.code, "status": entry.status, "title": entry.title, "detail": detail,
            "retryable": entry.retryable, "help": entry.help, "reason": reason,
        });
        error(entry.status, &body.to_string())
    }

    #[test]
    fn every_code_has_its_word() {
        for (code, word) in [
            (Code::KeyReused, "conflict"),
            (Code::StaleLease, "stale"),
            (Code::LeaseUnknown, "stale"),
            (Code::EffectUnknown, "not_found"),
            (Code::AttemptsExhausted, "exhausted"),
            (Code::EffectRunning, "running"),
            (Code::EffectFinished, "final"),
            (Code::ResultTooLarge, "too_large"),
            (Code::BodyTooLarge, "too_large"),
            (Code::Overloaded, "busy"),
            (Code::LimitReached, "full"),
            (Code::DiskFull, "full"),
            (Code::Unavailable, "unavailable"),
            (Code::Internal, "unavailable"),
            (Code::RequestTimeout, "unavailable"),
            (Code::InvalidArgument, "invalid"),
            (Code::NotFound, "corrupt"),
            (Code::TopicUnknown, "corrupt"),
        ] {
            assert_eq!(problem(code, "why").word(), word, "{code:?}");
        }
        assert_eq!(problem_about(Code::Overloaded, "why", Some(RECORDS_FULL)).word(), "full");
        assert_eq!(
            problem(Code::Overloaded, "overload: effect_records_full").word(),
            "busy",
            "words decide nothing"
        );
        assert_eq!(problem(Code::StaleLease, "epoch 3"), LedgerError::Stale("epoch 3".to_owned()));
    }

    #[test]
    fn what_the_catalogue_calls_retryable_is_transient() {
        for code in Code::ALL {
            let is_transient = problem(code, "why").is_transient();
            // A limit may be lifted, and that a holder runs an effect is not a failure of the store.
            let differs = matches!(code, Code::LimitReached | Code::EffectRunning);
            assert_eq!(is_transient, code.entry().retryable != differs, "{code:?}");
        }
    }

    #[test]
    fn answers_of_others_are_told_by_their_status() {
        for (status, word) in [
            (401, "denied"),
            (403, "denied"),
            (404, "corrupt"),
            (302, "corrupt"),
            (429, "busy"),
            (502, "unavailable"),
        ] {
            assert_eq!(error(status, "<html>").word(), word, "{status}");
        }
        assert!(
            error(404, "<html>\u{1b}[2J")
                .to_string()
                .contains("http://broker:80 answered with HTTP status 404: <html>[2J")
        );
        assert!(error(500, "").to_string().contains("status 500;"), "{}", error(500, ""));
        let newer =
            r#"{"code":"NEW_CODE","status":503,"title":"t","detail":"d","retryable":true,"help":"h"}"#;
        assert_eq!(error(503, newer), LedgerError::Unavailable("d".to_owned()));
    }
}
