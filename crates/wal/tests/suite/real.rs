//! The log on a real file system.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use driftq_wal::{
    KeepError, Lsn, OpenError, Opened, Options, Prepared, ReadError, RealDisk, ReplayError, WriteError, open,
};

fn options() -> Options {
    Options {
        segment_bytes: 4096,
        spares_max: 2,
        spares_ahead: 1,
        spares_for_acks: 0,
        reserve_bytes: 512,
        salt: 7,
    }
}

fn start(dir: &Path) -> Opened<RealDisk> {
    open(RealDisk::create(dir).unwrap(), options()).unwrap()
}

fn bodies(opened: &Opened<RealDisk>, from: Lsn, to: Option<Lsn>) -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    let replayed = opened.reader.replay(from, to, &mut |_, body| {
        bodies.push(body.to_vec());
        ControlFlow::Continue(())
    });
    replayed.unwrap();
    bodies
}

/// Appends, making spares when they are needed, and returns where the body lies.
fn append(opened: &mut Opened<RealDisk>, body: &[u8]) -> Lsn {
    let at = opened.writer.cursor().next_body();
    if let Err(error) = opened.writer.append(body) {
        assert!(matches!(error, WriteError::NoSpace), "{error}");
        opened.keeper.prepare_spare().unwrap();
        opened.writer.append(body).unwrap();
    }
    at
}

#[test]
fn what_is_appended_comes_back_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = start(&dir.path().join("new/data"));
    let written: Vec<Vec<u8>> = (0..50usize).map(|n| vec![n as u8; n * 37 % 900]).collect();
    let places: Vec<Lsn> = written.iter().map(|body| append(&mut opened, body)).collect();
    let end = opened.writer.sync().unwrap();
    for (body, &at) in written.iter().zip(&places) {
        assert_eq!(opened.reader.read_at(at, body.len() as u32).unwrap(), *body);
    }
    drop(opened);
    let opened = start(&dir.path().join("new/data"));
    assert_eq!(bodies(&opened, opened.start, None), written);
    assert_eq!((opened.recovery.frames, opened.end), (50, end));
    assert!(opened.recovery.segments > 4);
    // From and to any edge.
    let edge = Lsn(places[20].0 - 40);
    assert_eq!(bodies(&opened, edge, None), written[20..]);
    assert_eq!(bodies(&opened, opened.start, Some(edge)), written[..20]);
    assert!(matches!(
        opened.reader.replay(Lsn(edge.0 + 8), None, &mut |_, _| ControlFlow::Break(())),
        Err(ReplayError::Damaged(_))
    ));
    assert!(matches!(
        opened.reader.replay(Lsn::new(99, 64), None, &mut |_, _| ControlFlow::Break(())),
        Err(ReplayError::OutOfRange(_))
    ));
}

#[test]
fn a_replay_can_stop_early_and_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = start(dir.path());
    for n in 0..30u8 {
        append(&mut opened, &[n; 200]);
    }
    let mut seen = Vec::new();
    let mut from = opened.start;
    while from < opened.writer.cursor().end() {
        from = opened
            .reader
            .replay(from, None, &mut |_, body| {
                seen.push(body[0]);
                if seen.len() % 3 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
    }
    assert_eq!(seen, (0..30).collect::<Vec<u8>>());
}

#[test]
fn bytes_that_are_not_there_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = start(dir.path());
    let at = append(&mut opened, b"hello");
    let read = |at, bytes| opened.reader.read_at(at, bytes);
    assert!(matches!(read(opened.writer.cursor().next_body(), 1), Err(ReadError::OutOfRange)));
    assert!(matches!(read(at, 4000), Err(ReadError::OutOfRange)));
    assert!(matches!(read(at, u32::MAX), Err(ReadError::OutOfRange)));
    assert!(matches!(read(Lsn::new(1, 0), 4), Err(ReadError::OutOfRange)));
    assert!(matches!(read(Lsn::new(2, 64), 1), Err(ReadError::OutOfRange)));
    assert!(matches!(read(Lsn::new(0, 64), 1), Err(ReadError::Gone)));
}

#[test]
fn dropped_segments_are_recycled_and_their_frames_never_surface() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = start(dir.path());
    opened.keeper.restore_reserve().unwrap();
    let first = append(&mut opened, &[0xee; 1000]);
    while opened.writer.cursor().end().segment() < 4 {
        append(&mut opened, &[0xee; 1000]);
    }
    let upto = opened.writer.sync().unwrap();
    assert!(matches!(opened.keeper.drop_segments(&[1]), Err(KeepError::StillNeeded { segment: 1 })));
    assert!(matches!(opened.keeper.put_snapshot(Lsn(upto.0 + 8), b""), Err(KeepError::NotDurable { .. })));
    opened.keeper.put_snapshot(upto, b"folded").unwrap();
    assert!(matches!(opened.keeper.put_snapshot(Lsn(upto.0 - 8), b""), Err(KeepError::Outdated { .. })));
    assert!(matches!(opened.keeper.drop_segments(&[1, 4]), Err(KeepError::StillNeeded { segment: 4 })));
    opened.keeper.drop_segments(&[1, 2, 3]).unwrap();
    assert!(matches!(opened.reader.read_at(first, 4), Err(ReadError::Gone)));
    let spares = fs::read_dir(dir.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("spare-"));
    assert_eq!(spares.count(), 2, "two are kept, one is removed");

    // The next segment lives in a recycled file: old frames lie behind its end.
    while opened.writer.cursor().end().segment() < 5 {
        append(&mut opened, &[0xaa; 1000]);
    }
    let at = append(&mut opened, &[0xbb; 1000 - 40]);
    opened.writer.sync().unwrap();
    let file = fs::read(dir.path().join("seg-00000005.log")).unwrap();
    assert!(file[at.offset() as usize + 1000..].contains(&0xee), "the file was recycled, not zeroed");
    let replayed = bodies(&opened, upto, None);
    drop(opened);
    let opened = start(dir.path());
    assert_eq!(opened.snapshot.as_ref().unwrap().bytes, b"folded");
    assert_eq!(bodies(&opened, opened.start, None), replayed);
    assert_eq!(opened.recovery.truncated, None);
    assert!(replayed.iter().all(|body| body[0] != 0xee));
}

/// A frame for the place `at`, correct but for the salt, which a producer cannot know.
fn imitation(at: Lsn, durable: Lsn) -> Vec<u8> {
    let mut fields = Vec::new();
    for field in [0u64, at.0, durable.0, 0x1234] {
        fields.extend_from_slice(&field.to_le_bytes());
    }
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &fields) as u32;
    [b"DQfr".as_slice(), &crc.to_le_bytes(), &fields].concat()
}

#[test]
fn an_imitated_frame_does_not_make_a_torn_tail_look_like_damage() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = start(dir.path());
    let at = opened.writer.cursor().next_body();
    opened.writer.append(&imitation(at, at)).unwrap();
    opened.writer.sync().unwrap();
    drop(opened);
    // The frame around it is torn; the one inside claims that this place had been synced.
    let path = dir.path().join("seg-00000001.log");
    let mut bytes = fs::read(&path).unwrap();
    bytes[70] ^= 1;
    fs::write(&path, bytes).unwrap();
    let opened = start(dir.path());
    assert_eq!(opened.recovery.truncated.as_ref().unwrap().at_byte, 64);
}

#[test]
fn an_imitated_frame_in_a_recycled_file_does_not_continue_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = start(dir.path());
    opened.keeper.restore_reserve().unwrap();
    // The first segment's file will become the fifth segment, whose first frame will end here.
    let place = Lsn::new(5, 1104);
    let mut body = vec![0; 1000];
    body.extend(imitation(place, Lsn::ZERO));
    assert_eq!(append(&mut opened, &body), Lsn::new(1, 104));
    while opened.writer.cursor().end().segment() < 4 {
        append(&mut opened, &[1; 1000]);
    }
    let upto = opened.writer.sync().unwrap();
    opened.keeper.put_snapshot(upto, b"").unwrap();
    opened.keeper.drop_segments(&[1]).unwrap();
    let mut frames = 0;
    while opened.writer.cursor().end() < place {
        append(&mut opened, &[2; 1000]);
        frames += 1;
    }
    assert_eq!(opened.writer.sync().unwrap(), place);
    drop(opened);
    let file = fs::read(dir.path().join("seg-00000005.log")).unwrap();
    assert_eq!(&file[1104..1108], b"DQfr", "the imitation lies exactly where the log goes on");
    let opened = start(dir.path());
    assert_eq!((opened.recovery.frames, opened.end), (frames, place));
}

#[test]
fn reads_race_recycling_and_never_see_foreign_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = start(dir.path());
    let reader = opened.reader.clone();
    let (send, places) = std::sync::mpsc::sync_channel::<(Lsn, u8)>(64);
    let checker = std::thread::spawn(move || {
        let (mut read, mut gone) = (0u32, 0u32);
        let mut old: Vec<(Lsn, u8)> = Vec::new();
        for place in places {
            old.push(place);
            let recent = old.len().saturating_sub(60);
            for &(at, byte) in &old[recent..] {
                match reader.read_at(at, 300) {
                    Ok(bytes) => {
                        assert!(bytes.iter().all(|&found| found == byte), "foreign bytes at {at}");
                        read += 1;
                    }
                    Err(ReadError::Gone) => gone += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        (read, gone)
    });
    for n in 0..2000u32 {
        let byte = (n % 251) as u8;
        let at = append(&mut opened, &[byte; 300]);
        send.send((at, byte)).unwrap();
        if n % 25 == 0 {
            let upto = opened.writer.sync().unwrap();
            opened.keeper.put_snapshot(upto, b"").unwrap();
            let old: Vec<u32> =
                opened.keeper.segments().iter().filter(|s| !s.active).map(|s| s.number).collect();
            let old: Vec<u32> = old.into_iter().filter(|&number| number < upto.segment()).collect();
            opened.keeper.drop_segments(&old).unwrap();
        }
    }
    drop(send);
    let (read, gone) = checker.join().unwrap();
    assert!(read > 0 && gone > 0, "{read} read, {gone} gone");
}

#[test]
fn a_second_process_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let opened = start(dir.path());
    let Err(error) = open(RealDisk::create(dir.path()).unwrap(), options()) else { panic!("locked") };
    assert!(matches!(error, OpenError::Locked { .. }));
    assert!(error.to_string().contains(&dir.path().display().to_string()), "{error}");
    // Any handle keeps it.
    let reader = opened.reader.clone();
    drop(opened);
    assert!(open(RealDisk::create(dir.path()).unwrap(), options()).is_err());
    drop(reader);
    start(dir.path());
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    drop(start(dir.path()));
    let path = dir.path().join("seg-00000001.log");
    let mut bytes = fs::read(&path).unwrap();
    bytes[12] = 2;
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes[12..64]) as u32;
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let Err(error) = open(RealDisk::create(dir.path()).unwrap(), options()) else { panic!("newer") };
    assert!(matches!(error, OpenError::NewerVersion { found: 2, known: 1, .. }));
    assert!(error.to_string().contains("seg-00000001.log"), "{error}");
}

#[test]
fn the_segment_size_may_change_between_starts() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = start(dir.path());
    opened.keeper.prepare_spare().unwrap();
    append(&mut opened, &[1; 1000]);
    opened.writer.sync().unwrap();
    drop(opened);
    let larger = Options { segment_bytes: 16384, ..options() };
    let mut opened = open(RealDisk::create(dir.path()).unwrap(), larger).unwrap();
    assert!(!opened.keeper.spare_ready(), "a spare of the old size is of no use");
    for _ in 0..20 {
        append(&mut opened, &[2; 1000]);
    }
    opened.writer.sync().unwrap();
    drop(opened);
    let opened = start(dir.path());
    assert_eq!(opened.recovery.frames, 21);
    assert_eq!(opened.keeper.segments().len(), 3);
}

#[test]
fn leftovers_are_removed_and_strangers_are_not() {
    let dir = tempfile::tempdir().unwrap();
    drop(start(dir.path()));
    for name in ["snap-0000000100000040.snap.tmp", "spare-00000009.seg.tmp", "notes.tmp", "README"] {
        fs::write(dir.path().join(name), b"x").unwrap();
    }
    let opened = start(dir.path());
    assert!(!dir.path().join("snap-0000000100000040.snap.tmp").exists());
    assert!(!dir.path().join("spare-00000009.seg.tmp").exists());
    assert!(dir.path().join("notes.tmp").exists() && dir.path().join("README").exists());
    assert_eq!(opened.keeper.restore_reserve().unwrap(), Prepared::Made);
    assert_eq!(opened.keeper.restore_reserve().unwrap(), Prepared::Enough);
    assert_eq!(opened.keeper.disk_bytes().unwrap(), 4096 + 512);
}

#[test]
fn a_body_above_the_limit_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = start(dir.path());
    let huge = vec![0; driftq_wal::FRAME_BODY_BYTES_MAX as usize + 1];
    assert!(matches!(opened.writer.append(&huge), Err(WriteError::TooLarge { .. })));
    append(&mut opened, &huge[1..]);
    opened.writer.sync().unwrap();
    drop(opened);
    assert_eq!(start(dir.path()).recovery.frames, 1);
}

#[test]
fn handles_can_be_given_to_threads() {
    fn send<T: Send>() {}
    fn share<T: Send + Sync + Clone>() {}
    send::<driftq_wal::Writer<RealDisk>>();
    share::<driftq_wal::Reader<RealDisk>>();
    share::<driftq_wal::Keeper<RealDisk>>();
}

#[test]
fn of_two_snapshots_the_newer_counts_and_the_older_goes() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = start(dir.path());
    append(&mut opened, b"one");
    let first = opened.writer.sync().unwrap();
    opened.keeper.put_snapshot(first, b"older").unwrap();
    let name = format!("snap-{:016x}.snap", first.0);
    let older = fs::read(dir.path().join(&name)).unwrap();
    append(&mut opened, b"two");
    let second = opened.writer.sync().unwrap();
    opened.keeper.put_snapshot(second, b"newer").unwrap();
    assert!(!dir.path().join(&name).exists());
    drop(opened);
    // As a crash between the two steps would leave it.
    fs::write(dir.path().join(&name), older).unwrap();
    let opened = start(dir.path());
    assert_eq!(opened.snapshot.as_ref().unwrap().bytes, b"newer");
    assert_eq!((opened.start, opened.recovery.frames), (second, 0));
    assert!(!dir.path().join(&name).exists());
}
