//! Keys: never wider than the key above them, never longer, and ended with it.

use crate::support::Rig;
use driftq_core::{
    Answer, Description, Input, KEY_DEPTH_MAX, KEY_TENANTS_MAX, KEYS_MAX, KeyId, KeyLimits, KeyScope,
    KeyView, NewKey, OrderInput, Permission, Permissions, Query, Reject, Settings, Time,
};

fn rig() -> Rig {
    Rig::new(Settings::default())
}

fn key(id: u64, parent: Option<u64>) -> NewKey {
    NewKey {
        id: KeyId(id),
        digest: [7; 32],
        scope: KeyScope::EVERYTHING,
        until: Time::NEVER,
        parent: parent.map(KeyId),
        note: format!("key {id}"),
    }
}

fn bound(topics: &[&str]) -> KeyScope {
    let topics = Some(topics.iter().map(|topic| (*topic).to_owned()).collect());
    KeyScope { permissions: Permissions::default().with(Permission::Produce), topics, ..KeyScope::default() }
}

impl Rig {
    fn create(&mut self, key: NewKey) -> Result<KeyView, Reject> {
        told(self.ask_durably(|ticket| Input::Order(OrderInput::CreateKey { ticket, key })))
    }

    fn end(&mut self, key: u64) -> Result<KeyView, Reject> {
        told(self.ask_durably(|ticket| Input::Order(OrderInput::EndKey { ticket, key: KeyId(key) })))
    }

    fn replace(&mut self, old: u64, new: u64, overlap_ms: u64) -> Result<KeyView, Reject> {
        let (old, new, digest) = (KeyId(old), KeyId(new), [8; 32]);
        told(self.ask_durably(|ticket| {
            Input::Order(OrderInput::ReplaceKey { ticket, old, new, digest, overlap_ms })
        }))
    }

    fn keys(&mut self) -> Vec<KeyView> {
        match self.ask_durably(|ticket| Input::Describe { ticket, query: Query::Keys }) {
            Answer::Described(Description::Keys(keys)) => keys,
            other => panic!("not keys: {other:?}"),
        }
    }

    /// Until when a key opens anything.
    fn until(&mut self, id: u64) -> Time {
        self.keys()
            .into_iter()
            .find(|key| key.id == KeyId(id))
            .map(|key| key.until)
            .expect("the key is known")
    }
}

fn told(answer: Answer) -> Result<KeyView, Reject> {
    match answer {
        Answer::Key(key) => Ok(key),
        Answer::Rejected(reject) => Err(reject),
        other => panic!("not about a key: {other:?}"),
    }
}

#[test]
fn a_key_is_never_wider_nor_longer_than_the_one_above_it() {
    let mut rig = rig();
    let end = Time(rig.now.0 + 1000);
    rig.create(NewKey { scope: bound(&["orders", "mail.*"]), until: end, ..key(1, None) }).unwrap();
    for (scope, until, why) in [
        (KeyScope::EVERYTHING, end, Reject::KeyTooWide),
        (bound(&["mail*"]), end, Reject::KeyTooWide),
        (KeyScope { permissions: Permissions::ALL, ..bound(&["orders"]) }, end, Reject::KeyTooWide),
        (bound(&["orders"]), Time(end.0 + 1), Reject::KeyTooLong),
        (bound(&["orders"]), Time::NEVER, Reject::KeyTooLong),
    ] {
        assert_eq!(rig.create(NewKey { scope, until, ..key(2, Some(1)) }), Err(why));
    }
    rig.create(NewKey { scope: bound(&["mail.in"]), until: end, ..key(2, Some(1)) }).unwrap();
    assert_eq!(rig.create(NewKey { until: end, ..key(3, Some(9)) }), Err(Reject::KeyUnknown));
    assert!(matches!(rig.create(key(1, None)), Err(Reject::Invalid(_))), "an id is given once");
    assert!(matches!(rig.create(NewKey { until: rig.now, ..key(3, None) }), Err(Reject::Invalid(_))));
}

#[test]
fn a_key_is_bound_to_no_tenants_but_those_of_the_key_above_it() {
    let as_tenants = |tenants: &[&str]| KeyScope {
        tenants: Some(tenants.iter().map(|tenant| (*tenant).to_owned()).collect()),
        ..KeyScope::EVERYTHING
    };
    let mut rig = rig();
    rig.create(NewKey { scope: as_tenants(&["acme", "globex"]), ..key(1, None) }).unwrap();
    for scope in [KeyScope::EVERYTHING, as_tenants(&["acme", "initech"]), bound(&["orders"])] {
        assert_eq!(rig.create(NewKey { scope, ..key(2, Some(1)) }), Err(Reject::KeyTooWide));
    }
    let many: Vec<String> = (0..=KEY_TENANTS_MAX).map(|number| number.to_string()).collect();
    let too_many: Vec<&str> = many.iter().map(String::as_str).collect();
    for tenants in [&[][..], &[""], &[&"a".repeat(256)], &too_many] {
        let refused = rig.create(NewKey { scope: as_tenants(tenants), ..key(2, None) });
        assert!(matches!(refused, Err(Reject::Invalid(_))), "{tenants:?}");
    }
    let made = rig.create(NewKey { scope: as_tenants(&["acme"]), ..key(2, Some(1)) }).unwrap();
    for percent in [0, 100] {
        rig.snapshot_percent = percent;
        rig.crash();
        assert_eq!(rig.keys().iter().find(|key| key.id == KeyId(2)), Some(&made));
    }
}

#[test]
fn what_hangs_on_a_key_ends_with_it() {
    let mut rig = rig();
    for (id, parent) in [(1, None), (2, Some(1)), (3, Some(2)), (4, None)] {
        rig.create(key(id, parent)).unwrap();
    }
    let mark = rig.write();
    assert_eq!(rig.end(1).unwrap().until, rig.now);
    assert_eq!(rig.facts_since(mark).len(), 1, "one fact, however many hang on it");
    let now = rig.now;
    assert_eq!([1, 2, 3, 4].map(|id| rig.until(id)), [now, now, now, Time::NEVER]);
    assert_eq!(rig.create(key(5, Some(3))), Err(Reject::KeyUnknown), "an ended key makes none");
    assert_eq!(rig.replace(3, 6, u64::MAX), Err(Reject::KeyUnknown));
    // Ending it again, later, changes nothing.
    rig.advance(10);
    let mark = rig.write();
    assert_eq!(rig.end(2).unwrap().until, now);
    assert_eq!(rig.facts_since(mark), []);
    assert_eq!(rig.end(9), Err(Reject::KeyUnknown));
}

#[test]
fn a_key_that_is_replaced_hands_on_what_hangs_on_it() {
    let mut rig = rig();
    rig.create(NewKey { scope: bound(&["orders"]), ..key(1, None) }).unwrap();
    rig.create(NewKey { scope: bound(&["orders"]), ..key(2, Some(1)) }).unwrap();
    let overlap = Time(rig.now.0 + 100);
    let new = rig.replace(1, 3, 100).unwrap();
    assert_eq!((new.scope, new.until, new.note), (bound(&["orders"]), Time::NEVER, "key 1".to_owned()));
    assert_eq!([1, 2, 3].map(|id| rig.until(id)), [overlap, Time::NEVER, Time::NEVER]);
    rig.end(3).unwrap();
    let now = rig.now;
    assert_eq!([2, 3].map(|id| rig.until(id)), [now, now]);
}

#[test]
fn keys_survive_a_crash_and_a_snapshot() {
    let mut rig = rig();
    let limits = KeyLimits { requests_per_second: 7, waits: 9, ..KeyLimits::NONE };
    let scope = KeyScope { limits, ..bound(&["orders", "m*"]) };
    rig.create(NewKey { scope, until: Time(u64::MAX - 1), ..key(1, None) }).unwrap();
    rig.create(NewKey { scope: bound(&[]), until: Time(u64::MAX - 1), ..key(2, Some(1)) }).unwrap();
    let new = rig.replace(1, 3, 5).unwrap();
    assert_eq!(new.scope.limits, limits, "a key in the place of another has its limits");
    rig.end(2).unwrap();
    let before = rig.keys();
    rig.crash();
    assert_eq!(rig.keys(), before);
    let batches = rig.log.batches.len();
    for snapshot in 0..=batches {
        rig.recovered(batches, snapshot);
    }
}

#[test]
fn keys_are_bounded_in_depth_and_number() {
    let mut rig = rig();
    let mut depth = 0;
    let reject = loop {
        match rig.create(key(depth, depth.checked_sub(1))) {
            Ok(_) => depth += 1,
            Err(reject) => break reject,
        }
    };
    assert!(matches!(reject, Reject::Limit(_)), "{reject:?}");
    assert_eq!(depth as usize, KEY_DEPTH_MAX + 1);
    assert_eq!(rig.until(depth - 1), Time::NEVER);
    rig.end(0).unwrap();
    let now = rig.now;
    assert_eq!(rig.until(depth - 1), now, "the lowest ends with the highest");
    for id in depth..KEYS_MAX as u64 {
        rig.create(key(id, None)).unwrap();
    }
    assert!(matches!(rig.create(key(u64::MAX, None)), Err(Reject::Limit(_))));
    // What ended long ago makes room, and with it all that hung on it.
    rig.advance(31 * 24 * 3600 * 1000);
    rig.create(key(u64::MAX, None)).unwrap();
    assert_eq!(rig.keys().len(), KEYS_MAX - KEY_DEPTH_MAX);
}
