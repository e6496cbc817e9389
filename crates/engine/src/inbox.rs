//! The one door to the decide thread.
//!
//! Three lanes behind one lock. *Requests* come from outside and are bounded: a full lane turns them away.
//! *Notices* are the engine's own housekeeping and *log events* say what became of a batch; both must never be
//! lost and are always accepted, because each is bounded where it is made (see [`Notice`] and [`LogEvent`]).

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use driftq_core::{Answer, ConsumerId, Delivery, Input, Position, Receipt, Ticket};
use tokio::sync::{mpsc, oneshot};

use crate::failure::Failure;
use crate::locks::lock;
use crate::log::AppendError;

/// What the holder of a ticket gets.
pub(crate) type Reply = Result<Answer, Failure>;

/// Something asked from outside.
pub(crate) struct Request {
    pub(crate) ticket: Ticket,
    pub(crate) input: Input,
    pub(crate) reply: oneshot::Sender<Reply>,
    /// Payload bytes that it carries through the queue.
    pub(crate) bytes: usize,
    /// Whether its answer waits for the disk.
    pub(crate) writes: bool,
    /// Where the deliveries of a new reader go.
    pub(crate) stream: Option<Box<Attach>>,
}

/// A reader's way in.
pub(crate) struct Attach {
    pub(crate) consumer: ConsumerId,
    pub(crate) deliveries: mpsc::Sender<Delivery>,
}

/// Housekeeping that must not be lost. At most `consumers_max` × `stream_credit` receipts (or `stream_unwritten_max` of
/// those that borrow), as many credits, one
/// answer per burial under way, one window of relocations and one word about space can be in here.
pub(crate) enum Notice {
    /// Something for the shard.
    Input(Input),
    /// A reader is gone, and these deliveries never reached it.
    Left { consumer: ConsumerId, receipts: Vec<Receipt> },
    /// There is room for new messages again, or no longer: the status_board says which. Two threads may find out at once,
    /// so that a word carried in here could be the older one.
    RoomChanged,
    /// The keeper's window of copies ends here.
    CopiesEnd,
}

/// Why the log takes nothing more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// It failed: what it holds is read again.
    Failed(String),
    /// Another one has claimed it: the shard is theirs.
    Fenced(String),
}

impl Broken {
    pub(crate) fn why(&self) -> &str {
        match self {
            Self::Failed(why) | Self::Fenced(why) => why,
        }
    }
}

impl From<AppendError> for Broken {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Fenced(why) => Self::Fenced(why),
            error => Self::Failed(format!("the log failed: {error}")),
        }
    }
}

/// What became of a batch. Only one batch is under way at a time, and it makes at most three of these; each thread of
/// the epoch adds at most one, when it breaks or finds the log claimed by another.
pub(crate) enum LogEvent {
    /// It is written; if a position is given, everything below it is synced. The buffer comes back for reuse.
    Written { upto: Option<Position>, buffer: Option<Vec<u8>> },
    /// There is no room for it; the log thread holds it until there is.
    Stuck { why: String },
    /// There is room again.
    Unstuck,
    /// The log takes nothing more.
    Broken(Broken),
}

/// Who may come in.
pub(crate) enum Admission {
    /// Every request.
    Open,
    /// Only what does not wait for the disk.
    ReadOnly(Arc<str>),
    /// None.
    Shut(Arc<str>),
}

/// What the decide thread can use when it wakes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// Only news of the log: the batch being filled is full.
    LogEvents,
    /// Everything.
    All,
}

/// What was taken out in one go; reused from round to round.
#[derive(Default)]
pub(crate) struct Taken {
    pub(crate) events: VecDeque<LogEvent>,
    pub(crate) notices: VecDeque<Notice>,
    pub(crate) requests: VecDeque<Request>,
    /// A graceful stop was asked for.
    pub(crate) stop: bool,
}

/// Bounds of the request lane.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) requests_max: usize,
    pub(crate) request_bytes_max: usize,
}

pub(crate) struct Inbox {
    limits: Limits,
    lanes: Mutex<Lanes>,
    filled: Condvar,
}

struct Lanes {
    events: VecDeque<LogEvent>,
    notices: VecDeque<Notice>,
    requests: VecDeque<Request>,
    request_bytes: usize,
    admission: Admission,
    stop: bool,
    /// False while there is no shard that could use notices.
    housekeeping: bool,
    /// Set while the decide thread sleeps: what it waits for.
    asleep: Option<Want>,
}

impl Lanes {
    /// Whether the sleeper must be woken for something of this kind; it is woken once only.
    fn wakes(&mut self, kind: Want) -> bool {
        let wakes = self.asleep.is_some_and(|want| kind == Want::LogEvents || want == Want::All);
        if wakes {
            self.asleep = None;
        }
        wakes
    }

    /// Whether there is something to take for a sleeper that knows of a stop already, or does not.
    fn has(&self, want: Want, stop_known: bool) -> bool {
        let rest = || !self.notices.is_empty() || !self.requests.is_empty();
        !self.events.is_empty() || (self.stop && !stop_known) || (want == Want::All && rest())
    }
}

impl Inbox {
    pub(crate) fn new(limits: Limits) -> Self {
        let lanes = Lanes {
            events: VecDeque::new(),
            notices: VecDeque::new(),
            requests: VecDeque::new(),
            request_bytes: 0,
            admission: Admission::Shut("starting".into()),
            stop: false,
            housekeeping: false,
            asleep: None,
        };
        Self { limits, lanes: Mutex::new(lanes), filled: Condvar::new() }
    }

    /// Lets a request in, or says why not.
    pub(crate) fn ask(&self, request: Request) -> Result<(), Failure> {
        let mut lanes = lock(&self.lanes);
        match &lanes.admission {
            Admission::Open => {}
            Admission::ReadOnly(_) if !request.writes => {}
            Admission::ReadOnly(why) | Admission::Shut(why) => {
                return Err(Failure::Unavailable(why.to_string()));
            }
        }
        // An empty lane takes any single request, so that a small byte limit never refuses for ever.
        let bytes = lanes.request_bytes + request.bytes;
        let crowded = !lanes.requests.is_empty() && bytes > self.limits.request_bytes_max;
        if crowded || lanes.requests.len() >= self.limits.requests_max {
            return Err(Failure::Busy);
        }
        lanes.request_bytes = bytes;
        lanes.requests.push_back(request);
        self.wake(lanes, Want::All);
        Ok(())
    }

    /// Takes housekeeping in; without a shard it is dropped, which is what happens to its object anyway.
    pub(crate) fn notify(&self, notice: Notice) {
        let mut lanes = lock(&self.lanes);
        if !lanes.housekeeping {
            return;
        }
        lanes.notices.push_back(notice);
        self.wake(lanes, Want::All);
    }

    pub(crate) fn input(&self, input: Input) {
        self.notify(Notice::Input(input));
    }

    pub(crate) fn report(&self, event: LogEvent) {
        let mut lanes = lock(&self.lanes);
        lanes.events.push_back(event);
        self.wake(lanes, Want::LogEvents);
    }

    /// Asks for a graceful stop.
    pub(crate) fn stop(&self) {
        let mut lanes = lock(&self.lanes);
        lanes.stop = true;
        self.wake(lanes, Want::LogEvents);
    }

    /// Sleeps until a stop is asked for, at most `timeout`; true if it was.
    pub(crate) fn wait_stop(&self, timeout: Duration) -> bool {
        let lanes = lock(&self.lanes);
        let waited = self.filled.wait_timeout_while(lanes, timeout, |lanes| {
            lanes.asleep = Some(Want::All);
            !lanes.stop
        });
        let (mut lanes, _) = waited.unwrap_or_else(PoisonError::into_inner);
        lanes.asleep = None;
        lanes.stop
    }

    /// Sleeps until a stop is asked for.
    pub(crate) fn wait_for_stop(&self) {
        while !self.wait_stop(Duration::MAX) {}
    }

    /// Changes who may come in. Requests that are in already stay.
    pub(crate) fn set_admission(&self, admission: Admission) {
        lock(&self.lanes).admission = admission;
    }

    /// Lets no request in any more, and turns away those that wait.
    pub(crate) fn turn_away(&self, why: &str) {
        let mut lanes = lock(&self.lanes);
        lanes.admission = Admission::Shut(why.into());
        lanes.request_bytes = 0;
        let requests = std::mem::take(&mut lanes.requests);
        drop(lanes);
        for request in requests {
            // A caller that has stopped waiting needs no answer.
            let _ = request.reply.send(Err(Failure::Unavailable(why.to_owned())));
        }
    }

    /// Accepts notices from now on.
    pub(crate) fn open_housekeeping(&self) {
        lock(&self.lanes).housekeeping = true;
    }

    /// Drops what belongs to a shard that is gone, now and later.
    pub(crate) fn close_housekeeping(&self) {
        let mut lanes = lock(&self.lanes);
        lanes.housekeeping = false;
        lanes.events.clear();
        lanes.notices.clear();
    }

    /// Requests that wait.
    pub(crate) fn len(&self) -> usize {
        lock(&self.lanes).requests.len()
    }

    /// Whether nothing at all waits.
    pub(crate) fn is_quiet(&self) -> bool {
        !lock(&self.lanes).has(Want::All, true)
    }

    /// Waits until something wanted is there or `timeout` has passed, and takes it. Lanes of `taken` that still
    /// hold something are left as they are.
    pub(crate) fn take(&self, want: Want, timeout: Option<Duration>, taken: &mut Taken) {
        let mut lanes = lock(&self.lanes);
        let stop_known = taken.stop;
        if !lanes.has(want, stop_known) && timeout != Some(Duration::ZERO) {
            // Set again before every sleep: the thread that wakes the sleeper clears it, and a second call to stop
            // wakes it for something that it knows already.
            let idle = |lanes: &mut Lanes| {
                let idle = !lanes.has(want, stop_known);
                lanes.asleep = idle.then_some(want);
                idle
            };
            lanes = match timeout {
                None => self.filled.wait_while(lanes, idle),
                Some(timeout) => {
                    let waited = self.filled.wait_timeout_while(lanes, timeout, idle);
                    waited.map(|(lanes, _)| lanes).map_err(|error| PoisonError::new(error.into_inner().0))
                }
            }
            .unwrap_or_else(PoisonError::into_inner);
            lanes.asleep = None;
        }
        if taken.events.is_empty() {
            std::mem::swap(&mut taken.events, &mut lanes.events);
        }
        if want == Want::All {
            if taken.notices.is_empty() {
                std::mem::swap(&mut taken.notices, &mut lanes.notices);
            }
            if taken.requests.is_empty() {
                std::mem::swap(&mut taken.requests, &mut lanes.requests);
                lanes.request_bytes = 0;
            }
        }
        taken.stop = lanes.stop;
    }

    fn wake(&self, mut lanes: std::sync::MutexGuard<'_, Lanes>, kind: Want) {
        let wakes = lanes.wakes(kind);
        drop(lanes);
        if wakes {
            self.filled.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn a_stop_that_is_known_does_not_make_the_sleeper_deaf() {
        let inbox = Arc::new(Inbox::new(Limits { requests_max: 1, request_bytes_max: 1 }));
        inbox.stop();
        let (heard, news) = mpsc::channel();
        let sleeper = Arc::clone(&inbox);
        thread::spawn(move || {
            let mut taken = Taken { stop: true, ..Taken::default() };
            sleeper.take(Want::LogEvents, None, &mut taken);
            heard.send(taken.events.len())
        });
        while lock(&inbox.lanes).asleep.is_none() {
            thread::yield_now();
        }
        inbox.stop();
        // Only so that it has fallen asleep again: what comes must reach it in any case.
        thread::sleep(Duration::from_millis(50));
        inbox.report(LogEvent::Unstuck);
        assert_eq!(news.recv_timeout(Duration::from_secs(20)), Ok(1));
    }
}
