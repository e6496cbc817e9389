//! Which calls the audit tells of when they were let in. A call without a line here does not compile.

use super::Operation;

impl Operation {
    /// Whether its outcome is written down. It is for all that a person may have to explain later, and not for what
    /// workers do all day. What was refused for want of a key or of what it allows is written down for every call.
    #[must_use]
    pub const fn is_audited(self) -> bool {
        match self {
            Self::CancelMessage
            | Self::RetryMessage
            | Self::PutTopic
            | Self::PatchTopic
            | Self::DeleteTopic
            | Self::PauseTopic
            | Self::ResumeTopic
            | Self::DeleteGroup
            | Self::SeekGroup
            | Self::PauseGroup
            | Self::ResumeGroup
            | Self::Redrive
            | Self::Purge
            | Self::CancelJob
            | Self::ResolveEffect
            | Self::CutOver
            | Self::RollBack
            | Self::SealVersion
            | Self::DeleteVersion
            | Self::RemoveEntity
            | Self::CreateKey
            | Self::RotateKey
            | Self::RevokeKey
            | Self::LimitTenant
            | Self::PutEndpoint
            | Self::DeleteEndpoint
            | Self::DisableEndpoint
            | Self::EnableEndpoint
            | Self::DrainNode
            | Self::ResumeNode => true,
            Self::Produce
            | Self::Browse
            | Self::GetMessage
            | Self::Lease
            | Self::Stream
            | Self::Ack
            | Self::Nack
            | Self::Extend
            | Self::Release
            | Self::ListTopics
            | Self::GetTopic
            | Self::ListGroups
            | Self::GetGroup
            | Self::ListDeadTopics
            | Self::ListLetters
            | Self::GetLetter
            | Self::ListCauses
            | Self::ListJobs
            | Self::GetJob
            | Self::BeginEffect
            | Self::FinishEffect
            | Self::RenewEffect
            | Self::ReleaseEffect
            | Self::ReacquireEffect
            | Self::GetEffect
            | Self::ListEffects
            | Self::Commit
            | Self::GetCommit
            | Self::ListDatasets
            | Self::GetDataset
            | Self::GetVersion
            | Self::GetOutput
            | Self::ListEntities
            | Self::GetEntity
            | Self::ListKeys
            | Self::GetKey
            | Self::PostDelivery
            | Self::ListDeliveries
            | Self::PostExport
            | Self::ListExports
            | Self::ListEndpoints
            | Self::GetEndpoint
            | Self::MintCredential
            | Self::Introspect
            | Self::GetOpenIdConfiguration
            | Self::GetJsonWebKeys
            | Self::ListTenants
            | Self::GetTenant
            | Self::ListAudit
            | Self::ListRuns
            | Self::GetRun
            | Self::GetRouter
            | Self::TestRouter
            | Self::StreamEvents
            | Self::GetReport
            | Self::SignIn
            | Self::GetSession
            | Self::SignOut
            | Self::GetCluster
            | Self::GetStatus
            | Self::Healthz
            | Self::Readyz
            | Self::GetOpenApi => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v2::{KeyAction, Method};

    #[test]
    fn whatever_manages_is_audited() {
        for operation in Operation::all() {
            let manages = matches!(
                operation.needs().action,
                Some(KeyAction::Manage | KeyAction::Admin | KeyAction::Outputs)
            );
            // It asks the router about a message that is stored nowhere.
            let changes = operation.method() != Method::Get && operation != Operation::TestRouter;
            assert_eq!(operation.is_audited(), manages && changes, "{}", operation.id());
        }
    }
}
