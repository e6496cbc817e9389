//! Inspection shows damage where it is; repair cuts it out, keeps it, and leaves a log that opens.

use crate::disk_script::{Dice, History, reopen, run};
use driftq_sim::disk::SimDisk;
use driftq_wal::{Finding, Lsn, OpenError, RepairError, Verdict, WriteError, inspect, repair};

/// A log of several segments, everything synced, and where each frame starts.
fn long(snapshot: bool) -> (SimDisk, History, Vec<Lsn>) {
    let disk = SimDisk::new(9);
    let mut history = History::default();
    let mut opened = reopen(&disk).expect("opens");
    let mut frames = Vec::new();
    for id in 0..40u64 {
        let mut body = id.to_le_bytes().to_vec();
        body.resize(300, id as u8);
        if let Err(WriteError::NoSpace) = opened.writer.append(&body) {
            opened.keeper.prepare_spare().expect("there is space");
            opened.writer.append(&body).expect("a spare is ready");
        }
        let end = opened.writer.sync().expect("syncs");
        frames.push(Lsn::new(end.segment(), end.offset() - 344));
        history.bodies.push(body);
        history.synced += 1;
        if snapshot && id == 20 {
            opened.keeper.put_snapshot(end, &21u64.to_le_bytes()).expect("there is space");
        }
    }
    drop(opened);
    disk.kill();
    (disk, history, frames)
}

fn name(lsn: Lsn) -> String {
    format!("seg-{:08x}.log", lsn.segment())
}

#[test]
fn inspection_lists_every_frame_and_says_sound() {
    let (disk, _, frames) = long(true);
    let mut found = Vec::new();
    let inspection = inspect(&disk, &mut |finding| found.push(finding)).expect("readable");
    let listed: Vec<Lsn> = found
        .iter()
        .filter_map(|f| if let Finding::Frame { at, .. } = f { Some(*at) } else { None })
        .collect();
    assert_eq!(listed, frames);
    let end = *frames.last().expect("frames");
    assert_eq!(inspection.verdict, Verdict::Sound(Lsn::new(end.segment(), end.offset() + 344)));
    assert!(!inspection.in_use);
    assert!(found.iter().any(|f| matches!(f, Finding::Snapshot { bytes: 8, .. })));
    assert!(!found.iter().any(|f| matches!(f, Finding::Broken { .. } | Finding::Unusable { .. })));
}

#[test]
fn inspection_works_beside_a_running_broker_and_repair_does_not() {
    let (disk, ..) = long(false);
    let opened = reopen(&disk).expect("opens");
    assert!(inspect(&disk, &mut |_| {}).expect("readable").in_use);
    assert!(matches!(repair(&disk, true), Err(RepairError::Open(OpenError::Locked { .. }))));
    drop(opened);
    assert_eq!(repair(&disk, false).expect("nothing to do").cuts, []);
}

#[test]
fn damage_in_any_frame_is_shown_cut_and_kept() {
    for snapshot in [false, true] {
        let (good, history, frames) = long(snapshot);
        for (index, &frame) in frames.iter().enumerate().take(frames.len() - 1) {
            if snapshot && index <= 20 {
                continue;
            }
            let disk = good.fork(1);
            disk.flip(&name(frame), frame.offset() as usize + 100, 3);
            let mut broken = Vec::new();
            let inspection = inspect(&disk, &mut |finding| {
                if let Finding::Broken { at, .. } = finding {
                    broken.push(at);
                }
            });
            let Verdict::Damaged(damage) = inspection.expect("readable").verdict else { panic!("damaged") };
            assert_eq!((broken, damage.byte), (vec![frame], u64::from(frame.offset())));

            let files =
                |disk: &SimDisk| disk.names().into_iter().map(|n| (disk.contents(&n), n)).collect::<Vec<_>>();
            let before = files(&disk);
            let planned = repair(&disk, true).expect("a plan");
            assert_eq!(files(&disk), before, "a dry run changes nothing");
            let done = repair(&disk, false).expect("repaired");
            assert_eq!((planned.cuts, planned.applied, done.applied), (done.cuts.clone(), false, true));
            let lost: u64 = done.cuts.iter().map(|cut| cut.frames).sum();
            assert_eq!(lost as usize, frames.len() - index - 1, "the broken one is not counted");
            let kept = &done.cuts.last().expect("a cut").kept_in;
            let kept = disk.contents(kept).expect("what was cut is beside");
            assert_eq!(kept[40 + 61..340], history.bodies[index][61..], "the damaged frame is in the copy");

            let mut left = history.clone();
            left.bodies.truncate(index);
            left.synced = index;
            let mut opened = reopen(&disk).expect("a repaired log opens");
            assert_eq!(opened.recovery.truncated, None);
            left.check(&opened);
            run(&mut opened, &mut left, &mut Dice(5), 60).expect("and works");
            drop(opened);
            disk.crash();
            left.check(&reopen(&disk).expect("and opens again"));
        }
    }
}

#[test]
fn a_crash_during_repair_leaves_something_to_repair_or_a_log() {
    let (good, history, frames) = long(false);
    let (index, frame) = (7, frames[7]);
    good.flip(&name(frame), frame.offset() as usize + 100, 3);
    for cut in 0.. {
        let disk = good.fork(cut);
        disk.power_off_at(disk.ops() + cut);
        let whole = repair(&disk, false).is_ok();
        disk.crash();
        let mut left = history.clone();
        left.synced = index;
        repair(&disk, false).expect("repaired at the second attempt");
        let opened = reopen(&disk).expect("opens");
        left.check(&opened);
        assert_eq!(left.bodies.len(), index);
        let kept = |name: &String| {
            disk.contents(name)
                .is_some_and(|bytes| bytes.len() > 400 && bytes[101..340] == history.bodies[index][61..])
        };
        assert!(disk.names().iter().any(kept), "cut {cut}: a copy survives");
        if whole {
            break;
        }
    }
}

#[test]
fn a_damaged_snapshot_is_set_aside_when_the_log_reaches_back_far_enough() {
    let (disk, mut history, _) = long(true);
    let snap = disk.names().into_iter().find(|name| name.ends_with(".snap")).expect("put");
    disk.flip(&snap, 66, 1);
    assert!(matches!(reopen(&disk), Err(OpenError::Damaged(_))));
    let plan = repair(&disk, false).expect("repaired");
    assert_eq!((plan.cuts.len(), plan.cuts[0].file.as_str()), (1, snap.as_str()));
    history.check(&reopen(&disk).expect("the whole log is still there"));
    // Without the first segment the snapshot is all there was.
    let (disk, ..) = long(true);
    disk.flip(&snap, 66, 1);
    let opened = reopen(&disk);
    assert!(opened.is_err());
    driftq_wal::Disk::remove(&disk, "seg-00000001.log").expect("removed");
    assert!(matches!(repair(&disk, false), Err(RepairError::Hopeless(_))));
}

#[test]
fn a_lost_segment_header_is_rebuilt_from_the_frames() {
    for snapshot in [false, true] {
        let (good, history, frames) = long(snapshot);
        let last = frames.last().expect("frames").segment();
        for number in 1..=last {
            let disk = good.fork(1);
            disk.flip(&name(Lsn::new(number, 0)), 25, 3);
            let before = disk.contents(&name(Lsn::new(number, 0)));
            let plan = repair(&disk, true).expect("a plan");
            assert_eq!(
                (plan.headers.as_slice(), plan.cuts.as_slice()),
                ([name(Lsn::new(number, 0))].as_slice(), [].as_slice())
            );
            assert_eq!(disk.contents(&name(Lsn::new(number, 0))), before, "a dry run changes nothing");
            repair(&disk, false).expect("repaired");
            let mut left = history.clone();
            left.check(&reopen(&disk).expect("opens"));
            assert_eq!(left.bodies.len(), history.bodies.len(), "nothing is lost");
        }
    }
}

#[test]
fn a_lost_header_does_not_hide_a_broken_frame() {
    let (disk, mut history, frames) = long(false);
    disk.flip(&name(frames[3]), 25, 3);
    disk.flip(&name(frames[3]), frames[3].offset() as usize + 100, 3);
    let plan = repair(&disk, false).expect("repaired");
    assert_eq!(plan.headers.len(), 1);
    assert_eq!(plan.cuts.last().map(|cut| cut.byte), Some(u64::from(frames[3].offset())));
    history.synced = 3;
    history.check(&reopen(&disk).expect("opens"));
    assert_eq!(history.bodies.len(), 3);
}

#[test]
fn a_second_repair_at_the_same_place_keeps_the_first_copy() {
    let (disk, _, frames) = long(false);
    let frame = frames[3];
    let mut kept = Vec::new();
    for _ in 0..2 {
        disk.flip(&name(frame), frame.offset() as usize + 100, 3);
        let plan = repair(&disk, false).expect("repaired");
        kept.push(plan.cuts.last().expect("a cut").kept_in.clone());
        let mut opened = reopen(&disk).expect("opens");
        for _ in 0..2 {
            opened.writer.append(&[7; 300]).expect("appends");
            opened.writer.sync().expect("syncs");
        }
    }
    assert_ne!(kept[0], kept[1]);
    let copies = kept.iter().map(|name| disk.contents(name).expect("kept"));
    assert_eq!(copies.map(|copy| copy[200]).collect::<Vec<_>>(), [3, 7]);
}
