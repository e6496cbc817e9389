//! Topics and groups as operators order them: made, set, paused, moved, deleted.

use driftq_core::{
    Answer, GroupPartition, Input, OrderInput, SeekTo, Settings, Ticket, Time, TopicId, TopicPatch,
    TopicSettings,
};

use crate::broker::{Broker, INTERRUPTED, unexpected};
use crate::failure::Failure;
use crate::request::TopicReady;
use crate::shared::Shared;

impl Broker {
    /// Creates a topic, or confirms that it exists; with `exact`, only if it is as asked for.
    pub async fn put_topic(
        &self,
        name: &str,
        partitions: u32,
        settings: TopicSettings,
        tenant: Option<&str>,
        exact: bool,
    ) -> Result<TopicReady, Failure> {
        let (name, tenant) = (name.to_owned(), tenant.map(str::to_owned));
        if self.shard_count() == 1 {
            return made(self.home(), name, partitions, settings, tenant, exact).await;
        }
        let broker = self.clone();
        // Detached from its asker: one that hangs up must not let another shard make a topic of the same name.
        let making = async move {
            let _naming = broker.house().naming.lock().await;
            let shard = broker.shard(broker.house().place_topic(&name, tenant.as_deref()));
            made(shard, name, partitions, settings, tenant, exact).await
        };
        tokio::spawn(making).await.unwrap_or_else(|_| Err(Failure::Unavailable(INTERRUPTED.into())))
    }

    /// Changes settings of a topic; returns those before and after.
    pub async fn configure_topic(
        &self,
        topic: &str,
        patch: TopicPatch,
    ) -> Result<(TopicSettings, TopicSettings), Failure> {
        let topic = self.topic(topic)?;
        match self
            .at(topic)
            .ask(0, true, |ticket| Input::Order(OrderInput::ConfigureTopic { ticket, topic, patch }))
            .await?
        {
            Answer::Configured { before, after } => Ok((before, after)),
            other => Err(unexpected(&other)),
        }
    }

    /// Deletes a topic with everything in it.
    pub async fn delete_topic(&self, topic: &str) -> Result<(), Failure> {
        let topic = self.topic(topic)?;
        self.deleted(topic, |ticket| Input::Order(OrderInput::DeleteTopic { ticket, topic })).await
    }

    /// Forgets a group.
    pub async fn delete_group(&self, topic: &str, group: &str) -> Result<(), Failure> {
        let (topic, group) = (self.topic(topic)?, group.to_owned());
        self.deleted(topic, |ticket| Input::Order(OrderInput::DeleteGroup { ticket, topic, group })).await
    }

    /// Stops or starts deliveries of a topic, or of one group of it; says since when they have been stopped.
    pub async fn pause(
        &self,
        topic: &str,
        group: Option<&str>,
        paused: bool,
    ) -> Result<Option<Time>, Failure> {
        let (topic, group) = (self.topic(topic)?, group.map(str::to_owned));
        match self
            .at(topic)
            .ask(0, true, |ticket| Input::Order(OrderInput::Pause { ticket, topic, group, paused }))
            .await?
        {
            Answer::Paused(since) => Ok(since),
            other => Err(unexpected(&other)),
        }
    }

    /// Moves a group, in one partition or in all; says how it stands then.
    pub async fn seek(
        &self,
        topic: &str,
        group: &str,
        partition: Option<u32>,
        to: SeekTo,
    ) -> Result<Vec<GroupPartition>, Failure> {
        let (topic, group) = (self.topic(topic)?, group.to_owned());
        match self
            .at(topic)
            .ask(0, true, |ticket| Input::Order(OrderInput::Seek { ticket, topic, group, partition, to }))
            .await?
        {
            Answer::Sought(partitions) => Ok(partitions),
            other => Err(unexpected(&other)),
        }
    }

    /// The limits and times of every shard.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.house().config.settings
    }

    async fn deleted(&self, topic: TopicId, input: impl FnOnce(Ticket) -> Input) -> Result<(), Failure> {
        match self.at(topic).ask(0, true, input).await? {
            Answer::Deleted => Ok(()),
            other => Err(unexpected(&other)),
        }
    }
}

async fn made(
    shard: &Shared,
    name: String,
    partitions: u32,
    settings: TopicSettings,
    tenant: Option<String>,
    exact: bool,
) -> Result<TopicReady, Failure> {
    let input =
        |ticket| Input::Order(OrderInput::CreateTopic { ticket, name, partitions, settings, tenant, exact });
    match shard.ask(0, true, input).await? {
        Answer::TopicReady { partitions, created } => Ok(TopicReady { partitions, created }),
        other => Err(unexpected(&other)),
    }
}
