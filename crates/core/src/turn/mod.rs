//! What every decision has at hand: the journal, the timers, the settings, the time.

pub(crate) mod hold;
pub(crate) mod journal;
pub(crate) mod look;
pub(crate) mod timer;
pub(crate) mod topics;

use crate::state::State;
use crate::turn::journal::Journal;
use crate::turn::timer::Timers;
use crate::words::id::Time;
use crate::words::settings::Settings;

/// The ground on which one input after the other is decided. It belongs to no capability, so that each of them can be
/// handed it together with what it owns itself.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) settings: Settings,
    pub(crate) journal: Journal,
    pub(crate) timers: Timers,
    /// The newest time that was told.
    pub(crate) now: Time,
    /// Whether the log has room for new messages.
    pub(crate) roomy: bool,
    /// Whether a timer is set that forgets commits.
    pub(crate) forgets_commits: bool,
    /// Whether a timer is set that drops entries of the audit.
    pub(crate) drops_audit: bool,
    /// Runs up to this number have a timer.
    pub(crate) runs_watched: u64,
}

impl Turn {
    pub(crate) fn new(settings: Settings, state: State) -> Self {
        Self {
            settings,
            journal: Journal::new(state),
            timers: Timers::default(),
            now: Time(0),
            roomy: true,
            forgets_commits: false,
            drops_audit: false,
            runs_watched: 0,
        }
    }
}
