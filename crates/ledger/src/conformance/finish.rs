//! The holder of a lease says how it ended.

use bytes::Bytes;

use super::Harness;
use super::kit::{Case, LONG, endings, is_stale, is_what_was_said, may_be_tried, replays, success};
use crate::{End, Ending, Finished, HEADERS_MAX, Proof, Response, Status};

/// Code, headers and payload come back as they were, to every caller.
pub async fn a_response_comes_back_as_it_was(harness: &dyn Harness) {
    let case = Case::new(harness);
    let text = "line\r\n\t\"quoted\" ü 漢 \u{1f680} \0 end";
    let every_byte: Vec<u8> = (0..=255).collect();
    let large: Vec<u8> = (0..100_000_u32).map(|at| u8::try_from(at % 251).unwrap_or(0)).collect();
    let many = (0..HEADERS_MAX).fold(Response::new("many"), |response, at| {
        response.header(format!("x-header-{at}"), "x".repeat(at))
    });
    let responses = [
        Response::default(),
        Response::new(""),
        Response::new(text),
        Response::new(every_byte),
        Response::new(large),
        Response::new("{}").code(200).header("content-type", "application/json"),
        Response::new("no").code(-2_147_483_648).header("X-Odd", "a: b, c; \"d\""),
        Response::default().code(i32::MAX).header("greeting", "grüß dich, 漢字 🚀").header("empty", ""),
        Response::default().code(0).header("ключ", "значение").header("Case", "1").header("case", "2"),
        many,
    ];
    for (at, response) in responses.into_iter().enumerate() {
        for end in [End::Succeeded, End::FailedFinal, End::FailedRetryable] {
            let key = format!("{at} {end:?}");
            let error = if end == End::Succeeded { String::new() } else { format!("it failed: ü {at}") };
            let ending = Ending { end, response: response.clone(), error };
            let lease = case.ended(&key, &ending).await;
            let outcome = match end {
                End::FailedRetryable => may_be_tried(case.begin(&key).await).0,
                End::Succeeded | End::FailedFinal => replays(case.begin(&key).await),
            };
            is_what_was_said(&outcome, &lease, &ending);
            assert_eq!(case.record(&key).await.outcome, Some(outcome), "{key}");
        }
    }
}

/// What a record says after the end.
pub async fn a_record_says_how_it_ended(harness: &dyn Harness) {
    let case = Case::new(harness);
    for ending in endings() {
        let key = format!("{:?}", ending.end);
        let lease = case.ended(&key, &ending).await;
        let record = case.record(&key).await;
        assert_eq!(record.status, Status::from(ending.end));
        assert_eq!((record.epoch, record.attempts, record.lease_live), (1, 1, false));
        assert_eq!(record.lease_expires_at, None, "there is no lease any more");
        let outcome = record.outcome.expect("it ended");
        is_what_was_said(&outcome, &lease, &ending);
        assert!(outcome.finished_at >= record.created_at, "{outcome:?}");
        let kept = record.expires_at.expect("its time will be over").since(outcome.finished_at);
        assert_eq!(kept, LONG, "the outcome is remembered from the moment it ended");
    }
}

/// Weakness of the seed's contract: a second identical finish looked stale. Its answer may have been lost, so it is
/// told that all is well.
pub async fn a_second_identical_finish_is_not_stale(harness: &dyn Harness) {
    let case = Case::new(harness);
    for ending in endings() {
        let ending = ending.response(Response::new("x").code(7).header("a", "b"));
        let key = format!("{:?}", ending.end);
        let lease = case.ended(&key, &ending).await;
        let before = case.record(&key).await;
        for _ in 0..2 {
            let again = case.ledger().finish(&lease, &ending).await;
            assert_eq!(again, Ok(Finished::AlreadyCommitted), "{key}");
        }
        assert_eq!(case.record(&key).await, before, "nothing changes");
    }
}

/// A holder that said how it ended cannot say otherwise later.
pub async fn a_second_finish_that_differs_is_stale(harness: &dyn Harness) {
    let case = Case::new(harness);
    let base = Ending::succeeded(Response::new("x").code(7).header("a", "b"));
    let lease = case.ended("k", &base).await;
    let before = case.record("k").await;
    let different = [
        base.clone().response(Response::new("x").code(8).header("a", "b")),
        base.clone().response(Response::new("x").header("a", "b")),
        base.clone().response(Response::new("x").code(7).header("a", "c")),
        base.clone().response(Response::new("x").code(7)),
        base.clone().response(Response::new("y").code(7).header("a", "b")),
        base.clone().response(Response::default().code(7).header("a", "b")),
        Ending { error: "e".to_owned(), ..base.clone() },
        Ending { end: End::FailedFinal, ..base.clone() },
        Ending { end: End::FailedRetryable, ..base.clone() },
    ];
    for other in different {
        is_stale(&case.ledger().finish(&lease, &other).await);
    }
    assert_eq!(case.record("k").await, before, "the first ending stays");
    is_stale(&case.ledger().renew(&lease, LONG).await);
    assert_eq!(case.record("k").await, before, "what has ended does not go on");
}

/// A failure that another caller took on again is over for the holder before, even if that one says the same once more.
pub async fn a_failure_that_was_taken_on_is_over(harness: &dyn Harness) {
    let case = Case::new(harness);
    let failure = Ending::failed_retryable("for now");
    let old = case.ended("k", &failure).await;
    let new = super::kit::executes(case.told(case.asking("k").reacquire()).await, 2, 2);
    is_stale(&case.ledger().finish(&old, &failure).await);
    case.is_shut_out(&old).await;
    case.commit(&new, &failure).await;
    is_stale(&case.ledger().finish(&old, &failure).await);
    let (outcome, _) = may_be_tried(case.begin("k").await);
    is_what_was_said(&outcome, &new, &failure);
}

/// A lease says nothing about effects other than its own, and one that no store gave out says nothing at all.
pub async fn a_lease_of_something_else_is_worth_nothing(harness: &dyn Harness) {
    let case = Case::new(harness);
    let mine = case.first("mine").await;
    let other = case.first("other").await;
    let mut crossed = mine.clone();
    crossed.identity = other.identity.clone();
    let crossed_finish = case.ledger().finish(&crossed, &success("crossed")).await;
    match &mine.proof {
        Proof::Record(number) => {
            is_stale(&crossed_finish);
            let mut forged = mine.clone();
            forged.proof = Proof::Record(number + 1_000_000_007);
            case.is_shut_out(&forged).await;
            forged.proof = Proof::Token("nobody's".to_owned());
            assert!(case.ledger().finish(&forged, &success("forged")).await.is_err());
        }
        // A sealed text itself says what it is about, so only its own effect can have ended.
        Proof::Token(token) => {
            let mut forged = other.clone();
            forged.proof = Proof::Token(format!("{token}x"));
            assert!(case.ledger().finish(&forged, &success("forged")).await.is_err());
            forged.proof = Proof::Record(1);
            assert!(case.ledger().finish(&forged, &success("forged")).await.is_err());
        }
    }
    assert_eq!(case.record("other").await.status, Status::InProgress);
    case.commit(&other, &success("other")).await;
}

/// An answer without a payload is an answer.
pub async fn an_empty_answer_is_an_answer(harness: &dyn Harness) {
    let case = Case::new(harness);
    let lease = case.ended("k", &Ending::succeeded(Response::default())).await;
    let outcome = case.replayed("k").await;
    assert_eq!((outcome.response.code, outcome.response.payload), (None, Bytes::new()));
    assert_eq!(case.ledger().finish(&lease, &success("")).await, Ok(Finished::AlreadyCommitted));
}

/// That a payload was too large to keep is kept.
pub async fn an_omitted_payload_leaves_its_size(harness: &dyn Harness) {
    let case = Case::new(harness);
    case.ended("k", &Ending::succeeded(Response::new("12345").code(200).omit_payload())).await;
    let response = case.replayed("k").await.response;
    assert_eq!((response.omitted(), response.code, response.payload), (Some(5), Some(200), Bytes::new()));
}
