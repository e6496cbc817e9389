//! Every bit of a small synced log is flipped once: the log is refused, or loses only a batch that
//! nothing confirms, and says so. It is never silently another log.

use crate::disk_script::{History, reopen};
use driftq_sim::disk::SimDisk;
use driftq_wal::{Lsn, OpenError, WriteError};

struct Small {
    disk: SimDisk,
    history: History,
    /// Start of each frame, in order.
    frames: Vec<Lsn>,
    end: Lsn,
}

/// Two segments of synced frames, by default without a snapshot.
fn small(seed: u64, snapshot_after: Option<usize>) -> Small {
    let disk = SimDisk::new(seed);
    let mut history = History::default();
    let mut opened = reopen(&disk).expect("an empty disk opens");
    let mut frames = Vec::new();
    for id in 0..9u64 {
        let mut body = id.to_le_bytes().to_vec();
        body.resize(if id < 5 { 750 } else { 20 + id as usize }, id as u8);
        history.bodies.push(body.clone());
        let mut frame = opened.writer.cursor().next_frame();
        if let Err(WriteError::NoSpace) = opened.writer.append(&body) {
            opened.keeper.prepare_spare().expect("there is space");
            frame = opened.writer.cursor().next_frame();
            opened.writer.append(&body).expect("a spare is ready");
        }
        frames.push(frame);
        opened.writer.sync().expect("the disk works");
        history.synced += 1;
        if snapshot_after == Some(id as usize) {
            crate::disk_script::snapshot(&opened, &history, |_| false).expect("there is space");
        }
    }
    let end = opened.writer.cursor().end();
    assert_eq!(end.segment(), 2, "the log spans two segments");
    drop(opened);
    disk.kill();
    Small { disk, history, frames, end }
}

/// Flips one bit and says what opening made of it.
fn flipped(small: &Small, file: &str, byte: usize, bit: u8) -> Result<bool, (String, u64)> {
    let disk = small.disk.fork(1);
    disk.flip(file, byte, bit);
    match reopen(&disk) {
        Ok(opened) => {
            let mut history = small.history.clone();
            if let Some(cut) = &opened.recovery.truncated {
                let last = small.frames.last().expect("frames were written");
                assert_eq!((cut.file.as_str(), cut.at_byte), ("seg-00000002.log", u64::from(last.offset())));
                // Nothing confirmed the last batch; the one before it must be there.
                history.synced -= 1;
            }
            history.check(&opened);
            Ok(opened.recovery.truncated.is_some())
        }
        Err(OpenError::Damaged(damage)) => Err((damage.file, damage.byte)),
        Err(error) => panic!("{file} byte {byte} bit {bit}: {error}"),
    }
}

#[test]
fn every_flip_in_a_segment_is_refused_or_cuts_the_unconfirmed_batch() {
    let small = small(3, None);
    let last = *small.frames.last().expect("frames were written");
    for number in 1..=2u32 {
        let file = format!("seg-{number:08x}.log");
        let ends = [
            small.frames.iter().rfind(|f| f.segment() == 1).expect("frames").offset() + 792,
            small.end.offset(),
        ];
        for byte in 0..ends[number as usize - 1] {
            // The frame this byte belongs to, or the header.
            let at = Lsn::new(number, byte);
            let frame = small.frames.iter().rfind(|f| f.segment() == number && **f <= at);
            for bit in 0..8 {
                let expected = match frame {
                    Some(frame) if *frame == last => Ok(true),
                    Some(frame) => Err((file.clone(), u64::from(frame.offset()))),
                    None => Err((file.clone(), 0)),
                };
                assert_eq!(
                    flipped(&small, &file, byte as usize, bit),
                    expected,
                    "{file} byte {byte} bit {bit}"
                );
            }
        }
    }
}

#[test]
fn every_flip_in_a_snapshot_is_refused() {
    let small = small(3, Some(7));
    let names = small.disk.names();
    let file = names.iter().find(|name| name.ends_with(".snap")).expect("a snapshot was put");
    let bytes = small.disk.contents(file).expect("it exists").len();
    for byte in 0..bytes {
        for bit in 0..8 {
            assert!(flipped(&small, file, byte, bit).is_err(), "byte {byte} bit {bit}");
        }
    }
}

#[test]
fn a_flip_in_the_last_batch_below_a_snapshot_is_refused() {
    let small = small(3, Some(8));
    // The snapshot covers it, so replay does not even look at it...
    let last = small.frames.last().expect("frames were written").offset() as usize;
    assert_eq!(flipped(&small, "seg-00000002.log", last + 50, 0), Ok(false));
    // ...but the place where it continues must exist.
    let disk = small.disk.fork(1);
    let contents = disk.contents("seg-00000002.log").expect("it exists");
    disk.put("seg-00000002.log", &contents[..last]);
    let Err(OpenError::Damaged(damage)) = reopen(&disk) else { panic!("a cut file must be refused") };
    assert_eq!(damage.byte, last as u64);
}

#[test]
fn a_missing_segment_is_refused() {
    let small = small(3, None);
    let copy = |numbers: &[u32]| {
        let disk = SimDisk::new(1);
        for number in numbers {
            let name = format!("seg-{number:08x}.log");
            disk.put(&name, &small.disk.contents(&name).expect("it exists"));
        }
        disk
    };
    let Err(OpenError::Damaged(damage)) = reopen(&copy(&[2])) else { panic!("must be refused") };
    assert_eq!((damage.file.as_str(), damage.byte), ("seg-00000001.log", 0));
    let text = damage.to_string();
    assert!(text.contains("driftq wal inspect --data sim") && text.contains("repair --dry-run"), "{text}");
    // A gap in the middle names the first segment that is not there.
    let disk = copy(&[1, 2]);
    disk.put("seg-00000004.log", &[]);
    let Err(OpenError::Damaged(damage)) = reopen(&disk) else { panic!("must be refused") };
    assert_eq!(damage.file, "seg-00000003.log");
    // A file under another segment's name is not that segment.
    let disk = copy(&[1, 2]);
    disk.put("seg-00000003.log", &small.disk.contents("seg-00000002.log").expect("it exists"));
    let Err(OpenError::Damaged(damage)) = reopen(&disk) else { panic!("must be refused") };
    assert_eq!(damage.file, "seg-00000003.log");
}
