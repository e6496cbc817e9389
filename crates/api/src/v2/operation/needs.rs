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
    /// How tenants come into it, for a key that is bound to some.
    pub tenants: Tenants,
}

impl Needs {
    /// Of a call that is open to all.
    const NOTHING: Self = Self { action: None, topics: Topics::None, tenants: Tenants::None };
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

/// How tenants come into a call. It is asked only of keys that are bound to tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenants {
    /// The first name in the path is a topic that must belong to a tenant of the key: what the call shows or changes is
    /// the whole topic. One of another tenant does not exist, and a shared one is refused.
    OwnTopic,
    /// The first name in the path is a topic of a tenant of the key, or a shared one: the handler keeps to the messages of
    /// the key's tenants.
    OwnMessages,
    /// The call names a tenant, or is given the only one of the key: the handler asks for each.
    Asked,
    /// It shows what there is: what belongs to others is left out.
    Filtered,
    /// It is about the whole server: a key that is bound to tenants does not do.
    All,
    /// It is about what a token names, which is authority enough, or about the caller alone.
    None,
}

impl Operation {
    /// What a key must allow for it.
    #[must_use]
    pub const fn needs(self) -> Needs {
        use KeyAction::{Admin, Consume, Effects, Manage, Outputs, Produce, Read};
        use Tenants as Of;
        use Topics::{All, Asked, Filtered, InPath, None};
        let (action, topics, tenants) = match self {
            Self::Produce => (Produce, Asked, Of::OwnMessages),
            Self::Lease | Self::Stream => (Consume, InPath, Of::OwnTopic),
            Self::Ack | Self::Nack | Self::Extend | Self::MintCredential => (Consume, None, Of::None),
            // It may name an effect that the message waits for.
            Self::Release => (Consume, None, Of::Asked),
            Self::Commit => (Consume, Asked, Of::Asked),
            Self::Browse | Self::GetMessage => (Read, InPath, Of::OwnMessages),
            Self::ListLetters
            | Self::ListCauses
            | Self::GetLetter
            | Self::GetTopic
            | Self::ListGroups
            | Self::GetGroup => (Read, InPath, Of::OwnTopic),
            Self::ListTopics | Self::ListDeadTopics => (Read, Filtered, Of::Filtered),
            // It becomes a topic of the key's tenant.
            Self::PutTopic => (Manage, InPath, Of::Asked),
            Self::CancelMessage
            | Self::RetryMessage
            | Self::PatchTopic
            | Self::DeleteTopic
            | Self::PauseTopic
            | Self::ResumeTopic
            | Self::DeleteGroup
            | Self::SeekGroup
            | Self::PauseGroup
            | Self::ResumeGroup
            | Self::Purge => (Manage, InPath, Of::OwnTopic),
            Self::Redrive => (Manage, Asked, Of::OwnTopic),
            Self::ListJobs => (Read, Filtered, Of::Filtered),
            Self::GetJob => (Read, Asked, Of::Filtered),
            Self::CancelJob => (Manage, Asked, Of::Filtered),
            Self::GetCommit
            | Self::ListDatasets
            | Self::GetDataset
            | Self::GetVersion
            | Self::GetOutput
            | Self::ListEntities
            | Self::GetEntity
            | Self::ListRuns
            | Self::GetRun
            | Self::GetEffect
            | Self::ListEffects => (Read, All, Of::Asked),
            Self::GetRouter | Self::ListEndpoints | Self::GetEndpoint => (Read, All, Of::All),
            Self::TestRouter
            | Self::PutEndpoint
            | Self::DeleteEndpoint
            | Self::DisableEndpoint
            | Self::EnableEndpoint => (Manage, All, Of::All),
            Self::DeleteVersion | Self::RemoveEntity | Self::ResolveEffect => (Manage, All, Of::Asked),
            Self::BeginEffect | Self::ReacquireEffect => (Effects, None, Of::Asked),
            Self::FinishEffect | Self::RenewEffect | Self::ReleaseEffect => (Effects, None, Of::None),
            Self::CutOver | Self::RollBack | Self::SealVersion => (Outputs, All, Of::Asked),
            Self::GetStatus | Self::GetSession | Self::Introspect => (Read, None, Of::Filtered),
            Self::StreamEvents | Self::GetReport => (Read, All, Of::All),
            Self::ListTenants => (Read, All, Of::Filtered),
            Self::GetTenant => (Read, All, Of::Asked),
            Self::ListAudit | Self::LimitTenant => (Admin, All, Of::All),
            Self::CreateKey | Self::ListKeys | Self::GetKey | Self::RotateKey | Self::RevokeKey => {
                (Admin, None, Of::None)
            }
            Self::PostDelivery | Self::PostExport => (Produce, Asked, Of::Asked),
            Self::ListDeliveries | Self::ListExports => (Read, Asked, Of::Filtered),
            Self::Healthz | Self::Readyz | Self::GetOpenApi => return Needs::NOTHING,
            // Whoever signs in shows a key in the body; whoever signs out gives up what they have.
            Self::SignIn | Self::SignOut => return Needs::NOTHING,
            Self::GetOpenIdConfiguration | Self::GetJsonWebKeys => return Needs::NOTHING,
        };
        Needs { action: Some(action), topics, tenants }
    }
}
