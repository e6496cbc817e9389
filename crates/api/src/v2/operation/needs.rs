//! What a key must allow for each call. A call without a line here does not compile.

use super::Operation;
use crate::v2::KeyAction;

/// What a key must allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The action; `None` if the call is open to all.
    pub action: Option<KeyAction>,
    /// Which topics it is about.
    pub topics: Topics,
}

/// Which topics a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topics {
    /// The first name in the path is the topic.
    InPath,
    /// What the call names has to be read first: the handler asks for each topic.
    Asked,
    /// It shows what topics there are: those that the key does not allow are left out.
    Filtered,
    /// It is about all topics, or about what is bound to none of them: a key that is bound to topics does not do.
    All,
    /// It is about what a token names, which is authority enough, or about the caller alone.
    None,
}

impl Operation {
    /// What a key must allow for it.
    #[must_use]
    pub const fn needs(self) -> Needs {
        use KeyAction as Action;
        use Topics::{All, Asked, Filtered, InPath, None};
        let (action, topics) = match self {
            Self::Produce => (Action::Produce, Asked),
            Self::Lease | Self::Stream => (Action::Consume, InPath),
            Self::Ack | Self::Nack | Self::Extend | Self::Release => (Action::Consume, None),
            Self::Commit => (Action::Consume, Asked),
            Self::Browse | Self::GetMessage | Self::ListLetters | Self::GetLetter => {
                (Action::ReadPayload, InPath)
            }
            Self::GetTopic | Self::ListGroups | Self::GetGroup => (Action::Read, InPath),
            Self::ListTopics | Self::ListDeadTopics => (Action::Read, Filtered),
            Self::CancelMessage
            | Self::PutTopic
            | Self::PatchTopic
            | Self::DeleteTopic
            | Self::PauseTopic
            | Self::ResumeTopic
            | Self::DeleteGroup
            | Self::SeekGroup
            | Self::PauseGroup
            | Self::ResumeGroup
            | Self::Purge => (Action::Manage, InPath),
            Self::Redrive => (Action::Manage, Asked),
            Self::ListJobs => (Action::Read, Filtered),
            Self::GetJob => (Action::Read, Asked),
            Self::CancelJob => (Action::Manage, Asked),
            Self::GetCommit
            | Self::ListDatasets
            | Self::GetDataset
            | Self::GetVersion
            | Self::GetOutput
            | Self::ListEntities
            | Self::GetEntity
            | Self::ListRuns
            | Self::GetRun
            | Self::GetRouter => (Action::Read, All),
            Self::DeleteVersion | Self::RemoveEntity | Self::TestRouter | Self::ResolveEffect => {
                (Action::Manage, All)
            }
            Self::BeginEffect
            | Self::FinishEffect
            | Self::RenewEffect
            | Self::ReleaseEffect
            | Self::ReacquireEffect => (Action::Effects, None),
            Self::GetEffect | Self::ListEffects => (Action::ReadPayload, All),
            Self::CutOver | Self::RollBack | Self::SealVersion => (Action::Outputs, All),
            Self::GetStatus => (Action::Read, None),
            Self::ListAudit => (Action::Admin, All),
            Self::CreateKey | Self::ListKeys | Self::GetKey | Self::RotateKey | Self::RevokeKey => {
                (Action::Admin, None)
            }
            Self::Healthz | Self::Readyz | Self::GetOpenApi => {
                return Needs { action: Option::None, topics: None };
            }
        };
        Needs { action: Some(action), topics }
    }
}
