//! A message that can be delivered is delivered: whatever happened before, readers that always have credit and
//! ack everything are left with nothing.

use std::collections::BTreeSet;

use crate::support::Rig;
use crate::support::ledger::resolving;
use crate::support::works::KEYS;
use crate::support::world::{World, cases, settings, steps};
use driftq_core::ledger::Status;
use driftq_core::{Action, Answer, ConsumerId, EffectInput, Input, OrderInput, Settlement, TopicId, Verdict};
use proptest::prelude::*;

/// Lets every group work until nothing is left, without waking it by a new reader where it has one.
fn work(world: &mut World) {
    world.rig.tell(Input::Space { roomy: true });
    world.rig.sync();
    world.listen();
    let mut fetches = std::mem::take(&mut world.fetches);
    let mut held = Vec::new();
    for (topic, group) in staff(world) {
        world.rig.ask(|ticket| Input::Order(OrderInput::Pause { ticket, topic, group: None, paused: false }));
        let described = world.rig.group_described(topic, &group).expect("the group exists");
        if described.consumers == 0 {
            world.rig.subscribe(topic, &group, "late", 0);
        }
        world.rig.ask(|ticket| {
            Input::Order(OrderInput::Pause { ticket, topic, group: Some(group), paused: false })
        });
    }
    for consumer in 0..=u64::from(u16::MAX >> 4) {
        world.rig.tell(Input::Credit { consumer: ConsumerId(consumer), count: 100_000 });
        world.rig.tell(Input::Written { consumer: ConsumerId(consumer), count: 100_000 });
    }
    for _ in 0..200 {
        world.rig.sync();
        let actions = std::mem::take(&mut world.rig.actions);
        for action in actions {
            match action {
                Action::Deliver { delivery, consumer } => {
                    world.rig.tell(Input::Written { consumer, count: 1 });
                    held.push(delivery);
                }
                Action::Fetch(burial) => fetches.push(burial),
                Action::Reply { answer: Answer::Leased(deliveries), .. } => held.extend(deliveries),
                Action::Reply { .. }
                | Action::Post { .. }
                | Action::Publish(_)
                | Action::Unpublish(_)
                | Action::Close { .. } => {}
            }
        }
        for delivery in std::mem::take(&mut held) {
            let items = vec![Settlement { receipt: delivery.receipt, verdict: Verdict::Ack }];
            world.rig.ask(|ticket| Input::Settle { ticket, items });
        }
        for burial in std::mem::take(&mut fetches) {
            world.rig.bury(&burial);
        }
        // What waits for an effect that nobody knows the end of waits for a person: here is one.
        for key in KEYS {
            let resolve = resolving(key, Status::FailedFinal, "somebody");
            world.rig.ask(|ticket| Input::Effect(EffectInput::Resolve { ticket, resolve }));
        }
        world.rig.sync();
        let is_busy = world.rig.actions.iter().any(is_work);
        if !is_busy && lag(&mut world.rig) == 0 {
            return;
        }
        world.rig.advance(100);
    }
    let ids: Vec<TopicId> = world.rig.shard.state().topics().map(|topic| topic.id).collect();
    for (topic, offset) in ids.into_iter().flat_map(|topic| (0..40).map(move |offset| (topic, offset))) {
        for partition in 0..3 {
            let message = driftq_core::Spotted { topic, partition, offset };
            if let Some(left) = world.rig.message_described(message) {
                println!("left: {message:?} {left:?}");
            }
        }
    }
    panic!("messages are left: {:?}", world.rig.tally().groups);
}

/// Whether somebody has something to do for this.
const fn is_work(action: &Action) -> bool {
    matches!(
        action,
        Action::Deliver { .. } | Action::Fetch(_) | Action::Reply { answer: Answer::Leased(_), .. }
    )
}

/// Every group of every topic.
fn staff(world: &mut World) -> BTreeSet<(TopicId, String)> {
    let ids: Vec<TopicId> = world.rig.shard.state().topics().map(|topic| topic.id).collect();
    let mut staffed = BTreeSet::new();
    for topic in ids {
        let groups = world.rig.topic_described(topic).groups;
        staffed.extend(groups.iter().map(|group| (topic, group.to_string())));
    }
    staffed
}

fn lag(rig: &mut Rig) -> u64 {
    rig.tally().groups.iter().flat_map(|group| &group.partitions).map(|partition| partition.lag).sum()
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn in_the_end_nothing_is_left(steps in steps(250)) {
        let mut world = World::new(settings(false));
        world.play(&steps);
        work(&mut world);
        world.audit();
    }
}
