//! One call of a handler, from its beginning to the verdict on every message in it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use driftq_api::Moment;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::Instrument as _;

use super::handler::{Handler, Prepared, Work};
use super::verdict::Verdict;
use super::{BadPayload, CANCEL_GRACE};
use crate::context::{CURRENT, Context};
use crate::outcome::{Failure, Retry};
use crate::signal::Reason;
use crate::trace::handler_span;

/// What all calls of a lane have in common.
#[derive(Clone)]
pub(super) struct Lane {
    pub(super) topic: String,
    pub(super) handler: Arc<dyn Handler>,
    /// Most messages in a call.
    pub(super) batch: usize,
    pub(super) is_batched: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) bad_payload: BadPayload,
}

/// Runs the handler and says what becomes of each message, in order.
pub(super) async fn run(lane: Lane, deliveries: Vec<Context>) -> Vec<Verdict> {
    let mut verdicts: Vec<Option<Verdict>> = vec![None; deliveries.len()];
    let now = since_epoch();
    let mut fresh = Vec::new();
    for (place, context) in deliveries.iter().enumerate() {
        match context.deadline() {
            Some(deadline) if until(deadline, now).is_zero() => {
                verdicts[place] = Some(Verdict::dead("DeadlinePassed: before the handler began"));
            }
            _ => fresh.push(place),
        }
    }
    let called: Vec<Context> = fresh.iter().map(|place| deliveries[*place].clone()).collect();
    let Prepared { flaws, work } = lane.handler.prepare(&called);
    for (place, flaw) in flaws {
        verdicts[fresh[place]] = Some(match lane.bad_payload {
            BadPayload::Dead => Verdict::dead(&flaw),
            BadPayload::Retry => Verdict::retry(&flaw),
        });
    }
    let end = match work {
        Some(work) => Some(oversee(&lane, &called, work).await),
        None => None,
    };
    deliveries.iter().for_each(Context::end);
    let mut settled = Vec::with_capacity(deliveries.len());
    for (context, verdict) in deliveries.iter().zip(verdicts) {
        settled.push(match (verdict, &end) {
            (Some(verdict), _) => verdict,
            (None, Some(end)) => {
                let verdict = conclude(context, end).await;
                // Before another worker can get the message: from then on its effects are that worker's, too.
                if !context.endings().is_empty() {
                    context.send_endings().await;
                }
                verdict
            }
            (None, None) => Verdict::Release { delay: None },
        });
    }
    settled
}

struct End {
    /// What the handler returned; `None` if it was aborted.
    returned: Option<Result<(), Failure>>,
    /// Why the whole call was told to stop, if it was.
    overran: Option<Reason>,
}

/// Lets the handler work, tells it when it overruns, and aborts it if it does not stop.
async fn oversee(lane: &Lane, called: &[Context], work: Work) -> End {
    // A task of its own, so that a panic in it is an error like any other.
    let span = handler_span(&lane.topic, called);
    let job = match called {
        [context] if !lane.is_batched => tokio::spawn(CURRENT.scope(context.home(), work).instrument(span)),
        _ => tokio::spawn(work.instrument(span)),
    };
    let mut job = Job(job);
    let reason = tokio::select! {
        biased;
        joined = &mut job.0 => return End { returned: Some(flatten(joined)), overran: None },
        reason = overrun(lane.timeout, called) => reason,
    };
    for context in called {
        context.signal().fire(reason);
    }
    let returned = timeout(CANCEL_GRACE, &mut job.0).await.ok().map(flatten);
    if returned.is_none() {
        tracing::warn!(topic = lane.topic, reason = reason.name(), "the handler did not stop and was ended");
    }
    End { returned, overran: Some(reason) }
}

/// A handler's task, aborted when this is dropped.
struct Job(JoinHandle<Result<(), Failure>>);

impl Drop for Job {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn flatten(joined: Result<Result<(), Failure>, tokio::task::JoinError>) -> Result<(), Failure> {
    match joined {
        Ok(returned) => returned,
        Err(error) => Err(Failure::new(match error.try_into_panic() {
            Ok(panic) => format!("the handler panicked: {}", panic_text(&*panic)),
            Err(_) => "the handler was ended".to_owned(),
        })),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a text")
}

/// Waits until the call has overrun something.
async fn overrun(limit: Option<Duration>, called: &[Context]) -> Reason {
    tokio::select! {
        () = after(limit) => Reason::TimedOut,
        () = all_late(called) => Reason::DeadlinePassed,
        () = stopped(called) => Reason::Stopped,
    }
}

/// Tells each message of the call when its time is up, and waits until there is none left that is of use.
async fn all_late(called: &[Context]) {
    let now = since_epoch();
    let mut deadlines: Vec<_> = called
        .iter()
        .filter_map(|context| context.deadline().map(|deadline| (until(deadline, now), context)))
        .collect();
    deadlines.sort_by_key(|(wait, _)| *wait);
    let (begun, has_others) = (Instant::now(), deadlines.len() < called.len());
    for (wait, context) in deadlines {
        sleep_until(begun + wait).await;
        context.signal().fire(Reason::DeadlinePassed);
    }
    if has_others {
        std::future::pending().await
    }
}

async fn after(limit: Option<Duration>) {
    match limit {
        Some(limit) => sleep(limit).await,
        None => std::future::pending().await,
    }
}

/// Waits for the one reason that comes from the worker itself. What was lost may go on: an effect in it may still end
/// well, and be recorded.
async fn stopped(called: &[Context]) {
    // All are stopped at the same time, but for those that were told something else before.
    for context in called {
        if context.signal().fired().await == Reason::Stopped {
            return;
        }
    }
    std::future::pending().await
}

async fn conclude(context: &Context, end: &End) -> Verdict {
    if context.is_committed() {
        return Verdict::Done;
    }
    match (context.signal().reason(), end.overran, &end.returned) {
        // Whatever the handler says no longer counts; the book knows what to do.
        (Some(Reason::LeaseLost | Reason::Cancelled), ..) => return Verdict::Release { delay: None },
        (Some(Reason::DeadlinePassed), ..) => {
            return Verdict::dead("DeadlinePassed: while the handler was at work");
        }
        (_, Some(Reason::TimedOut), _) => return Verdict::retry("TimedOut: the handler outran its time-out"),
        // The worker did not let it end, which is not the message's fault.
        (_, _, None) => return Verdict::Release { delay: None },
        _ => {}
    }
    let failure = context.take_failure();
    match (&failure, &end.returned) {
        (Some(failure), _) | (None, Some(Err(failure))) => failed(failure, context.signal().reason()),
        _ if context.has_collected() => commit(context).await,
        _ => Verdict::Ack,
    }
}

/// What an error means. After the handler was told to stop, only what it says on purpose counts: what else went wrong
/// went wrong because it stopped.
fn failed(failure: &Failure, told: Option<Reason>) -> Verdict {
    let verdict = Verdict::of(failure);
    let comes_again = matches!(verdict, Verdict::Nack { is_dead: false, .. });
    if told == Some(Reason::Stopped) && comes_again && failure.find::<Retry>().is_none() {
        return Verdict::Release { delay: None };
    }
    verdict
}

/// Sends what was collected with the ack. A server that is away is waited for, as with every settlement.
async fn commit(context: &Context) -> Verdict {
    match context.commit_at_end().await {
        Ok(_) => Verdict::Done,
        Err(error) => Verdict::of(&error.into()),
    }
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// How long it is until then; nothing if it is over.
fn until(deadline: Moment, now: Duration) -> Duration {
    let (seconds, nanos) = deadline.parts();
    let deadline = u64::try_from(seconds).map_or(Duration::ZERO, |seconds| Duration::new(seconds, nanos));
    deadline.saturating_sub(now)
}
