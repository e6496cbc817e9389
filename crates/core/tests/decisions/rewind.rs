//! A clock that was set back between two runs.

use crate::support::ledger::{TTL_MS, repeatable};
use crate::support::world::{Step, World, cases, settings, steps};
use crate::support::{Draft, LEASE_MS, Rig};
use driftq_core::ledger::Status;
use driftq_core::{Action, Description, EffectList, Input, Query, Settings, Time};
use proptest::prelude::*;

/// The same steps without messages that wait for a moment of the calendar, or are of no use after one: a clock that was
/// set back does not move those.
fn unscheduled(steps: &[Step]) -> Vec<Step> {
    let scheduled = |(kind, a, ..): &Step| (1..=7).contains(&(kind % 64)) && a % 6 == 0;
    steps
        .iter()
        .map(|step| if scheduled(step) { (step.0, step.1 + 1, step.2, step.3) } else { *step })
        .map(|(kind, a, b, c)| (kind, a, if b % 10 == 4 { b + 1 } else { b }, c))
        .collect()
}

/// A world that has told the time just now and then begins a new run, by a clock that is `back` ms behind.
fn restarted(steps: &[Step], retention: bool, back: u64) -> World {
    let mut world = World::new(settings(retention));
    world.play(&unscheduled(steps));
    world.rig.tell(Input::Space { roomy: true });
    world.rig.topic("the last thing told", 1);
    world.listen();
    world.rig.now = Time(world.rig.now.0 - back);
    world.crash(world.rig.log.synced);
    world.rig.sync();
    world.listen();
    world
}

/// What is to come in a world, in milliseconds from now, until nothing more comes.
fn prospects(world: &mut World) -> Vec<(u64, usize, usize)> {
    let start = world.rig.now;
    let mut prospects = Vec::new();
    while let Some(due) = world.rig.shard.next_deadline().filter(|_| prospects.len() < 500) {
        world.rig.now = world.rig.now.max(due);
        world.rig.tell(Input::Tick);
        let fetched = |action: &&Action| matches!(action, Action::Fetch(_));
        let fetches = world.rig.actions.iter().filter(fetched).count();
        let facts = world.rig.log.batches.len();
        world.rig.sync();
        let facts = world.rig.log.batches[facts..].iter().map(|batch| batch.bytes.len()).sum();
        world.listen();
        prospects.push((world.rig.now.since_ms(start), facts, fetches));
    }
    prospects
}

/// How long each effect has to go, and how old it is.
fn effects(world: &mut World) -> Vec<(u64, u64, Option<u64>)> {
    let now = world.rig.now;
    let list = EffectList { limit: 1000, ..EffectList::default() };
    let Some(Description::Effects(page)) = world.rig.describe(Query::Effects(list)) else {
        panic!("no effects")
    };
    let left = |time: Time| time.0.wrapping_sub(now.0);
    page.effects.iter().map(|e| (left(e.created), left(e.until), e.expires.map(left))).collect()
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn a_clock_that_was_set_back_leaves_everything_the_time_it_had(
        steps in steps(200),
        retention: bool,
        back in 1_u64..900_000,
    ) {
        let (mut steady, mut back) = (restarted(&steps, retention, 0), restarted(&steps, retention, back));
        prop_assert_eq!(effects(&mut steady), effects(&mut back));
        prop_assert_eq!(prospects(&mut steady), prospects(&mut back));
    }
}

#[test]
fn an_outcome_and_a_key_are_forgotten_in_time_after_the_clock_was_set_back() {
    const HOUR_MS: u64 = 3_600_000;
    let mut rig = Rig::new(Settings { retention_ms: Some(50_000), ..Settings::default() });
    rig.advance(10 * HOUR_MS);
    let topic = rig.topic("t", 1);
    rig.produce(&Draft::to(topic).keyed("k"));
    let lease = rig.executes(repeatable("paid"));
    rig.finish(lease, Status::Succeeded, "yes");
    let held = rig.executes(repeatable("held"));
    rig.now = Time(rig.now.0 - 9 * HOUR_MS);
    rig.crash();
    let (paid, held_now) = (rig.effect("paid").expect("kept"), rig.effect("held").expect("kept"));
    assert_eq!(paid.expires, Some(rig.now.after_ms(TTL_MS)));
    assert_eq!((held_now.live, held_now.until), (true, rig.now.after_ms(LEASE_MS)));
    rig.advance(LEASE_MS);
    assert!(!rig.effect("held").expect("kept").live, "{held:?}");
    rig.advance(50_000);
    assert_eq!(rig.topic_described(topic).partitions[0].messages, 0, "it has grown old");
    rig.advance(TTL_MS + 20_000);
    rig.sync();
    assert_eq!(rig.effect("paid"), None);
}

/// A due time is a moment of the calendar: it comes when the calendar says so.
#[test]
fn a_due_time_stays_where_it_is() {
    let mut rig = Rig::new(Settings::default());
    rig.advance(1_000_000);
    let topic = rig.topic("t", 1);
    let due = rig.now.after_ms(5_000);
    rig.produce(&Draft { start: driftq_core::Start::After(5_000), ..Draft::to(topic) });
    rig.now = Time(rig.now.0 - 500_000);
    rig.crash();
    rig.subscribe(topic, "g", "o", 9);
    rig.advance(500_000);
    assert_eq!(rig.deliveries().len(), 0);
    rig.advance(due.since_ms(rig.now));
    assert_eq!(rig.deliveries().len(), 1);
}
