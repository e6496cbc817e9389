//! Single messages: looked at, found, cancelled, tried again at once.

use driftq_core::{
    Answer, Browse, Description, Found, Identity, Input, MessageDescription, OrderInput, Query, Reject,
    Spotted, Stretch, TopicId,
};

use crate::broker::{Broker, unexpected};
use crate::failure::Failure;
use crate::locks::read;
use crate::payload_store::Extent;
use crate::request::{Glance, Seen, Sight};

impl Broker {
    /// No further attempt of a message; names the groups that work on it right now.
    pub async fn cancel(&self, topic: &str, partition: u32, offset: u64) -> Result<Vec<String>, Failure> {
        let message = Spotted { topic: self.topic(topic)?, partition, offset };
        match self
            .at(message.topic)
            .ask(0, true, |ticket| Input::Order(OrderInput::Cancel { ticket, message }))
            .await?
        {
            Answer::Cancelled { running } => Ok(running.iter().map(ToString::to_string).collect()),
            other => Err(unexpected(&other)),
        }
    }

    /// The next attempt of a message is due now; names the groups in which it waited for one.
    pub async fn retry(&self, topic: &str, partition: u32, offset: u64) -> Result<Vec<String>, Failure> {
        let message = Spotted { topic: self.topic(topic)?, partition, offset };
        match self
            .at(message.topic)
            .ask(0, true, |ticket| Input::Order(OrderInput::Retry { ticket, message }))
            .await?
        {
            Answer::Hurried { groups } => Ok(groups.iter().map(ToString::to_string).collect()),
            other => Err(unexpected(&other)),
        }
    }

    /// One message with its payload, and how every group stands to it.
    pub async fn look_at(
        &self,
        topic: &str,
        partition: u32,
        offset: u64,
    ) -> Result<(Seen, MessageDescription), Failure> {
        let message = Spotted { topic: self.topic(topic)?, partition, offset };
        match self.at(message.topic).describe(Query::Message(message)).await? {
            Description::Message(Some(described)) => {
                let seen = self.see(message.topic, described.found).await;
                Ok((seen, described))
            }
            Description::Message(None) => Err(Failure::Reject(Reject::MessageUnknown)),
            other => Err(unexpected(&other)),
        }
    }

    /// A stretch of messages with their payloads. `browse` need not know the topic's number.
    pub async fn browse(&self, topic: &str, browse: Browse) -> Result<Sight, Failure> {
        let glance = self.glance(topic, browse).await?;
        let mut seen = Vec::with_capacity(glance.found.len());
        for found in glance.found {
            seen.push(self.see(glance.topic, found).await);
        }
        Ok(Sight { seen, scanned: glance.scanned, next: glance.next })
    }

    /// A stretch of messages whose payloads stay in the log; [`Broker::see`] reads them. `browse` need not know the
    /// topic's number.
    pub async fn glance(&self, topic: &str, browse: Browse) -> Result<Glance, Failure> {
        let topic = self.topic(topic)?;
        match self.at(topic).describe(Query::Browse(Browse { topic, ..browse })).await? {
            Description::Browse(Stretch { found, scanned, next }) => {
                Ok(Glance { topic, found, scanned, next })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Where the message under an idempotency key was stored, as long as that is remembered.
    pub async fn whereabouts(
        &self,
        topic: &str,
        tenant: &str,
        key: &str,
    ) -> Result<Option<(String, u32, u64)>, Failure> {
        let identity = {
            let catalog = read(&self.house().catalog);
            let info = catalog.find(topic).ok_or(Failure::Reject(Reject::TopicUnknown))?;
            // As when it was stored: in a topic that belongs to a tenant, what names none is that tenant's.
            let tenant = if tenant.is_empty() { info.tenant.as_deref().unwrap_or("") } else { tenant };
            Identity::in_topic(tenant, topic, info.incarnation(), key)
        };
        let topic = self.topic(topic)?;
        // With its topic, unless a router has sent it elsewhere.
        let others = self.shards().iter().filter(|shard| shard.id != topic.shard());
        for shard in std::iter::once(self.at(topic)).chain(others) {
            let place = match shard.describe(Query::Whereabouts(topic, identity)).await? {
                Description::Whereabouts(place) => place,
                other => return Err(unexpected(&other)),
            };
            if let Some(place) = place {
                let name = read(&self.house().catalog).name(place.topic).map(ToString::to_string);
                return Ok(name.map(|name| (name, place.partition, place.offset)));
            }
        }
        Ok(None)
    }

    /// A message of a topic with its payload.
    pub async fn see(&self, topic: TopicId, found: Found) -> Seen {
        let extent = Extent { position: found.position, length: found.length, check: found.check };
        Seen { topic, payload: self.at(topic).payload_store.fetch(extent).await.ok(), found }
    }
}
