//! The disk fails in the middle: errors, short writes, no space.

use crate::disk_script::{Dice, History, reopen, run, snapshot};
use driftq_sim::disk::{Fault, Op, SimDisk};
use driftq_wal::{Opened, Prepared, Room, WriteError};

/// Runs the script with one fault; true if it was felt.
fn with_fault(seed: u64, op: Op, nth: u64, fault: Fault) -> bool {
    let disk = SimDisk::new(seed);
    let mut history = History::default();
    let mut opened = reopen(&disk).expect("an empty disk opens");
    disk.fail(op, nth, fault);
    let mut dice = Dice(seed * 2 + 1);
    let ended = run(&mut opened, &mut history, &mut dice, 80);
    if opened.writer.is_poisoned() {
        let before = disk.ops();
        assert!(matches!(opened.writer.append(b"more"), Err(WriteError::Poisoned)));
        assert!(matches!(opened.writer.sync(), Err(WriteError::Poisoned)));
        assert_eq!(disk.ops(), before, "a poisoned writer does not touch the disk");
    }
    drop(opened);
    // The process starts again; the machine still shows it what never reached the disk.
    disk.kill();
    let mut opened = reopen(&disk).unwrap_or_else(|error| panic!("seed {seed} {op:?} {nth}: {error}"));
    history.check(&opened);
    run(&mut opened, &mut history, &mut dice, 30).expect("a reopened log works");
    drop(opened);
    disk.crash();
    let opened = reopen(&disk).unwrap_or_else(|error| panic!("seed {seed} {op:?} {nth} crash: {error}"));
    history.check(&opened);
    ended.is_err()
}

#[test]
fn an_error_at_every_operation_poisons_and_loses_nothing() {
    for op in [Op::Write, Op::Sync, Op::SetBytes, Op::Create, Op::Rename, Op::Remove, Op::SyncDir, Op::Read] {
        let mut felt = 0;
        for seed in 1..=12 {
            for nth in 0..60 {
                felt += u32::from(with_fault(seed, op, nth, Fault::Eio));
            }
        }
        assert!(felt > 0 || op == Op::SetBytes || op == Op::Remove, "no {op:?} error was ever felt");
    }
}

/// A snapshot takes the place of everything before it: nothing of that may go before it is known to be readable.
#[test]
fn a_snapshot_that_reads_back_wrong_does_not_replace_the_one_before() {
    for write in [0, 1] {
        let disk = SimDisk::new(1);
        let mut opened = reopen(&disk).expect("opens");
        opened.writer.append(b"one").expect("appends");
        let first = opened.writer.sync().expect("syncs");
        opened.keeper.put_snapshot(first, b"older").expect("there is space");
        opened.writer.append(b"two").expect("appends");
        let second = opened.writer.sync().expect("syncs");
        disk.fail(Op::Write, write, Fault::Garbled);
        assert!(opened.keeper.put_snapshot(second, b"newer").is_err(), "write {write}");
        assert_eq!(opened.keeper.snapshot_upto(), first);
        let mut refused = |_: &[u8]| false;
        assert!(opened.keeper.put_snapshot_if(second, b"newer", &mut refused).is_err());
        drop(opened);
        disk.crash();
        let opened = reopen(&disk).expect("the older snapshot and the log are all that is needed");
        assert_eq!(opened.snapshot.as_ref().map(|snapshot| &*snapshot.bytes), Some(&b"older"[..]));
        opened.keeper.put_snapshot(second, b"newer").expect("and the next one counts");
        assert_eq!(opened.keeper.snapshot_upto(), second);
    }
}

#[test]
fn a_failed_sync_is_not_tried_again() {
    let disk = SimDisk::new(1);
    let mut opened = reopen(&disk).expect("opens");
    opened.writer.append(b"one").expect("appends");
    disk.fail(Op::Sync, 0, Fault::Eio);
    assert!(matches!(opened.writer.sync(), Err(WriteError::Io(_))));
    // The next sync would succeed, and would be a lie.
    assert!(matches!(opened.writer.sync(), Err(WriteError::Poisoned)));
    assert_eq!(opened.keeper.durable(), opened.start);
}

#[test]
fn short_writes_are_carried_on() {
    for seed in 1..=10 {
        let disk = SimDisk::new(seed);
        disk.short_writes(true);
        let mut history = History::default();
        let mut opened = reopen(&disk).expect("opens");
        run(&mut opened, &mut history, &mut Dice(seed), 80).expect("short writes are not errors");
        opened.writer.sync().expect("syncs");
        history.synced = history.bodies.len();
        drop(opened);
        disk.crash();
        history.check(&reopen(&disk).expect("opens"));
    }
}

#[test]
fn a_read_error_refuses_to_open_and_changes_nothing() {
    let disk = SimDisk::new(5);
    let mut history = History::default();
    let mut opened = reopen(&disk).expect("opens");
    run(&mut opened, &mut history, &mut Dice(5), 60).expect("runs");
    drop(opened);
    disk.kill();
    let files = |disk: &SimDisk| disk.names().iter().map(|n| disk.contents(n)).collect::<Vec<_>>();
    let before = files(&disk);
    let mut refused = 0;
    for nth in 0..20 {
        let disk = disk.fork(nth);
        disk.fail(Op::Read, nth, Fault::Eio);
        if reopen(&disk).is_err() {
            refused += 1;
            assert_eq!(files(&disk), before);
        }
        disk.kill();
        history.clone().check(&reopen(&disk).expect("the error passed"));
    }
    assert!(refused > 2);
}

/// Appends until there is no room, as a broker on a full disk would.
fn fill(opened: &mut Opened<SimDisk>, history: &mut History, dice: &mut Dice) {
    loop {
        let body = history.body(dice);
        match opened.writer.append(&body) {
            Ok(_) => history.bodies.push(body),
            Err(WriteError::NoSpace) => break,
            Err(error) => panic!("a full disk is not an error: {error}"),
        }
    }
    opened.writer.sync().expect("syncing needs no space");
    history.synced = history.bodies.len();
}

#[test]
fn a_disk_that_fills_up_at_any_point_loses_nothing_and_recovers() {
    for seed in 1..=15 {
        for steps in (5..100).step_by(6) {
            let disk = SimDisk::new(seed);
            let mut history = History::default();
            let mut opened = reopen(&disk).expect("opens");
            let mut dice = Dice(seed * 2 + 1);
            run(&mut opened, &mut history, &mut dice, steps).expect("runs");
            opened.keeper.restore_reserve().expect("there is space");
            let full = disk.used() + dice.below(3000);
            disk.set_capacity(Some(full));
            while opened.keeper.prepare_spare().expect("a full disk is not an error") == Prepared::Made {}
            fill(&mut opened, &mut history, &mut dice);
            assert!(disk.used() <= full);
            // The reserve lets a snapshot through, and the snapshot frees segments.
            let before = opened.keeper.segments().len();
            snapshot(&opened, &history, |_| false).expect("the reserve is for this");
            if before > 1 {
                assert!(opened.keeper.spare_ready(), "old segments make room: seed {seed} steps {steps}");
                fill(&mut opened, &mut history, &mut dice);
            }
            disk.set_capacity(Some(disk.used()));
            assert_ne!(opened.keeper.prepare_spare().expect("no error"), Prepared::Made);
            let temps = disk.names().into_iter().filter(|name| name.ends_with(".tmp")).count();
            assert_eq!(temps, 0, "an attempt leaves nothing behind");
            // Opening a full disk works, too.
            drop(opened);
            disk.crash();
            let mut opened = reopen(&disk).expect("a full disk opens");
            history.check(&opened);
            disk.set_capacity(None);
            assert_ne!(opened.keeper.prepare_spare().expect("no error"), Prepared::NoSpace);
            run(&mut opened, &mut history, &mut dice, 20).expect("space is back");
            drop(opened);
            disk.crash();
            history.check(&reopen(&disk).expect("opens"));
        }
    }
}

#[test]
fn room_says_when_to_refuse_messages() {
    let disk = SimDisk::new(1);
    let mut opened = reopen(&disk).expect("opens");
    assert_eq!(opened.keeper.room(), Room::Scarce, "a snapshot would find no reserve");
    opened.keeper.restore_reserve().expect("there is space");
    let mut seen = vec![opened.keeper.room()];
    while opened.writer.append(&[7; 100]).is_ok() {
        if seen.last() != Some(&opened.keeper.room()) {
            seen.push(opened.keeper.room());
        }
    }
    assert_eq!(seen, [Room::Plenty, Room::Scarce, Room::None]);
    opened.keeper.prepare_spare().expect("there is space");
    assert_eq!(opened.keeper.room(), Room::Plenty);
    opened.writer.append(b"x").expect("the refused append works now");
    assert_eq!(opened.keeper.room(), Room::Plenty);
}

#[test]
fn a_batch_too_big_for_a_full_disk_is_refused_whole() {
    let disk = SimDisk::new(1);
    let mut opened = reopen(&disk).expect("opens");
    opened.writer.append(b"small").expect("appends");
    disk.set_capacity(Some(disk.used() + 700));
    let before = disk.contents("seg-00000001.log");
    assert!(matches!(opened.writer.append(&[1; 6000]), Err(WriteError::NoSpace)));
    assert_eq!(disk.contents("seg-00000001.log"), before);
    opened.writer.append(b"another").expect("a smaller one still fits");
    disk.set_capacity(None);
    opened.writer.append(&[1; 6000]).expect("the file grows when it can");
    opened.writer.sync().expect("syncs");
    drop(opened);
    disk.crash();
    assert_eq!(reopen(&disk).expect("opens").recovery.frames, 3);
}
