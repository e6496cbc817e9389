//! Judges a history from the outside, knowing nothing of how the broker works.
//!
//! The rules, and what they leave out on purpose:
//! - **Nothing acknowledged is lost.** After the drain, every confirmed message was delivered to every group, or lies
//!   in the dead-letter topic in its name (its deliveries may all have died on the way to us). A message whose
//!   produce was never answered may exist or not.
//! - **Stored once.** A value lies at one address only: producers repeat a produce only under an idempotency key.
//! - **Order of producing.** One producer sends one message after the other: confirmed earlier, lower offset within
//!   a partition.
//! - **Order of delivery.** On one stream, messages of one partition that come for the first time in this life come
//!   in offset order. Messages that failed before are left out, because they wait for their backoff: those that were
//!   nacked, and whole groups whose leases lapse, because a lapse is not seen from here.
//! - **Acked is over.** Once an ack is confirmed, no later life delivers the message to that group; neither does the
//!   same life, in groups whose leases are too long to lapse. A line that lay unread until its lease was over, because
//!   the machine stood still, is no delivery after the ack: it has a lower attempt than the one that was acked; or it
//!   comes so soon after the first one was read that this one lay unread for most of its lease.
//! - **Attempts.** Within one life no attempt of a message is delivered twice, in groups without lapses and with
//!   them. After a confirmed nack of attempt n, later lives start above n. (A delivery that nothing durable followed
//!   may be forgotten by a crash, so attempts as such may repeat.)
//! - **Last error.** After a confirmed nack, later lives show its reason. Two readers may write their nacks down in
//!   another order than the server took them; the higher attempt is the later one.
//! - **Dead letters.** One per message and group; none before the attempts are used up. (A crash that takes the last
//!   attempt with it counts like a lapse, so a nack is not needed.)
//! - **Topics.** What was confirmed is listed by every later life, with its partitions.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::time::Duration;

use super::history::{Address, Event, Work};

/// What the workload promised about itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expectation {
    /// Groups that read everything of their topic to the end.
    pub(crate) groups: Vec<(String, String)>,
    /// Groups whose leases are short enough to lapse within a life.
    pub(crate) lapsing_groups: Vec<String>,
    /// How long the leases of the others last.
    pub(crate) lease: Duration,
    /// Deliveries before a message of this workload may become a dead letter.
    pub(crate) attempts_max: u32,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    Lost { group: String, value: String },
    StoredTwice { value: String, first: Address, second: Address },
    ProducedOutOfOrder { producer: u32, earlier: Address, later: Address },
    DeliveredOutOfOrder { stream: u64, earlier: u64, later: Work },
    AckedComesBack { work: Work, life: u32, acked_in: u32 },
    AttemptTwice { work: Work, life: u32, attempt: u32 },
    AttemptTooLow { work: Work, attempt: u32, nacked: u32 },
    LastErrorLost { work: Work, expected: String, found: String },
    BuriedTwice { work: Work },
    BuriedTooEarly { work: Work, attempts: u32 },
    TopicChanged { topic: String, expected: u32, found: Option<u32> },
    NeverDrained,
}

impl Violation {
    /// The message of a group that it is about, if it is about one.
    pub(crate) const fn work(&self) -> Option<&Work> {
        match self {
            Self::AckedComesBack { work, .. }
            | Self::AttemptTwice { work, .. }
            | Self::AttemptTooLow { work, .. }
            | Self::LastErrorLost { work, .. }
            | Self::BuriedTwice { work }
            | Self::BuriedTooEarly { work, .. } => Some(work),
            Self::DeliveredOutOfOrder { later, .. } => Some(later),
            Self::Lost { .. }
            | Self::StoredTwice { .. }
            | Self::ProducedOutOfOrder { .. }
            | Self::TopicChanged { .. }
            | Self::NeverDrained => None,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// The error of a message whose lease has lapsed.
const LAPSED: &str = "ack_timeout";

/// All violations of a history; empty if every promise was kept. The times say when each event was noticed.
pub(crate) fn check(events: &[Event], times: &[Duration], expectation: &Expectation) -> Vec<Violation> {
    let mut found = Vec::new();
    check_topics(events, &mut found);
    let addresses = check_storage(events, &mut found);
    check_producers(events, &addresses, &mut found);
    check_loss(events, expectation, &mut found);
    check_order(events, expectation, &mut found);
    check_acks(events, times, expectation, &mut found);
    check_attempts(events, &mut found);
    check_errors(events, expectation, &mut found);
    check_letters(events, expectation.attempts_max, &mut found);
    found
}

fn check_topics(events: &[Event], found: &mut Vec<Violation>) {
    let mut confirmed: BTreeMap<&str, u32> = BTreeMap::new();
    for event in events {
        match event {
            Event::TopicConfirmed { topic, partitions } => {
                let expected = *confirmed.entry(topic).or_insert(*partitions);
                if expected != *partitions {
                    found.push(Violation::TopicChanged {
                        topic: topic.clone(),
                        expected,
                        found: Some(*partitions),
                    });
                }
            }
            Event::TopicsListed { topics } => {
                for (topic, expected) in &confirmed {
                    let listed =
                        topics.iter().find(|(name, _)| name == topic).map(|(_, partitions)| *partitions);
                    if listed != Some(*expected) {
                        let topic = (*topic).to_owned();
                        found.push(Violation::TopicChanged { topic, expected: *expected, found: listed });
                    }
                }
            }
            _ => {}
        }
    }
}

/// Where each value lies.
fn check_storage<'a>(events: &'a [Event], found: &mut Vec<Violation>) -> HashMap<&'a str, &'a Address> {
    let mut addresses: HashMap<&str, &Address> = HashMap::new();
    let mut told = HashSet::new();
    for event in events {
        let Event::Delivered { work, value, .. } = event else { continue };
        let first = *addresses.entry(value).or_insert(&work.address);
        if first != &work.address && told.insert(value) {
            let (value, first, second) = (value.clone(), first.clone(), work.address.clone());
            found.push(Violation::StoredTwice { value, first, second });
        }
    }
    addresses
}

fn check_producers(events: &[Event], addresses: &HashMap<&str, &Address>, found: &mut Vec<Violation>) {
    let mut last: HashMap<(u32, &str, u32), &Address> = HashMap::new();
    for event in events {
        let Event::Produced { producer, value, confirmed: true, .. } = event else { continue };
        let Some(address) = addresses.get(value.as_str()) else { continue };
        let lane = (*producer, address.topic.as_str(), address.partition);
        if let Some(earlier) = last.insert(lane, address)
            && earlier.offset >= address.offset
        {
            let (earlier, later) = (earlier.clone(), (*address).clone());
            found.push(Violation::ProducedOutOfOrder { producer: *producer, earlier, later });
        }
    }
}

fn check_loss(events: &[Event], expectation: &Expectation, found: &mut Vec<Violation>) {
    if !events.iter().any(|event| matches!(event, Event::Drained)) {
        found.push(Violation::NeverDrained);
    }
    let mut delivered: HashSet<(&str, &str, &str)> = HashSet::new();
    for event in events {
        match event {
            Event::Delivered { work, value, .. } | Event::Buried { work, value, .. } => {
                delivered.insert((&work.group, &work.address.topic, value));
            }
            _ => {}
        }
    }
    for event in events {
        let Event::Produced { topic, value, confirmed: true, .. } = event else { continue };
        for (_, group) in expectation.groups.iter().filter(|(of, _)| of == topic) {
            if !delivered.contains(&(group.as_str(), topic.as_str(), value.as_str())) {
                found.push(Violation::Lost { group: group.clone(), value: value.clone() });
            }
        }
    }
}

fn check_order(events: &[Event], expectation: &Expectation, found: &mut Vec<Violation>) {
    let mut failed: HashSet<&Work> = HashSet::new();
    let mut seen: HashSet<(u32, &Work)> = HashSet::new();
    let mut last: HashMap<(u64, &str, u32), &Address> = HashMap::new();
    for event in events {
        match event {
            Event::Nacked { work, .. } => {
                failed.insert(work);
            }
            Event::Delivered { life, stream, work, attempt, .. } => {
                let lapsing = expectation.lapsing_groups.contains(&work.group);
                // Leases outlive the broker and lapse in a later life: what they held is a retry then.
                if lapsing || *attempt > 1 || failed.contains(work) || !seen.insert((*life, work)) {
                    continue;
                }
                let lane = (*stream, work.address.topic.as_str(), work.address.partition);
                if let Some(earlier) = last.insert(lane, &work.address)
                    && earlier.offset >= work.address.offset
                {
                    let (earlier, later) = (earlier.offset, work.clone());
                    found.push(Violation::DeliveredOutOfOrder { stream: *stream, earlier, later });
                }
            }
            _ => {}
        }
    }
}

fn check_acks(events: &[Event], times: &[Duration], expectation: &Expectation, found: &mut Vec<Violation>) {
    let mut acked: HashMap<&Work, (u32, u32)> = HashMap::new();
    let mut first_read: HashMap<(u32, &Work), Duration> = HashMap::new();
    for (event, now) in events.iter().zip(times) {
        match event {
            Event::Acked { life, work, attempt, confirmed: true } => {
                acked.entry(work).or_insert((*life, *attempt));
            }
            Event::Delivered { life, work, attempt, last_error, .. } => {
                let first = *first_read.entry((*life, work)).or_insert(*now);
                let Some((ended, acked_attempt)) = acked.get(work) else { continue };
                let lay_unread = last_error == LAPSED && *now - first < expectation.lease / 2;
                let was_late = attempt < acked_attempt || lay_unread;
                let lapsing = was_late || expectation.lapsing_groups.contains(&work.group);
                // A line of an older life may lie unread in a socket while the next life delivers the message again,
                // to another reader, and has it acked: then it is read late, and was sent before.
                if life > ended || (life == ended && !lapsing) {
                    let (work, life, acked_in) = (work.clone(), *life, *ended);
                    found.push(Violation::AckedComesBack { work, life, acked_in });
                }
            }
            _ => {}
        }
    }
}

fn check_attempts(events: &[Event], found: &mut Vec<Violation>) {
    let mut seen: HashSet<(u32, &Work, u32)> = HashSet::new();
    let mut nacked: HashMap<&Work, (u32, u32)> = HashMap::new();
    for event in events {
        match event {
            Event::Nacked { life, work, attempt, confirmed: true, .. } => {
                let entry = nacked.entry(work).or_insert((*life, *attempt));
                if entry.1 < *attempt {
                    *entry = (*life, *attempt);
                }
            }
            Event::Delivered { life, work, attempt, .. } => {
                if !seen.insert((*life, work, *attempt)) {
                    found.push(Violation::AttemptTwice {
                        work: work.clone(),
                        life: *life,
                        attempt: *attempt,
                    });
                }
                if let Some((nacked_in, nacked)) = nacked.get(work)
                    && life > nacked_in
                    && attempt <= nacked
                {
                    let (attempt, nacked) = (*attempt, *nacked);
                    found.push(Violation::AttemptTooLow { work: work.clone(), attempt, nacked });
                }
            }
            _ => {}
        }
    }
}

fn check_errors(events: &[Event], expectation: &Expectation, found: &mut Vec<Violation>) {
    // None: something unanswered may have changed it since.
    let mut errors: HashMap<&Work, ((u32, u32), Option<&str>)> = HashMap::new();
    for event in events {
        match event {
            Event::Nacked { life, work, attempt, reason, confirmed } => {
                let (at, reason) = ((*life, *attempt), confirmed.then_some(reason.as_str()));
                let latest = errors.entry(work).or_insert((at, reason));
                if at >= latest.0 {
                    *latest = (at, reason);
                }
            }
            Event::Delivered { life, work, last_error, .. } => {
                let Some(((nacked_in, _), Some(expected))) = errors.get(work) else { continue };
                let lapsing = expectation.lapsing_groups.contains(&work.group);
                if life > nacked_in && !lapsing && last_error != expected {
                    let (expected, last) = ((*expected).to_owned(), last_error.clone());
                    found.push(Violation::LastErrorLost { work: work.clone(), expected, found: last });
                }
            }
            _ => {}
        }
    }
}

fn check_letters(events: &[Event], attempts_max: u32, found: &mut Vec<Violation>) {
    let mut letters: BTreeMap<&Work, BTreeSet<&Address>> = BTreeMap::new();
    for event in events {
        let Event::Buried { letter, work, attempts, .. } = event else { continue };
        if *attempts < attempts_max {
            found.push(Violation::BuriedTooEarly { work: work.clone(), attempts: *attempts });
        }
        letters.entry(work).or_default().insert(letter);
    }
    let twice = letters.into_iter().filter(|(_, copies)| copies.len() > 1);
    found.extend(twice.map(|(work, _)| Violation::BuriedTwice { work: work.clone() }));
}
