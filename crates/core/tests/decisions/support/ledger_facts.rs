//! Lines of history about effects, runs, outputs and commits: one of each kind, and a small history of them.
#![allow(dead_code, unreachable_pub, reason = "every test file is a crate that uses another part of this")]

use driftq_core::ledger::{OnLapse, Status};
use driftq_core::{
    AuditFact, AuditWords, BegunFact, CommitFact, DefinitionFact, DefinitionKind, DeliveryFact, EffectFact,
    EffectPart, EndedFact, EntityFact, Fact, GroupId, How, Identity, Jitter, KeyFact, KeyHash, KeyId,
    KeyLimits, Lent, Lineage, MessageFact, OutboxFact, OutputAuthor, OutputFact, Place, Receipt, RequestHash,
    RetryPolicy, RunFact, ShardId, Spotted, Stored, Style, TenantFact, TenantLimits, Time, Token, TopicId,
};

const LENT: Lent<'static> = Lent {
    owner: "worker",
    epoch: 0x0102,
    attempt: 0x0304,
    at: Time(0x0506),
    until: Time(0x0708),
    ttl_ms: 0x090a,
    on_lapse: OnLapse::Hold,
    attempts_max: Some(0x0b0c),
    caller: 0x0d0e,
    tie: Some(Receipt {
        topic: TopicId(0x0f10),
        group: GroupId(0x1112),
        partition: 0x1314,
        offset: 0x1516,
        token: Token { epoch: 0x1718, n: 0x191a },
    }),
};
/// A lease of which only what every lease has is told.
const LENT_PLAIN: Lent<'static> =
    Lent { on_lapse: OnLapse::Retry, attempts_max: None, caller: 0, tie: None, ..LENT };
const AUTHOR: OutputAuthor =
    OutputAuthor { topic: TopicId(0x0102), partition: 0x0304, offset: 0x0506, attempt: 0x0708 };

/// Where one message and one output went: partition 2 of topic 1 under offset 3, for the first time; added.
const RESULTS: &[u8] = &[1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];
/// Two messages on their way to partition 1 of the first topic of shard 2, as parcels 2 and 5 of the first run.
const AWAY: &[u8] = &[
    2, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 1, 0, 0, 0, 5, 0, 0, 0, 1, 0,
    0, 0, 2, 0, 0, 0, 0,
];
/// One attempt that failed: its number, owner, error, begin and end.
const ATTEMPTS: &[u8] = &[
    1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, b'o', 2, 0, 0, 0, b'n', b'o', 5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0,
    0, 0, 0,
];

/// Two entities and the versions that they have now.
const RAISED: &[u8] =
    &[1, 0, 0, 0, b'a', 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, b'b', b'c', 1, 0, 0, 0, 0, 0, 0, 0];
/// What a key allows: to produce and to read, with one topic.
const SCOPE: &[u8] = &[0b1_0001, 0, 0, 0, 1, 1, 0, 0, 0, 2, 0, 0, 0, b't', b'*'];
/// The same, as one tenant only.
const SCOPE_OF_TENANT: &[u8] =
    &[0b1_0001, 0, 1, 0, 1, 1, 0, 0, 0, 2, 0, 0, 0, b't', b'*', 1, 0, 0, 0, 1, 0, 0, 0, b'a'];
/// The same as the first with limits: 7 calls and 8 bytes in a second, 9 waits.
const SCOPE_LIMITED: &[u8] = b"\x11\0\x02\0\0\x07\0\0\0\x08\0\0\0\x09\0\0\0";
/// A version of a dataset.
const READS: &[u8] = &[1, 0, 0, 0, b'd', 2, 0, 0, 0, b'v', b'1'];
/// The first of them once more.
const RAISED_AGAIN: &[u8] = &[1, 0, 0, 0, b'a', 2, 0, 0, 0, 0, 0, 0, 0];

pub(crate) const LINEAGE: Lineage<'static> =
    Lineage { tenant: "", run: "run", step: "step", parent: "parent" };
pub(crate) const LINEAGE_OF_TENANT: Lineage<'static> = Lineage { tenant: "tenant", ..LINEAGE };

/// The name of a kind's frozen text.
pub(crate) fn name(fact: &Fact<'_>) -> Option<&'static str> {
    Some(match fact {
        Fact::Effect(EffectFact::Begun(BegunFact { lent: Lent { tie: None, .. }, .. })) => {
            "effect-begun-plain"
        }
        Fact::Effect(EffectFact::Begun(BegunFact { whose: "tenant", .. })) => "effect-begun-of-tenant",
        Fact::Effect(EffectFact::Begun(_)) => "effect-begun",
        Fact::Effect(EffectFact::Taken { .. }) => "effect-taken",
        Fact::Effect(EffectFact::Renewed { .. }) => "effect-renewed",
        Fact::Effect(EffectFact::Ended(EndedFact { attempts_max: None, .. })) => "effect-ended-plain",
        Fact::Effect(EffectFact::Ended(_)) => "effect-ended",
        Fact::Effect(EffectFact::Lapsed { .. }) => "effect-lapsed",
        Fact::Effect(EffectFact::Released { .. }) => "effect-released",
        Fact::Effect(EffectFact::Swept { .. }) => "effect-swept",
        Fact::Effect(EffectFact::Moved { part: EffectPart::About, .. }) => "effect-moved-about",
        Fact::Effect(EffectFact::Moved { part: EffectPart::Ending, .. }) => "effect-moved-ending",
        Fact::Run(RunFact::StepEnded { how: How::Done, .. }) => "step-done",
        Fact::Run(RunFact::StepEnded { how: How::Dead, .. }) => "step-dead",
        Fact::Run(RunFact::StepEnded { how: How::Skipped, .. }) => "step-skipped",
        Fact::Run(RunFact::StepEnded { how: How::Cancelled, .. }) => "step-cancelled",
        Fact::Run(RunFact::Forgotten { .. }) => "run-forgotten",
        Fact::Run(RunFact::Read { .. }) => "versions-read",
        Fact::Output(OutputFact::Moved { tenant: "tenant", .. }) => "output-moved-of-tenant",
        Fact::Output(OutputFact::CutOver { tenant: "tenant", .. }) => "cut-over-of-tenant",
        Fact::Output(OutputFact::RolledBack { tenant: "tenant", .. }) => "rolled-back-of-tenant",
        Fact::Output(OutputFact::Dropped { tenant: "tenant", .. }) => "version-dropped-of-tenant",
        Fact::Output(OutputFact::Sealed { .. }) => "version-sealed",
        Fact::Output(OutputFact::Moved { by: None, .. }) => "output-moved-plain",
        Fact::Output(OutputFact::Moved { .. }) => "output-moved",
        Fact::Output(OutputFact::CutOver { .. }) => "cut-over",
        Fact::Output(OutputFact::RolledBack { .. }) => "rolled-back",
        Fact::Output(OutputFact::Dropped { .. }) => "version-dropped",
        Fact::Commit(CommitFact::Done { .. }) => "commit-done",
        Fact::Commit(CommitFact::Forgotten { .. }) => "commits-forgotten",
        Fact::Entity(EntityFact::Raised { .. }) => "entities-raised",
        Fact::Entity(EntityFact::Forgotten { .. }) => "entity-forgotten",
        Fact::Key(KeyFact::Created { scope: SCOPE_OF_TENANT, .. }) => "key-created-of-tenant",
        Fact::Key(KeyFact::Created { scope: SCOPE_LIMITED, .. }) => "key-created-limited",
        Fact::Key(KeyFact::Created { .. }) => "key-created",
        Fact::Key(KeyFact::Ended { .. }) => "key-ended",
        Fact::Audit(AuditFact::Recorded { .. }) => "audit-recorded",
        Fact::Audit(AuditFact::Dropped { .. }) => "audit-dropped",
        Fact::Tenant(TenantFact::Limited { .. }) => "tenant-limited",
        Fact::Definition(DefinitionFact::Defined { .. }) => "defined",
        Fact::Definition(DefinitionFact::Undefined { .. }) => "undefined",
        Fact::Outbox(OutboxFact::Housed { .. }) => "housed",
        Fact::Outbox(OutboxFact::Sent { native: true, .. }) => "parcel-sent",
        Fact::Outbox(OutboxFact::Sent { .. }) => "parcel-sent-plain",
        Fact::Outbox(OutboxFact::Posted { .. }) => "parcel-posted",
        Fact::Outbox(OutboxFact::Received { .. }) => "parcel-received",
        Fact::Outbox(OutboxFact::Settled { .. }) => "parcels-settled",
        _ => return None,
    })
}

fn begun(number: u64, key: &str, lent: Lent<'static>) -> BegunFact<'static> {
    BegunFact {
        number,
        identity: Identity::of("tenant", "scope", key),
        request: RequestHash(0x1b1c),
        tenant: 0x1d1e,
        scope: 0x1f20,
        lent,
        run: "run",
        whose: "",
        check: 0x2122,
        bytes: b"about",
    }
}

const fn ended(number: u64, status: Status, attempts_max: Option<u32>) -> EndedFact<'static> {
    EndedFact {
        number,
        epoch: 0x0304,
        status,
        attempts_max,
        at: Time(0x0506),
        expires: Time(0x0708),
        digest: 0x090a,
        check: 0x0b0c,
        bytes: b"ending",
    }
}

const fn moved(dedupe_key: &'static str, by: Option<OutputAuthor>) -> Fact<'static> {
    moved_of("", dedupe_key, by)
}

const fn moved_of(tenant: &'static str, dedupe_key: &'static str, by: Option<OutputAuthor>) -> Fact<'static> {
    Fact::Output(OutputFact::Moved {
        tenant,
        dataset: "dataset",
        version: "v1",
        partition_key: "p",
        dedupe_key,
        location: "s3://there",
        digest: "sha256:00",
        at: Time(0x1011),
        by,
    })
}

/// One of each kind.
pub(crate) fn facts() -> Vec<Fact<'static>> {
    let place = Place { topic: TopicId(0x0102), group: GroupId(0x0304), partition: 0x0506, offset: 0x0708 };
    let step = |how| {
        let (at, leased) = (Time(0x090a), Time(0x0b0c));
        Fact::Run(RunFact::StepEnded { place, at, how, attempts: 0x0d0e, leased, history: ATTEMPTS })
    };
    let (dataset, version, at) = ("dataset", "v1", Time(0x0102));
    let cut_over = |tenant| Fact::Output(OutputFact::CutOver { tenant, dataset, version, at });
    let rolled_back = |tenant| Fact::Output(OutputFact::RolledBack { tenant, dataset, at });
    let dropped = |tenant| Fact::Output(OutputFact::Dropped { tenant, dataset, version });
    let effects = [
        EffectFact::Begun(begun(0x2324, "key", LENT)),
        EffectFact::Begun(begun(0x2324, "key", LENT_PLAIN)),
        EffectFact::Begun(BegunFact { whose: "tenant", ..begun(0x2324, "key", LENT) }),
        EffectFact::Taken { number: 0x2324, lent: LENT },
        EffectFact::Renewed { number: 0x2324, until: Time(0x2526) },
        EffectFact::Ended(ended(0x2324, Status::FailedRetryable, Some(0x0102))),
        EffectFact::Ended(ended(0x2324, Status::Succeeded, None)),
        EffectFact::Lapsed { number: 0x2324, at: Time(0x2728) },
        EffectFact::Released { number: 0x2324, epoch: 0x2526, at: Time(0x2728) },
        EffectFact::Swept { numbers: &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0] },
        EffectFact::Moved { number: 0x2324, part: EffectPart::About, bytes: b"about" },
        EffectFact::Moved { number: 0x2324, part: EffectPart::Ending, bytes: b"ending" },
    ];
    let others = [
        step(How::Done),
        step(How::Dead),
        step(How::Skipped),
        step(How::Cancelled),
        Fact::Run(RunFact::Forgotten { run: 0x0102, most: 0x0304 }),
        moved("", Some(AUTHOR)),
        moved("once", None),
        moved_of("tenant", "", Some(AUTHOR)),
        cut_over(""),
        cut_over("tenant"),
        rolled_back(""),
        rolled_back("tenant"),
        dropped(""),
        dropped("tenant"),
        Fact::Output(OutputFact::Sealed {
            tenant: "tenant",
            dataset: "dataset",
            version: "v1",
            at: Time(0x0102),
        }),
        Fact::Run(RunFact::Read { topic: TopicId(0x0102), offset: 0x0304, at: Time(0x0506), reads: READS }),
        Fact::Commit(CommitFact::Done {
            name: Identity::of("", "", "commit"),
            request: RequestHash(0x0304),
            until: Time(0x0102),
            results: RESULTS,
        }),
        Fact::Commit(CommitFact::Forgotten { upto: Time(0x0102), most: 0x0304 }),
        Fact::Entity(EntityFact::Raised {
            tenant: "tenant",
            at: Time(0x0102),
            effect: 0x0304,
            raised: RAISED,
        }),
        Fact::Entity(EntityFact::Forgotten { tenant: "tenant", entity: "order-7" }),
        Fact::Key(key_made(SCOPE)),
        Fact::Key(key_made(SCOPE_OF_TENANT)),
        Fact::Key(key_made(SCOPE_LIMITED)),
        Fact::Key(KeyFact::Ended { key: KeyId(0x0102), at: Time(0x0304), until: Time(0x0506) }),
        Fact::Audit(AuditFact::Recorded {
            sequence: 0x0102,
            at: Time(0x0304),
            words: AuditWords {
                actor: "actor",
                note: "note",
                action: "action",
                target: "target",
                outcome: "done",
                from: "from",
                request_id: "id",
                detail: "detail",
                suppressed: 0x0506,
            },
        }),
        Fact::Audit(AuditFact::Dropped { below: 0x0102 }),
        Fact::Tenant(TenantFact::Limited { tenant: "tenant", at: Time(0x0102), limits: LIMITS }),
        Fact::Definition(DefinitionFact::Defined {
            kind: DefinitionKind::Endpoint,
            name: "name",
            at: Time(0x0102),
            text: "text",
        }),
        Fact::Definition(DefinitionFact::Undefined {
            kind: DefinitionKind::Endpoint,
            name: "name",
            at: Time(0x0102),
        }),
    ];
    effects.map(Fact::Effect).into_iter().chain(others).chain(outbox_facts().map(Fact::Outbox)).collect()
}

/// A parcel of which everything is told.
pub(crate) const PARCEL: MessageFact<'static> = MessageFact {
    topic: TopicId(0x0203_0405),
    partition: 0x0607,
    offset: 0,
    at: Time(0x0809),
    size: 11,
    check: 0x1213_1415,
    retry: Some(RetryPolicy { max_attempts: 3, backoff_ms: 250, max_backoff_ms: 5000, jitter: Jitter::Full }),
    identity: Some((Identity([0x16; 16]), Time(0))),
    request: RequestHash(0x2021),
    key: KeyHash(0x2223),
    priority: 9,
    due: Some(Time(0x2425)),
    only: None,
    lineage: Some(LINEAGE_OF_TENANT),
    origin: Some(Spotted { topic: TopicId(0x0102_0304), partition: 0x0506, offset: 0x0708 }),
    deadline: Some(Time(0x2627)),
    bytes: b"payload",
};

fn outbox_facts() -> [OutboxFact<'static>; 6] {
    let (number, from) = (0x0102_0304_0506_0708, ShardId(5));
    let stored = Stored { topic: Some(TopicId(0x0203_0405)), partition: 6, offset: 0x0708, duplicate: true };
    let MessageFact { topic, partition, at, size, check, bytes, .. } = PARCEL;
    let plain = MessageFact { topic, partition, at, size, check, bytes, ..MessageFact::default() };
    [
        OutboxFact::Housed { shard: ShardId(3) },
        OutboxFact::Sent { number, native: true, reserved: true, message: PARCEL },
        OutboxFact::Sent { number, native: false, reserved: false, message: plain },
        OutboxFact::Posted { number, stored },
        OutboxFact::Received { from, number, stored: Stored { duplicate: false, ..stored } },
        OutboxFact::Settled { from, below: number },
    ]
}

/// A small history of a shard that has sent three parcels, two of them in the name of a commit, and has been sent three.
pub(crate) fn outbox_history() -> Vec<Fact<'static>> {
    let stored = |offset| Stored { topic: Some(TopicId(2 << 24)), partition: 1, offset, duplicate: false };
    let sent = |number| OutboxFact::Sent { number, native: true, reserved: false, message: PARCEL };
    let received = |number| OutboxFact::Received { from: ShardId(0), number, stored: stored(number) };
    let outbox = Fact::Outbox;
    vec![
        Fact::Opened { epoch: 1, at: Time(0x0102), keeps_leases: true },
        outbox(OutboxFact::Housed { shard: ShardId(3) }),
        Fact::TopicCreated {
            topic: TopicId(3 << 24),
            partitions: 1,
            at: Time(0x0102),
            name: "here",
            scoped: true,
            tenant: None,
        },
        outbox(sent((1 << 32) + 1)),
        outbox(sent((1 << 32) + 2)),
        outbox(sent((1 << 32) + 5)),
        Fact::Commit(CommitFact::Done {
            name: Identity([0x17; 16]),
            request: RequestHash(0x0304),
            until: Time(0x0506),
            results: AWAY,
        }),
        outbox(OutboxFact::Posted { number: (1 << 32) + 2, stored: stored(9) }),
        outbox(received(4)),
        outbox(received(7)),
        outbox(received(8)),
        outbox(OutboxFact::Settled { from: ShardId(0), below: 7 }),
        outbox(OutboxFact::Received { from: ShardId(63), number: 1, stored: stored(1) }),
    ]
}

/// Limits of a tenant, each of them another number.
pub(crate) const LIMITS: TenantLimits = TenantLimits {
    pace: KeyLimits { requests_per_second: 0x0304, bytes_per_second: 0x0506, waits: 0x0708 },
    topics: 0x0910,
    messages: 0x1112,
    bytes: 0x1314,
    effects: 0x1516,
};

/// A key that hangs on another.
const fn key_made(scope: &'static [u8]) -> KeyFact<'static> {
    KeyFact::Created {
        key: KeyId(0x0102_0304_0506_0708),
        at: Time(0x0910),
        digest: [0x11; 32],
        scope,
        until: Time(0x1213),
        parent: Some(KeyId(0x1415)),
        replaces: None,
        note: "note",
    }
}

/// A key, and one that hangs on it and is bound to a tenant.
pub(crate) fn key_history() -> Vec<Fact<'static>> {
    let above = KeyFact::Created {
        key: KeyId(0x1415),
        at: Time(0x0909),
        digest: [0x22; 32],
        scope: SCOPE,
        until: Time::NEVER,
        parent: None,
        replaces: None,
        note: "",
    };
    vec![Fact::Key(above), Fact::Key(key_made(SCOPE_OF_TENANT))]
}

/// What may happen to entities after [`history`]: an effect and commits raise them, and one is forgotten.
pub(crate) fn entity_history() -> Vec<Fact<'static>> {
    let raised =
        |tenant, effect, raised| Fact::Entity(EntityFact::Raised { tenant, at: Time(4000), effect, raised });
    vec![
        raised("", 0, RAISED),
        raised("tenant", 1, RAISED),
        raised("tenant", 0, RAISED_AGAIN),
        Fact::Entity(EntityFact::Forgotten { tenant: "", entity: "bc" }),
        moved_of("tenant", "", None),
        Fact::Output(OutputFact::Sealed {
            tenant: "tenant",
            dataset: "dataset",
            version: "v1",
            at: Time(4000),
        }),
        Fact::Run(RunFact::Read { topic: TopicId(0), offset: 700, at: Time(4000), reads: READS }),
        Fact::Effect(EffectFact::Begun(BegunFact {
            whose: "tenant",
            ..begun(6, "of tenant", Lent { epoch: 1, attempt: 1, tie: None, ..LENT })
        })),
    ]
}

/// A history that a topic 0 with group 0 (of epoch 1) may go on with, in which every part of a ledger occurs.
/// `message` is what a stored message is like, under an offset.
pub(crate) fn history(message: impl Fn(u64) -> MessageFact<'static>) -> Vec<Fact<'static>> {
    let (topic, group) = (TopicId(0), GroupId(0));
    let place = |offset| Place { topic, group, partition: 0, offset };
    let in_run = |offset, run, step| {
        let lineage = Some(Lineage { tenant: "", run, step, parent: "root" });
        Fact::Appended(MessageFact { lineage, ..message(offset) })
    };
    let tie = Receipt { topic, group, partition: 0, offset: 700, token: Token { epoch: 1, n: 70 } };
    let first = Lent { epoch: 1, attempt: 1, tie: None, ..LENT };
    let leased = Fact::Delivery(
        place(700),
        DeliveryFact::Leased {
            token: tie.token,
            attempt: 1,
            at: Time(2000),
            expires: Time(5000),
            owner: "worker",
            style: Style::Borrowed,
        },
    );
    let output = |version, partition_key, dedupe_key, by| {
        let (dataset, location, digest, at) = ("dataset", "s3://there", "sha256:00", Time(3000));
        let moved = OutputFact::Moved {
            tenant: "",
            dataset,
            version,
            partition_key,
            dedupe_key,
            location,
            digest,
            at,
            by,
        };
        Fact::Output(moved)
    };
    let cut_over =
        |version, at| OutputFact::CutOver { tenant: "", dataset: "dataset", version, at: Time(at) };
    let done = |key: &str, until| {
        let name = Identity::of("", "", key);
        Fact::Commit(CommitFact::Done { name, request: RequestHash(7), until: Time(until), results: RESULTS })
    };
    let ending =
        |number, status, most, epoch| EffectFact::Ended(EndedFact { epoch, ..ended(number, status, most) });
    let effects = [
        EffectFact::Begun(begun(1, "running", Lent { tie: Some(tie), ..first })),
        EffectFact::Begun(BegunFact {
            run: "",
            ..begun(2, "done", Lent { on_lapse: OnLapse::Retry, attempts_max: None, ..first })
        }),
        EffectFact::Begun(BegunFact { run: "other", ..begun(3, "failed", first) }),
        EffectFact::Begun(BegunFact { run: "", ..begun(4, "unknown", first) }),
        EffectFact::Begun(BegunFact { run: "", ..begun(5, "swept", first) }),
        ending(2, Status::Succeeded, None, 1),
        ending(3, Status::FailedRetryable, Some(2), 1),
        EffectFact::Taken { number: 3, lent: Lent { epoch: 2, attempt: 2, ..first } },
        ending(3, Status::FailedFinal, Some(2), 2),
        EffectFact::Lapsed { number: 4, at: Time(4000) },
        EffectFact::Renewed { number: 1, until: Time(6000) },
        ending(5, Status::Succeeded, None, 1),
        EffectFact::Swept { numbers: &[5, 0, 0, 0, 0, 0, 0, 0] },
        EffectFact::Moved { number: 2, part: EffectPart::Ending, bytes: b"ending" },
    ];
    let step = |offset, how| {
        let (at, leased) = (Time(5000), Time(4000));
        let place = place(offset);
        Fact::Run(RunFact::StepEnded { place, at, how, attempts: 1, leased, history: ATTEMPTS })
    };
    [
        vec![in_run(700, "run", "step"), in_run(701, "run", ""), in_run(702, "gone", ""), leased],
        effects.map(Fact::Effect).to_vec(),
        vec![
            step(701, How::Done),
            Fact::Delivery(place(701), DeliveryFact::Acked { remembered: Time(0), token: Token::default() }),
            Fact::Run(RunFact::Forgotten { run: 2, most: 256 }),
            output("v1", "p", "", Some(AUTHOR)),
            output("v1", "p", "", None),
            output("v1", "q", "once", None),
            output("v1", "q", "twice", Some(AUTHOR)),
            output("v2", "p", "", None),
            output("v3", "p", "", None),
            Fact::Output(cut_over("v1", 3001)),
            Fact::Output(cut_over("v2", 3002)),
            Fact::Output(cut_over("v1", 3003)),
            Fact::Output(OutputFact::RolledBack { tenant: "", dataset: "dataset", at: Time(3004) }),
            Fact::Output(OutputFact::Dropped { tenant: "", dataset: "dataset", version: "v3" }),
            done("a", 8000),
            done("b", 7000),
            done("c", 6000),
            Fact::Commit(CommitFact::Forgotten { upto: Time(6500), most: 9 }),
        ],
    ]
    .concat()
}
