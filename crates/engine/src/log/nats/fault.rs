//! What the servers said, in words and with the next step.

use async_nats::RequestError;
use async_nats::RequestErrorKind as Kind;

/// Error codes of JetStream, by the names of its own list.
const WRONG_LAST_SEQUENCE: u64 = 10_071;
/// The same, said by a leader that has other messages under way and does not know yet which is the last one.
const WRONG_LAST_SEQUENCE_CONSTANT: u64 = 10_164;
/// A message of this name is on its way into the stream.
const NAME_UNDER_WAY: u64 = 10_158;
const STREAM_NOT_FOUND: u64 = 10_059;
const NO_MESSAGE: u64 = 10_037;
const NAME_IN_USE: u64 = 10_058;
/// The cluster is not available, has no leader, or the stream is offline.
const PASSING: [u64; 3] = [10_008, 10_009, 10_118];

/// Why a call gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nobody has taken the call.
    Unreachable(String),
    /// The servers refused: nothing happened.
    Refused(String, Option<u64>),
    /// The connection broke or the answer is late: whether it happened is not known.
    Unsure(String),
}

impl Trouble {
    pub(super) fn of(error: &RequestError) -> Self {
        match error.kind() {
            // Also while a stream has no leader.
            Kind::NoResponders => Self::Unreachable("no server of JetStream answers for this stream".into()),
            Kind::InvalidSubject | Kind::MaxPayloadExceeded => Self::Refused(error.to_string(), None),
            Kind::TimedOut | Kind::Other => Self::Unsure(error.to_string()),
        }
    }

    pub(super) const fn code(&self) -> Option<u64> {
        match self {
            Self::Refused(_, code) => *code,
            Self::Unreachable(_) | Self::Unsure(_) => None,
        }
    }

    /// Whether the stream ends elsewhere than was expected.
    pub(super) fn is_lost_race(&self) -> bool {
        matches!(self.code(), Some(WRONG_LAST_SEQUENCE | WRONG_LAST_SEQUENCE_CONSTANT))
    }

    /// Whether the same message came before, and is not there yet.
    pub(super) fn is_under_way(&self) -> bool {
        self.code() == Some(NAME_UNDER_WAY)
    }

    /// Whether what was asked for is not there.
    pub(super) fn is_absence(&self) -> bool {
        matches!(self.code(), Some(STREAM_NOT_FOUND | NO_MESSAGE))
    }

    /// Whether somebody else has just made the same stream.
    pub(super) fn is_taken(&self) -> bool {
        self.code() == Some(NAME_IN_USE)
    }

    /// Where the stream ends, if the refusal of a lost race says so.
    pub(super) fn last_sequence(&self) -> Option<u64> {
        match self {
            Self::Refused(what, Some(WRONG_LAST_SEQUENCE)) => what.rsplit_once(": ")?.1.parse().ok(),
            _ => None,
        }
    }

    /// Whether trying again later can help.
    pub(super) fn passes(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Unsure(_) => true,
            Self::Refused(_, code) => code.is_some_and(|code| PASSING.contains(&code)),
        }
    }

    /// What a person can do about it.
    pub(super) fn help(&self) -> String {
        let text = self.to_string().to_lowercase();
        match self.code() {
            _ if text.contains("authorization") => {
                "check user:password@ in the URL of --log, and what the user may do: it needs $JS.API.> and driftq.>"
            }
            _ if text.contains("certificate") => {
                "name the file of the authority that signed the servers' certificates: ca=FILE in the URL of --log"
            }
            Some(10_005 | 10_074) => "a cluster needs three servers with JetStream: see `nats server report jetstream`",
            Some(10_039 | 10_076) => "turn JetStream on: jetstream { sync_interval: always } in the servers' settings",
            Some(10_023 | 10_047 | 10_077) => "give JetStream more space (max_file_store), see `nats account info`",
            Some(_) => "see the log of the NATS servers",
            None => "check host and port in the URL of --log, and that the servers take connections",
        }
        .into()
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(what) => write!(f, "NATS cannot be reached: {what}"),
            Self::Refused(what, _) => write!(f, "NATS refused: {what}"),
            Self::Unsure(what) => write!(f, "what NATS did is not known: {what}"),
        }
    }
}
