//! What came and went behind a message that nobody acks.

use crate::support::{Draft, Rig};
use driftq_core::{Answer, Input, LeaseRequest, Receipt, Settings, Settlement, State, TopicId, Verdict};

fn lease(rig: &mut Rig, topic: TopicId, max: u32) -> Vec<Receipt> {
    let request = LeaseRequest {
        topic,
        group: "g".into(),
        owner: "o".into(),
        max,
        lease_ms: None,
        wait_ms: 0,
        request: None,
    };
    match rig.ask_durably(|ticket| Input::Lease { ticket, request }) {
        Answer::Leased(deliveries) => deliveries.iter().map(|delivery| delivery.receipt).collect(),
        other => panic!("not leased: {other:?}"),
    }
}

/// As many messages as are kept side by side in memory.
const CHUNK: u32 = 512;

/// A rig in which the first message is on loan for ever, and so many chunks of others came and went.
fn rig_with(chunks: u32) -> (Rig, TopicId) {
    let mut rig = Rig::new(Settings { lease_in_flight_max: 100_000, ..Settings::default() });
    let topic = rig.topic("t", 1);
    rig.produce(&Draft::to(topic));
    assert_eq!(lease(&mut rig, topic, 1).len(), 1);
    for _ in 0..chunks {
        let messages = vec![Draft::to(topic).message(); CHUNK as usize];
        rig.ask_durably(|ticket| Input::ProduceMany { ticket, messages });
        let receipts = lease(&mut rig, topic, CHUNK);
        assert_eq!(receipts.len(), CHUNK as usize);
        let ack = |receipt: &Receipt| Settlement { receipt: *receipt, verdict: Verdict::Ack };
        let items = receipts.iter().map(ack).collect();
        rig.ask_durably(|ticket| Input::Settle { ticket, items });
    }
    (rig, topic)
}

#[test]
fn an_old_message_does_not_make_the_state_grow() {
    let bytes = [3, 30].map(|chunks| rig_with(chunks).0.shard.state().encode().len());
    assert_eq!(bytes[0], bytes[1], "the state grows with what is gone");
}

#[test]
fn a_gap_is_read_back_as_it_was() {
    let (mut rig, topic) = rig_with(6);
    let live = rig.shard.state().encode();
    let decoded = State::decode(&live, 3).expect("a snapshot can be read");
    assert_eq!(decoded.encode(), live);
    rig.crash();
    assert_eq!((rig.lag(topic, "g"), rig.shard.state().messages()), (1, 1));
    rig.advance(rig.settings.lease_ms_max);
    // What comes now lies behind the gap, and is found there.
    let offset = rig.produce(&Draft::to(topic));
    assert_eq!(offset, 3_073);
    let receipts = lease(&mut rig, topic, 9);
    assert_eq!(receipts.iter().map(|receipt| receipt.offset).collect::<Vec<_>>(), [0, 3_073]);
    let items = receipts.iter().map(|&receipt| Settlement { receipt, verdict: Verdict::Ack }).collect();
    rig.ask_durably(|ticket| Input::Settle { ticket, items });
    assert_eq!((rig.lag(topic, "g"), rig.shard.state().messages()), (0, 0));
}
