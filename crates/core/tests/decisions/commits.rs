//! The fenced commit: all of it in one batch, or nothing of it.

use crate::support::ledger::{appended, blob, finishing, in_run, named, output, tied, wish};
use crate::support::orders::{nack, patient};
use crate::support::{Draft, LEASE_MS, Rig};
use driftq_core::ledger::Status;
use driftq_core::{
    Answer, Commit, CommitFact, CommitPart, Committed, Delivery, DeliveryFact, EffectAnswer, EffectFact,
    EffectLease, Fact, Input, NewOutput, Outcome, OutputDone, OutputFact, Receipt, Reject, RequestHash,
    Settings, Stored, Time, TopicId, Verdict,
};

const COMMIT_TTL_MS: u64 = 50_000;

/// A worker with four deliveries and an effect.
struct Desk {
    rig: Rig,
    topic: TopicId,
    deliveries: Vec<Delivery>,
    lease: EffectLease,
}

fn desk_with(lease_in_flight_max: u32) -> Desk {
    let settings = Settings { commit_ttl_ms: COMMIT_TTL_MS, lease_in_flight_max, ..Settings::default() };
    let mut rig = Rig::new(settings);
    let topic = rig.topic("t", 2);
    rig.produce_to(topic, &[0, 0, 0, 0]);
    let deliveries = rig.lease(topic, 4);
    let lease = rig.executes(wish("k"));
    Desk { rig, topic, deliveries, lease }
}

fn desk() -> Desk {
    desk_with(10_000)
}

impl Desk {
    fn receipt(&self, place: usize) -> Receipt {
        self.deliveries[place].receipt
    }

    /// Something of everything.
    fn whole(&self) -> Commit {
        Commit {
            request: RequestHash::NONE,
            name: None,
            acks: vec![self.receipt(0), self.receipt(1)],
            fences: vec![self.receipt(2)],
            finishes: vec![finishing(self.lease.receipt, Status::Succeeded, "done")],
            messages: vec![Draft::to(self.topic).partition(1).message(), Draft::to(self.topic).message()],
            outputs: vec![output("v1", "p", "here"), appended("v1", "q", "once", "there")],
            ..Commit::default()
        }
    }
}

fn stored(topic: TopicId, partition: u32, offset: u64, duplicate: bool) -> Stored {
    Stored { topic: Some(topic), partition, offset, duplicate }
}

fn kinds(facts: &[Fact<'_>]) -> Vec<&'static str> {
    let kind = |fact: &Fact<'_>| match fact {
        Fact::Delivery(_, DeliveryFact::Acked { .. }) => "acked",
        Fact::Effect(EffectFact::Ended(_)) => "ended",
        Fact::Appended(_) => "appended",
        Fact::Output(OutputFact::Moved { .. }) => "output",
        Fact::Commit(CommitFact::Done { .. }) => "done",
        Fact::Commit(CommitFact::Forgotten { .. }) => "forgotten",
        other => panic!("not expected here: {other:?}"),
    };
    facts.iter().map(kind).collect()
}

#[test]
fn everything_is_in_one_batch_and_the_answer_waits_for_it() {
    let desk = desk();
    let commit = named("c", desk.whole());
    let Desk { mut rig, topic, deliveries, .. } = desk;
    let mark = rig.write();
    let ticket = rig.ask_commit(commit);
    assert!(rig.is_urgent());
    assert_eq!(rig.write(), mark + 1, "one batch");
    assert_eq!(rig.answer(ticket), None);
    rig.sync();
    let expected = Committed {
        kept: Vec::new(),
        already: false,
        stored: vec![stored(topic, 1, 4, false), stored(topic, 0, 5, false)],
        outputs: vec![OutputDone::Replaced, OutputDone::Appended],
        ends: true,
    };
    assert_eq!(rig.answer(ticket), Some(Answer::Committed(expected)));
    let facts = rig.facts_since(mark);
    assert_eq!(
        kinds(&facts),
        ["acked", "acked", "ended", "appended", "appended", "output", "output", "done"]
    );
    assert_eq!(rig.lag(topic, "g"), 4, "two are done, two are new");
    assert_eq!(rig.in_flight(topic), 2, "what was only looked at stays on loan");
    assert_eq!(rig.status("k"), Status::Succeeded);
    let page = rig.outputs("v1").expect("it is there");
    let by = Some(("t".into(), 0, 0, 1));
    assert!(page.outputs.iter().all(|output| output.by == by), "{page:?}");
    assert_eq!(rig.ack_token(&deliveries[0]), Outcome::Ok, "as if it had been acked by itself");
    assert_eq!(rig.ack_token(&deliveries[2]), Outcome::Ok);
}

#[test]
fn a_commit_that_was_not_durable_never_happened() {
    let mut desk = desk();
    let before = desk.rig.shard.state().messages();
    let commit = named("c", desk.whole());
    desk.rig.ask_commit(commit.clone());
    desk.rig.crash();
    assert_eq!((desk.rig.shard.state().messages(), desk.rig.outputs("v1")), (before, None));
    assert_eq!(desk.rig.status("k"), Status::InProgress);
    let done = desk.rig.commit(commit);
    assert!(!done.already, "its deliveries outlived the broker: the same commit again is the first");
}

/// Every way in which a part can be refused: then no other part may leave a trace.
#[test]
fn a_refusal_of_any_part_leaves_everything_as_it_was() {
    type Spoil = fn(&mut Desk, &mut Commit);
    let stale = Reject::LeaseStale(Some(1));
    let mut cases: Vec<(Spoil, CommitPart, Reject)> = Vec::new();
    let mut add = |spoil: Spoil, part, reject| cases.push((spoil, part, reject));
    add(|_, c| c.acks[1].topic = TopicId(9), CommitPart::Ack(1), Reject::LeaseUnknown);
    add(|_, c| c.acks[0].offset = 99, CommitPart::Ack(0), Reject::LeaseUnknown);
    add(|_, c| c.acks[1].token.n += 50, CommitPart::Ack(1), stale);
    add(|_, c| c.fences[0].token.n += 50, CommitPart::Fence(0), stale);
    add(|_, c| c.fences[0].partition = 7, CommitPart::Fence(0), Reject::LeaseUnknown);
    let nacked: Spoil = |desk, commit| {
        desk.rig.settle(&desk.deliveries[3], nack("no"));
        commit.acks.push(desk.receipt(3));
    };
    add(nacked, CommitPart::Ack(2), stale);
    let acked: Spoil = |desk, commit| {
        desk.rig.settle(&desk.deliveries[3], Verdict::Ack);
        commit.fences.push(desk.receipt(3));
    };
    add(acked, CommitPart::Fence(1), Reject::LeaseStale(None));
    let twice = Reject::Invalid("a token is there twice in ack");
    add(|_, c| c.acks.push(c.acks[0]), CommitPart::Whole, twice);
    add(|_, c| c.finishes[0].receipt.epoch = 2, CommitPart::Effect(0), Reject::EffectStale(Some(1)));
    add(|_, c| c.finishes[0].receipt.number = 9, CommitPart::Effect(0), Reject::EffectStale(None));
    let invalid = Reject::Invalid("status must be succeeded, failed_final or failed_retryable");
    add(|_, c| c.finishes[0].status = Status::Unknown, CommitPart::Effect(0), invalid);
    let twice = Reject::Invalid("an effect is there twice");
    add(|_, c| c.finishes.push(c.finishes[0].clone()), CommitPart::Effect(1), twice);
    let large: Spoil = |_, c| c.finishes[0].ending = blob(&vec![0; (256 << 10) + 1]);
    add(large, CommitPart::Effect(0), Reject::ResultTooLarge);
    add(|_, c| c.messages[1].topic = TopicId(9), CommitPart::Produce(1), Reject::TopicUnknown);
    add(|_, c| c.messages[0].partition = 2, CommitPart::Produce(0), Reject::PartitionOutOfRange);
    add(|_, c| c.messages[0].deadline = Some(Time(1)), CommitPart::Produce(0), Reject::DeadlineExceeded);
    let priority = Reject::Invalid("priority must be between 0 and 9");
    add(|_, c| c.messages[1].priority = 10, CommitPart::Produce(1), priority);
    let reused: Spoil = |desk, commit| {
        let first = Draft { request: RequestHash(1), ..Draft::to(desk.topic).keyed("i") };
        desk.rig.produce(&first);
        commit.messages[1] = Draft { request: RequestHash(2), ..first }.message();
    };
    add(reused, CommitPart::Produce(1), Reject::KeyReused);
    let reserved: Spoil = |desk, commit| {
        commit.messages[1] = Draft::to(desk.topic).keyed("i").message();
        let (identity, request) = (commit.messages[1].identity.expect("keyed"), RequestHash::NONE);
        desk.rig.ask(|ticket| Input::Reserve { ticket, identity, request });
    };
    add(reserved, CommitPart::Produce(1), Reject::KeyInFlight);
    let full: Spoil = |desk, commit| {
        commit.finishes.clear();
        desk.rig.tell(Input::Space { roomy: false });
    };
    add(full, CommitPart::Produce(0), Reject::DiskFull);
    let full: Spoil = |desk, commit| {
        commit.messages.clear();
        desk.rig.tell(Input::Space { roomy: false });
    };
    add(full, CommitPart::Output(0), Reject::DiskFull);
    add(|_, c| c.outputs[1].partition_key = "p".into(), CommitPart::Output(1), Reject::OutputModeDiffers);
    for (index, (spoil, part, reject)) in cases.into_iter().enumerate() {
        let mut desk = desk();
        let mut commit = named("c", desk.whole());
        spoil(&mut desk, &mut commit);
        assert_eq!(desk.rig.refused(commit), (part, reject), "case {index}");
        // What is good stays good.
        desk.rig.tell(Input::Space { roomy: true });
        let whole = named("c", desk.whole());
        assert!(!desk.rig.commit(whole).already, "case {index}");
    }
}

#[test]
fn outputs_have_names_and_somebody_who_may_move_them() {
    let mut desk = desk();
    let long = "x".repeat(256);
    let spoils: [fn(&mut NewOutput, &str); 9] = [
        |output, _| output.dataset.clear(),
        |output, long| output.dataset = long.into(),
        |output, _| output.version.clear(),
        |output, _| output.version = "current".into(),
        |output, long| output.partition_key = long.into(),
        |output, long| output.dedupe_key = long.into(),
        |output, _| output.digest.clear(),
        |output, _| output.location.clear(),
        |output, long| output.location = long.repeat(9),
    ];
    for (index, spoil) in spoils.into_iter().enumerate() {
        let mut commit = desk.whole();
        spoil(&mut commit.outputs[1], &long);
        let (part, reject) = desk.rig.refused(commit);
        assert_eq!(part, CommitPart::Output(1), "case {index}");
        assert!(matches!(reject, Reject::Invalid(_)), "case {index}: {reject:?}");
    }
    let bare = Commit { outputs: desk.whole().outputs, ..Commit::default() };
    assert!(matches!(desk.rig.refused(bare.clone()), (CommitPart::Whole, Reject::Invalid(_))));
    let Commit { acks, fences, finishes, .. } = desk.whole();
    for commit in
        [Commit { acks, ..bare.clone() }, Commit { fences, ..bare.clone() }, Commit { finishes, ..bare }]
    {
        let done = desk.rig.commit(commit);
        assert_eq!((done.outputs.len(), done.already), (2, false));
    }
}

#[test]
fn the_same_commit_again_has_the_same_answer_and_changes_nothing() {
    for percent in [0, 100] {
        let mut desk = desk();
        desk.rig.snapshot_percent = percent;
        let commit = named("c", desk.whole());
        let tickets = [0, 1].map(|_| desk.rig.ask_commit(commit.clone()));
        desk.rig.write();
        assert_eq!(tickets.map(|ticket| desk.rig.answer(ticket)), [None, None], "the second rests on it");
        desk.rig.sync();
        let [first, second] = tickets.map(|ticket| desk.rig.answer(ticket).expect("durable"));
        let Answer::Committed(done) = first else { panic!("{first:?}") };
        let again = Committed { already: true, ends: false, ..done.clone() };
        assert_eq!((done.already, second), (false, Answer::Committed(again.clone())));
        desk.rig.crash();
        let before = desk.rig.snapshot();
        assert_eq!(desk.rig.commit(commit.clone()), again, "also after a restart");
        // Whatever else it asks for now: the name is what counts.
        assert_eq!(desk.rig.commit(named("c", Commit::default())), again);
        desk.rig.tell(Input::Space { roomy: false });
        assert_eq!(desk.rig.commit(commit.clone()), again, "also on a full disk");
        desk.rig.tell(Input::Space { roomy: true });
        assert!(desk.rig.snapshot() == before);
        desk.rig.advance(COMMIT_TTL_MS - 1);
        assert_eq!(desk.rig.commit(commit.clone()), again);
        desk.rig.advance(1);
        let (part, _) = desk.rig.refused(commit);
        assert_eq!(part, CommitPart::Ack(0), "then it is a commit like any other");
    }
    let mut desk = desk();
    let commit = desk.whole();
    desk.rig.commit(commit.clone());
    let stale = (CommitPart::Ack(0), Reject::LeaseStale(None));
    assert_eq!(desk.rig.refused(commit), stale, "a commit without a name is not known again");
}

#[test]
fn commits_are_forgotten_in_bounded_steps_and_there_are_never_too_many() {
    for restart in [false, true] {
        let mut rig = Rig::new(Settings { commit_ttl_ms: COMMIT_TTL_MS, ..Settings::default() });
        let empty = rig.snapshot().len();
        for n in 0..600 {
            rig.ask_commit(named(&n.to_string(), Commit::default()));
        }
        rig.sync();
        if restart {
            rig.crash();
        }
        let mark = rig.write();
        rig.advance(COMMIT_TTL_MS + 9_999);
        assert_eq!(rig.write(), mark, "one sweep takes many");
        rig.advance(1);
        rig.sync();
        assert_eq!(kinds(&rig.facts_since(mark)), ["forgotten"; 3], "restart: {restart}");
        assert_eq!(rig.snapshot().len(), empty);
        assert_eq!(rig.shard.next_deadline(), None);
    }
    let mut rig = Rig::new(Settings { commits_max: 2, ..Settings::default() });
    for n in ["a", "b", "c"] {
        rig.advance(1);
        assert!(!rig.commit(named(n, Commit::default())).already);
    }
    assert!(rig.commit(named("b", Commit::default())).already);
    assert!(rig.commit(named("c", Commit::default())).already);
    assert!(!rig.commit(named("a", Commit::default())).already, "the oldest went");
}

#[test]
fn an_effect_is_finished_together_with_the_delivery_that_it_is_tied_to() {
    let mut desk = desk();
    let delivery = desk.deliveries[0].clone();
    let lease = desk.rig.executes(tied(wish("tied"), &delivery));
    let commit = Commit {
        acks: vec![delivery.receipt],
        finishes: vec![finishing(lease.receipt, Status::Succeeded, "done")],
        ..Commit::default()
    };
    // Fenced off: neither the ack nor the outcome is heard.
    let second = desk.deliveries[1].clone();
    let stale_lease = desk.rig.executes(tied(wish("fenced"), &second));
    desk.rig.settle(&second, Verdict::Release { delay_ms: 0 });
    let fenced = Commit {
        acks: vec![delivery.receipt],
        finishes: vec![finishing(stale_lease.receipt, Status::Succeeded, "done")],
        ..Commit::default()
    };
    assert_eq!(desk.rig.refused(fenced), (CommitPart::Effect(0), Reject::EffectFenced));
    desk.rig.commit(commit.clone());
    assert_eq!(desk.rig.status("tied"), Status::Succeeded);
    // What ended just so before is no reason to refuse the rest.
    let again = Commit { acks: vec![desk.receipt(2)], ..commit };
    let mark = desk.rig.write();
    desk.rig.commit(again);
    assert_eq!(kinds(&desk.rig.facts_since(mark)), ["acked"]);
    assert!(matches!(desk.rig.begin(wish("tied")), EffectAnswer::Replay(_)));
}

#[test]
fn an_effect_that_had_ended_lends_a_commit_no_authority() {
    let mut desk = desk();
    let finishes = vec![finishing(desk.lease.receipt, Status::Succeeded, "done")];
    let endings = Commit { finishes, ..Commit::default() };
    desk.rig.commit(endings.clone());
    let spent = (CommitPart::Effect(0), Reject::EffectStale(Some(1)));
    let message = || vec![Draft::to(desk.topic).message()];
    let before = desk.rig.snapshot();
    assert_eq!(desk.rig.refused(Commit { messages: message(), ..endings.clone() }), spent);
    let outputs = vec![output("v1", "p", "here")];
    assert_eq!(desk.rig.refused(Commit { outputs: outputs.clone(), ..endings.clone() }), spent);
    assert!(desk.rig.snapshot() == before);
    // Alone it says nothing new, and beside a delivery it does no harm.
    desk.rig.commit(endings.clone());
    let fences = vec![desk.receipt(0)];
    let done = desk.rig.commit(Commit { messages: message(), outputs, fences, ..endings });
    assert_eq!((done.stored.len(), done.outputs), (1, vec![OutputDone::Replaced]));
}

#[test]
fn dispatch_goes_on_after_the_acks_of_a_commit() {
    let mut desk = desk_with(4);
    desk.rig.produce_to(desk.topic, &[0]);
    let waiter = desk.rig.ask_lease(patient(desk.topic, 1, 60_000));
    assert_eq!(desk.rig.leased(waiter), None, "the window is full");
    desk.rig.commit(Commit { acks: vec![desk.receipt(0)], ..Commit::default() });
    let leased = desk.rig.leased(waiter).expect("there is room now");
    assert_eq!(leased[0].receipt.offset, 4);
    // What a commit stores goes out once it is durable.
    let waiter = desk.rig.ask_lease(patient(desk.topic, 1, 60_000));
    let commit = Commit {
        acks: vec![desk.receipt(1)],
        messages: vec![in_run(&Draft::to(desk.topic), "run", "")],
        ..Commit::default()
    };
    desk.rig.ask_commit(commit);
    desk.rig.write();
    assert_eq!(desk.rig.leased(waiter), None);
    desk.rig.sync();
    assert_eq!(desk.rig.leased(waiter).expect("it is there")[0].receipt.offset, 5);
}

#[test]
fn a_commit_may_look_at_what_lapsed_as_long_as_nobody_else_has_it() {
    let mut desk = desk();
    desk.rig.advance(LEASE_MS * 2);
    let commit = Commit { acks: vec![desk.receipt(0)], fences: vec![desk.receipt(1)], ..Commit::default() };
    desk.rig.commit(commit);
    assert_eq!(desk.rig.lease_offsets(desk.topic, 9), [1, 2, 3], "what was only looked at goes out again");
    let fenced = Commit { fences: vec![desk.receipt(1)], ..Commit::default() };
    assert_eq!(desk.rig.refused(fenced), (CommitPart::Fence(0), Reject::LeaseStale(Some(2))));
}
