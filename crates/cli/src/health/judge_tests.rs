//! States, lines and figures for servers in every condition.

use serde_json::json;

use super::{
    judge::{Figure, Judgement, Limits, State, judge},
    sample::{group, healthy, seen},
    survey::{Survey, Unknown},
    threshold::{self, Levels},
};
use driftq_api::units::{count, millis};

/// Two groups that are behind, dead letters, and an effect whose outcome is unknown.
fn survey() -> Survey {
    let behind = |name: &str, lag: u64| {
        let mut seen = seen(group(lag), Some(lag * 1_000));
        name.clone_into(&mut seen.group.name);
        seen
    };
    Survey {
        topic_names: vec!["orders".to_owned(), "dlq.orders".to_owned()],
        groups: vec![behind("billing", 10), behind("mail", 3)],
        dead: vec![serde_json::from_value(json!({"name": "orders", "letters": 2})).unwrap()],
        unknown: Unknown { count: 1, more: false, oldest_ms: None },
        ..healthy()
    }
}

fn levels(warn: &[&str], crit: &[&str], number: fn(&str) -> Result<u64, String>) -> Levels {
    let read = |texts: &[&str]| texts.iter().map(|text| threshold::read(text, number).unwrap()).collect();
    Levels { warn: read(warn), crit: read(crit) }
}

fn lag(warn: &[&str], crit: &[&str]) -> Judgement {
    judge(&survey(), &Limits { lag: levels(warn, crit, count), ..Limits::default() })
}

#[test]
fn without_thresholds_only_the_server_is_judged() {
    let fine = judge(&survey(), &Limits::default());
    assert_eq!(fine.state, State::Ok);
    let expected = "DRIFTQ OK - 2 group(s) of 2 topic(s), lag at most 10 (orders/billing), 2 dead letter(s), 1 effect(s) \
                    unknown | 'lag'=10;;;0 'dead'=2;;;0 'unknown'=1;;;0\n";
    assert_eq!(fine.line(), expected);
    let mut full = survey();
    full.status.writable = false;
    full.status.why = Some("the disk | is full".into());
    let full = judge(&full, &Limits::default());
    assert_eq!(full.state, State::Critical);
    assert!(full.line().contains("(the disk / is full)"), "{}", full.line());
}

#[test]
fn a_threshold_may_be_reached_and_not_exceeded() {
    assert_eq!(lag(&["10"], &[]).state, State::Ok);
    assert_eq!(lag(&["9"], &[]).state, State::Warning);
    assert_eq!(lag(&["9"], &["10"]).state, State::Warning);
    let both = lag(&["2"], &["9"]);
    assert_eq!(both.state, State::Critical);
    let text = "orders/billing: lag 10, more than 9; orders/mail: lag 3, more than 2";
    assert!(
        both.line().starts_with(&format!("DRIFTQ CRITICAL - {text} | 'lag'=10;2;9;0")),
        "{}",
        both.line()
    );
}

#[test]
fn one_group_can_have_its_own() {
    assert_eq!(lag(&["2", "orders/billing=10", "orders/mail=3"], &[]).state, State::Ok);
    let own = lag(&["100"], &["orders/mail=2"]);
    assert_eq!(own.state, State::Critical);
    let figure =
        Figure { label: "lag orders/mail".to_owned(), value: 3, unit: "", warn: Some(100), crit: Some(2) };
    assert!(own.figures.contains(&figure), "{:?}", own.figures);
}

#[test]
fn a_threshold_for_what_is_not_there_is_unknown() {
    let typo = lag(&["orders/biling=1"], &[]);
    assert_eq!(typo.state, State::Unknown);
    assert!(typo.text.contains("did you mean `orders/billing`?"), "{}", typo.text);
    let both = lag(&["orders/biling=1"], &["1"]);
    assert_eq!(both.state, State::Critical, "what is known to be bad comes first");
    let dead = Limits { dead: levels(&["order=1"], &[], count), ..Limits::default() };
    assert_eq!(judge(&survey(), &dead).state, State::Unknown);
}

#[test]
fn the_other_figures_have_thresholds_too() {
    let state = |limits: &Limits| judge(&survey(), limits).state;
    for (warn, expected) in [("2", State::Ok), ("1", State::Warning), ("orders=1", State::Warning)] {
        let limits = Limits { dead: levels(&[warn], &[], count), ..Limits::default() };
        assert_eq!(state(&limits), expected, "dead {warn}");
    }
    let limits = Limits { unknown: levels(&[], &["0"], count), ..Limits::default() };
    assert_eq!(state(&limits), State::Critical);
    let limits = Limits { oldest: levels(&["5s"], &["orders/billing=9s"], millis), ..Limits::default() };
    let old = judge(&survey(), &limits);
    assert_eq!(old.state, State::Critical);
    assert!(old.line().contains("oldest waits 10.0s, more than 9.0s"), "{}", old.line());
    assert!(old.line().contains("'oldest'=10000ms;5000;;0"), "{}", old.line());
}

#[test]
fn names_do_not_break_the_line() {
    let mut odd = survey();
    odd.groups[0].group.name = "a|b'c=d\n".to_owned();
    let line = judge(&odd, &Limits { lag: levels(&["1"], &[], count), ..Limits::default() }).line();
    assert_eq!(line.matches('|').count(), 1, "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
}
