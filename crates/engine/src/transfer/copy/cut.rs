//! How far each of several logs may be copied.
//!
//! A shard that is told that its parcel has arrived gives the parcel up, and a shard that is told that a parcel was given
//! up forgets where its message lies. So a copy in which a parcel has arrived must also have it sent, or the commit that
//! sent it is done again and sends another; a copy in which a parcel was given up must also have it arrived, or the message
//! is lost; and a copy in which the place of a message was forgotten must also have its parcel given up, or the sender
//! asks for a place that nobody knows.
//!
//! Whatever a shard says of another one was durable there before. So the logs as they were at any one moment agree, and
//! of all ends up to which they agree there are highest ones: those to which the ends are lowered here, and never below
//! what was there when the copy began. What was sent, arrived or was forgotten before the part that was looked at is in the copy,
//! whatever is lowered.

use std::collections::HashMap;

use driftq_core::{Fact, Malformed, OutboxFact, Position, ShardId};

use crate::log::Lsn;

/// What a log says of other shards, from the place on from which it may be shortened, and up to one that it had reached
/// after the ends of all shards were known. Each with the place where its batch begins.
#[derive(Default)]
pub(super) struct Crossings {
    /// Parcels that this shard has sent, by their numbers.
    sent: HashMap<u64, Lsn>,
    /// Those of them that have arrived.
    posted: HashMap<u64, Lsn>,
    /// Parcels of other shards that have arrived here: from whom, and the number there.
    received: Vec<(Lsn, ShardId, u64)>,
    /// Places that were forgotten here: by whom their parcels were sent, and below which number.
    settled: Vec<(Lsn, ShardId, u64)>,
}

impl Crossings {
    /// Notes what is in the next batch.
    pub(super) fn note(&mut self, frame: Lsn, body: &[u8]) -> Result<(), Malformed> {
        // Where in the batch something is said makes no difference.
        Fact::each(Position(frame.0), body, |_, fact| {
            match fact {
                Fact::Outbox(OutboxFact::Sent { number, .. }) => {
                    self.sent.insert(number, frame);
                }
                Fact::Outbox(OutboxFact::Posted { number, .. }) => {
                    self.posted.insert(number, frame);
                }
                Fact::Outbox(OutboxFact::Received { from, number, .. }) => {
                    self.received.push((frame, from, number));
                }
                Fact::Outbox(OutboxFact::Settled { from, below }) => self.settled.push((frame, from, below)),
                _ => {}
            }
            Ok(())
        })
    }

    /// The parcels of other shards that have arrived here, but not below `end`.
    fn missing(&self, end: Lsn) -> impl Iterator<Item = (ShardId, u64)> {
        let beyond = self.received.iter().rev().take_while(move |(frame, ..)| *frame >= end);
        beyond.map(|(_, from, number)| (*from, *number))
    }

    /// Whether this shard has sent a parcel, but not below `end`.
    fn sends_later(&self, number: u64, end: Lsn) -> bool {
        self.sent.get(&number).is_some_and(|frame| *frame >= end)
    }

    /// The lowest parcel of this shard that was given up, but not below `end`.
    fn kept(&self, end: Lsn) -> Option<u64> {
        self.posted.iter().filter(|(_, frame)| **frame >= end).map(|(number, _)| *number).min()
    }
}

/// Lowers the ends of all shards as little as makes them agree.
pub(super) fn shorten(ends: &mut [Lsn], shards: &[Crossings]) {
    loop {
        let before = ends.to_vec();
        for (here, crossings) in shards.iter().enumerate() {
            let orphan = crossings.received.iter().find(|(_, from, number)| {
                let from = usize::from(from.0);
                shards.get(from).is_some_and(|sender| sender.sends_later(*number, ends[from]))
            });
            if let Some((frame, ..)) = orphan {
                ends[here] = ends[here].min(*frame);
            }
            for (from, number) in crossings.missing(ends[here]) {
                let from = usize::from(from.0);
                if let Some(frame) = shards.get(from).and_then(|sender| sender.posted.get(&number)) {
                    ends[from] = ends[from].min(*frame);
                }
            }
            let Some(kept) = crossings.kept(ends[here]) else { continue };
            let forgets =
                |(_, from, below): &&(Lsn, ShardId, u64)| usize::from(from.0) == here && *below > kept;
            for (receiver, end) in shards.iter().zip(ends.iter_mut()) {
                if let Some((frame, ..)) = receiver.settled.iter().find(forgets) {
                    *end = (*end).min(*frame);
                }
            }
        }
        // An end that was lowered may take from another shard what it relied on.
        if ends == before {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use driftq_core::{MessageFact, Stored};

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Said {
        /// Something that is no other shard's business.
        Else,
        Sent(u64),
        Posted(u64),
        Received(u8, u64),
        Settled(u8, u64),
    }
    use Said::{Else, Posted, Received, Sent, Settled};

    /// The batches of a log.
    type Batches = Vec<Vec<Said>>;
    /// What is the case, the logs, how many batches of each were read, and how many are left.
    type Case<'a> = (&'a str, Vec<Batches>, &'a [usize], &'a [usize]);

    fn body(said: &[Said]) -> Vec<u8> {
        let stored = Stored { topic: None, partition: 0, offset: 0, duplicate: false };
        let mut body = Vec::new();
        for said in said {
            let fact = match *said {
                Else => Fact::Keyed { secret: [1; 32] },
                Sent(number) => {
                    let message = MessageFact::default();
                    Fact::Outbox(OutboxFact::Sent { number, native: false, reserved: false, message })
                }
                Posted(number) => Fact::Outbox(OutboxFact::Posted { number, stored }),
                Received(from, number) => {
                    Fact::Outbox(OutboxFact::Received { from: ShardId(from), number, stored })
                }
                Settled(from, below) => Fact::Outbox(OutboxFact::Settled { from: ShardId(from), below }),
            };
            fact.encode(&mut body);
        }
        body
    }

    /// Where the nth batch begins: three of them fill a segment.
    fn frame(n: usize) -> Lsn {
        let n = u32::try_from(n).unwrap();
        Lsn::new(7 + n / 3, 64 + n % 3 * 48)
    }

    fn crossings(log: &[Vec<Said>]) -> Crossings {
        let mut crossings = Crossings::default();
        for (n, said) in log.iter().enumerate() {
            crossings.note(frame(n), &body(said)).unwrap();
        }
        crossings
    }

    /// How many batches of each log are left of so many.
    fn shortened(logs: &[Batches], ends: &[usize]) -> Vec<usize> {
        let crossings: Vec<Crossings> = logs.iter().map(|log| crossings(log)).collect();
        let mut cuts: Vec<Lsn> = ends.iter().map(|end| frame(*end)).collect();
        shorten(&mut cuts, &crossings);
        cuts.iter().map(|cut| (0..=10).find(|n| frame(*n) == *cut).unwrap()).collect()
    }

    #[test]
    fn an_end_is_lowered_to_where_the_logs_agree() {
        let cases: [Case<'_>; 9] = [
            ("one shard", vec![vec![vec![Else], vec![Else]]], &[2], &[2]),
            ("nothing goes across", vec![vec![vec![Else]; 3], vec![vec![Else]; 2]], &[2, 1], &[2, 1]),
            (
                "what arrived is there",
                vec![vec![vec![Else], vec![Posted(5)]], vec![vec![Received(0, 5)]]],
                &[2, 1],
                &[2, 1],
            ),
            (
                "what arrived came before the part that was looked at",
                vec![vec![vec![Else], vec![Posted(5)]], vec![vec![Else]]],
                &[2, 1],
                &[2, 1],
            ),
            (
                "a parcel arrived beyond the end, and was given up below",
                vec![
                    vec![vec![Else], vec![Else, Posted(4), Posted(5)], vec![Else], vec![Posted(6)]],
                    vec![vec![Received(0, 4)], vec![Else], vec![Received(0, 5), Received(0, 6)]],
                ],
                &[4, 2],
                &[1, 2],
            ),
            (
                "a parcel arrived beyond the end, and was given up beyond",
                vec![vec![vec![Else], vec![Posted(5)]], vec![vec![Else], vec![Received(0, 5)]]],
                &[1, 1],
                &[1, 1],
            ),
            (
                "a parcel arrived below, and was sent beyond the end",
                vec![
                    vec![vec![Else], vec![Sent(5)], vec![Posted(5)]],
                    vec![vec![Else], vec![Received(0, 5)], vec![Else]],
                ],
                &[1, 3],
                &[1, 1],
            ),
            (
                "a parcel arrived and was sent below",
                vec![vec![vec![Sent(5)], vec![Posted(5)]], vec![vec![Else], vec![Received(0, 5)]]],
                &[1, 2],
                &[1, 2],
            ),
            (
                "numbers of different senders are different parcels",
                vec![
                    vec![vec![Posted(5)]],
                    vec![vec![Received(0, 5)], vec![Received(2, 5)]],
                    vec![vec![Else], vec![Posted(5)]],
                ],
                &[1, 1, 2],
                &[1, 1, 1],
            ),
        ];
        for (what, logs, ends, left) in cases {
            assert_eq!(shortened(&logs, ends), left, "{what}");
        }
    }

    #[test]
    fn an_end_that_is_lowered_lowers_others() {
        let cases: [Case<'_>; 3] = [
            (
                "one after the other",
                vec![
                    vec![vec![Else], vec![Posted(1)], vec![Else]],
                    vec![vec![Else], vec![Posted(2)], vec![Received(0, 1)]],
                    vec![vec![Else], vec![Received(1, 2)]],
                ],
                &[3, 3, 1],
                &[1, 1, 1],
            ),
            (
                "there and back again",
                vec![
                    vec![vec![Else], vec![Posted(1)], vec![Posted(2)], vec![Received(1, 1)]],
                    vec![vec![Else], vec![Posted(1), Received(0, 1)], vec![Else], vec![Received(0, 2)]],
                ],
                &[4, 3],
                &[1, 1],
            ),
            (
                "a place was forgotten although its parcel is kept",
                vec![
                    vec![vec![Posted(1)], vec![Posted(3)], vec![Posted(2)]],
                    vec![
                        vec![Received(0, 1), Received(0, 2), Received(0, 3)],
                        vec![Settled(0, 2)],
                        vec![Else],
                        vec![Settled(0, 4)],
                        vec![Else],
                    ],
                ],
                &[2, 5],
                &[2, 3],
            ),
        ];
        for (what, logs, ends, left) in cases {
            assert_eq!(shortened(&logs, ends), left, "{what}");
        }
    }

    /// Whether the logs agree up to these ends, by the words of the rule.
    fn agree(logs: &[Batches], ends: &[usize]) -> bool {
        let all = |here: usize| {
            logs[here].iter().enumerate().flat_map(|(n, batch)| batch.iter().map(move |said| (n, *said)))
        };
        let says = |here: usize, end: usize, wanted: &dyn Fn(Said) -> bool| {
            all(here).any(|(n, said)| n < end && wanted(said))
        };
        (0..logs.len()).all(|here| {
            let sender = u8::try_from(here).unwrap();
            all(here).all(|(n, said)| match said {
                Sent(number) if n >= ends[here] => (0..logs.len()).all(|other| {
                    let wanted =
                        |said| matches!(said, Received(from, found) if (from, found) == (sender, number));
                    !says(other, ends[other], &wanted)
                }),
                Posted(number) if n < ends[here] => (0..logs.len()).all(|other| {
                    let wanted =
                        |said| matches!(said, Received(from, found) if (from, found) == (sender, number));
                    !says(other, usize::MAX, &wanted) || says(other, ends[other], &wanted)
                }),
                Posted(number) => (0..logs.len()).all(|other| {
                    !says(
                        other,
                        ends[other],
                        &|said| matches!(said, Settled(from, below) if from == sender && below > number),
                    )
                }),
                _ => true,
            })
        })
    }

    /// Three logs of four batches, in which everything may be said anywhere, but a parcel arrives once.
    fn some_logs(mut random: impl FnMut(usize) -> usize) -> Vec<Batches> {
        let mut logs = vec![vec![Vec::new(); 4]; 3];
        for number in 1..6 {
            let (from, other) = (random(3), random(2) + 1);
            let sender = u8::try_from(from).unwrap();
            let to = (from + other) % 3;
            logs[from][random(4)].push(Sent(number));
            logs[from][random(4)].push(Posted(number));
            logs[to][random(4)].push(Received(sender, number));
            if random(4) == 0 {
                logs[to][random(4)].push(Settled(sender, number + 1));
            }
        }
        logs
    }

    #[test]
    fn the_ends_are_the_highest_ones_that_agree() {
        let mut seed = 1_u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        let mut lowered = 0;
        for _ in 0..2_000 {
            let logs = some_logs(&mut random);
            let ends: Vec<usize> = (0..3).map(|_| random(5)).collect();
            let found = shortened(&logs, &ends);
            assert!(agree(&logs, &found), "{logs:?} up to {ends:?}: {found:?}");
            lowered += usize::from(found != ends);
            // Of two that agree, the higher of each agree, too: so no other that agrees has a higher one.
            let every = (0..=ends[0]).flat_map(|a| {
                let (b, c) = (0..=ends[1], ends[2]);
                b.flat_map(move |b| (0..=c).map(move |c| vec![a, b, c]))
            });
            for other in every.filter(|other| agree(&logs, other)) {
                let is_below = other.iter().zip(&found).all(|(other, found)| other <= found);
                assert!(is_below, "{logs:?} up to {ends:?}: {found:?}, but {other:?} agree");
            }
        }
        assert!(lowered > 500, "{lowered}");
    }
}
