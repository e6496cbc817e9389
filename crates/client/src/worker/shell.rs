//! The loop that does what the book says.

use std::borrow::Cow;
use std::time::Duration;

use driftq_api::v2::{Item, LeaseRequest, Settled};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::book::{Book, Id, Start};
use super::call::{self, Lane};
use super::drain_deadline::{DrainDeadline, Passed};
use super::stop::{Stopper, Urgency, forward_signals};
use super::verdict::{KINDS, Kind, Verdict};
use super::{Worker, wire};
use crate::client::whole_ms;
use crate::context::Context;
use crate::error::Error;
use crate::random;
use crate::signal::Reason;

/// How long the server may wait for messages before it answers that there are none.
const POLL: Duration = Duration::from_secs(20);
/// Heartbeats per lease: two may get lost.
const HEARTBEATS_PER_LEASE: u32 = 3;

/// How long a worker that no longer waits for handlers still lets those end that are about to.
const HURRY_GRACE: Duration = Duration::from_millis(100);

/// What a task of the worker came back with.
enum Event {
    Borrowed { lane: usize, got_at: Instant, answer: Result<Vec<Item<'static>>, Error> },
    Recovered { answer: Result<(), Error> },
    Ended { verdicts: Vec<(Id, Verdict)> },
    Settled { kind: Kind, ids: Vec<Id>, is_heard: bool },
    Beaten { sent: Instant, answer: Result<Vec<(Id, Settled)>, Error> },
    Begun { sent: Instant, answer: Result<Vec<(Id, Settled)>, Error> },
}

/// A call for messages that is under way.
struct Poll {
    task: AbortHandle,
    request: LeaseRequest<'static>,
}

pub(super) struct Shell {
    worker: Worker,
    owner: String,
    book: Book<Context>,
    tasks: JoinSet<Event>,
    polls: Vec<Option<Poll>>,
    is_beating_now: bool,
    /// A call that tells the server what was begun is under way.
    is_telling_begun: bool,
    is_draining: bool,
    /// Why the worker ends, if it was not told to.
    fatal: Option<Error>,
}

impl Shell {
    pub(super) fn new(worker: Worker, owner: String) -> Self {
        let polls = worker.lanes.iter().map(|_| None).collect();
        let book = Book::new(worker.bounds());
        let tasks = JoinSet::new();
        let (is_beating_now, is_telling_begun, is_draining, fatal) = (false, false, false, None);
        Self { worker, owner, book, tasks, polls, is_beating_now, is_telling_begun, is_draining, fatal }
    }

    pub(super) async fn run(mut self) -> Result<(), Error> {
        let stopper = self.worker.stopper.clone();
        let mut urgency = stopper.subscribe();
        let heeds_signals = self.worker.heeds_signals;
        tokio::select! {
            never = hear_signals(stopper, heeds_signals) => never,
            outcome = self.work(&mut urgency) => outcome,
        }
    }

    async fn work(&mut self, urgency: &mut watch::Receiver<Urgency>) -> Result<(), Error> {
        tokio::select! {
            started = self.check_start() => started?,
            _ = urgency.wait_for(|urgency| *urgency != Urgency::GoOn) => return Ok(()),
        }
        let every = (self.worker.lease / HEARTBEATS_PER_LEASE).max(Duration::from_millis(1));
        let mut heartbeats = interval_at(Instant::now() + every, every);
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut deadline = DrainDeadline::default();
        // Set once the worker no longer waits for handlers: how long those that are about to end still have.
        let mut hurried: Option<Instant> = None;
        loop {
            self.act()?;
            if hurried.is_some_and(|grace| self.may_leave(grace)) {
                break;
            }
            let is_over = self.is_draining && self.book.len() == 0 && !self.has_polls();
            if is_over && self.tasks.is_empty() {
                break;
            }
            if self.is_draining {
                let is_running = self.book.running().any(|context| !context.has_ended());
                deadline.look(Instant::now(), is_running, self.worker.drain_timeout);
            }
            let grace = hurried.filter(|grace| Instant::now() < *grace);
            let limit = grace.or_else(|| deadline.at());
            tokio::select! {
                Some(joined) = self.tasks.join_next(), if !self.tasks.is_empty() => {
                    if let Ok(event) = joined {
                        self.take(event)?;
                    }
                }
                _ = heartbeats.tick(), if self.worker.is_beating && !self.is_beating_now => self.beat(every),
                changed = urgency.changed() => {
                    let now = *urgency.borrow_and_update();
                    if changed.is_err() {
                        break;
                    }
                    self.drain();
                    if now == Urgency::AtOnce {
                        hurried = Some(Instant::now() + HURRY_GRACE);
                        deadline.hurry(Instant::now());
                    }
                }
                () = sleep_until(limit.unwrap_or_else(Instant::now)), if grace.is_some() => {}
                () = sleep_until(limit.unwrap_or_else(Instant::now)), if limit.is_some() && grace.is_none() =>
                    match deadline.pass() {
                        Passed::Cancel => {
                            for context in self.book.running() {
                                context.signal().fire(Reason::Stopped);
                            }
                        }
                        Passed::Leave => break,
                    },
            }
        }
        self.leave();
        self.fatal.take().map_or(Ok(()), Err)
    }

    /// Whether a worker that no longer waits for handlers may go: what has ended is settled, and what is about to has
    /// had its grace.
    fn may_leave(&self, grace: Instant) -> bool {
        let mut running = self.book.running().peekable();
        let is_quiet = running.peek().is_none() || Instant::now() >= grace;
        is_quiet && self.book.unheard() == 0 && !running.any(Context::has_ended)
    }

    /// Says what the worker leaves behind, if anything.
    fn leave(&self) {
        let (ended, running): (Vec<_>, Vec<_>) = self.book.running().partition(|context| context.has_ended());
        let unheard = self.book.unheard() + ended.len();
        self.count_unheard(unheard);
        if self.book.len() > 0 {
            tracing::warn!(
                unheard,
                running = running.len(),
                "the worker ends with messages in its hands: they come again when their leases are over"
            );
        }
    }

    fn count_unheard(&self, count: usize) {
        self.worker.unheard.send_modify(|unheard| *unheard += count as u64);
    }

    /// The server is there, and so are the topics.
    async fn check_start(&self) -> Result<(), Error> {
        let until = Instant::now() + self.worker.start_timeout;
        for lane in &self.worker.lanes {
            self.worker
                .client
                .topic_within(&lane.topic, until.saturating_duration_since(Instant::now()))
                .await?;
        }
        Ok(())
    }

    fn has_polls(&self) -> bool {
        self.polls.iter().any(Option::is_some)
    }

    /// Does everything that can be done now.
    fn act(&mut self) -> Result<(), Error> {
        while let Some(start) = if self.is_draining { None } else { self.book.start() } {
            self.start(start);
        }
        self.tell_begun();
        for kind in KINDS {
            if let Some(batch) = self.book.settle(kind) {
                let client = self.worker.client.clone();
                self.tasks.spawn(async move {
                    let kind = batch.kind;
                    let (ids, is_heard) = wire::settle(&client, batch).await;
                    Event::Settled { kind, ids, is_heard }
                });
            }
        }
        for lane in 0..self.polls.len() {
            if !self.is_draining && self.polls[lane].is_none() {
                self.poll(lane)?;
            }
        }
        Ok(())
    }

    fn start(&mut self, start: Start<Context>) {
        let lane: Lane = self.worker.lanes[start.lane].clone();
        self.tasks.spawn(async move {
            let (ids, contexts): (Vec<Id>, Vec<Context>) = start.deliveries.into_iter().unzip();
            let verdicts = call::run(lane, contexts).await;
            Event::Ended { verdicts: ids.into_iter().zip(verdicts).collect() }
        });
    }

    fn poll(&mut self, lane: usize) -> Result<(), Error> {
        let ask = self.book.ask(lane);
        if ask.count == 0 {
            return Ok(());
        }
        let request = LeaseRequest {
            owner: Cow::Owned(self.owner.clone()),
            max: u32::try_from(ask.count).unwrap_or(u32::MAX),
            wait_ms: if ask.waits { whole_ms(POLL) } else { 0 },
            lease_ms: Some(whole_ms(self.worker.lease)),
            request_id: Some(random::name(16)?.into()),
        };
        let (client, group) = (self.worker.client.clone(), self.worker.group.clone());
        let (topic, asked) = (self.worker.lanes[lane].topic.clone(), request.clone());
        let task = self.tasks.spawn(async move {
            let answer = wire::borrow(&client, &topic, &group, &asked).await;
            Event::Borrowed { lane, got_at: Instant::now(), answer }
        });
        self.polls[lane] = Some(Poll { task, request });
        Ok(())
    }

    fn take(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Borrowed { lane, got_at, answer } => {
                self.polls[lane] = None;
                self.book.answered(lane, answer.as_ref().map_or(0, Vec::len));
                match answer {
                    Ok(items) => self.borrow(lane, items, got_at)?,
                    Err(error) => {
                        tracing::error!(topic = self.worker.lanes[lane].topic, %error, "no more can be borrowed");
                        self.fatal.get_or_insert(error);
                        self.drain();
                    }
                }
            }
            Event::Recovered { answer } => {
                if let Err(error) = answer {
                    tracing::debug!(%error, "what the last call may have borrowed comes again when its lease is over");
                }
            }
            Event::Ended { verdicts } => self.book.ended(verdicts),
            Event::Settled { kind, ids, is_heard } => {
                if !is_heard && kind != Kind::Release {
                    self.count_unheard(ids.len());
                }
                self.book.settled(kind, ids);
            }
            Event::Beaten { sent, answer } => {
                self.is_beating_now = false;
                self.beaten(sent, answer);
            }
            Event::Begun { sent, answer } => {
                self.is_telling_begun = false;
                self.beaten(sent, answer);
            }
        }
        self.worker.progress.send_if_modified(|count| {
            let before = std::mem::replace(count, self.book.settled_count());
            before != *count
        });
        Ok(())
    }

    fn borrow(&mut self, lane: usize, items: Vec<Item<'static>>, got_at: Instant) -> Result<(), Error> {
        for item in items {
            let token = item.lease.as_ref().map(|lease| lease.token.clone().into_owned()).unwrap_or_default();
            let context = Context::new(self.worker.client.clone(), &self.worker.group, &self.owner, item)?;
            self.book.borrowed(lane, token, context, got_at + self.worker.lease);
        }
        if self.is_draining {
            self.book.drain();
        }
        Ok(())
    }

    fn beat(&mut self, limit: Duration) {
        let held = self.book.heartbeat();
        if held.is_empty() {
            return;
        }
        self.is_beating_now = true;
        let client = self.worker.client.clone();
        self.tasks.spawn(async move {
            let sent = Instant::now();
            Event::Beaten { sent, answer: wire::extend(&client, held, limit).await }
        });
    }

    /// Only what waited here through a heartbeat is told of, and what begins while a call is under way together in the
    /// next one: a worker that keeps up makes no such call. A heartbeat that is under way might be heard after it.
    fn tell_begun(&mut self) {
        if self.is_telling_begun || self.is_beating_now {
            return;
        }
        let begun = self.book.begun();
        if begun.is_empty() {
            return;
        }
        self.is_telling_begun = true;
        let (client, limit) = (self.worker.client.clone(), self.worker.lease);
        self.tasks.spawn(async move {
            let sent = Instant::now();
            Event::Begun { sent, answer: wire::extend(&client, begun, limit).await }
        });
    }

    fn beaten(&mut self, sent: Instant, answer: Result<Vec<(Id, Settled)>, Error>) {
        let told = match answer {
            Ok(results) => self.book.extended(results, sent, self.worker.lease),
            Err(error) => {
                tracing::debug!(%error, "no heartbeat");
                self.book.lapsed(Instant::now())
            }
        };
        for (context, reason) in told {
            tracing::info!(
                topic = context.topic(),
                offset = context.offset(),
                reason = reason.name(),
                "the handler was told to stop"
            );
            context.signal().fire(reason);
        }
    }

    /// Borrows no more, and gives back what was not begun.
    fn drain(&mut self) {
        if self.is_draining {
            return;
        }
        self.is_draining = true;
        self.book.drain();
        for lane in 0..self.polls.len() {
            let Some(Poll { task, mut request }) = self.polls[lane].take() else { continue };
            task.abort();
            self.book.answered(lane, 0);
            // What it had borrowed before the connection was cut is found again by its request id, and given back.
            request.wait_ms = 0;
            let (client, group) = (self.worker.client.clone(), self.worker.group.clone());
            let topic = self.worker.lanes[lane].topic.clone();
            self.tasks.spawn(async move {
                Event::Recovered { answer: wire::give_back(&client, &topic, &group, &request).await }
            });
        }
    }
}

async fn hear_signals(stopper: Stopper, are_heeded: bool) -> Result<(), Error> {
    if are_heeded {
        forward_signals(stopper).await;
    }
    std::future::pending().await
}
