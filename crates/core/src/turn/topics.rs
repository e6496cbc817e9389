//! How topics are created.

use crate::log::fact::Fact;
use crate::log::order::OrderFact;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::words::action::{Action, Output, TopicInfo};
use crate::words::id::TopicId;
use crate::words::topic::TopicSettings;

impl Turn {
    /// Creates a topic that does not exist, and has the catalogue told once it is durable; `None` if there is no number
    /// left for it.
    pub(crate) fn create_topic(
        &mut self,
        name: &str,
        partitions: u32,
        settings: &TopicSettings,
        tenant: Option<&str>,
        out: &mut Output,
    ) -> Option<TopicInfo> {
        let state = &self.journal.state;
        let topic = TopicId::new(state.shard, state.topics.len())?;
        let fact = Fact::TopicCreated { topic, partitions, at: self.now, name, scoped: true, tenant };
        self.journal.emit(Haste::Urgent, out, &fact);
        if *settings != TopicSettings::default() {
            self.journal.emit(
                Haste::Urgent,
                out,
                &Fact::Order(OrderFact::Configured { topic, settings: *settings }),
            );
        }
        let info = TopicInfo {
            id: topic,
            name: name.into(),
            partitions,
            scoped: true,
            tenant: tenant.map(Into::into),
        };
        self.journal.after_durable(out, Action::Publish(info.clone()));
        Some(info)
    }
}
