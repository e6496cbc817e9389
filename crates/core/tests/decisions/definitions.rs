//! Definitions: kept, changed only by a caller that has seen what they are, and bounded. Leases, looked up.

use crate::support::{Draft, Rig};
use driftq_core::{
    Answer, DEFINITION_BYTES_MAX, DEFINITIONS_BYTES_MAX, DefinitionKind, DefinitionView, Description, Input,
    LeaseView, OrderInput, Query, Receipt, Reject, Settings, Spotted,
};

const KIND: DefinitionKind = DefinitionKind::Endpoint;

impl Rig {
    fn define(&mut self, name: &str, expected: Option<u64>, text: &str) -> Answer {
        let (kind, name, text) = (KIND, name.to_owned(), text.to_owned());
        self.ask_durably(|ticket| Input::Order(OrderInput::Define { ticket, kind, name, expected, text }))
    }

    fn defined(&mut self, name: &str, expected: Option<u64>, text: &str) -> DefinitionView {
        match self.define(name, expected, text) {
            Answer::Definition(view) => view,
            other => panic!("{name}: {other:?}"),
        }
    }

    fn undefine(&mut self, name: &str, expected: Option<u64>) -> Answer {
        let (kind, name) = (KIND, name.to_owned());
        self.ask_durably(|ticket| Input::Order(OrderInput::Undefine { ticket, kind, name, expected }))
    }

    /// Versions and texts by name.
    fn definitions(&self) -> (u64, Vec<(String, u64, String)>) {
        let page = self.shard.state().definitions(KIND);
        let all = page.definitions.into_iter().map(|view| (view.name, view.version, view.text));
        (page.revision, all.collect())
    }

    fn lease_view(&mut self, receipt: Receipt) -> Result<LeaseView, Reject> {
        let answer = self.ask_durably(|ticket| Input::Describe { ticket, query: Query::Lease(receipt) });
        match answer {
            Answer::Described(Description::Lease(lease)) => lease,
            other => panic!("{other:?}"),
        }
    }
}

fn differs(version: u64) -> Answer {
    Answer::Rejected(Reject::DefinitionDiffers { version })
}

#[test]
fn a_definition_changes_only_for_a_caller_that_has_seen_it() {
    let mut rig = Rig::new(Settings::default());
    assert_eq!(rig.defined("shop", Some(0), "one").version, 1);
    assert_eq!(rig.define("shop", Some(0), "two"), differs(1));
    assert_eq!(rig.define("other", Some(1), "two"), differs(0));
    assert_eq!(rig.defined("other", None, "three").version, 2);
    let changed = rig.defined("shop", Some(1), "two");
    assert_eq!((changed.version, &*changed.text), (3, "two"));
    // What changes nothing wakes no reader.
    assert_eq!(rig.defined("shop", Some(3), "two").version, 3);
    rig.crash();
    let all = vec![("other".into(), 2, "three".into()), ("shop".into(), 3, "two".into())];
    assert_eq!(rig.definitions(), (3, all));
    assert_eq!(rig.undefine("shop", Some(1)), differs(3));
    assert!(matches!(rig.undefine("shop", Some(3)), Answer::Definition(view) if view.version == 3));
    assert_eq!(rig.undefine("shop", None), Answer::Rejected(Reject::DefinitionUnknown));
    // A name that is used again begins anew, and its version is none that was seen before.
    let again = rig.defined("shop", Some(0), "two");
    assert_eq!((again.version, again.created), (5, again.changed));
}

#[test]
fn definitions_are_bounded_each_and_together() {
    let mut rig = Rig::new(Settings::default());
    let large = "x".repeat(DEFINITION_BYTES_MAX);
    let refused = |answer: Answer| matches!(answer, Answer::Rejected(Reject::Invalid(_)));
    assert!(refused(rig.define("a", None, &format!("{large}x"))));
    assert!(refused(rig.define("", None, "x")));
    assert!(refused(rig.define(&"x".repeat(256), None, "x")));
    for number in 0..DEFINITIONS_BYTES_MAX / DEFINITION_BYTES_MAX {
        rig.defined(&format!("{number:04}"), None, &large);
    }
    let full = Answer::Rejected(Reject::Limit("definitions: there are as many as may be"));
    assert_eq!(rig.define("one more", None, "x"), full);
    // What is there can be changed, and what goes makes room.
    rig.defined("0000", None, &"y".repeat(DEFINITION_BYTES_MAX));
    rig.undefine("0001", None);
    rig.defined("one more", None, &large);
    rig.crash();
    assert_eq!(rig.define("0001", None, "x"), full);
}

#[test]
fn a_full_disk_takes_no_definition() {
    let mut rig = Rig::new(Settings::default());
    rig.defined("shop", None, "one");
    rig.tell(Input::Space { roomy: false });
    assert_eq!(rig.define("shop", None, "two"), Answer::Rejected(Reject::DiskFull));
    assert!(matches!(rig.undefine("shop", None), Answer::Definition(_)), "removing makes room");
}

#[test]
fn a_lease_is_seen_as_long_as_its_holder_may_act_on_it() {
    let mut rig = Rig::new(Settings { lease_ms_default: 1000, ..Settings::default() });
    let topic = rig.topic("orders", 1);
    rig.produce(&Draft::to(topic).value("one"));
    let first = rig.lease(topic, 1).remove(0).receipt;
    let seen = rig.lease_view(first).expect("it is live");
    assert_eq!(seen.message, Spotted { topic, partition: 0, offset: first.offset });
    assert_eq!(&*seen.group, "g");
    assert_eq!((seen.attempt, seen.expires), (1, rig.now.after_ms(1000)));
    rig.crash();
    assert_eq!(rig.lease_view(first), Ok(seen), "leases outlive the broker");
    rig.advance(1000);
    assert_eq!(rig.lease_view(first), Err(Reject::LeaseStale(Some(1))), "it has lapsed");
    rig.advance(60_000);
    let delivery = rig.lease(topic, 1).remove(0);
    let second = delivery.receipt;
    assert_eq!(rig.lease_view(first), Err(Reject::LeaseStale(Some(2))), "a newer attempt has begun");
    assert_eq!(rig.lease_view(second).map(|seen| seen.attempt), Ok(2));
    rig.ack_token(&delivery);
    assert_eq!(rig.lease_view(second), Err(Reject::LeaseStale(None)), "it is done");
    let strange = Receipt { offset: 77, ..second };
    assert!(rig.lease_view(strange).is_err());
}
