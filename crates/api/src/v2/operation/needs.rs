//! What a key must allow for each call. A call without a line here does not compile.

use KeyAction::{Admin, Consume, Effects, Manage, Outputs, Produce, Read};
use Tenants as Of;
use Topics as On;

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
        match self {
            Self::Produce => needs(Produce, On::Asked, Of::OwnMessages),
            Self::Lease | Self::Stream => needs(Consume, On::InPath, Of::OwnTopic),
            Self::Ack | Self::Nack => needs(Consume, On::None, Of::None),
            Self::Extend | Self::MintCredential => needs(Consume, On::None, Of::None),
            // It may name an effect that the message waits for.
            Self::Release => needs(Consume, On::None, Of::Asked),
            Self::Commit => needs(Consume, On::Asked, Of::Asked),
            Self::Browse | Self::GetMessage => needs(Read, On::InPath, Of::OwnMessages),
            Self::ListLetters
            | Self::ListCauses
            | Self::GetLetter
            | Self::GetTopic
            | Self::ListGroups
            | Self::GetGroup => needs(Read, On::InPath, Of::OwnTopic),
            Self::ListTopics | Self::ListDeadTopics => needs(Read, On::Filtered, Of::Filtered),
            // It becomes a topic of the key's tenant.
            Self::PutTopic => needs(Manage, On::InPath, Of::Asked),
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
            | Self::Purge => needs(Manage, On::InPath, Of::OwnTopic),
            Self::Redrive => needs(Manage, On::Asked, Of::OwnTopic),
            Self::ListJobs => needs(Read, On::Filtered, Of::Filtered),
            Self::GetJob => needs(Read, On::Asked, Of::Filtered),
            Self::CancelJob => needs(Manage, On::Asked, Of::Filtered),
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
            | Self::ListEffects => needs(Read, On::All, Of::Asked),
            Self::GetRouter | Self::GetCluster => needs(Read, On::All, Of::All),
            Self::GetReport | Self::StreamEvents => needs(Read, On::All, Of::All),
            Self::ListEndpoints | Self::GetEndpoint => needs(Read, On::All, Of::All),
            Self::TestRouter
            | Self::PutEndpoint
            | Self::DeleteEndpoint
            | Self::DisableEndpoint
            | Self::EnableEndpoint => needs(Manage, On::All, Of::All),
            Self::DeleteVersion | Self::RemoveEntity => needs(Manage, On::All, Of::Asked),
            Self::ResolveEffect => needs(Manage, On::All, Of::Asked),
            Self::BeginEffect | Self::ReacquireEffect => needs(Effects, On::None, Of::Asked),
            Self::FinishEffect | Self::RenewEffect => needs(Effects, On::None, Of::None),
            Self::ReleaseEffect => needs(Effects, On::None, Of::None),
            Self::CutOver | Self::RollBack | Self::SealVersion => needs(Outputs, On::All, Of::Asked),
            Self::GetStatus | Self::GetSession | Self::Introspect => needs(Read, On::None, Of::Filtered),
            Self::ListTenants => needs(Read, On::All, Of::Filtered),
            Self::GetTenant => needs(Read, On::All, Of::Asked),
            Self::ListAudit | Self::LimitTenant => needs(Admin, On::All, Of::All),
            Self::DrainNode | Self::ResumeNode => needs(Admin, On::All, Of::All),
            Self::CreateKey | Self::ListKeys | Self::GetKey => needs(Admin, On::None, Of::None),
            Self::RotateKey | Self::RevokeKey => needs(Admin, On::None, Of::None),
            Self::PostDelivery | Self::PostExport => needs(Produce, On::Asked, Of::Asked),
            Self::ListDeliveries | Self::ListExports => needs(Read, On::Asked, Of::Filtered),
            // Whoever signs in shows a key in the body; whoever signs out gives up what they have.
            Self::SignIn | Self::SignOut | Self::Healthz | Self::Readyz => Needs::NOTHING,
            Self::GetOpenApi | Self::GetOpenIdConfiguration | Self::GetJsonWebKeys => Needs::NOTHING,
        }
    }
}

const fn needs(action: KeyAction, topics: Topics, tenants: Tenants) -> Needs {
    Needs { action: Some(action), topics, tenants }
}
