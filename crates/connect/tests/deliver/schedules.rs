//! When a delivery is tried again, and when an endpoint is left alone.

use std::time::Duration;

use driftq_connect::deliver::breaker::{Breaker, Change, Permit};
use driftq_connect::deliver::endpoint::{Endpoint, Kind, OnUnknown};
use driftq_connect::deliver::schedule::{Next, after, retry_after};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn the_usual_schedule_is_that_of_the_standard() {
    let endpoint = Endpoint::new("orders", Kind::Webhook, "http://receiver.example/");
    let waits: Vec<Next> = (1..=10).map(|attempt| after(endpoint.schedule(), attempt, None)).collect();
    let hours = |count: u64| Next::Again(seconds(count * 3600));
    let expected = [
        Next::Again(seconds(5)),
        Next::Again(seconds(300)),
        Next::Again(seconds(1800)),
        hours(2),
        hours(5),
        hours(10),
        hours(14),
        hours(20),
        hours(24),
        Next::Over,
    ];
    assert_eq!(waits, expected);
    assert_eq!(after(endpoint.schedule(), u32::MAX, None), Next::Over);
    assert_eq!(after(&[], 1, Some(seconds(5))), Next::Over);
}

#[test]
fn a_receiver_may_ask_for_more_time_and_not_for_less() {
    let schedule = [10_000];
    for (asked, expected) in [(5, 10), (10, 10), (60, 60), (86_400, 86_400), (864_000, 86_400)] {
        assert_eq!(after(&schedule, 1, Some(seconds(asked))), Next::Again(seconds(expected)));
    }
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    // Sun, 06 Nov 1994 08:49:37 GMT, by `date -u -d … +%s`.
    let then = 784_111_777;
    let day = seconds(86_400);
    for (value, expected) in [
        ("0", Some(seconds(0))),
        ("120", Some(seconds(120))),
        (" 7 ", Some(seconds(7))),
        ("99999999999999999999999", Some(day)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(seconds(60))),
        ("Sun, 06 Nov 1994 08:48:37 GMT", Some(seconds(0))),
        ("Mon, 06 Nov 1995 08:49:37 GMT", Some(day)),
        ("Sun, 06 Nov 1994 08:49:37 CET", None),
        ("Sun, 06 Nov 1994 25:49:37 GMT", None),
        ("Sun, 31 Feb 1994 08:49:37 GMT", None),
        ("Sun Nov  6 08:49:37 1994", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("", None),
    ] {
        assert_eq!(retry_after(value, seconds(then - 60)), expected, "{value}");
    }
}

#[test]
fn who_can_tell_a_repeat_gets_one() {
    let endpoint = |kind| Endpoint::new("orders", kind, "");
    assert_eq!(endpoint(Kind::Webhook).on_unknown(), OnUnknown::Resend);
    assert_eq!(endpoint(Kind::Http).on_unknown(), OnUnknown::Hold);
    assert_eq!(endpoint(Kind::Email).on_unknown(), OnUnknown::Hold);
    let honest = Endpoint { honours_key: true, ..endpoint(Kind::Http) };
    assert_eq!(honest.on_unknown(), OnUnknown::Resend);
    let held = Endpoint { on_unknown: Some(OnUnknown::Hold), ..honest };
    assert_eq!(held.on_unknown(), OnUnknown::Hold);
}

fn fail(breaker: &mut Breaker, count: usize, now: Duration) -> Vec<Change> {
    (0..count).filter_map(|_| breaker.record(now, true)).collect()
}

#[test]
fn ten_failures_in_a_row_open_it_and_one_probe_goes_at_a_time() {
    let mut breaker = Breaker::default();
    assert_eq!(fail(&mut breaker, 9, seconds(1)), []);
    assert_eq!(breaker.permit(seconds(1)), Permit::Send);
    assert_eq!(breaker.record(seconds(2), true), Some(Change::Opened));
    assert_eq!(breaker.permit(seconds(2)), Permit::Wait(seconds(30)));
    assert_eq!(breaker.permit(seconds(31)), Permit::Wait(seconds(1)));
    assert_eq!(breaker.permit(seconds(32)), Permit::Probe);
    assert!(matches!(breaker.permit(seconds(32)), Permit::Wait(_)), "one at a time");
    // It fails: the next one goes after twice the time.
    assert_eq!(breaker.record(seconds(33), true), None);
    assert_eq!(breaker.permit(seconds(33)), Permit::Wait(seconds(60)));
    assert_eq!(breaker.permit(seconds(93)), Permit::Probe);
    assert_eq!(breaker.record(seconds(94), false), Some(Change::Closed));
    assert_eq!(breaker.permit(seconds(94)), Permit::Send);
    // And it begins anew.
    assert_eq!(fail(&mut breaker, 9, seconds(95)), []);
}

#[test]
fn many_failures_among_few_successes_open_it() {
    let mut breaker = Breaker::default();
    let mut outcomes = [false, true, true].into_iter().cycle();
    let opened = (0..30).find_map(|_| breaker.record(seconds(1), outcomes.next().unwrap()));
    assert_eq!(opened, None, "two of three are less than 70 of 100");
    let mut breaker = Breaker::default();
    let mut outcomes = [true, true, true, false].into_iter().cycle();
    let opened = (1..=30).find(|_| breaker.record(seconds(1), outcomes.next().unwrap()).is_some());
    assert_eq!(opened, Some(10), "not before there were ten");
}

#[test]
fn what_is_long_ago_does_not_count_in_the_window() {
    let mut breaker = Breaker::default();
    fail(&mut breaker, 8, seconds(1));
    breaker.record(seconds(1), false);
    assert_eq!(breaker.record(seconds(400), true), None);
    assert_eq!(breaker.permit(seconds(400)), Permit::Send);
}

#[test]
fn a_probe_that_was_not_sent_or_never_ends_is_replaced() {
    let mut breaker = Breaker::default();
    fail(&mut breaker, 10, seconds(0));
    assert_eq!(breaker.permit(seconds(30)), Permit::Probe);
    breaker.give_back(seconds(30));
    assert_eq!(breaker.permit(seconds(30)), Permit::Probe);
    assert!(matches!(breaker.permit(seconds(149)), Permit::Wait(_)));
    assert_eq!(breaker.permit(seconds(150)), Permit::Probe);
    // Late news of what was sent before do not open it for longer.
    assert_eq!(breaker.record(seconds(151), false), Some(Change::Closed));
    breaker.give_back(seconds(151));
    assert_eq!(breaker.permit(seconds(151)), Permit::Send);
}

#[test]
fn it_is_known_for_how_long_everything_has_failed() {
    let mut breaker = Breaker::default();
    assert_eq!(breaker.failing_for(seconds(100)), Duration::ZERO);
    fail(&mut breaker, 3, seconds(100));
    assert_eq!(breaker.failing_for(seconds(500)), seconds(400));
    breaker.record(seconds(600), false);
    assert_eq!(breaker.failing_for(seconds(700)), Duration::ZERO);
}
