//! Requests and answers about runs.

use crate::words::description::Wait;
use crate::words::effect::EffectView;
use crate::words::id::Time;
use crate::words::letter::AttemptDescription;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// To which run a message belongs, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Lineage<'a> {
    /// Whose the run is; may be empty.
    pub tenant: &'a str,
    /// The run.
    pub run: &'a str,
    /// The step; may be empty.
    pub step: &'a str,
    /// The step that caused it; may be empty.
    pub parent: &'a str,
}

/// How a message ended for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// It was acked.
    Done,
    /// It became a dead letter.
    Dead,
    /// The group had done the same before.
    Skipped,
    /// It was cancelled.
    Cancelled,
}

/// Which runs are wanted, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunList {
    /// Only those of this tenant; the empty tenant is a tenant, too.
    pub tenant: Option<String>,
    /// Only runs with a smaller number.
    pub before: u64,
    /// Only runs that began before this, if it is given.
    pub began_before: Option<Time>,
    /// How many at most.
    pub limit: u32,
}

/// A run in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// Its number.
    pub number: u64,
    /// Whose it is; may be empty.
    pub tenant: Arc<str>,
    /// Its name.
    pub id: Arc<str>,
    /// When the first thing happened in it.
    pub started: Time,
    /// When the newest thing happened in it.
    pub touched: Time,
    /// Messages that belong to it.
    pub messages: u64,
    /// Those of them that are still kept for some group.
    pub open: u64,
    /// Effects that belong to it and are remembered.
    pub effects: u64,
    /// Dead letters that came of its messages.
    pub dead: u64,
    /// Messages and effects that are not listed: the list was full, or they were dropped for newer ones.
    pub unlisted: u64,
}

/// A stretch of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPage {
    /// The run.
    pub summary: RunSummary,
    /// What belongs to it, in the order in which it came.
    pub entries: Vec<RunEntry>,
    /// Where to go on; `None` at the end.
    pub next: Option<u64>,
}

/// A message or an effect of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEntry {
    /// A message.
    Message(RunMessage),
    /// An effect.
    Effect(EffectView),
}

/// A message of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunMessage {
    /// Its topic; empty if that is gone.
    pub topic: Arc<str>,
    /// Its partition.
    pub partition: u32,
    /// Its offset.
    pub offset: u64,
    /// When it was stored.
    pub at: Time,
    /// Its step; may be empty.
    pub step: String,
    /// The step that caused it; may be empty.
    pub parent: String,
    /// How each group stands to it.
    pub groups: Vec<RunGroup>,
    /// Versions of datasets that were read for it: dataset and version.
    pub reads: Vec<(Arc<str>, Arc<str>)>,
    /// Pointers that were moved by its authority and still lie there, the first few.
    pub outputs: Vec<RunOutput>,
}

/// A pointer that was moved by the authority of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOutput {
    /// Whose the dataset is; may be empty.
    pub tenant: Arc<str>,
    /// The dataset.
    pub dataset: Arc<str>,
    /// Its version.
    pub version: Arc<str>,
    /// The partition of it.
    pub partition_key: Arc<str>,
    /// When it was committed.
    pub at: Time,
}

/// How a message of a run stands, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// It waits for its first delivery, or for its turn.
    Waiting,
    /// It is on loan.
    Running,
    /// An attempt failed, and there will be another one.
    Retrying,
    /// It ended.
    Ended(How),
    /// It is gone, and the group had not ended it.
    Removed,
}

/// How a group stands to a message of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunGroup {
    /// The group's name; empty if no group has seen the message.
    pub group: Arc<str>,
    /// How it stands.
    pub state: RunState,
    /// Deliveries so far.
    pub attempts: u32,
    /// When the first of them began, as far as it is remembered.
    pub first_leased: Option<Time>,
    /// When the newest of them began.
    pub leased: Option<Time>,
    /// Who has it on loan.
    pub owner: Option<Arc<str>>,
    /// Why it is not done, since when, and until when if that is known; `None` if it is, or if too many others were
    /// asked about first.
    pub wait: Option<(Wait, Time, Option<Time>)>,
    /// When the group was done with it.
    pub ended: Option<Time>,
    /// Attempts that failed, the last few.
    pub history: Vec<AttemptDescription>,
}
