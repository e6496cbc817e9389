//! People who look through messages beside those who work.

use std::time::{Duration, Instant};

use crate::common::{config, start, text};
use driftq_core::{Browse, KeyHash, TopicId};
use driftq_engine::Broker;

const BROWSERS: usize = 64;

async fn filled(messages: usize) -> Broker {
    let broker = start(config());
    broker.create_topic("t", 1).await.unwrap();
    for _ in 0..messages.div_ceil(500) {
        let produced = (0..500).map(|_| broker.produce("t", text("x")));
        for produced in futures_like::join_all(produced).await.0 {
            produced.unwrap();
        }
    }
    broker
}

/// A question that fits no message.
fn nothing(from: u64) -> Browse {
    Browse { topic: TopicId(0), partition: 0, alone: true, from, limit: 200, key: KeyHash(1) }
}

/// Joins without another crate: every future is polled in turn, in one task.
mod futures_like {
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Poll, Wake, Waker};

    /// The waker of one future: notes when the answer came, which may be long before the task that asked is polled.
    struct Noted {
        n: usize,
        answered: Arc<Mutex<Vec<usize>>>,
        task: Waker,
    }

    impl Wake for Noted {
        fn wake(self: Arc<Self>) {
            self.answered.lock().unwrap().push(self.n);
            self.task.wake_by_ref();
        }
    }

    /// What the futures gave, and the order in which they were woken.
    pub(crate) async fn join_all<F: Future>(
        futures: impl Iterator<Item = F>,
    ) -> (Vec<F::Output>, Vec<usize>) {
        let mut futures: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
        let mut done: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
        let answered = Arc::new(Mutex::new(Vec::new()));
        std::future::poll_fn(|context| {
            for (n, (future, done)) in futures.iter_mut().zip(&mut done).enumerate() {
                let task = context.waker().clone();
                let waker = Waker::from(Arc::new(Noted { n, answered: Arc::clone(&answered), task }));
                if done.is_none()
                    && let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker))
                {
                    *done = Some(output);
                }
            }
            if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let answered = std::mem::take(&mut *answered.lock().unwrap());
        (done.into_iter().flatten().collect(), answered)
    }
}

/// How often the test asks again when the machine was busy: the shard may have answered those who look through messages
/// before the short request was even made.
const ROUNDS: usize = 50;

/// Whoever works does not wait for all who look: a question that takes long comes in its own round. A shard that served
/// its callers in the order of their coming would answer the short request last in every round.
#[tokio::test]
async fn a_short_request_overtakes_those_who_look_through_messages() {
    let broker = filled(5_000).await;
    let mut places = Vec::new();
    for _ in 0..ROUNDS {
        let asked = (0..=BROWSERS).map(|n| {
            let broker = &broker;
            async move {
                if n < BROWSERS {
                    broker.browse("t", nothing(0)).await.unwrap();
                } else {
                    broker.describe_topic("t").await.unwrap();
                }
            }
        });
        let (_, answered) = futures_like::join_all(asked).await;
        let Some(place) = answered.iter().position(|n| *n == BROWSERS) else { continue };
        if place < BROWSERS / 2 {
            return;
        }
        places.push(place);
    }
    panic!("in {ROUNDS} rounds it never came before half of {BROWSERS}: {places:?}");
}

/// The time in which most requests to produce are answered, beside so many who browse. The numbers are for people:
/// `cargo test -p driftq-engine --test suite browsers -- --ignored --nocapture`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints numbers for people"]
async fn produce_beside_browsers() {
    for browsers in [0, BROWSERS] {
        let broker = filled(20_000).await;
        let tasks: Vec<_> = (0..browsers)
            .map(|_| {
                let broker = broker.clone();
                tokio::spawn(async move {
                    let mut from = 0;
                    while let Ok(sight) = broker.browse("t", nothing(from)).await {
                        from = sight.next.map_or(0, |(_, offset)| offset);
                    }
                })
            })
            .collect();
        let mut spent = Vec::new();
        for _ in 0..2_000 {
            let begun = Instant::now();
            broker.produce("t", text("y")).await.unwrap();
            spent.push(begun.elapsed());
        }
        for task in &tasks {
            task.abort();
        }
        spent.sort_unstable();
        let at = |percent: usize| spent[spent.len() * percent / 100].as_micros();
        println!("{browsers:>3} browsers: p50 {} µs, p99 {} µs", at(50), at(99));
        assert!(spent[0] > Duration::ZERO);
    }
}
