//! Calls that many tasks make at once: what is asked while one is under way goes out together, in the next.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use driftq_api::v2::{
    COMMITS_MAX, CommitDone, CommitResult, CommitsDone, Committed, EFFECTS_MAX, EffectBegun, EffectDecision,
    EffectsBegun, Problem,
};
use driftq_http::{Call, Method};
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::{Client, Patience};
use crate::error::{Error, Refusal};

/// Most bytes of questions in one call: well below what a server takes.
const CALL_BYTES_MAX: usize = 1 << 20;

/// A call that exists for one and for many.
pub(crate) trait Collected: Sized + Send + 'static {
    /// Where it goes.
    const PATH: &'static str;
    /// The name of the list of many.
    const LIST: &'static str;
    /// Most questions in one call.
    const MAX: usize;
    /// The answer to one.
    type One: DeserializeOwned + Send;
    /// The answer to many.
    type Many: DeserializeOwned + Send;

    fn of_one(one: Self::One) -> Self;
    /// One result each, in order.
    fn of_many(many: Self::Many) -> Vec<Result<Self, Error>>;
    fn patience(client: &Client) -> Patience;
}

impl Collected for EffectDecision<'static> {
    const PATH: &'static str = "/v2/effects/begin";
    const LIST: &'static str = "effects";
    const MAX: usize = EFFECTS_MAX;
    type One = Self;
    type Many = EffectsBegun<'static>;

    fn of_one(one: Self) -> Self {
        one
    }

    fn of_many(many: EffectsBegun<'static>) -> Vec<Result<Self, Error>> {
        let results = many.results.into_iter().map(|result| match result {
            EffectBegun::Decided(decision) => Ok(decision),
            EffectBegun::Refused(refused) => Err(refusal(&refused.problem)),
        });
        results.collect()
    }

    fn patience(client: &Client) -> Patience {
        client.usual_patience()
    }
}

impl Collected for Committed<'static> {
    const PATH: &'static str = "/v2/commit";
    const LIST: &'static str = "commits";
    const MAX: usize = COMMITS_MAX;
    type One = Self;
    type Many = CommitsDone<'static>;

    fn of_one(one: Self) -> Self {
        one
    }

    fn of_many(many: CommitsDone<'static>) -> Vec<Result<Self, Error>> {
        let results = many.results.into_iter().map(|result| match result {
            CommitDone::Committed { produced, outputs } => {
                Ok(Committed { result: CommitResult::Committed, produced, outputs })
            }
            CommitDone::AlreadyCommitted { produced, outputs } => {
                Ok(Committed { result: CommitResult::AlreadyCommitted, produced, outputs })
            }
            CommitDone::Refused { problem } => Err(refusal(&problem)),
        });
        results.collect()
    }

    /// A server that is away is waited for, as with every settlement.
    fn patience(_: &Client) -> Patience {
        Patience::endless()
    }
}

fn refusal(problem: &Problem<'_>) -> Error {
    Error::from(Refusal::from(problem.clone()))
}

/// What waits for the next call, and whether one is under way.
pub(crate) struct Collector<A> {
    queue: Mutex<Queue<A>>,
}

struct Queue<A> {
    waiting: VecDeque<Question<A>>,
    is_under_way: bool,
}

struct Question<A> {
    body: Bytes,
    answer: oneshot::Sender<Result<A, Error>>,
}

impl<A> Default for Collector<A> {
    fn default() -> Self {
        Self { queue: Mutex::new(Queue { waiting: VecDeque::new(), is_under_way: false }) }
    }
}

impl<A: Collected> Collector<A> {
    fn queue(&self) -> MutexGuard<'_, Queue<A>> {
        // The queue is consistent at every point, so a panic elsewhere does not invalidate it.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks, together with the other callers that ask meanwhile.
    pub(crate) async fn ask(self: &Arc<Self>, client: &Client, body: Bytes) -> Result<A, Error> {
        let (answer, told) = oneshot::channel();
        let begins = {
            let mut queue = self.queue();
            queue.waiting.push_back(Question { body, answer });
            !std::mem::replace(&mut queue.is_under_way, true)
        };
        if begins {
            let driver = Driver { collector: Arc::clone(self) };
            tokio::spawn(driver.run(client.clone()));
        }
        let interrupted =
            |_| Error::ConnectionLost { url: client.url(), why: "the call was ended".to_owned() };
        told.await.map_err(interrupted)?
    }

    /// What goes into the next call; `None` if no caller waits, and then no call is under way any more.
    fn next(&self) -> Option<Vec<Question<A>>> {
        let mut queue = self.queue();
        let mut bytes = 0;
        let fits = |question: &&Question<A>| {
            bytes += question.body.len();
            bytes <= CALL_BYTES_MAX
        };
        let count = queue.waiting.iter().take(A::MAX).take_while(fits).count().max(1);
        let count = count.min(queue.waiting.len());
        if count == 0 {
            queue.is_under_way = false;
            return None;
        }
        Some(queue.waiting.drain(..count).collect())
    }
}

/// Makes calls for as long as a caller waits.
struct Driver<A: Collected> {
    collector: Arc<Collector<A>>,
}

impl<A: Collected> Driver<A> {
    async fn run(self, client: Client) {
        while let Some(questions) = self.collector.next() {
            let answers = ask_all::<A>(&client, &questions).await;
            for (question, answer) in questions.into_iter().zip(answers) {
                // A caller that has stopped waiting needs no answer.
                let _ = question.answer.send(answer);
            }
        }
    }
}

impl<A: Collected> Drop for Driver<A> {
    fn drop(&mut self) {
        // It may have ended in the middle, with its runtime: the next caller starts a new driver.
        self.collector.queue().is_under_way = false;
    }
}

/// One answer each, in order.
async fn ask_all<A: Collected>(client: &Client, questions: &[Question<A>]) -> Vec<Result<A, Error>> {
    let many = match questions {
        [_] => None,
        questions => ask::<A, A::Many>(client, list::<A>(questions)).await.ok().map(A::of_many),
    };
    let mut answers = Vec::with_capacity(questions.len());
    let mut many = many.into_iter().flatten();
    for question in questions {
        answers.push(match many.next() {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(error)) if !error.is_transient() => Err(error),
            // What may succeed later is repeated by itself; and if all of them were refused together, each hears why.
            Some(Err(_)) | None => ask::<A, A::One>(client, question.body.clone()).await.map(A::of_one),
        });
    }
    answers
}

async fn ask<A: Collected, T: DeserializeOwned>(client: &Client, body: Bytes) -> Result<T, Error> {
    let limit = client.shared.transport.limit(Duration::ZERO);
    client.repeat(&Call::new(Method::POST, A::PATH).json(body), limit, A::patience(client)).await
}

fn list<A: Collected>(questions: &[Question<A>]) -> Bytes {
    let bytes = questions.iter().map(|question| question.body.len() + 1).sum::<usize>();
    let mut body = Vec::with_capacity(bytes + A::LIST.len() + 8);
    body.extend_from_slice(format!("{{\"{}\":[", A::LIST).as_bytes());
    for (place, question) in questions.iter().enumerate() {
        if place > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&question.body);
    }
    body.extend_from_slice(b"]}");
    body.into()
}
