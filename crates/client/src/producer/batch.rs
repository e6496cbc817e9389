//! The task behind a producer: collects, sends, and tells every message what became of it.

use std::collections::VecDeque;
use std::time::Duration;

use driftq_api::v2::{Message, Outcome, Produced};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::{Instant, sleep};

use super::{BATCH_BYTES_MAX, BATCH_MESSAGES_MAX};
use crate::client::{Client, escape};
use crate::error::{Error, Refusal};

/// The pause if the server does not say how long to wait.
const WAIT_DEFAULT: Duration = Duration::from_millis(100);

/// One message on its way.
pub(super) struct Entry {
    pub(super) topic: String,
    pub(super) message: Message<'static>,
    pub(super) bytes: usize,
    pub(super) answer: oneshot::Sender<Result<Produced<'static>, Error>>,
    /// Its place in the buffer, free when it is answered.
    pub(super) room: OwnedSemaphorePermit,
    /// Since when the server has been refusing it for now.
    pub(super) refused_since: Option<Instant>,
}

impl Entry {
    fn answer(self, answer: Result<Produced<'static>, Error>) {
        if let Err(error) = &answer {
            tracing::debug!(topic = self.topic, %error, "a message was not stored");
        }
        // The caller may have dropped the receipt.
        drop(self.answer.send(answer));
        drop(self.room);
    }
}

/// Sends until the producer is gone and everything is answered.
pub(super) async fn deliver(client: Client, mut taken: mpsc::UnboundedReceiver<Entry>) {
    let mut waiting = VecDeque::new();
    loop {
        if waiting.is_empty() {
            match taken.recv().await {
                Some(entry) => waiting.push_back(entry),
                None => return,
            }
        }
        while let Ok(entry) = taken.try_recv() {
            waiting.push_back(entry);
        }
        let batch = next_batch(&mut waiting);
        if let Some(wait) = send(&client, batch, &mut waiting).await {
            sleep(wait).await;
        }
    }
}

/// As many messages of the first one's topic as one call may carry, in order.
fn next_batch(waiting: &mut VecDeque<Entry>) -> Vec<Entry> {
    let Some(topic) = waiting.front().map(|entry| entry.topic.clone()) else { return Vec::new() };
    let (mut batch, mut others) = (Vec::new(), VecDeque::with_capacity(waiting.len()));
    let (mut bytes, mut is_full) = (0_usize, false);
    for entry in waiting.drain(..) {
        // Once one did not fit, no later one of its topic may overtake it.
        let fits =
            batch.is_empty() || bytes + entry.bytes <= BATCH_BYTES_MAX && batch.len() < BATCH_MESSAGES_MAX;
        if entry.topic == topic && !is_full && fits {
            bytes += entry.bytes;
            batch.push(entry);
        } else {
            is_full |= entry.topic == topic;
            others.push_back(entry);
        }
    }
    *waiting = others;
    batch
}

/// Sends one batch. What is refused for now waits again; returns for how long.
async fn send(client: &Client, batch: Vec<Entry>, waiting: &mut VecDeque<Entry>) -> Option<Duration> {
    let mut parts = vec![batch];
    let mut again = Vec::new();
    let mut wait = None;
    while let Some(mut part) = parts.pop() {
        let Some(first) = part.first() else { continue };
        let path = format!("/v2/topics/{}/messages", escape(&first.topic));
        let messages: Vec<&Message<'static>> = part.iter().map(|entry| &entry.message).collect();
        match client.post::<Vec<Outcome<'static>>>(&path, &messages).await {
            Ok(outcomes) => settle(client, part, outcomes, &mut again, &mut wait),
            // A single message may be the reason: find it, so that the others are not refused with it.
            Err(error) if part.len() > 1 && matches!(error, Error::Refused(_)) && !error.is_transient() => {
                let second = part.split_off(part.len() / 2);
                parts.extend([second, part]);
            }
            Err(error) => part.into_iter().for_each(|entry| entry.answer(Err(error.clone()))),
        }
    }
    for entry in again.into_iter().rev() {
        waiting.push_front(entry);
    }
    wait
}

fn settle(
    client: &Client,
    part: Vec<Entry>,
    outcomes: Vec<Outcome<'static>>,
    again: &mut Vec<Entry>,
    wait: &mut Option<Duration>,
) {
    let mut outcomes = outcomes.into_iter();
    for mut entry in part {
        let error = match outcomes.next() {
            Some(Outcome::Stored(produced)) => {
                entry.answer(Ok(produced));
                continue;
            }
            Some(Outcome::Refused(refused)) => Error::from(Refusal::from(refused.error)),
            None => Error::NotDriftQ { url: client.url(), why: "fewer results than messages".to_owned() },
        };
        let since = *entry.refused_since.get_or_insert_with(Instant::now);
        if error.is_transient() && since.elapsed() < client.patience() {
            *wait = (*wait).max(Some(error.retry_after().unwrap_or(WAIT_DEFAULT)));
            again.push(entry);
        } else {
            entry.answer(Err(error));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    async fn entry(topic: &str, bytes: usize) -> Entry {
        let room = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let (answer, _) = oneshot::channel();
        Entry {
            topic: topic.to_owned(),
            message: Message::default(),
            bytes,
            answer,
            room,
            refused_since: None,
        }
    }

    async fn entries(all: &[(&str, usize)]) -> VecDeque<Entry> {
        let mut waiting = VecDeque::new();
        for (topic, bytes) in all {
            waiting.push_back(entry(topic, *bytes).await);
        }
        waiting
    }

    fn sizes(batch: impl IntoIterator<Item = Entry>) -> Vec<usize> {
        batch.into_iter().map(|entry| entry.bytes).collect()
    }

    #[tokio::test]
    async fn a_batch_is_of_one_topic_and_keeps_the_order() {
        let mut waiting = entries(&[("a", 1), ("b", 2), ("a", 3), ("b", 4)]).await;
        assert_eq!(sizes(next_batch(&mut waiting)), [1, 3]);
        assert_eq!(sizes(next_batch(&mut waiting)), [2, 4]);
        assert!(next_batch(&mut waiting).is_empty());
    }

    #[tokio::test]
    async fn a_batch_is_bounded_and_nobody_overtakes() {
        let large = BATCH_BYTES_MAX - 1;
        let mut waiting = entries(&[("a", large), ("a", 2), ("a", 1), ("a", 2 * large)]).await;
        assert_eq!(
            sizes(next_batch(&mut waiting)),
            [large],
            "the third one would fit, but it is not its turn"
        );
        assert_eq!(sizes(next_batch(&mut waiting)), [2, 1]);
        assert_eq!(sizes(next_batch(&mut waiting)), [2 * large], "one that is too large goes alone");
        let mut many = entries(&vec![("a", 0); BATCH_MESSAGES_MAX + 1]).await;
        assert_eq!(next_batch(&mut many).len(), BATCH_MESSAGES_MAX);
        assert_eq!(many.len(), 1);
    }
}
