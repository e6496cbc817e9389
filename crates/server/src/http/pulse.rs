//! What a connection's socket, its handler and its stream tell each other.
//!
//! All three run in one task, one after the other; the atomics are there because the compiler cannot know that.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;

use super::loan::Loan;

/// No request is under way.
const IDLE: u8 = 0;
/// Bytes of a request have come, but not yet all of its headers.
const HEAD: u8 = 1;
/// A request is being answered.
const BUSY: u8 = 2;

/// Stands for "no deadline".
const NONE: u64 = u64::MAX;

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Pulse {
    start: Instant,
    head_timeout: Duration,
    answer_timeout: Duration,
    idle_timeout: Duration,
    phase: AtomicU8,
    /// Milliseconds after `start` at which the connection is given up.
    deadline: AtomicU64,
    /// Something has come.
    heard: AtomicBool,
    /// An answer is on its way into the socket.
    answering: AtomicBool,
    /// How often the socket had taken everything it was given.
    flushes: AtomicU64,
    /// A stream waits for the next flush.
    flush_awaited: AtomicBool,
    /// Answers on their way lend something: looked at before the lock is.
    lends: AtomicBool,
    lent: Mutex<Vec<Loan>>,
    /// Somebody waits for the end of the request that is under way: looked at before the lock is.
    keeps: AtomicBool,
    kept: Mutex<Option<Sender<()>>>,
    /// Another connection needs the place of this one.
    dismissed: AtomicBool,
    /// It took too long.
    cut_off: AtomicBool,
    dismissal: Notify,
}

impl Pulse {
    pub(crate) fn new(now: Instant, head_timeout: Duration, idle_timeout: Duration) -> Self {
        let pulse = Self {
            start: now,
            head_timeout,
            answer_timeout: idle_timeout,
            idle_timeout,
            phase: AtomicU8::new(IDLE),
            deadline: AtomicU64::new(NONE),
            heard: AtomicBool::new(false),
            answering: AtomicBool::new(false),
            flushes: AtomicU64::new(0),
            flush_awaited: AtomicBool::new(false),
            lends: AtomicBool::new(false),
            lent: Mutex::default(),
            keeps: AtomicBool::new(false),
            kept: Mutex::default(),
            dismissed: AtomicBool::new(false),
            cut_off: AtomicBool::new(false),
            dismissal: Notify::new(),
        };
        pulse.idle(now);
        pulse
    }

    /// A peer that takes nothing of an answer for this long is given up, without waiting for the time for idle ones.
    pub(crate) fn with_answer_timeout(mut self, answer_timeout: Duration) -> Self {
        self.answer_timeout = answer_timeout;
        self
    }

    /// Bytes came. The first ones after a pause begin a request, and its headers must come soon.
    pub(crate) fn on_bytes(&self) {
        if self.phase.load(Relaxed) == IDLE {
            self.phase.store(HEAD, Relaxed);
            self.heard.store(true, Relaxed);
            self.set_deadline(Instant::now(), self.head_timeout);
        }
    }

    /// Whether nothing has come since the connection was made.
    pub(crate) fn is_new(&self) -> bool {
        !self.heard.load(Relaxed)
    }

    /// Whether the next bytes begin a request.
    pub(crate) fn is_idle(&self) -> bool {
        self.phase.load(Relaxed) == IDLE
    }

    /// How long no request has been under way; `None` if one is, or if the connection is to end anyway.
    pub(crate) fn idle_for(&self, now: Instant) -> Option<Duration> {
        let left = self.deadline()?.saturating_duration_since(now);
        let has_nothing_to_do = self.is_idle() && !self.answering.load(Relaxed);
        (has_nothing_to_do && !self.is_dismissed()).then(|| self.idle_timeout.saturating_sub(left))
    }

    /// Asks the connection to end as soon as nothing is under way.
    pub(crate) fn dismiss(&self) {
        self.dismissed.store(true, Relaxed);
        self.dismissal.notify_one();
    }

    pub(crate) fn is_dismissed(&self) -> bool {
        self.dismissed.load(Relaxed)
    }

    /// Waits until the connection is asked to end.
    pub(crate) async fn dismissal(&self) {
        self.dismissal.notified().await;
    }

    /// A request is being answered: from here on its own limits hold.
    pub(crate) fn busy(&self) {
        self.phase.store(BUSY, Relaxed);
        self.deadline.store(NONE, Relaxed);
    }

    /// The request is answered; the next one may take its time.
    pub(crate) fn idle(&self, now: Instant) {
        // Ordered with the look of whoever begins to wait for it.
        self.phase.store(IDLE, SeqCst);
        self.set_deadline(now, self.idle_timeout);
        if self.keeps.load(SeqCst) {
            self.let_go();
        }
    }

    /// Keeps the sender until the request that is under way is answered, or drops it at once if none is. False then.
    pub(crate) fn keep_while_busy(&self, sender: Sender<()>) -> bool {
        *self.kept() = Some(sender);
        self.keeps.store(true, SeqCst);
        let is_busy = self.phase.load(SeqCst) == BUSY || self.answering.load(SeqCst);
        if !is_busy {
            self.let_go();
        }
        is_busy
    }

    fn let_go(&self) {
        self.keeps.store(false, Relaxed);
        drop(self.kept().take());
    }

    fn kept(&self) -> MutexGuard<'_, Option<Sender<()>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connection if the request that was under way with [`Pulse::keep_while_busy`] still is. False if not.
    pub(crate) fn cut_off(&self) -> bool {
        let is_late = self.kept().take().is_some();
        if is_late {
            self.cut_off.store(true, Relaxed);
            self.dismiss();
        }
        is_late
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        self.cut_off.load(Relaxed)
    }

    /// The answer is there, and its reader must take it. Then the next request may take its time.
    pub(crate) fn begin_answer(&self, now: Instant) {
        // In this order, so that it never looks idle in between.
        self.answering.store(true, SeqCst);
        self.phase.store(IDLE, SeqCst);
        self.set_deadline(now, self.answer_timeout);
    }

    /// When the connection is given up, if it is going to be.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.deadline.load(Relaxed) {
            NONE => None,
            millis => self.start.checked_add(Duration::from_millis(millis)),
        }
    }

    fn set_deadline(&self, now: Instant, timeout: Duration) {
        let millis = (now.saturating_duration_since(self.start) + timeout).as_millis();
        self.deadline.store(u64::try_from(millis).unwrap_or(NONE), Relaxed);
    }

    /// A stream has something to write: its reader must take it, and has as long for it as for a whole answer.
    pub(crate) fn begin_write(&self, now: Instant) {
        self.set_deadline(now, self.idle_timeout);
    }

    /// The socket took some of an answer or a stream: the reader is alive, however slow.
    pub(crate) fn on_write(&self) {
        match self.phase.load(Relaxed) {
            BUSY if self.deadline.load(Relaxed) != NONE => {
                self.set_deadline(Instant::now(), self.idle_timeout)
            }
            IDLE if self.answering.load(Relaxed) => self.set_deadline(Instant::now(), self.answer_timeout),
            _ => {}
        }
    }

    /// The socket has taken everything it was given. True if a stream wants to know.
    pub(crate) fn on_flush(&self) -> bool {
        match self.phase.load(Relaxed) {
            BUSY => self.deadline.store(NONE, Relaxed),
            IDLE if self.answering.swap(false, Relaxed) => self.idle(Instant::now()),
            _ => {}
        }
        self.flushes.fetch_add(1, Relaxed);
        if self.lends.swap(false, Relaxed) {
            let arrived = self.lent.lock().map(|mut lent| std::mem::take(&mut *lent)).unwrap_or_default();
            arrived.into_iter().for_each(Loan::arrived);
        }
        self.flush_awaited.swap(false, Relaxed)
    }

    /// The answer that is about to be written lends messages. They are its reader's at the next flush; if the connection
    /// ends before that, they go back.
    pub(crate) fn lend(&self, loan: Loan) {
        if loan.is_empty() {
            return;
        }
        if let Ok(mut lent) = self.lent.lock() {
            lent.push(loan);
            self.lends.store(true, Relaxed);
        }
    }

    /// A mark to compare with a later one: they differ if the socket has taken everything in between.
    pub(crate) fn flush_mark(&self) -> u64 {
        self.flushes.load(Relaxed)
    }

    /// Asks to be woken at the next flush.
    pub(crate) fn await_flush(&self) {
        self.flush_awaited.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_follow_the_request() {
        let now = Instant::now();
        let pulse = Pulse::new(now, Duration::from_secs(10), Duration::from_secs(120));
        assert_eq!(pulse.deadline(), Some(now + Duration::from_secs(120)));
        pulse.on_bytes();
        assert!(pulse.deadline().unwrap() < now + Duration::from_secs(60));
        let head = pulse.deadline();
        pulse.on_bytes();
        assert_eq!(pulse.deadline(), head, "more bytes do not buy more time");
        pulse.busy();
        assert_eq!(pulse.deadline(), None);
        pulse.on_bytes();
        assert_eq!(pulse.deadline(), None, "a request that is being answered has its own limits");
    }

    #[test]
    fn a_stream_has_a_deadline_while_its_reader_owes_it_something() {
        let pulse = Pulse::new(Instant::now(), Duration::ZERO, Duration::from_secs(120));
        pulse.busy();
        pulse.on_write();
        assert_eq!(pulse.deadline(), None, "nothing is under way");
        let begun = Instant::now();
        pulse.begin_write(begun);
        let first = pulse.deadline().unwrap();
        std::thread::sleep(Duration::from_millis(2));
        pulse.on_write();
        assert!(pulse.deadline().unwrap() > first, "a slow reader gets more time");
        pulse.on_flush();
        assert_eq!(pulse.deadline(), None);
        pulse.idle(begun);
        pulse.on_flush();
        assert!(pulse.deadline().is_some(), "a connection without a request keeps its own");
    }

    #[test]
    fn an_answer_has_a_deadline_of_its_own_until_it_is_taken() {
        let (begun, idle) = (Instant::now(), Duration::from_secs(120));
        let pulse = Pulse::new(begun, Duration::ZERO, idle).with_answer_timeout(Duration::from_secs(30));
        pulse.busy();
        pulse.begin_answer(begun);
        assert_eq!(pulse.deadline(), Some(begun + Duration::from_secs(30)));
        assert_eq!(pulse.idle_for(begun), None, "it is not idle yet");
        std::thread::sleep(Duration::from_millis(2));
        pulse.on_write();
        let later = pulse.deadline().unwrap();
        assert!(later > begun + Duration::from_secs(30), "a slow reader gets more time");
        pulse.on_flush();
        assert!(pulse.deadline().unwrap() >= begun + idle);
        assert!(pulse.idle_for(Instant::now()).is_some());
        pulse.on_write();
        pulse.on_flush();
        assert!(pulse.deadline().unwrap() >= begun + idle, "nothing is under way any more");
    }

    #[test]
    fn the_end_of_a_request_is_told_to_who_waits_for_it() {
        use tokio::sync::mpsc::{channel, error::TryRecvError};
        let now = Instant::now();
        let pulse = Pulse::new(now, Duration::ZERO, Duration::from_secs(120));
        let (sender, mut ended) = channel(1);
        assert!(!pulse.keep_while_busy(sender.clone()), "nothing is under way");
        pulse.busy();
        assert!(pulse.keep_while_busy(sender), "a request is");
        pulse.begin_answer(now);
        assert_eq!(ended.try_recv(), Err(TryRecvError::Empty), "its answer is on its way");
        pulse.on_flush();
        assert_eq!(ended.try_recv(), Err(TryRecvError::Disconnected));
        pulse.busy();
        assert!(!pulse.cut_off(), "the next request is not meant");
        let (sender, _ended) = channel(1);
        assert!(pulse.keep_while_busy(sender) && pulse.cut_off());
        assert!(pulse.is_cut_off() && pulse.is_dismissed());
    }

    #[test]
    fn marks_tell_flushes() {
        let pulse = Pulse::new(Instant::now(), Duration::ZERO, Duration::ZERO);
        let mark = pulse.flush_mark();
        assert!(!pulse.on_flush());
        assert_ne!(pulse.flush_mark(), mark);
        pulse.await_flush();
        assert!(pulse.on_flush());
        assert!(!pulse.on_flush());
    }
}
