//! What cannot be meant is refused before anything happens.

use std::time::Duration;

use super::Harness;
use super::kit::{Case, LONG, is_invalid, success};
use crate::{
    ATTEMPTS_MAX, DIGEST_BYTES_MAX, ERROR_BYTES_MAX, Ending, Filter, HEADER_NAME_BYTES_MAX,
    HEADER_VALUE_BYTES_MAX, HEADERS_MAX, LEASE_MAX, LedgerError, NOTE_BYTES_MAX, PAGE_MAX, RequestHash,
    Response, Status, Sweep, TTL_MAX,
};

/// Terms that cannot be kept, and invalid names of calls and owners.
pub async fn a_begin_that_cannot_be_meant_is_refused(harness: &dyn Harness) {
    let case = Case::new(harness);
    let tiny = Duration::from_nanos(1);
    for terms in [
        case.long().lease(Duration::ZERO),
        case.long().lease(tiny),
        case.long().lease(LEASE_MAX + tiny),
        case.long().lease(Duration::MAX),
        case.long().ttl(Duration::ZERO),
        case.long().ttl(TTL_MAX + tiny),
        case.long().attempts_max(0),
        case.long().attempts_max(ATTEMPTS_MAX + 1),
    ] {
        is_invalid(&case.ledger().begin(case.asking("k").terms(terms.clone())).await);
        is_invalid(&case.ledger().reacquire(case.retrying("k").terms(terms)).await);
    }
    let long = "x".repeat(NOTE_BYTES_MAX + 1);
    for note in ["", "a\nb", "\0", &long] {
        is_invalid(&case.ledger().begin(case.asking("k").call(note)).await);
        is_invalid(&case.ledger().begin(case.asking("k").owner(note)).await);
    }
    case.is_forgotten("k").await;
}

/// Terms exactly at their bounds are allowed.
pub async fn terms_at_their_bounds_are_kept(harness: &dyn Harness) {
    let case = Case::new(harness);
    let longest = case.long().lease(LEASE_MAX).ttl(TTL_MAX).attempts_max(ATTEMPTS_MAX);
    let note = "x".repeat(NOTE_BYTES_MAX);
    let asked = case.asking("long").terms(longest).call(note.clone()).owner(note.clone());
    let lease = super::kit::executes(case.told(asked).await, 1, 1);
    let record = case.record("long").await;
    assert_eq!((record.owner, record.attempts_max), (Some(note), Some(ATTEMPTS_MAX)));
    case.commit(&lease, &success("done")).await;
    let kept = case.record("long").await;
    let finished_at = kept.outcome.expect("it ended").finished_at;
    assert_eq!(kept.expires_at.map(|at| at.since(finished_at)), Some(TTL_MAX));
    let shortest = case.long().lease(Duration::from_millis(1)).ttl(Duration::from_millis(1));
    case.first_on("short", shortest).await;
}

/// Endings that are too large, or that no store could keep.
pub async fn an_ending_that_cannot_be_kept_is_refused(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.first("k").await;
    let before = case.record("k").await;
    let limit = case.ledger().settings().payload_bytes_max;
    let large = Ending::succeeded(Response::new(vec![0; limit + 1]));
    let refused = case.ledger().finish(&lease, &large).await;
    assert_eq!(refused, Err(LedgerError::TooLarge { bytes: limit + 1, limit }));
    let many = (0..=HEADERS_MAX).fold(Response::default(), |one, at| one.header(format!("h{at}"), ""));
    for response in [
        many,
        Response::default().header("", "no name"),
        Response::default().header("x".repeat(HEADER_NAME_BYTES_MAX + 1), ""),
        Response::default().header("x", "x".repeat(HEADER_VALUE_BYTES_MAX + 1)),
        Response::default().header("x", "a\r\nset-cookie: b"),
        Response::default().header("x\0", ""),
    ] {
        is_invalid(&case.ledger().finish(&lease, &Ending::succeeded(response)).await);
    }
    for error in ["x".repeat(ERROR_BYTES_MAX + 1), "a\0b".to_owned()] {
        is_invalid(&case.ledger().finish(&lease, &Ending::failed_final(error)).await);
    }
    assert_eq!(case.record("k").await, before);
    let full = Ending::failed_final("x".repeat(ERROR_BYTES_MAX)).response(
        Response::default().header("x".repeat(HEADER_NAME_BYTES_MAX), "x".repeat(HEADER_VALUE_BYTES_MAX)),
    );
    case.commit(&lease, &full).await;
    super::kit::is_what_was_said(&case.replayed("k").await, &lease, &full);
}

/// A renewal has the bounds of a lease.
pub async fn a_renewal_that_cannot_be_meant_is_refused(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.first("k").await;
    for lasts in [Duration::ZERO, LEASE_MAX + Duration::from_nanos(1), Duration::MAX] {
        is_invalid(&case.ledger().renew(&lease, lasts).await);
    }
    assert_eq!(case.record("k").await.lease_expires_at, Some(lease.expires_at));
}

/// Who says so and how that is known must be said.
pub async fn a_resolution_says_who_and_why(harness: &dyn Harness) {
    let case = Case::new(harness);
    case.unknown("k").await;
    let (long_by, long_why) = ("x".repeat(NOTE_BYTES_MAX + 1), "x".repeat(ERROR_BYTES_MAX + 1));
    for (by, why) in [
        ("", "why"),
        (" ", "why"),
        ("ann", ""),
        ("ann", "\t"),
        (&long_by, "why"),
        ("ann", &long_why),
        ("a\0", "w"),
    ] {
        let mut found = case.found("k", success("found"));
        (found.resolver.by, found.resolver.why) = (by.to_owned(), why.to_owned());
        is_invalid(&case.ledger().resolve(&found).await);
    }
    let mut found = case.found("k", success("found"));
    found.ttl = Duration::ZERO;
    is_invalid(&case.ledger().resolve(&found).await);
    let limit = case.ledger().settings().payload_bytes_max;
    found.ttl = LONG;
    found.ending = Ending::succeeded(Response::new(vec![0; limit + 1]));
    let refused = case.ledger().resolve(&found).await;
    assert_eq!(refused, Err(LedgerError::TooLarge { bytes: limit + 1, limit }));
    assert_eq!(case.record("k").await.status, Status::Unknown);
}

/// Pages and rounds have bounds.
pub async fn pages_and_rounds_have_bounds(harness: &dyn Harness) {
    let case = Case::new(harness);
    for limit in [0, PAGE_MAX + 1, u32::MAX] {
        is_invalid(&case.ledger().list(&Filter { limit, ..Filter::default() }).await);
        is_invalid(&case.ledger().sweep(Sweep { dry_run: true, limit }).await);
    }
    for filter in [
        Filter { principal: Some("x".repeat(256)), limit: 1, ..Filter::default() },
        Filter { method: Some("a\0b".to_owned()), limit: 1, ..Filter::default() },
    ] {
        is_invalid(&case.ledger().list(&filter).await);
    }
    let all = Filter { limit: PAGE_MAX, ..Filter::default() };
    assert!(case.ledger().list(&all).await.is_ok());
}

/// A hash of the caller's own has bounds, and within them it is kept as it is.
pub async fn a_foreign_hash_is_kept_as_it_is(harness: &dyn Harness) {
    let case = Case::new(harness);
    for digest in ["", "a\nb", "\0", &"x".repeat(DIGEST_BYTES_MAX + 1)] {
        assert!(matches!(RequestHash::foreign(digest), Err(LedgerError::Invalid(_))), "{digest:?}");
    }
    let digests = ["a", "A", "ü 漢", " a ", "1:a", &"x".repeat(DIGEST_BYTES_MAX)];
    for (at, digest) in digests.into_iter().enumerate() {
        let hash = RequestHash::foreign(digest).expect("a digest");
        let identity = case.identity(&format!("k{at}"));
        let asked = crate::Begin::new(identity, hash.clone()).terms(case.long());
        super::kit::executes(case.told(asked).await, 1, 1);
        assert_eq!(case.record(&format!("k{at}")).await.request_hash, hash.to_string());
    }
}
