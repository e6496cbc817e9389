//! What a command's exit code says about its message.

use std::{process::ExitStatus, time::Duration};

use driftq_client::{Dead, EffectName, Error, Failure, Retry, Snooze};

use crate::Exit;
use crate::child::{self, EXIT_DEAD, EXIT_RETRY};

/// Exit code that puts the message off. It is the first that the usual list of codes leaves free.
const EXIT_SNOOZE: i32 = 79;
/// When a message comes again that was put off without a time, or whose effect another holder has.
const LATER: Duration = Duration::from_secs(30);
/// When a message comes again whose effect has an unknown outcome, if it is not resolved by then.
const MUCH_LATER: Duration = Duration::from_secs(5 * 60);

const EFFECT_BUSY: i32 = Exit::InProgress as i32;
const EFFECT_UNKNOWN: i32 = Exit::Unknown as i32;
const EFFECT_EXHAUSTED: i32 = Exit::Retryable as i32;

/// What becomes of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExitVerdict {
    Done,
    Retry {
        after: Option<Duration>,
        reason: String,
    },
    Dead(String),
    Snooze(Duration),
    /// It waits for an effect; without a name, for its time alone.
    Await {
        effect: Option<EffectName>,
        lasting: Duration,
    },
    Failed(String),
}

/// Reads the exit code.
pub(super) fn of(
    status: ExitStatus,
    last_line: &str,
    delay: Option<Duration>,
    awaits: impl FnOnce() -> Option<EffectName>,
) -> ExitVerdict {
    // A command that gives a reason need not have its code told.
    let reason = || if last_line.is_empty() { child::reason(status, "") } else { last_line.to_owned() };
    match status.code() {
        Some(0) => ExitVerdict::Done,
        Some(EXIT_RETRY) => ExitVerdict::Retry { after: delay, reason: reason() },
        Some(EXIT_DEAD | EFFECT_EXHAUSTED) => ExitVerdict::Dead(reason()),
        Some(EXIT_SNOOZE) => ExitVerdict::Snooze(delay.unwrap_or(LATER)),
        // Waiting is not failing.
        Some(EFFECT_BUSY) => ExitVerdict::Await { effect: awaits(), lasting: delay.unwrap_or(LATER) },
        Some(EFFECT_UNKNOWN) => ExitVerdict::Await { effect: awaits(), lasting: delay.unwrap_or(MUCH_LATER) },
        _ => ExitVerdict::Failed(child::reason(status, last_line)),
    }
}

impl ExitVerdict {
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Retry { .. } => "retry",
            Self::Dead(_) => "dead",
            Self::Snooze(_) => "snooze",
            Self::Await { .. } => "waits",
            Self::Failed(_) => "failed",
        }
    }

    pub(super) fn reason(&self) -> &str {
        match self {
            Self::Done | Self::Snooze(_) | Self::Await { .. } => "",
            Self::Retry { reason, .. } | Self::Dead(reason) | Self::Failed(reason) => reason,
        }
    }

    /// As the SDK takes it.
    pub(super) fn into_result(self) -> Result<(), Failure> {
        match self {
            Self::Done => Ok(()),
            Self::Retry { after, reason } => Err(Retry { after, reason }.into()),
            Self::Dead(reason) => Err(Dead { reason }.into()),
            Self::Snooze(lasting) | Self::Await { effect: None, lasting } => Err(Snooze { lasting }.into()),
            Self::Await { effect: Some(effect), lasting } => {
                Err(Error::EffectBusy { effect, retry_after: lasting }.into())
            }
            Self::Failed(reason) => Err(Failure::new(reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn effect() -> EffectName {
        EffectName { scope: "charge".to_owned(), key: "k".to_owned(), ..EffectName::default() }
    }

    #[test]
    fn every_exit_has_its_verdict() {
        let own = Duration::from_millis(20);
        let retry = |after, reason: &str| ExitVerdict::Retry { after, reason: reason.to_owned() };
        for (code, line, delay, expected) in [
            (0, "noise", None, ExitVerdict::Done),
            (75, "", None, retry(None, "exit 75")),
            (75, "busy", Some(own), retry(Some(own), "busy")),
            (65, "bad record", None, ExitVerdict::Dead("bad record".to_owned())),
            (14, "", None, ExitVerdict::Dead("exit 14".to_owned())),
            (79, "", None, ExitVerdict::Snooze(LATER)),
            (79, "", Some(own), ExitVerdict::Snooze(own)),
            (13, "at it", None, ExitVerdict::Await { effect: Some(effect()), lasting: LATER }),
            (15, "open", None, ExitVerdict::Await { effect: Some(effect()), lasting: MUCH_LATER }),
            (15, "open", Some(own), ExitVerdict::Await { effect: Some(effect()), lasting: own }),
            (3, "boom", None, ExitVerdict::Failed("exit 3: boom".to_owned())),
        ] {
            let found = of(ExitStatus::from_raw(code << 8), line, delay, || Some(effect()));
            assert_eq!(found, expected, "exit {code}");
        }
        let killed = of(ExitStatus::from_raw(9), "", None, || None);
        assert_eq!(killed, ExitVerdict::Failed("ended by signal 9".to_owned()));
    }
}
