//! Facts in words, for operators who look into a log.

use driftq_core::{
    About, AuditFact, CommitFact, DefinitionFact, DeliveryFact, EffectFact, EntityFact, Fact, GroupId,
    KeyFact, Lent, MessageFact, OrderFact, OutboxFact, OutputFact, Place, RunFact, TenantFact, TopicId,
};

/// What a fact says, on one line. Payloads are left out.
pub(crate) fn words(fact: &Fact<'_>) -> String {
    match fact {
        Fact::Opened { epoch, at, keeps_leases } => {
            let leases = if *keeps_leases { "leases go on" } else { "older leases are void" };
            format!("run {epoch} began at {} ms; {leases}", at.0)
        }
        Fact::TopicCreated { topic, partitions, at, name, tenant, .. } => {
            let whose = tenant.map_or_else(String::new, |tenant| format!(", of tenant {tenant:?}"));
            format!("topic {} created at {} ms: {name:?}, {partitions} partitions{whose}", topic.0, at.0)
        }
        Fact::Appended(message) => appended(message),
        Fact::GroupCreated { topic, group, at, name } => {
            format!("group {} of topic {} created at {} ms: {name:?}", group.0, topic.0, at.0)
        }
        Fact::Delivery(place, fact) => delivery(*place, fact),
        Fact::Order(fact) => order(fact),
        // The secret stays in the log.
        Fact::Keyed { .. } => "the shard got the secret that seals its tokens".to_owned(),
        Fact::GroupExpired { topic, group } => format!("group {} of topic {} forgotten", group.0, topic.0),
        Fact::Expired { topic, partition, below } => {
            format!("messages below {below} of topic {} partition {partition} dropped by retention", topic.0)
        }
        Fact::Trimmed { topic, partition, below } => {
            let topic = topic.0;
            format!(
                "messages below {below} of topic {topic} partition {partition} dropped that all were done with"
            )
        }
        Fact::Forgotten { group, upto, most } => forgotten(*group, upto.0, *most),
        Fact::Moved { topic, partition, offset, bytes } => {
            format!(
                "message {offset} of topic {} partition {partition} copied here, {} bytes",
                topic.0,
                bytes.len()
            )
        }
        Fact::Effect(fact) => effect(fact),
        Fact::Run(fact) => run(fact),
        Fact::Output(fact) => output(fact),
        Fact::Commit(fact) => commit(fact),
        Fact::Entity(fact) => entity(fact),
        Fact::Key(fact) => key(fact),
        Fact::Audit(fact) => audit(fact),
        Fact::Tenant(fact) => tenant(fact),
        Fact::Definition(fact) => definition(fact),
        Fact::Outbox(fact) => outbox(fact),
    }
}

/// What went from one shard to another.
fn outbox(fact: &OutboxFact<'_>) -> String {
    match fact {
        OutboxFact::Housed { shard } => format!("this is the log of shard {}", shard.0),
        OutboxFact::Sent { number, message, .. } => {
            let MessageFact { topic, partition, bytes, .. } = message;
            let (shard, bytes) = (topic.shard().0, bytes.len());
            format!(
                "parcel {number} sent to shard {shard}: for topic {} partition {partition}, {bytes} bytes",
                topic.0
            )
        }
        OutboxFact::Posted { number, .. } => format!("parcel {number} has arrived"),
        OutboxFact::Received { from, number, stored } => {
            format!("parcel {number} of shard {} received, offset {}", from.0, stored.offset)
        }
        OutboxFact::Settled { from, below } => {
            format!("parcels below {below} of shard {} are settled", from.0)
        }
    }
}

/// What became of a message for a group.
fn delivery(place: Place, fact: &DeliveryFact<'_>) -> String {
    let message = whole(place);
    match fact {
        DeliveryFact::Leased { token, attempt, expires, owner, .. } => {
            let token = format!("{}.{}", token.epoch, token.n);
            format!("{message} leased to {owner:?}, attempt {attempt}, token {token}, until {} ms", expires.0)
        }
        DeliveryFact::Acked { remembered, .. } if remembered.0 == 0 => format!("{message} acked"),
        DeliveryFact::Acked { remembered, .. } => {
            format!("{message} acked, its identity remembered until {} ms", remembered.0)
        }
        DeliveryFact::Failed { retry_at, error, .. } => {
            format!("{message} failed: {error:?}, next attempt at {} ms", retry_at.0)
        }
        DeliveryFact::Released => format!("{message} given back unused"),
        DeliveryFact::Snoozed { until, .. } => {
            format!("{message} given back to wait, next attempt at {} ms", until.0)
        }
        DeliveryFact::SnoozedFor { until, effect, .. } => {
            let until = until.0;
            format!(
                "{message} given back to wait for effect {effect}, next attempt at {until} ms at the latest"
            )
        }
        DeliveryFact::Hurried { .. } => format!("{message} tried again at once, by order"),
        DeliveryFact::Retired { dead: true } => format!("{message} given up, dead letter stored"),
        DeliveryFact::Retired { dead: false } => {
            format!("{message} given up: its identity was committed, or it was cancelled")
        }
        DeliveryFact::Extended { expires } => format!("{message} extended until {} ms", expires.0),
    }
}

fn order(fact: &OrderFact) -> String {
    match fact {
        OrderFact::Cancelled { topic, partition, offset } => {
            format!("message {offset} of topic {} partition {partition} cancelled", topic.0)
        }
        OrderFact::Removed { topic, partition, offset } => {
            format!("message {offset} of topic {} partition {partition} dropped", topic.0)
        }
        OrderFact::Sought { topic, group, partition, from } => {
            let (topic, group) = (topic.0, group.0);
            format!("group {group} of topic {topic} partition {partition} moved to offset {from}")
        }
        OrderFact::Configured { topic, settings } => format!("topic {} configured: {settings:?}", topic.0),
        OrderFact::TopicDeleted { topic } => format!("topic {} deleted", topic.0),
        OrderFact::Paused { topic, group, since } => {
            let whose = group.map_or_else(String::new, |group| format!("group {} of ", group.0));
            let what = since.map_or("resumed", |_| "paused");
            format!("{whose}topic {} {what}", topic.0)
        }
    }
}

fn forgotten(group: Option<(TopicId, GroupId)>, upto: u64, most: u32) -> String {
    let whose = group.map_or_else(
        || "the produce gate".to_owned(),
        |(topic, group)| format!("group {} of topic {}", group.0, topic.0),
    );
    format!("identities of {whose} due by {upto} ms forgotten, at most {most}")
}

/// Digests stay in the log.
fn key(fact: &KeyFact<'_>) -> String {
    match fact {
        KeyFact::Created { key, at, parent, replaces, note, .. } => {
            let above = parent.map_or_else(String::new, |parent| format!(", under key {:016x}", parent.0));
            let old = replaces.map_or_else(String::new, |old| format!(", in place of key {:016x}", old.0));
            format!("key {:016x} made at {} ms{above}{old}: {note:?}", key.0, at.0)
        }
        KeyFact::Ended { key, at, until } => {
            format!("key {:016x} ends at {} ms, by an order of {} ms", key.0, until.0, at.0)
        }
    }
}

fn audit(fact: &AuditFact<'_>) -> String {
    match fact {
        AuditFact::Recorded { sequence, at, words } => {
            let (actor, action, target) = (words.actor, words.action, words.target);
            let outcome = words.outcome;
            format!("audit entry {sequence} at {} ms: {actor:?} {action:?} {target:?}, {outcome}", at.0)
        }
        AuditFact::Dropped { below } => format!("audit entries below {below} dropped"),
    }
}

fn definition(fact: &DefinitionFact<'_>) -> String {
    match fact {
        DefinitionFact::Defined { kind, name, at, text } => {
            format!("{kind:?} {name:?} defined at {} ms: {} bytes", at.0, text.len())
        }
        DefinitionFact::Undefined { kind, name, at } => format!("{kind:?} {name:?} removed at {} ms", at.0),
    }
}

fn tenant(fact: &TenantFact<'_>) -> String {
    let TenantFact::Limited { tenant, at, limits } = fact;
    format!("tenant {tenant:?} limited at {} ms: {limits:?}", at.0)
}

fn entity(fact: &EntityFact<'_>) -> String {
    match fact {
        EntityFact::Raised { tenant, at, effect, raised } => {
            let names = EntityFact::names(raised).join(", ");
            let why = if *effect == 0 { "a commit".to_owned() } else { format!("effect {effect}") };
            format!("entities of tenant {tenant:?} raised by {why} at {} ms: {names}", at.0)
        }
        EntityFact::Forgotten { tenant, entity } => {
            format!("entity {entity:?} of tenant {tenant:?} forgotten")
        }
    }
}

fn commit(fact: &CommitFact<'_>) -> String {
    match fact {
        CommitFact::Done { until, .. } => {
            format!("a commit done: the facts before it in this batch; remembered until {} ms", until.0)
        }
        CommitFact::Forgotten { upto, most } => {
            format!("commits due by {} ms forgotten, at most {most}", upto.0)
        }
    }
}

fn effect(fact: &EffectFact<'_>) -> String {
    match fact {
        EffectFact::Begun(begun) => {
            let who = About::decode(begun.bytes).map_or_else(
                |_| "unreadable".to_owned(),
                |about| format!("tenant {:?} scope {:?} key {:?}", about.tenant, about.scope, about.key),
            );
            format!("effect {} begun: {who}, {}", begun.number, lent(&begun.lent))
        }
        EffectFact::Taken { number, lent: newer } => format!("effect {number} taken over: {}", lent(newer)),
        EffectFact::Renewed { number, until } => format!("effect {number} renewed until {} ms", until.0),
        EffectFact::Ended(ended) => {
            let (number, status, epoch) = (ended.number, ended.status, ended.epoch);
            format!(
                "effect {number} ended, epoch {epoch}: {status:?}, remembered until {} ms",
                ended.expires.0
            )
        }
        EffectFact::Lapsed { number, at } => {
            format!("effect {number} lapsed at {} ms: whether it happened is not known", at.0)
        }
        EffectFact::Released { number, epoch, at } => {
            format!("effect {number} given up unsent at {} ms, epoch {epoch} now", at.0)
        }
        EffectFact::Swept { numbers } => format!("{} effects forgotten", numbers.len() / 8),
        EffectFact::Moved { number, part, bytes } => {
            format!("{part:?} of effect {number} copied here, {} bytes", bytes.len())
        }
    }
}

fn lent(lent: &Lent<'_>) -> String {
    let Lent { epoch, attempt, until, on_lapse, .. } = lent;
    format!("epoch {epoch}, attempt {attempt}, until {} ms, on lapse {on_lapse:?}", until.0)
}

fn run(fact: &RunFact<'_>) -> String {
    match fact {
        RunFact::StepEnded { place, how, attempts, .. } => {
            format!("{} ended in its run: {how:?} after {attempts} attempts", whole(*place))
        }
        RunFact::Read { topic, offset, .. } => {
            format!("versions of datasets read for message {offset} of topic {}", topic.0)
        }
        RunFact::Forgotten { run, most } => format!("at most {most} entries of run {run} forgotten"),
    }
}

fn output(fact: &OutputFact<'_>) -> String {
    match fact {
        OutputFact::Moved { dataset, version, partition_key, location, dedupe_key, .. } => {
            let how = if dedupe_key.is_empty() { "replaced" } else { "appended" };
            format!("output {dataset:?} {version:?} {partition_key:?} {how}: {location:?}")
        }
        OutputFact::CutOver { dataset, version, .. } => {
            format!("dataset {dataset:?} cut over to {version:?}")
        }
        OutputFact::RolledBack { dataset, .. } => format!("dataset {dataset:?} rolled back"),
        OutputFact::Sealed { dataset, version, .. } => {
            format!("version {version:?} of dataset {dataset:?} sealed")
        }
        OutputFact::Dropped { dataset, version, .. } => {
            format!("version {version:?} of dataset {dataset:?} dropped")
        }
    }
}

fn appended(message: &MessageFact<'_>) -> String {
    let mut text = format!(
        "message {} of topic {} partition {} stored at {} ms, {} bytes",
        message.offset,
        message.topic.0,
        message.partition,
        message.at.0,
        message.bytes.len()
    );
    if let Some(retry) = message.retry {
        text.push_str(&format!(", at most {} attempts", retry.max_attempts));
    }
    if let Some(deadline) = message.deadline {
        text.push_str(&format!(", of use until {} ms", deadline.0));
    }
    if let Some((_, until)) = message.identity {
        text.push_str(&format!(", its identity remembered until {} ms", until.0));
    }
    text
}

fn whole(place: Place) -> String {
    let Place { topic, group, partition, offset } = place;
    format!("message {offset} of topic {} partition {partition} for group {}", topic.0, group.0)
}
