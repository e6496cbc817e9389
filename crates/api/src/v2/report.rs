//! How the server does, and what to do about it.

use std::borrow::Cow;

use crate::ToSchema;
use serde::{Deserialize, Serialize};

/// To `GET /v2/report`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Report<'a> {
    /// The most urgent of the findings.
    pub verdict: Urgency,
    /// How many ask for action.
    pub act: u64,
    /// How many ask for a look.
    pub look: u64,
    /// What was found, what is most urgent first.
    pub findings: Vec<Finding<'a>>,
    /// Findings, groups and partitions that are left out, because there are too many.
    pub left_out: u64,
}

/// What a finding asks for. Later ones are more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    /// It is as it should be.
    Ok,
    /// An operator should look when there is time.
    Look,
    /// An operator must do something.
    Act,
}

impl Urgency {
    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Look => "look",
            Self::Act => "act",
        }
    }
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding<'a> {
    /// What it asks for.
    pub verdict: Urgency,
    /// What it is.
    pub what: Cow<'a, str>,
    /// Why it is so, or why it matters; may be empty.
    pub cause: Cow<'a, str>,
    /// A command to go on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cow<'a, str>>,
    /// Which part of the server it is about.
    pub area: Area,
    /// The topic that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Cow<'a, str>>,
    /// The group that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Cow<'a, str>>,
    /// The message that it is about: its partition and its offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<(u32, u64)>,
}

/// Which part of the server a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Area {
    /// The server itself and its disk.
    Server,
    /// The router.
    Router,
    /// Dead letters.
    DeadLetters,
    /// Effects.
    Effects,
    /// A topic.
    Topics,
    /// A group.
    Groups,
    /// A message.
    Messages,
}
