//! The power is cut at every operation of a scripted use of the log, and again during recovery.

use crate::disk_script::{Dice, History, reopen, run};
use driftq_sim::disk::SimDisk;

const STEPS: usize = 120;

/// Runs the script from an empty disk until the power goes at operation `cut`.
fn until_power_off(seed: u64, cut: Option<u64>) -> (SimDisk, History) {
    let disk = SimDisk::new(seed);
    let mut history = History::default();
    if let Some(cut) = cut {
        disk.power_off_at(cut);
    }
    if let Ok(mut opened) = reopen(&disk) {
        let mut dice = Dice(seed * 2 + 1);
        let ended = run(&mut opened, &mut history, &mut dice, STEPS);
        assert!(cut.is_some() || ended.is_ok(), "the script itself works: {ended:?}");
    }
    (disk, history)
}

fn seeds(full: u64) -> std::ops::Range<u64> {
    let count = std::env::var("DRIFTQ_DISK_SEEDS").ok().and_then(|text| text.parse().ok());
    1..1 + count.unwrap_or(full)
}

#[test]
fn a_crash_at_every_operation_loses_nothing_synced() {
    let mut truncated = 0;
    for seed in seeds(25) {
        let ops = until_power_off(seed, None).0.ops();
        assert!(ops > 100, "the script does something: {ops}");
        for cut in 0..ops {
            let (disk, mut history) = until_power_off(seed, Some(cut));
            disk.crash();
            let mut opened = reopen(&disk).unwrap_or_else(|error| panic!("seed {seed} cut {cut}: {error}"));
            history.check(&opened);
            truncated += u32::from(opened.recovery.truncated.is_some());
            // Life goes on, through a second crash.
            let mut dice = Dice(seed * 1000 + cut + 1);
            run(&mut opened, &mut history, &mut dice, 12).expect("a recovered log works");
            drop(opened);
            disk.crash();
            let opened = reopen(&disk).unwrap_or_else(|error| panic!("seed {seed} cut {cut} again: {error}"));
            history.check(&opened);
        }
    }
    assert!(truncated > 0, "no crash ever tore a tail: the test would prove nothing");
}

#[test]
fn crashes_during_recovery_change_nothing() {
    for seed in seeds(12) {
        let ops = until_power_off(seed, None).0.ops();
        for cut in (0..ops).step_by(3) {
            let (disk, history) = until_power_off(seed, Some(cut));
            disk.crash();
            for again in 0.. {
                let disk = disk.fork(seed ^ again);
                let before = disk.ops();
                disk.power_off_at(before + again);
                let opened = reopen(&disk);
                let whole = opened.is_ok();
                drop(opened);
                disk.crash();
                let opened = reopen(&disk)
                    .unwrap_or_else(|error| panic!("seed {seed} cut {cut} again {again}: {error}"));
                history.clone().check(&opened);
                if whole {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_killed_process_loses_nothing_appended() {
    for seed in seeds(25) {
        let (disk, mut history) = until_power_off(seed, None);
        disk.kill();
        history.synced = history.bodies.len();
        let opened = reopen(&disk).expect("a killed process leaves a good log");
        history.check(&opened);
        assert_eq!(opened.recovery.truncated, None);
        // Recovery made it durable, so a power cut right after takes nothing either.
        drop(opened);
        disk.crash();
        history.check(&reopen(&disk).expect("a settled log opens"));
    }
}

#[test]
fn a_life_of_many_crashes() {
    for seed in seeds(40) {
        let disk = SimDisk::new(seed);
        let mut history = History::default();
        let mut dice = Dice(seed + 77);
        for _ in 0..30 {
            let before = disk.ops();
            disk.power_off_at(before + dice.below(60));
            if let Ok(mut opened) = reopen(&disk) {
                history.check(&opened);
                let _ = run(&mut opened, &mut history, &mut dice, 60);
            }
            disk.crash();
        }
        history.check(&reopen(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}")));
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for seed in seeds(10) {
        let files = || {
            let (disk, _) = until_power_off(seed, Some(90));
            disk.crash();
            drop(reopen(&disk).expect("opens"));
            disk.names().iter().map(|name| (name.clone(), disk.contents(name))).collect::<Vec<_>>()
        };
        assert_eq!(files(), files(), "seed {seed}");
    }
}

#[test]
fn frames_that_outlived_the_one_before_them_never_come_back() {
    let mut outlived = 0;
    for seed in 1..=2000 {
        let disk = SimDisk::new(seed);
        let mut opened = reopen(&disk).expect("opens");
        opened.writer.append(b"first").expect("appends");
        opened.writer.sync().expect("syncs");
        let mut ghosts = Vec::new();
        for byte in 1..=3 {
            ghosts.push(opened.writer.cursor().next_frame().offset() as usize);
            opened.writer.append(&[byte; 800]).expect("appends");
        }
        drop(opened);
        disk.crash();
        let file = disk.contents("seg-00000001.log").expect("exists");
        let whole = |ghost: usize, byte| file[ghost] == b'D' && file[ghost + 40..ghost + 840] == [byte; 800];
        let mut opened = reopen(&disk).expect("opens");
        if opened.recovery.frames != 1 || !whole(ghosts[1], 2) || !whole(ghosts[2], 3) {
            continue;
        }
        outlived += 1;
        assert!(opened.recovery.truncated.is_some());
        // New frames end exactly where each ghost starts.
        for (frames, &ghost) in (2..).zip(&ghosts[1..]) {
            opened.writer.append(&[9; 800]).expect("appends");
            assert_eq!(opened.writer.sync().expect("syncs").offset() as usize, ghost);
            let disk = disk.fork(seed);
            disk.crash();
            assert_eq!(reopen(&disk).expect("opens").recovery.frames, frames, "seed {seed}");
        }
    }
    assert!(outlived > 5, "{outlived} times ghosts were seen");
}
