//! What is remembered of attempts, however much a receiver says.

use std::collections::BTreeMap;

use driftq_client::Moment;
use driftq_connect::deliver::attempt::{ATTEMPTS_MAX, Attempt, Attempts, Ending};

fn attempt(number: u32, body: &str, error: &str) -> Attempt {
    Attempt {
        attempt: number,
        at: Moment::parse("2026-11-17T08:00:00Z").unwrap(),
        took_ms: Some(12),
        outcome: Ending::Failed,
        status: Some(503),
        headers: BTreeMap::new(),
        body: body.to_owned(),
        error: error.to_owned(),
        by: "deliver-1".to_owned(),
    }
}

#[test]
fn attempts_have_the_form_of_the_contract_and_come_back() {
    let mut attempts = Attempts::default();
    assert_eq!(attempts.next(), 1);
    attempts.push(attempt(1, "busy", "the receiver answered 503"));
    let body = attempts.body();
    let text = r#"{"attempts":[{"attempt":1,"at":"2026-11-17T08:00:00Z","took_ms":12,"outcome":"failed","status":503,"body":"busy","error":"the receiver answered 503","by":"deliver-1"}]}"#;
    assert_eq!(String::from_utf8(body.clone()).unwrap(), text);
    assert_eq!(Attempts::read(&body), attempts);
    for other in ["", "ch_981", "{}", r#"{"attempts":1}"#] {
        assert_eq!(Attempts::read(other.as_bytes()), Attempts::default(), "{other}");
    }
}

#[test]
fn the_last_ones_are_kept_and_their_numbers_go_on() {
    let mut attempts = Attempts::default();
    for _ in 0..ATTEMPTS_MAX + 5 {
        attempts.push(attempt(attempts.next(), "", ""));
    }
    let numbers: Vec<u32> = attempts.attempts.iter().map(|attempt| attempt.attempt).collect();
    assert_eq!(numbers, (6..=25).collect::<Vec<u32>>());
}

#[test]
fn a_receiver_that_says_too_much_does_not_make_them_too_long() {
    // Each of these bytes is written as six.
    let (body, error) = ("\u{1}".repeat(2048), "\u{1}".repeat(5000));
    let mut attempts = Attempts::default();
    for number in 1..=20 {
        attempts.push(attempt(number, &body, &error));
    }
    let text = attempts.body();
    assert!(text.len() <= 128 << 10, "{}", text.len());
    let kept = Attempts::read(&text).attempts;
    let last = kept.last().unwrap();
    assert_eq!((last.attempt, &last.error[..]), (20, &error[..1024]));
}
