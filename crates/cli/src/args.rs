//! Names that many commands take: of topics, groups, messages and tenants.

use crate::{Path, Subject};

/// Names a topic.
#[derive(clap::Args)]
pub(crate) struct TopicName {
    /// The topic
    pub(crate) topic: String,
}

impl TopicName {
    pub(crate) fn path(&self) -> Path {
        Path::topic(&self.topic)
    }

    pub(crate) const fn subject(&self) -> Subject<'_> {
        Subject::Topic(self.topic.as_str())
    }
}

/// Names a group of a topic.
#[derive(clap::Args)]
pub(crate) struct GroupName {
    /// The topic
    pub(crate) topic: String,
    /// The group
    pub(crate) group: String,
}

impl GroupName {
    pub(crate) fn path(&self) -> Path {
        Path::group(&self.topic, &self.group)
    }

    pub(crate) const fn subject(&self) -> Subject<'_> {
        Subject::Group(self.topic.as_str(), self.group.as_str())
    }
}

/// Names one message.
#[derive(clap::Args)]
pub(crate) struct MessageAddress {
    /// The topic
    pub(crate) topic: String,
    /// The partition
    pub(crate) partition: u32,
    /// The offset
    pub(crate) offset: u64,
}

impl MessageAddress {
    /// The message, or the dead letter, in that list.
    pub(crate) fn within(&self, list: Path) -> Path {
        list.part(&self.partition.to_string()).part(&self.offset.to_string())
    }
}

/// Whose something is.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Tenant {
    /// The tenant that it belongs to; none if not given
    #[arg(
        long,
        visible_alias = "tenant-id",
        env = "DRIFTQ_TENANT_ID",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true,
        value_name = "ID"
    )]
    pub(crate) tenant: String,
}

impl Tenant {
    /// The path of something of this tenant.
    pub(crate) fn of(&self, path: Path) -> Path {
        path.with_some("tenant_id", Some(&*self.tenant).filter(|tenant| !tenant.is_empty()))
    }
}
