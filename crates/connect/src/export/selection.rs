//! What is exported. A selection is bounded: before anything is read, its end is pinned.

use driftq_api::Moment;
use driftq_api::v2::{EffectState, ExportSelection, SelectionKind};
use serde::{Deserialize, Serialize};

use super::column::Columns;
use super::error::ExportError;
use super::rows::{EFFECT, MESSAGE, OUTPUT, RUN, letter_columns};

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
    /// The rows of a query on PostgreSQL, as one snapshot of the database has them.
    Query {
        /// Which database, by the name that the caller has for it.
        database: String,
        /// The query, in SQL.
        statement: String,
        /// What stands for `$1`, `$2`, … in it, as texts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parameters: Vec<String>,
    },
}

impl TryFrom<ExportSelection> for Selection {
    type Error = ExportError;

    fn try_from(asked: ExportSelection) -> Result<Self, ExportError> {
        asked.check().map_err(|fault| ExportError::Invalid(fault.message.into_owned()))?;
        let ExportSelection { kind, topic, partition, from, to, run_id, state, scope, .. } = asked;
        // Each kind has the fields that it needs: that was checked.
        Ok(match kind {
            SelectionKind::Topic => Self::Topic { topic: topic.unwrap_or_default(), partition, from, to },
            SelectionKind::Run => Self::Run { run_id: run_id.unwrap_or_default() },
            SelectionKind::DeadLetters => Self::DeadLetters { topic: topic.unwrap_or_default(), to },
            SelectionKind::Effects => Self::Effects { state, scope, before: None },
            SelectionKind::Dataset => {
                Self::Dataset { dataset: asked.dataset.unwrap_or_default(), version: asked.version }
            }
            SelectionKind::Query => Self::Query {
                database: asked.database.unwrap_or_default(),
                statement: asked.statement.unwrap_or_default(),
                parameters: asked.parameters,
            },
        })
    }
}

impl Selection {
    /// What its rows have; what those of a query have is known to its database alone.
    pub(super) fn columns(&self) -> Columns {
        match self {
            Self::Topic { .. } => MESSAGE.into(),
            Self::Run { .. } => RUN.into(),
            Self::DeadLetters { .. } => letter_columns().collect(),
            Self::Effects { .. } => EFFECT.into(),
            Self::Dataset { .. } => OUTPUT.into(),
            Self::Query { .. } => [].into(),
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
