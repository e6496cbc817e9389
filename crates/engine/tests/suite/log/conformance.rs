//! What a log is. Every function gets one that nobody has used.

use std::ops::ControlFlow;

use driftq_engine::StartError;
use driftq_engine::log::{Append, AppendError, Archive, KeepError, Log, Lsn, Opened, ReadError, Space};

/// A batch that can be told from every other.
pub(crate) fn body(n: usize) -> Vec<u8> {
    let length = 1 + n * 37 % 900;
    (0..length).map(|at| (n * 31 + at * 7) as u8).collect()
}

/// What was appended: where its first byte lies, its end, and its bytes.
pub(crate) type Written = (Lsn, Lsn, Vec<u8>);

/// Appends batches and checks that each comes to lie where the cursor said.
pub(crate) fn append<L: Log>(opened: &mut Opened<L>, numbers: std::ops::Range<usize>) -> Vec<Written> {
    numbers
        .map(|n| {
            let (mut cursor, body) = (opened.writer.cursor(), body(n));
            let at = cursor.next_body();
            if cursor.rolls() {
                // What the keeper's thread does.
                assert!(opened.archive.provide());
            }
            let end = opened.writer.append(&body).unwrap();
            assert_eq!(end, cursor.advance(body.len()));
            assert_eq!(opened.writer.sync().unwrap(), end);
            assert_eq!(opened.archive.durable(), end);
            (at, end, body)
        })
        .collect()
}

/// Everything in `[from, to)`.
pub(crate) fn replayed(archive: &impl Archive, from: Lsn, to: Lsn) -> Vec<(Lsn, Vec<u8>)> {
    let mut seen = Vec::new();
    let mut each = |at: Lsn, body: &[u8]| {
        seen.push((at, body.to_vec()));
        ControlFlow::Continue(())
    };
    archive.replay(from, to, &mut each).unwrap();
    seen
}

fn bodies(written: &[Written]) -> Vec<(Lsn, Vec<u8>)> {
    written.iter().map(|(at, _, body)| (*at, body.clone())).collect()
}

pub(crate) fn check_all(archive: &impl Archive, start: Lsn, written: &[Written]) {
    let end = written.last().map_or(start, |(_, end, _)| *end);
    assert_eq!(replayed(archive, start, end), bodies(written));
}

pub(crate) fn bodies_come_back_where_they_were_said_to_lie<L: Log>(log: &L) {
    let mut opened = log.open().unwrap();
    assert_eq!((opened.snapshot.is_some(), opened.start), (false, opened.end));
    let start = opened.start;
    let written = append(&mut opened, 0..40);
    let archive = &opened.archive;
    check_all(archive, start, &written);
    let end = opened.writer.cursor().end();
    for (n, (at, edge, body)) in written.iter().enumerate() {
        assert_eq!(replayed(archive, *edge, end), bodies(&written[n + 1..]), "from any edge on");
        assert_eq!(archive.read_at(*edge, 0), Ok(Vec::new()), "nothing, where no batch may lie");
        let length = u32::try_from(body.len()).unwrap();
        assert_eq!(&archive.read_at(*at, length).unwrap(), body);
        let middle = Lsn::new(at.segment(), at.offset() + length / 2);
        assert_eq!(archive.read_at(middle, length - length / 2).unwrap(), body[body.len() / 2..]);
    }
    let same_segment = written.windows(2).find(|two| two[0].0.segment() == two[1].0.segment()).unwrap();
    let ((one, _, first), (other, _, second)) = (&same_segment[0], &same_segment[1]);
    let gap = (other.offset() - one.offset()) as usize;
    let both = archive.read_at(*one, u32::try_from(gap + second.len()).unwrap()).unwrap();
    assert_eq!(
        (&both[..first.len()], &both[gap..]),
        (&first[..], &second[..]),
        "a stretch of several batches"
    );
    assert_eq!(archive.read_at(end, 8), Err(ReadError::OutOfRange));
    assert_eq!(archive.read_at(Lsn::new(end.segment() + 7, 200), 8), Err(ReadError::OutOfRange));
    let segments = archive.segments();
    assert!(segments.len() > 3 && segments.windows(2).all(|two| two[0].number < two[1].number));
    for (at, ..) in &written {
        assert!(archive.segment_end(at.segment()).unwrap() > at.offset().into());
    }
}

pub(crate) fn a_log_goes_on_where_it_ended<L: Log>(log: &L) {
    let mut written = Vec::new();
    let mut start = None;
    for round in 0..4 {
        let mut opened = log.open().unwrap();
        let start = *start.get_or_insert(opened.start);
        assert_eq!(opened.end, written.last().map_or(start, |(_, end, _): &Written| *end));
        check_all(&opened.archive, start, &written);
        written.extend(append(&mut opened, round * 7..round * 7 + 7));
    }
}

pub(crate) fn a_snapshot_counts_whole_or_not_at_all<L: Log>(log: &L) {
    let mut opened = log.open().unwrap();
    assert_eq!(opened.archive.snapshot().unwrap(), None);
    let written = append(&mut opened, 0..10);
    let (third, sixth, last) = (written[2].1, written[5].1, written[9].1);
    // Larger than one part, wherever there are parts.
    let large: Vec<u8> = (0..5 << 19).map(|n: u32| (n / 3) as u8).collect();
    opened.archive.put_snapshot(third, &large, &mut |bytes| bytes == large).unwrap();
    assert_eq!(opened.archive.snapshot_upto(), third);
    assert_eq!(opened.archive.snapshot().unwrap().unwrap().bytes, large);
    assert!(opened.archive.put_snapshot(sixth, b"nonsense", &mut |_| false).is_err());
    assert_eq!(opened.archive.snapshot().unwrap().unwrap().bytes, large, "the one before it stays");
    let beyond = Lsn::new(last.segment(), last.offset() + 8);
    for wrong in [beyond, written[0].1] {
        let refused = opened.archive.put_snapshot(wrong, b"x", &mut |_| true);
        assert!(matches!(refused, Err(KeepError::Refused(_))), "{refused:?}");
    }
    opened.archive.put_snapshot(sixth, b"second", &mut |_| true).unwrap();
    drop(opened);
    let opened = log.open().unwrap();
    let found = opened.snapshot.as_ref().unwrap();
    assert_eq!((found.upto, &found.bytes[..], opened.start), (sixth, &b"second"[..], sixth));
    assert_eq!(replayed(&opened.archive, sixth, opened.end), bodies(&written[6..]));
}

pub(crate) fn what_a_snapshot_stands_for_can_be_trimmed<L: Log>(log: &L) {
    let mut opened = log.open().unwrap();
    let mut written = append(&mut opened, 0..60);
    let upto = written[40].1;
    opened.archive.put_snapshot(upto, b"state", &mut |_| true).unwrap();
    let refused = opened.archive.trim(&[1, upto.segment()]);
    assert!(matches!(refused, Err(KeepError::Refused(_))), "{refused:?}");
    check_all(&opened.archive, opened.start, &written);
    // Not in a row: one segment in the middle is still needed.
    let kept = 2;
    let dropped: Vec<u32> = (1..upto.segment()).filter(|number| *number != kept).collect();
    assert!(dropped.len() > 2);
    opened.archive.trim(&dropped).unwrap();
    opened.archive.trim(&dropped).unwrap();
    let check = |archive: &L::Archive, written: &[Written]| {
        for (at, _, body) in written {
            let read = archive.read_at(*at, u32::try_from(body.len()).unwrap());
            let expected =
                if dropped.contains(&at.segment()) { Err(ReadError::Gone) } else { Ok(body.clone()) };
            assert_eq!(read, expected, "{at}");
        }
        assert!(archive.segments().iter().all(|segment| !dropped.contains(&segment.number)));
    };
    check(&opened.archive, &written);
    written.extend(append(&mut opened, 60..70));
    drop(opened);
    let opened = log.open().unwrap();
    check(&opened.archive, &written);
    assert_eq!(replayed(&opened.archive, upto, opened.end), bodies(&written[41..]));
}

pub(crate) fn a_replay_stops_when_it_is_told_to<L: Log>(log: &L) {
    let mut opened = log.open().unwrap();
    append(&mut opened, 0..9);
    let mut seen = 0;
    let mut each = |_: Lsn, _: &[u8]| {
        seen += 1;
        if seen == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    opened.archive.replay(opened.start, opened.writer.cursor().end(), &mut each).unwrap();
    assert_eq!(seen, 4);
    assert_eq!(replayed(&opened.archive, opened.start, opened.writer.cursor().end()).len(), 9);
}

/// Two servers and one log that both can reach.
pub(crate) fn a_deposed_writer_leaves_nothing_behind<L: Log>(one: &L, other: &L) {
    let mut first = one.open().unwrap();
    let mut written = append(&mut first, 0..20);
    let upto = written[10].1;
    let mut second = other.open().unwrap();
    assert_eq!(second.end, first.writer.cursor().end());
    for _ in 0..2 {
        let refused = first.writer.append(b"too late");
        assert!(matches!(refused, Err(AppendError::Fenced(_))), "{refused:?}");
    }
    assert!(matches!(first.writer.sync(), Err(AppendError::Fenced(_))), "it is over for good");
    let refused = first.archive.put_snapshot(upto, b"too late", &mut |_| true);
    assert!(matches!(refused, Err(KeepError::Fenced(_))), "{refused:?}");
    check_all(&second.archive, second.start, &written);
    assert_eq!(second.archive.snapshot().unwrap(), None);
    second.archive.put_snapshot(upto, b"state", &mut |_| true).unwrap();
    written.extend(append(&mut second, 20..30));
    let refused = first.writer.append(b"too late");
    assert!(matches!(refused, Err(AppendError::Fenced(_))), "{refused:?}");
    drop(first);
    let refused = one.open().map(drop);
    assert!(matches!(refused, Err(StartError::Fenced(_))), "it does not take back what was taken from it");
    drop(second);
    let mut second = other.open().unwrap();
    assert_eq!(replayed(&second.archive, upto, second.end), bodies(&written[11..]));
    append(&mut second, 30..35);
}

/// A server that was deposed deletes nothing.
pub(crate) fn a_deposed_keeper_trims_nothing<L: Log>(one: &L, other: &L) {
    let mut first = one.open().unwrap();
    let written = append(&mut first, 0..40);
    first.archive.put_snapshot(written[39].1, b"state", &mut |_| true).unwrap();
    let second = other.open().unwrap();
    let refused = first.archive.trim(&[1]);
    assert!(matches!(refused, Err(KeepError::Fenced(_))), "{refused:?}");
    for (at, _, body) in &written {
        assert_eq!(second.archive.read_at(*at, u32::try_from(body.len()).unwrap()).as_ref(), Ok(body));
    }
}

/// A server that has nothing to write learns all the same that it was deposed.
pub(crate) fn a_deposed_server_is_told_when_it_asks<L: Log>(one: &L, other: &L) {
    let first = one.open().unwrap();
    first.archive.check_claim().unwrap();
    let second = other.open().unwrap();
    let told = first.archive.check_claim();
    assert!(matches!(told, Err(KeepError::Fenced(_))), "{told:?}");
    second.archive.check_claim().unwrap();
}
