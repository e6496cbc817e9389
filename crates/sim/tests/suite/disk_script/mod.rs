//! A scripted use of the log, and the check that nothing promised was lost.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::ops::ControlFlow;

use driftq_sim::disk::SimDisk;
use driftq_wal::{Lsn, OpenError, Opened, Options, Prepared, WriteError, open};

pub(crate) fn options() -> Options {
    Options {
        segment_bytes: 4096,
        spares_max: 2,
        spares_ahead: 1,
        spares_for_acks: 0,
        reserve_bytes: 1024,
        salt: 42,
    }
}

/// What has been promised so far.
#[derive(Clone, Default)]
pub(crate) struct History {
    /// Bodies handed to `append`, oldest first, and where each ends.
    pub(crate) bodies: Vec<Vec<u8>>,
    /// How many of them a sync confirmed.
    pub(crate) synced: usize,
    /// Makes every body different from all before it, across crashes too.
    pub(crate) next_id: u64,
}

pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

impl History {
    pub(crate) fn body(&mut self, dice: &mut Dice) -> Vec<u8> {
        let len = if dice.below(20) == 0 { 1500 + dice.below(3500) } else { dice.below(500) };
        let id = self.next_id;
        self.next_id += 1;
        let mut body = id.to_le_bytes().to_vec();
        body.extend((0..len).map(|at| (id as u8).wrapping_mul(31).wrapping_add(at as u8)));
        body
    }

    /// Compares what recovery found with what was promised, and goes on from there.
    pub(crate) fn check(&mut self, opened: &Opened<SimDisk>) {
        let mut found = folded(opened);
        let from_snapshot = found;
        let bodies = &self.bodies;
        let stopped = opened
            .replay(&mut |at, body| {
                assert!(found < bodies.len(), "a body that was never appended came back");
                assert_eq!(body, bodies[found], "body {found} is not what was appended");
                let read = opened.reader.read_at(at, body.len() as u32).expect("a replayed body is readable");
                assert_eq!(read, body);
                found += 1;
                ControlFlow::Continue(())
            })
            .expect("what was just recovered replays");
        assert_eq!(stopped.max(opened.start), opened.end);
        assert_eq!((found - from_snapshot) as u64, opened.recovery.frames);
        assert!(found >= self.synced, "{} bodies were synced, {found} came back", self.synced);
        self.bodies.truncate(found);
        // Recovery made everything it kept durable.
        self.synced = found;
    }
}

/// How many bodies the snapshot stands for.
fn folded(opened: &Opened<SimDisk>) -> usize {
    opened.snapshot.as_ref().map_or(0, |snapshot| {
        u64::from_le_bytes(snapshot.bytes[..8].try_into().expect("a snapshot of this script")) as usize
    })
}

/// Appends, syncs, rolls, snapshots and drops for `steps` steps, or until the first failure.
pub(crate) fn run(
    opened: &mut Opened<SimDisk>,
    history: &mut History,
    dice: &mut Dice,
    steps: usize,
) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    for _ in 0..steps {
        match dice.below(10) {
            0..=5 => {
                let body = history.body(dice);
                let expected = opened.writer.cursor().next_body();
                // Noted before the call: a failed append may still have reached the disk.
                history.bodies.push(body.clone());
                match opened.writer.append(&body) {
                    Ok(end) => {
                        let start = Lsn(expected.0);
                        let read = opened.reader.read_at(start, body.len() as u32).map_err(|e| text(&e))?;
                        assert_eq!(read, body);
                        assert!(end > start);
                    }
                    Err(WriteError::NoSpace) => {
                        history.bodies.pop();
                        opened.keeper.prepare_spare().map_err(|e| text(&e))?;
                    }
                    Err(error) => return Err(text(&error)),
                }
            }
            6 | 7 => {
                opened.writer.sync().map_err(|e| text(&e))?;
                history.synced = history.bodies.len();
            }
            8 => {
                let made = opened.keeper.prepare_spare().map_err(|e| text(&e))?;
                assert_ne!(made, Prepared::NoSpace);
            }
            // Some old segments stay, as if they held payloads that are still needed.
            _ => snapshot(opened, history, |number| number % 4 == 2).map_err(|e| text(&e))?,
        }
    }
    Ok(())
}

/// Folds everything durable into a snapshot and drops what it makes superfluous.
pub(crate) fn snapshot(
    opened: &Opened<SimDisk>,
    history: &History,
    keep: impl Fn(u32) -> bool,
) -> Result<(), driftq_wal::KeepError> {
    let mut bytes = (history.synced as u64).to_le_bytes().to_vec();
    bytes.resize(8 + history.synced % 700, 7);
    if opened.keeper.durable() != opened.writer.cursor().end() {
        // The script counts synced bodies, so it folds only when all of them are.
        return Ok(());
    }
    opened.keeper.put_snapshot(opened.keeper.durable(), &bytes)?;
    let needed_from = opened.keeper.snapshot_upto().segment();
    let old: Vec<u32> =
        opened.keeper.segments().iter().map(|s| s.number).filter(|&n| n < needed_from && !keep(n)).collect();
    opened.keeper.drop_segments(&old)?;
    opened.keeper.restore_reserve()?;
    Ok(())
}

pub(crate) fn reopen(disk: &SimDisk) -> Result<Opened<SimDisk>, OpenError> {
    open(disk.clone(), options())
}
