//! The audit: numbered without a gap, kept for a time and a number of bytes, and told page by page.

use crate::support::Rig;
use driftq_core::{
    AUDIT_DETAIL_BYTES_MAX, AUDIT_REFUSED, AUDIT_SCANNED_MAX, Answer, AuditEntry, AuditFact, AuditList,
    AuditPage, Description, Fact, Input, OrderInput, Query, Reject, Settings,
};

fn rig() -> Rig {
    Rig::new(Settings::default())
}

fn entry(target: &str) -> AuditEntry {
    AuditEntry {
        actor: "key:1".into(),
        note: "the shop".into(),
        action: "delete_topic".into(),
        target: target.into(),
        outcome: "done".into(),
        from: "127.0.0.1:1".into(),
        request_id: "r".into(),
        detail: String::new(),
        suppressed: 0,
    }
}

impl Rig {
    fn record(&mut self, entry: AuditEntry, is_dispensable: bool) -> Result<u64, Reject> {
        match self.ask_durably(|ticket| Input::Order(OrderInput::Record { ticket, entry, is_dispensable })) {
            Answer::Recorded { sequence } => Ok(sequence),
            Answer::Rejected(reject) => Err(reject),
            other => panic!("not about the audit: {other:?}"),
        }
    }

    fn audit(&mut self, list: AuditList) -> AuditPage {
        match self.ask_durably(|ticket| Input::Describe { ticket, query: Query::Audit(list) }) {
            Answer::Described(Description::Audit(page)) => page,
            other => panic!("not the audit: {other:?}"),
        }
    }

    /// The numbers of the entries that are kept.
    fn kept(&mut self) -> Vec<u64> {
        let page = self.audit(AuditList { limit: 1_000, ..AuditList::default() });
        page.entries.iter().map(|view| view.sequence).collect()
    }
}

#[test]
fn entries_are_numbered_without_a_gap_and_tell_what_they_were_told() {
    let mut rig = rig();
    for number in 1..=3 {
        assert_eq!(rig.record(entry(&format!("topics/{number}")), false), Ok(number));
        rig.advance(10);
    }
    let page = rig.audit(AuditList { after: 1, limit: 1, ..AuditList::default() });
    assert_eq!((page.seen, page.more, page.oldest), (2, true, 1));
    assert_eq!(page.entries[0].entry, entry("topics/2"));
    let page = rig.audit(AuditList { after: 2, limit: 9, ..AuditList::default() });
    assert_eq!((page.entries.len(), page.seen, page.more), (1, 3, false));
    assert_eq!(rig.now.since_ms(page.entries[0].at), 10);
    // A place that was never reached is the end, and so is the highest number.
    for after in [3, 4, u64::MAX] {
        let page = rig.audit(AuditList { after, limit: 9, ..AuditList::default() });
        assert_eq!((page.entries.len(), page.seen, page.more), (0, 3, false), "{after}");
    }
}

#[test]
fn an_answer_waits_for_its_entry_to_be_on_disk() {
    let mut rig = rig();
    let order = |ticket| Input::Order(OrderInput::Record { ticket, entry: entry("t"), is_dispensable: true });
    let ticket = rig.ask(order);
    assert!(rig.is_urgent() && rig.answer(ticket).is_none());
    rig.sync();
    assert_eq!(rig.answer(ticket), Some(Answer::Recorded { sequence: 1 }));
}

#[test]
fn long_texts_are_cut() {
    let mut rig = rig();
    rig.record(AuditEntry { detail: "x".repeat(10_000), ..entry("t") }, false).unwrap();
    let page = rig.audit(AuditList { limit: 1, ..AuditList::default() });
    let detail = &page.entries[0].entry.detail;
    assert!(detail.len() == AUDIT_DETAIL_BYTES_MAX && detail.ends_with('…'), "{detail}");
}

#[test]
fn the_oldest_go_when_there_are_too_many_bytes_and_no_number_comes_again() {
    let mut rig = Rig::new(Settings { audit_keep_bytes: 1_000, ..Settings::default() });
    for _ in 0..20 {
        rig.record(entry("topics/orders"), false).unwrap();
    }
    let kept = rig.kept();
    assert!((4..10).contains(&kept.len()), "{kept:?}");
    assert_eq!(kept, (21 - kept.len() as u64..=20).collect::<Vec<_>>());
    let page = rig.audit(AuditList { limit: 1, ..AuditList::default() });
    assert_eq!(page.oldest, kept[0], "a reader sees what it missed");
    // One that is larger than all that may be kept is kept alone.
    rig.record(AuditEntry { detail: "d".repeat(512), target: "t".repeat(512), ..entry("") }, false).unwrap();
    assert_eq!(rig.kept(), [21]);
}

#[test]
fn entries_go_by_themselves_when_their_time_has_come() {
    let mut rig = Rig::new(Settings { audit_keep_ms: 60_000, ..Settings::default() });
    rig.record(entry("a"), false).unwrap();
    rig.advance(30_000);
    rig.record(entry("b"), false).unwrap();
    rig.advance(29_999);
    assert_eq!(rig.kept(), [1, 2]);
    rig.advance(20_000);
    assert_eq!(rig.kept(), [2]);
    rig.advance(60_000);
    assert_eq!(rig.kept(), [0; 0]);
    rig.crash();
    assert_eq!(rig.record(entry("c"), false), Ok(3), "numbers go on although nothing is kept");
    assert_eq!(rig.kept(), [3]);
}

#[test]
fn what_is_dropped_is_a_fact() {
    let mut rig = Rig::new(Settings { audit_keep_bytes: 1, ..Settings::default() });
    rig.record(entry("a"), false).unwrap();
    let mark = rig.write();
    rig.record(entry("b"), false).unwrap();
    rig.write();
    let dropped = rig.facts_since(mark);
    let said = format!("{:?}", Fact::Audit(AuditFact::Dropped { below: 2 }));
    assert!(format!("{dropped:?}").contains(&said), "{dropped:?}");
}

#[test]
fn the_audit_survives_a_crash_and_a_snapshot() {
    let mut rig = Rig::new(Settings { audit_keep_bytes: 600, ..Settings::default() });
    for number in 0..6 {
        rig.record(entry(&format!("topics/{number}")), false).unwrap();
    }
    let before = rig.audit(AuditList { limit: 1_000, ..AuditList::default() });
    rig.crash();
    assert_eq!(rig.audit(AuditList { limit: 1_000, ..AuditList::default() }), before);
    let batches = rig.log.batches.len();
    for snapshot in 0..=batches {
        rig.recovered(batches, snapshot);
    }
}

#[test]
fn a_state_without_an_audit_has_the_bytes_that_it_always_had() {
    let mut rig = rig();
    let version = |rig: &Rig| rig.shard.state().encode()[0];
    assert_eq!(version(&rig), 4);
    rig.record(entry("a"), false).unwrap();
    assert_eq!(version(&rig), 6);
}

#[test]
fn a_full_disk_takes_what_was_done_and_no_refusals() {
    let mut rig = rig();
    rig.tell(Input::Space { roomy: false });
    assert_eq!(rig.record(entry("a"), true), Err(Reject::DiskFull));
    assert_eq!(rig.record(entry("b"), false), Ok(1));
    rig.tell(Input::Space { roomy: true });
    assert_eq!(rig.record(entry("c"), true), Ok(2));
}

#[test]
fn a_question_looks_at_so_many_entries_and_says_where_to_go_on() {
    let mut rig = rig();
    for number in 0..=AUDIT_SCANNED_MAX {
        let outcome = if number == AUDIT_SCANNED_MAX { "FORBIDDEN" } else { "done" };
        rig.record(AuditEntry { outcome: outcome.into(), ..entry("t") }, false).unwrap();
    }
    let refused = AuditList { limit: 5, outcome: Some(AUDIT_REFUSED.into()), ..AuditList::default() };
    let page = rig.audit(refused.clone());
    assert_eq!((page.entries.len(), page.seen, page.more), (0, AUDIT_SCANNED_MAX as u64, true));
    let page = rig.audit(AuditList { after: page.seen, ..refused });
    assert_eq!((page.entries.len(), page.more), (1, false));
}
