//! What metrics are told, and how much of it.

use crate::support::{Draft, Rig};
use driftq_core::Settings;

#[test]
fn a_tally_lists_the_first_and_counts_the_rest() {
    let mut rig = Rig::new(Settings { partitions_max: 1_000, ..Settings::default() });
    let first = rig.topic("t0", 1_000);
    for n in 1..12 {
        let topic = rig.topic(&format!("t{n}"), 1_000);
        rig.subscribe(topic, "g", "o", 0);
    }
    for group in ["a", "b"] {
        rig.subscribe(first, group, "o", 1);
    }
    rig.produce(&Draft::to(first).partition(7));
    let tally = rig.tally();
    assert_eq!((tally.topic_count, tally.group_count), (12, 13));
    assert_eq!((tally.topics.len(), tally.groups.len(), tally.left_out), (10, 10, 3_000));
    let (a, b) = (&tally.groups[0], &tally.groups[1]);
    assert_eq!((&*a.name, a.partitions[7].lag, a.partitions[7].in_flight), ("a", 1, 1));
    assert_eq!((&*b.name, b.consumers, b.partitions[8].lag), ("b", 1, 0));
    assert!(tally.topics.iter().all(|topic| topic.groups.is_empty()), "names of groups are not for metrics");
}
