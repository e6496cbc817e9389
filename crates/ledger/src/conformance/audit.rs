//! What became of records that did not just begin and end. A store may keep none of it, and says so.

use super::Harness;
use super::kit::{Case, executes, success};
use crate::{AuditFilter, Ending, Event, LedgerError, Note, OnLapse, Status};

/// The notes about an effect, or nothing if the store keeps none.
async fn notes(case: &Case<'_>, key: &str) -> Option<Vec<Note>> {
    let filter = AuditFilter { identity: Some(case.identity(key)), limit: 100, ..AuditFilter::default() };
    match case.ledger().audit(&filter).await {
        Ok(page) => {
            assert_eq!((page.cursor, page.unreadable), (None, 0));
            Some(page.notes)
        }
        Err(LedgerError::Unsupported(_)) => None,
        Err(error) => panic!("the audit is kept, or it is not: {error}"),
    }
}

/// A request that begins, runs and ends leaves nothing but its record.
pub async fn what_just_begins_and_ends_leaves_no_note(harness: &dyn Harness) {
    let case = Case::new(harness);
    for (key, ending) in [("done", success("done")), ("refused", Ending::failed_final("no"))] {
        let lease = case.first(key).await;
        case.ledger().renew(&lease, super::kit::LONG).await.expect("it goes on");
        case.commit(&lease, &ending).await;
        case.replayed(key).await;
        assert!(notes(&case, key).await.is_none_or(|notes| notes.is_empty()));
    }
}

/// The record forgets who resolved it and why as soon as it is tried again. The audit does not.
pub async fn a_resolution_is_remembered_after_the_next_attempt(harness: &dyn Harness) {
    let case = Case::new(harness);
    case.unknown("k").await;
    case.resolve("k", Ending::failed_retryable("not in the books")).await;
    executes(case.told(case.asking("k").reacquire().owner("worker-2")).await, 3, 2);
    assert_eq!(case.record("k").await.outcome, None, "the record knows nothing of it any more");
    let Some(notes) = notes(&case, "k").await else { return };
    let said: Vec<_> = notes.iter().map(|note| (note.event, note.from, note.to, note.epoch)).collect();
    let expected = [
        (Event::Lapsed, Status::InProgress, Some(Status::Unknown), 1),
        (Event::Resolved, Status::Unknown, Some(Status::FailedRetryable), 2),
        (Event::Reacquired, Status::FailedRetryable, Some(Status::InProgress), 3),
    ];
    assert_eq!(said, expected);
    assert_eq!(notes[1].by.as_deref(), Some("ann"));
    assert_eq!(notes[1].why.as_deref(), Some("looked it up: ü"));
    assert_eq!((notes[2].by.as_deref(), notes[2].attempt), (Some("worker-2"), 2));
    assert!(notes.is_sorted_by_key(|note| note.at), "{notes:?}");
}

/// Every way in which a record can leave the straight path is noted, with who and why.
pub async fn every_turn_of_a_record_is_noted(harness: &dyn Harness) {
    let case = Case::new(harness);
    let brief = harness.brief();
    let first = case.asking("k").terms(case.lapsing(OnLapse::Retry)).owner("one");
    let old = executes(case.told(first).await, 1, 1);
    harness.elapse(&old.identity).await;
    let second = case.asking("k").terms(case.lapsing(OnLapse::Hold)).owner("two");
    let held = executes(case.told(second).await, 2, 2);
    harness.elapse(&held.identity).await;
    super::kit::is_unknown(&case.begin("k").await, &held);
    case.ledger().renew(&held, super::kit::LONG).await.expect("it goes on");
    case.commit(&held, &Ending::failed_retryable("the provider is down")).await;
    let third = case.asking("k").terms(case.long().ttl(brief)).reacquire().owner("three");
    let last = executes(case.told(third).await, 3, 3);
    case.commit(&last, &success("done")).await;
    harness.expire(&last.identity).await;
    executes(case.told(case.asking("k").owner("four")).await, 1, 1);
    let Some(notes) = notes(&case, "k").await else { return };
    let words = |note: &Note| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        (note.event, note.from, note.to, note.epoch, note.attempt, text(&note.by), text(&note.why))
    };
    let expected = [
        (Event::TakenOver, Status::InProgress, Some(Status::InProgress), 2, 2, "two", ""),
        (Event::Lapsed, Status::InProgress, Some(Status::Unknown), 2, 2, "", ""),
        (Event::Returned, Status::Unknown, Some(Status::InProgress), 2, 2, "two", ""),
        (
            Event::Ended,
            Status::InProgress,
            Some(Status::FailedRetryable),
            2,
            2,
            "two",
            "the provider is down",
        ),
        (Event::Reacquired, Status::FailedRetryable, Some(Status::InProgress), 3, 3, "three", ""),
        (Event::Ended, Status::InProgress, Some(Status::Succeeded), 3, 3, "three", ""),
        (Event::BegunAnew, Status::Succeeded, Some(Status::InProgress), 1, 1, "four", ""),
    ];
    let expected = expected.map(|(event, from, to, epoch, attempt, by, why)| {
        (event, from, to, epoch, attempt, by.to_owned(), why.to_owned())
    });
    assert_eq!(notes.iter().map(words).collect::<Vec<_>>(), expected);
}

/// Notes come oldest first, page by page, each once; those about one effect when asked for.
pub async fn notes_come_in_pages_and_for_one_effect(harness: &dyn Harness) {
    let case = Case::new(harness);
    for key in ["a", "b"] {
        for epoch in 1..=3 {
            let asked = case.asking(key).reacquire();
            let lease = executes(case.told(asked).await, epoch, epoch);
            case.commit(&lease, &Ending::failed_retryable("for now")).await;
        }
    }
    let Some(whole) = notes(&case, "a").await else { return };
    assert_eq!(whole.len(), 5, "{whole:?}");
    let mut filter = AuditFilter { identity: Some(case.identity("a")), limit: 2, ..AuditFilter::default() };
    let mut found = Vec::new();
    loop {
        let page = case.ledger().audit(&filter).await.expect("it lists");
        assert!(page.notes.len() <= 2);
        found.extend(page.notes);
        let Some(cursor) = page.cursor else { break };
        filter.cursor = Some(cursor);
    }
    assert_eq!(found, whole);
    let strange = AuditFilter { cursor: Some("yesterday".to_owned()), limit: 1, ..AuditFilter::default() };
    super::kit::is_invalid(&case.ledger().audit(&strange).await);
    super::kit::is_invalid(&case.ledger().audit(&AuditFilter::default()).await);
    let all = case.ledger().audit(&AuditFilter { limit: 1000, ..AuditFilter::default() }).await;
    assert!(all.expect("it lists").notes.len() >= if harness.is_alone() { 10 } else { 1 });
}
