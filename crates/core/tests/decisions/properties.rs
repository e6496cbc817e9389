//! What must hold for every history of a shard, whatever happened.

use std::collections::BTreeSet;

use crate::support::world::{Step, World, cases, settings, steps};
use driftq_core::{DeliveryFact, Fact, State};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

fn played(steps: &[Step], retention: bool) -> World {
    let mut world = World::new(settings(retention));
    world.play(steps);
    world.rig.write();
    world
}

/// The properties below are worth as much as the histories they see.
#[test]
fn the_histories_have_everything_in_them() {
    let mut runner = TestRunner::deterministic();
    let mut kinds = BTreeSet::new();
    for round in 0..2000 {
        let steps = steps(250).new_tree(&mut runner).unwrap().current();
        let world = played(&steps, round % 2 == 0);
        kinds.extend(world.rig.facts_since(0).iter().map(|fact| match fact {
            Fact::Delivery(_, DeliveryFact::Retired { dead: true }) => "Retired as dead".to_owned(),
            Fact::Forgotten { group: None, .. } => "Forgotten by the produce gate".to_owned(),
            Fact::Delivery(_, fact) => format!("{fact:?}").split(' ').next().unwrap_or_default().to_owned(),
            Fact::Order(_)
            | Fact::Effect(_)
            | Fact::Run(_)
            | Fact::Output(_)
            | Fact::Commit(_)
            | Fact::Entity(_) => format!("{fact:?}").split([' ', '(']).take(2).collect::<Vec<_>>().join(" "),
            fact => format!("{fact:?}").split([' ', '(']).next().unwrap_or_default().to_owned(),
        }));
    }
    assert_eq!(kinds.len(), 47, "{kinds:?}");
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn the_facts_alone_make_the_state(steps in steps(250), retention: bool, cut: prop::sample::Index) {
        let world = played(&steps, retention);
        let written = world.rig.log.batches.len();
        let live = world.rig.shard.state().encode();
        // From the beginning, and from a snapshot anywhere on the way; the rig compares the two.
        let folded = world.rig.recovered(written, cut.index(written + 1));
        prop_assert!(folded.encode() == live, "the fold differs from the live state");
        let decoded = State::decode(&live, 99).expect("a snapshot can be read");
        prop_assert!(decoded.encode() == live, "the snapshot changes by being read");
        prop_assert_eq!(decoded.live_bytes(), world.rig.shard.state().live_bytes());
        prop_assert_eq!(decoded.messages(), world.rig.shard.state().messages());
        prop_assert_eq!(decoded.tenants(), world.rig.shard.state().tenants(), "what tenants have is counted alike");
    }

    #[test]
    fn the_facts_make_the_state_at_the_end_of_every_batch(steps in steps(120), retention: bool) {
        let mut world = World::new(settings(retention));
        let (mut folded, mut seen) = (State::new(1), Vec::new());
        for step in steps {
            world.play(&[step]);
            world.rig.write();
            // A crash takes some of the history back.
            if !world.rig.log.batches.starts_with(&seen) {
                (folded, seen) = (State::new(1), Vec::new());
            }
            for batch in &world.rig.log.batches[seen.len()..] {
                folded.apply_batch(batch.base, &batch.bytes).expect("history can be folded");
            }
            seen.clone_from(&world.rig.log.batches);
            let live = world.rig.shard.state();
            prop_assert!(folded.encode() == live.encode(), "the fold differs after {:?}", step);
            prop_assert_eq!(folded.live_bytes(), live.live_bytes());
        }
    }

    #[test]
    fn the_same_inputs_give_the_same_bytes_and_actions(steps in steps(250), retention: bool) {
        let (mut once, mut twice) = (played(&steps, retention), played(&steps, retention));
        prop_assert!(once.rig.log.batches == twice.rig.log.batches);
        once.listen();
        twice.listen();
        prop_assert_eq!(once.history, twice.history);
    }

    #[test]
    fn a_snapshot_behaves_like_the_history_that_it_stands_for(steps in steps(250), retention: bool) {
        let worlds = [0, 60, 100].map(|percent| {
            let mut world = World::new(settings(retention));
            world.rig.snapshot_percent = percent;
            world.play(&steps);
            world.crash(world.rig.log.synced);
            world.play(&steps);
            world.rig.write();
            world
        });
        for world in &worlds[1..] {
            prop_assert!(world.rig.log.batches == worlds[0].rig.log.batches);
            prop_assert_eq!(&world.history, &worlds[0].history);
        }
    }

    #[test]
    fn the_counters_agree_with_the_messages(steps in steps(250), retention: bool) {
        let mut world = World::new(settings(retention));
        for chunk in steps.chunks(5) {
            world.play(chunk);
            world.audit();
        }
    }

    #[test]
    fn nothing_that_is_kept_changes_by_a_crash(steps in steps(150), retention: bool) {
        let mut world = played(&steps, retention);
        prop_assume!(!world.has_cancelled());
        world.rig.sync();
        world.listen();
        world.audit();
        let before = world.rig.tally();
        world.crash(world.rig.log.batches.len());
        world.audit();
        let after = world.rig.tally();
        let partitions = |tally: &driftq_core::Tally| {
            tally.topics.iter().map(|topic| topic.partitions.clone()).collect::<Vec<_>>()
        };
        prop_assert_eq!(partitions(&before), partitions(&after));
        let lags = |tally: &driftq_core::Tally| -> Vec<u64> {
            tally.groups.iter().flat_map(|group| group.partitions.iter().map(|p| p.lag)).collect()
        };
        prop_assert_eq!(lags(&before), lags(&after));
        prop_assert_eq!(before.idempotency_records, after.idempotency_records);
        prop_assert_eq!(before.epoch + 1, after.epoch);
    }
}
