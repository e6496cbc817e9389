//! Whose turn it is: no key's clients crowd out those of another.
//!
//! The shard takes requests in the order in which they come, so that whoever sends most would have most of the queue, and
//! everybody else would wait behind it. Requests therefore take turns before they get there. While the clients of one key
//! alone ask for something, they are not held up. As soon as those of another key do, too, each key has an equal share of
//! the work that may be under way, and what exceeds it waits in a line of its own: a key that keeps within its share
//! never waits for another key's requests beyond their shares.
//!
//! Keys that hang on one another count as one, or whoever may make keys would have as many shares as they like.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use driftq_engine::core::KeyId;
use tokio::sync::oneshot;

/// Work that may be under way for all keys together while more than one has some: about as much as the shard decides in
/// the time of one write to the disk.
const WORK_MAX: u64 = 32 << 10;

/// What a request costs beside the bytes of its body.
const REQUEST_COST: u64 = 2 << 10;

/// A key counts as one that asks for something for this long after its last request.
const ACTIVE: Duration = Duration::from_secs(1);

/// How often lanes that are not used any more are looked for.
const SWEEP: Duration = Duration::from_millis(250);

/// For how long a call that waits for messages or for an effect counts as work.
pub(crate) const WAIT_COUNTS: Duration = Duration::from_millis(5);

/// Whose requests wait in one line: the head of a line of keys, or none for the root key; and whether they are such that
/// wait, which must not keep the same key's other calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LaneName {
    pub(crate) head: Option<KeyId>,
    pub(crate) waits: bool,
}

/// All requests that are under way, and those that wait to be.
#[derive(Debug)]
pub(crate) struct Turns {
    lanes: Mutex<Lanes<oneshot::Sender<Turn>>>,
}

impl Turns {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { lanes: Mutex::new(Lanes::new(Instant::now())) })
    }

    /// Waits for the turn of a request with a body of so many bytes. The turn ends when it is dropped.
    pub(crate) async fn take(self: &Arc<Self>, name: LaneName, body_bytes: usize) -> Turn {
        let cost = REQUEST_COST.saturating_add(body_bytes as u64);
        let waiting = {
            let mut lanes = self.lanes();
            if lanes.enter(name, cost, Instant::now()) {
                None
            } else {
                let (sender, receiver) = oneshot::channel();
                lanes.wait(name, cost, sender);
                Some(receiver)
            }
        };
        match waiting {
            None => self.turn(name, cost),
            // The sender is in the lanes until the turn comes, and they are not dropped before this.
            Some(receiver) => receiver.await.unwrap_or_else(|_| self.turn(name, 0)),
        }
    }

    fn turn(self: &Arc<Self>, name: LaneName, cost: u64) -> Turn {
        Turn { turns: Arc::clone(self), name, cost }
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes<oneshot::Sender<Turn>>> {
        // The table is whole at every point, so a panic elsewhere says nothing about it.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request is under way for as long as this lives.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    name: LaneName,
    cost: u64,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = self.turns.lanes().leave(self.name, self.cost, oneshot::Sender::is_closed);
        for (cost, sender) in next {
            // If its client has gone meanwhile, the turn comes back here and is dropped, which ends it.
            drop(sender.send(self.turns.turn(self.name, cost)));
        }
    }
}

/// The lanes, without the waiting: `W` stands for a request that waits.
#[derive(Debug)]
struct Lanes<W> {
    lanes: HashMap<LaneName, Lane<W>>,
    swept: Instant,
}

#[derive(Debug)]
struct Lane<W> {
    under_way: u64,
    waiting: VecDeque<(u64, W)>,
    seen: Instant,
}

impl<W> Lane<W> {
    /// Whether so much more may be under way. One request always may, however large.
    const fn takes(&self, cost: u64, share: u64) -> bool {
        self.under_way == 0 || self.under_way.saturating_add(cost) <= share
    }
}

impl<W> Lanes<W> {
    fn new(now: Instant) -> Self {
        Self { lanes: HashMap::new(), swept: now }
    }

    /// What a lane may have under way.
    fn share(&self) -> u64 {
        match self.lanes.len() {
            0 | 1 => u64::MAX,
            lanes => WORK_MAX / lanes as u64,
        }
    }

    /// True if the request may begin, and then it has; else it is to wait.
    fn enter(&mut self, name: LaneName, cost: u64, now: Instant) -> bool {
        if now.saturating_duration_since(self.swept) >= SWEEP {
            self.swept = now;
            self.lanes.retain(|_, lane| {
                lane.under_way > 0
                    || !lane.waiting.is_empty()
                    || now.saturating_duration_since(lane.seen) < ACTIVE
            });
        }
        // A lane that is new has nothing under way and begins whatever its share is: the share as it was will do.
        let share = self.share();
        let new = || Lane { under_way: 0, waiting: VecDeque::new(), seen: now };
        let lane = self.lanes.entry(name).or_insert_with(new);
        lane.seen = now;
        let begins = lane.waiting.is_empty() && lane.takes(cost, share);
        if begins {
            lane.under_way = lane.under_way.saturating_add(cost);
        }
        begins
    }

    /// A request that did not get in waits behind the others of its lane.
    fn wait(&mut self, name: LaneName, cost: u64, waiter: W) {
        if let Some(lane) = self.lanes.get_mut(&name) {
            lane.waiting.push_back((cost, waiter));
        }
    }

    /// A request is done with. Those that begin now are given back, with their costs; those that are gone are left out.
    fn leave(&mut self, name: LaneName, cost: u64, is_gone: impl Fn(&W) -> bool) -> Vec<(u64, W)> {
        let share = self.share();
        let Some(lane) = self.lanes.get_mut(&name) else { return Vec::new() };
        lane.under_way = lane.under_way.saturating_sub(cost);
        let mut next = Vec::new();
        while let Some((cost, waiter)) = lane.waiting.pop_front() {
            if is_gone(&waiter) {
                continue;
            }
            if !lane.takes(cost, share) {
                lane.waiting.push_front((cost, waiter));
                break;
            }
            lane.under_way = lane.under_way.saturating_add(cost);
            next.push((cost, waiter));
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: LaneName = LaneName { head: None, waits: false };
    const NOISY: LaneName = LaneName { head: Some(KeyId(1)), waits: false };
    const QUIET: LaneName = LaneName { head: Some(KeyId(2)), waits: false };

    /// Lets a request in or has it wait, as the number says.
    fn ask(lanes: &mut Lanes<u32>, name: LaneName, number: u32, now: Instant) -> bool {
        let begins = lanes.enter(name, REQUEST_COST, now);
        if !begins {
            lanes.wait(name, REQUEST_COST, number);
        }
        begins
    }

    fn begun(next: Vec<(u64, u32)>) -> Vec<u32> {
        next.into_iter().map(|(_, number)| number).collect()
    }

    #[test]
    fn a_key_that_is_alone_is_never_held_up() {
        let now = Instant::now();
        let mut lanes = Lanes::new(now);
        assert!((0..1000).all(|number| ask(&mut lanes, NOISY, number, now)));
    }

    #[test]
    fn a_second_key_begins_at_once_and_the_first_keeps_to_its_share() {
        let now = Instant::now();
        let mut lanes = Lanes::new(now);
        let share = WORK_MAX / 2 / REQUEST_COST;
        for number in 0..100 {
            assert!(ask(&mut lanes, NOISY, number, now));
        }
        assert!(ask(&mut lanes, QUIET, 0, now), "whatever the others have under way");
        for number in 100..200 {
            assert!(!ask(&mut lanes, NOISY, number, now));
        }
        // What was under way runs out until the share is reached; then one goes in for each that leaves.
        for left in (share..100).rev() {
            assert!(lanes.leave(NOISY, REQUEST_COST, |_| false).is_empty(), "{left} are under way");
        }
        for number in 100..150 {
            assert_eq!(begun(lanes.leave(NOISY, REQUEST_COST, |_| false)), [number], "in their order");
        }
        assert!(lanes.leave(QUIET, REQUEST_COST, |_| false).is_empty());
        assert!(ask(&mut lanes, QUIET, 1, now));
    }

    #[test]
    fn one_request_goes_in_however_large_it_is() {
        let now = Instant::now();
        let mut lanes: Lanes<u32> = Lanes::new(now);
        assert!(lanes.enter(QUIET, REQUEST_COST, now));
        assert!(lanes.enter(NOISY, u64::MAX, now));
        assert!(!lanes.enter(NOISY, REQUEST_COST, now));
    }

    #[test]
    fn a_key_that_asks_for_nothing_any_more_takes_no_share() {
        let now = Instant::now();
        let mut lanes = Lanes::new(now);
        assert!(ask(&mut lanes, QUIET, 0, now));
        lanes.leave(QUIET, REQUEST_COST, |_| false);
        let begin =
            |lanes: &mut Lanes<u32>, now| (0..100).filter(|number| ask(lanes, NOISY, *number, now)).count();
        assert_eq!(begin(&mut lanes, now) as u64, WORK_MAX / 2 / REQUEST_COST);
        let later = now + ACTIVE + SWEEP;
        assert!(!ask(&mut lanes, NOISY, 100, later), "others of the lane wait before it");
        let next = lanes.leave(NOISY, REQUEST_COST, |_| false);
        assert_eq!(next.len(), 93, "all that waited");
        assert_eq!(begin(&mut lanes, later), 100);
    }

    #[test]
    fn shares_are_equal_however_many_there_are_and_whoever_is_gone_is_left_out() {
        let now = Instant::now();
        let mut lanes = Lanes::new(now);
        for name in [ROOT, QUIET, LaneName { waits: true, ..NOISY }] {
            assert!(ask(&mut lanes, name, 0, now));
        }
        let begun_at_once = (0..100).filter(|number| ask(&mut lanes, NOISY, *number, now)).count();
        assert_eq!(begun_at_once as u64, WORK_MAX / 4 / REQUEST_COST);
        assert_eq!(begun(lanes.leave(NOISY, REQUEST_COST, |number| *number < 50)), [50]);
    }

    #[tokio::test]
    async fn a_turn_that_comes_too_late_goes_to_the_next() {
        let turns = Turns::new();
        let _quiet = turns.take(QUIET, 0).await;
        let mut held = Vec::new();
        for _ in 0..WORK_MAX / 2 / REQUEST_COST {
            held.push(turns.take(NOISY, 0).await);
        }
        let mut waits: Vec<_> = (0..3).map(|_| Box::pin(turns.take(NOISY, 0))).collect();
        for wait in &mut waits {
            assert!(polled(wait.as_mut()).is_none(), "the share is under way");
        }
        // The first gives up while it waits, the second after its turn has come.
        drop(waits.remove(0));
        held.pop();
        drop(waits.remove(0));
        let mut last = waits.remove(0);
        assert!(polled(last.as_mut()).is_some());
        drop((held, last));
        assert_eq!(turns.lanes().lanes[&NOISY].under_way, 0, "every turn was given back");
    }

    /// What a future has to say now.
    fn polled<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match future.poll(&mut context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }
}
