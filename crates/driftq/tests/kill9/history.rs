//! What the outside saw: every answer and every delivery, in the order in which it was noticed.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Names one message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Address {
    pub(crate) topic: String,
    pub(crate) partition: u32,
    pub(crate) offset: u64,
}

/// One message in the eyes of one group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Work {
    pub(crate) group: String,
    pub(crate) address: Address,
}

/// One thing that was noticed. A *life* is one run of the server, from its start to its kill.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// The server confirmed that a topic exists with this many partitions.
    TopicConfirmed { topic: String, partitions: u32 },
    /// The list of all topics, with their partition counts.
    TopicsListed { topics: Vec<(String, u32)> },
    /// A produce has its final outcome: confirmed by an answer, or never answered.
    Produced { producer: u32, topic: String, value: String, confirmed: bool },
    /// A line on a stream.
    Delivered { life: u32, stream: u64, work: Work, attempt: u32, value: String, last_error: String },
    /// An ack was sent; confirmed if it was answered with success.
    Acked { life: u32, work: Work, attempt: u32, confirmed: bool },
    /// A nack was sent; confirmed if it was answered with success.
    Nacked { life: u32, work: Work, attempt: u32, reason: String, confirmed: bool },
    /// A dead letter was read; `work` is where it came from.
    Buried { letter: Address, work: Work, attempts: u32, value: String },
    /// Everything was drained: from here on nothing is outstanding.
    Drained,
}

impl Event {
    /// The message of a group that it is about, if it is about one.
    pub(crate) const fn work(&self) -> Option<&Work> {
        match self {
            Self::Delivered { work, .. }
            | Self::Acked { work, .. }
            | Self::Nacked { work, .. }
            | Self::Buried { work, .. } => Some(work),
            Self::TopicConfirmed { .. }
            | Self::TopicsListed { .. }
            | Self::Produced { .. }
            | Self::Drained => None,
        }
    }
}

/// Collects events from many threads.
pub(crate) struct History {
    begun: Instant,
    events: Mutex<Vec<(Duration, Event)>>,
}

impl History {
    pub(crate) fn begin() -> Self {
        Self { begun: Instant::now(), events: Mutex::default() }
    }

    pub(crate) fn record(&self, event: Event) {
        let mut events = self.events.lock().unwrap();
        events.push((self.begun.elapsed(), event));
    }

    pub(crate) fn len(&self) -> usize {
        self.events.lock().unwrap().len()
    }

    /// All of them, and when each was noticed.
    pub(crate) fn into_events(self) -> (Vec<Duration>, Vec<Event>) {
        self.events.into_inner().unwrap().into_iter().unzip()
    }
}
