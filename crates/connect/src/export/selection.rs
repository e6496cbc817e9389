//! What is exported. A selection is bounded: before anything is read, its end is pinned.

use driftq_api::Moment;
use driftq_api::v2::EffectState;
use serde::{Deserialize, Serialize};

use super::column::Column;
use super::error::ExportError;
use super::rows::{EFFECT, LETTER, MESSAGE, OUTPUT, RUN};

/// What is exported. Bounds that are not given are filled in when the export begins, and stand in its manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Selection {
    /// The messages of a topic that are still there.
    Topic {
        /// The topic.
        topic: String,
        /// Only of this partition.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partition: Option<u32>,
        /// From this offset on; from the first one if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<u64>,
        /// Up to this offset, and without it; up to the end that the topic has when the export begins if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<u64>,
    },
    /// What happened in a run: its messages by their places, and its effects.
    Run {
        /// The run.
        run_id: String,
    },
    /// The dead letters of a topic.
    DeadLetters {
        /// The topic that they came from.
        topic: String,
        /// Up to this offset of the dead letters; filled in when the export begins.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<u64>,
    },
    /// Records of effects.
    Effects {
        /// Only in this state.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<EffectState>,
        /// Only of this scope.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<String>,
        /// Only those that were first begun before this; filled in when the export begins.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<Moment>,
    },
    /// The pointers of a version of a dataset.
    Dataset {
        /// The dataset.
        dataset: String,
        /// The version; the one that is current when the export begins if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
    },
}

impl Selection {
    /// What its rows have.
    pub(super) const fn columns(&self) -> &'static [Column] {
        match self {
            Self::Topic { .. } => MESSAGE,
            Self::Run { .. } => RUN,
            Self::DeadLetters { .. } => LETTER,
            Self::Effects { .. } => EFFECT,
            Self::Dataset { .. } => OUTPUT,
        }
    }

    pub(super) fn check(&self) -> Result<(), ExportError> {
        let invalid = |why: &str| Err(ExportError::Invalid(why.to_owned()));
        match self {
            Self::Topic { topic, .. } | Self::DeadLetters { topic, .. } if topic.is_empty() => {
                invalid("the topic has no name")
            }
            Self::Topic { from: Some(from), to: Some(to), .. } if from > to => {
                invalid("the range ends before it begins")
            }
            Self::Run { run_id } if run_id.is_empty() => invalid("the run has no name"),
            Self::Dataset { dataset, .. } if dataset.is_empty() => invalid("the dataset has no name"),
            Self::Dataset { version: Some(version), .. }
                if version == driftq_api::v2::VERSION_CURRENT || version.is_empty() =>
            {
                invalid("name a version of the dataset, or ask for the latest one in so many words")
            }
            _ => Ok(()),
        }
    }
}
