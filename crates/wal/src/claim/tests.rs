//! The rules, one by one.

use super::{Behind, Edge, Head, Joined, Joiner, Looked, Marks, Next, Row, Sent, Stop, may_claim};
use crate::Lsn;

const fn at(offset: u32) -> Lsn {
    Lsn::new(1, offset)
}

const fn head(epoch: u64, frame: u32, part: u32, parts: u32) -> Head {
    Head { epoch, frame: at(frame), previous: at(frame), ended: at(frame + 100), part, parts }
}

fn marks(claims: &[(u64, u64)]) -> Marks<u32> {
    let mut marks = Marks::default();
    claims.iter().for_each(|(sequence, epoch)| marks.push(*sequence, *epoch, None));
    marks
}

/// Whatever was seen, only a record that was found is told, and only somebody else's deposes.
#[test]
fn nothing_is_told_on_doubt() {
    assert_eq!(Sent::Taken.next(), Next::Tell);
    assert_eq!(Sent::Unknown.next(), Next::Look);
    assert_eq!(Sent::Refused.next(), Next::Look);
    assert_eq!(Sent::Elsewhere.next(), Next::Stop(Stop::Failed));
    let (own, previous) = (3, at(200));
    let told = [
        (Row { claim: 3, there: Some(3), before: previous }, Next::Tell),
        // Deposed since, but it was there in time.
        (Row { claim: 4, there: Some(3), before: previous }, Next::Tell),
        (Row { claim: 3, there: None, before: previous }, Next::Send),
        (Row { claim: 4, there: None, before: previous }, Next::Stop(Stop::Fenced)),
        (Row { claim: 4, there: Some(4), before: previous }, Next::Stop(Stop::Fenced)),
        (Row { claim: 3, there: Some(2), before: previous }, Next::Stop(Stop::Fenced)),
        (Row { claim: 3, there: None, before: at(100) }, Next::Stop(Stop::Failed)),
    ];
    for (row, next) in told {
        assert_eq!(row.looked(own, previous).next(), next, "{row:?}");
    }
    let told = [
        (Behind::Record { ours: true }, Looked::Ours),
        (Behind::Record { ours: false }, Looked::Foreign),
        (Behind::Last(7), Looked::Nothing),
        (Behind::Last(6), Looked::Shorter),
        (Behind::Last(8), Looked::Lags),
    ];
    for (behind, looked) in told {
        assert_eq!(behind.looked(7), looked, "{behind:?}");
    }
    assert_eq!(Looked::Lags.next(), Next::Look);
}

#[test]
fn who_was_deposed_does_not_take_the_log_back() {
    assert!(Stop::Fenced.is_for_good() && !Stop::Failed.is_for_good());
    assert!(may_claim(false, false) && may_claim(true, true) && !may_claim(true, false));
    let marks = marks(&[(1, 1), (5, 2)]);
    assert!(marks.is_newest(9, 3) && !marks.is_newest(9, 2) && marks.is_newest(3, 2));
}

/// The tale of a stream: an unfinished batch, a claim, a batch of the deposed server that came late, and the new
/// server's at the same place.
#[test]
fn what_was_late_or_left_unfinished_never_happened() {
    let marks = marks(&[(1, 1), (5, 2)]);
    let tale: [(u64, Head, &[u8]); 7] = [
        (2, head(1, 64, 0, 1), b"one"),
        (3, head(1, 200, 0, 3), b"tor"),
        (4, head(1, 200, 1, 3), b"n"),
        (6, head(1, 200, 2, 3), b"!"),
        (7, head(1, 200, 0, 1), b"late"),
        (8, head(2, 200, 0, 2), b"tw"),
        (9, head(2, 200, 1, 2), b"o"),
    ];
    let (mut joiner, mut whole) = (Joiner::default(), Vec::new());
    for (sequence, head, body) in &tale {
        match joiner.take(*sequence, head, body, &marks, 100).unwrap() {
            Some(Joined::Alone) => whole.push(body.to_vec()),
            Some(Joined::Parts(bytes)) => whole.push(bytes),
            None => {}
        }
    }
    assert_eq!(whole, [b"one".to_vec(), b"two".to_vec()]);
    let edges = tale.map(|(sequence, head, _)| marks.edge(sequence, &head));
    let (first, torn, late) = (Edge::End(at(164)), Edge::Torn(at(200)), Edge::Deposed);
    assert_eq!(edges, [first, torn, torn, late, late, torn, Edge::End(at(300))]);
    assert!(joiner.take(10, &head(2, 300, 0, 1), &[0; 101], &marks, 100).is_err());
    assert!(joiner.take(10, &head(2, 300, 1, 1), b"", &marks, 100).is_err());
}

#[test]
fn a_mark_is_needed_as_long_as_it_speaks_of_what_is_there() {
    let mut marks = marks(&[(1, 1), (10, 2)]);
    marks.push(15, 2, Some(1));
    marks.push(20, 3, None);
    assert_eq!(marks.needed_from(8), 1);
    assert_eq!(marks.needed_from(12), 10);
    assert_eq!(marks.needed_from(30), 15, "the snapshot that counts is named there");
    assert_eq!(marks.snapshot(), Some(&1));
    marks.push(21, 2, Some(2));
    assert_eq!(marks.snapshot(), Some(&1), "a late one does not count");
    assert_eq!(marks.needed_from(30), 15, "and removes nothing");
}
