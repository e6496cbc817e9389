//! A message that can be delivered is delivered: whatever happened before, readers that always have credit and
//! ack everything are left with nothing.

mod support;

use std::collections::BTreeSet;

use driftq_core::{Action, Address, ConsumerId, Input, TopicId};
use proptest::prelude::*;
use support::Rig;
use support::world::{World, cases, settings, steps};

/// Lets every group work until nothing is left, without waking it by a new reader where it has one.
fn work(world: &mut World) {
    world.rig.tell(Input::Space { roomy: true });
    world.rig.sync();
    world.listen();
    let mut fetches = std::mem::take(&mut world.fetches);
    let staffed: BTreeSet<(TopicId, String)> = staff(world);
    for (topic, group) in staffed {
        let manned = world.rig.group_described(topic, &group).is_some_and(|group| group.consumers > 0);
        if !manned {
            world.rig.subscribe(topic, &group, "late", 0);
        }
    }
    for consumer in 0..=u64::from(u16::MAX >> 4) {
        world.rig.tell(Input::Credit { consumer: ConsumerId(consumer), count: 100_000 });
    }
    for _ in 0..200 {
        world.rig.sync();
        let actions = std::mem::take(&mut world.rig.actions);
        for action in actions {
            match action {
                Action::Deliver { consumer, delivery } => ack(world, consumer, &delivery),
                Action::Fetch(undertaking) => fetches.push(undertaking),
                Action::Reply { .. } | Action::Publish(_) => {}
            }
        }
        for undertaking in std::mem::take(&mut fetches) {
            world.rig.bury(&undertaking);
        }
        world.rig.sync();
        if world.rig.actions.is_empty() && lag(&mut world.rig) == 0 {
            return;
        }
        world.rig.advance(100);
    }
    panic!("messages are left: {:#?}", world.rig.tally().groups);
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

fn ack(world: &mut World, consumer: ConsumerId, delivery: &driftq_core::Delivery) {
    let receipt = delivery.receipt;
    // Whoever it is: the group and the owner are those of the reader.
    for (group, owner) in known(world, consumer) {
        let address =
            Address { topic: receipt.topic, group, partition: receipt.partition, offset: receipt.offset };
        world.rig.ask(|ticket| Input::Ack { ticket, address, owner });
    }
}

fn known(world: &World, consumer: ConsumerId) -> Vec<(String, String)> {
    if world.readers.contains(&consumer) {
        vec![(world.group_of(consumer).into(), world.owner_of(consumer).into())]
    } else {
        ["g", "h", "i"].map(|group| (group.into(), "late".into())).to_vec()
    }
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
