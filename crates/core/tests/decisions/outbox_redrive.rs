//! A dead letter is tried again in a topic of another shard.

use crate::support::Draft;
use crate::support::orders::nack_dead;
use crate::support::post::Pair;
use driftq_core::{
    Action, Answer, Input, OrderInput, Overload, Reject, Settings, Spotted, Stored, Ticket, TopicId,
};

fn pair() -> Pair {
    Pair::new(&Settings::default())
}

fn stored(topic: TopicId, partition: u32, offset: u64, duplicate: bool) -> Stored {
    Stored { topic: Some(topic), partition, offset, duplicate }
}

/// A letter of a message that nobody could work on.
fn given_up(pair: &mut Pair) -> Spotted {
    let near = pair.near;
    pair.here.produce(&Draft::to(near).value("poison").keyed("k"));
    let failed = pair.here.lease(near, 1).remove(0);
    pair.here.settle(&failed, nack_dead("poison"));
    let burial = pair.here.fetches().remove(0);
    pair.here.bury(&burial);
    pair.here.sync();
    let dlq = pair.here.shard.state().topics().find(|topic| *topic.name == *"dlq.here");
    Spotted { topic: dlq.expect("the letter lies there").id, partition: 0, offset: 0 }
}

#[test]
fn a_dead_letter_is_tried_again_in_another_shard() {
    for crashes in [false, true] {
        let mut pair = pair();
        let letter = given_up(&mut pair);
        let message = Draft::to(pair.far).value("again").keyed("k").message();
        // The gate there knows the key.
        let first = message.clone();
        pair.there.ask_durably(|ticket| Input::Produce { ticket, message: first });
        let order = |ticket: Ticket| {
            Input::Order(OrderInput::Redrive {
                ticket,
                letter,
                message: message.clone(),
                group: Some("g".into()),
            })
        };
        let ticket = pair.here.ask(order);
        if crashes {
            pair.here.crash();
            assert_eq!(pair.posts(), []);
            assert!(pair.here.message_described(letter).is_some(), "it never happened");
            pair.here.ask(order);
            pair.here.sync();
            pair.here.crash();
        }
        pair.here.sync();
        assert_eq!(pair.here.message_described(letter), None, "it went with the batch");
        assert_eq!(pair.here.answer(ticket), None);
        let parcel = pair.here.actions.iter().find_map(|action| match action {
            Action::Post { parcel, .. } => Some(parcel.clone()),
            _ => None,
        });
        let origin = parcel.expect("it is sent").message.origin;
        assert_eq!(origin, Some(Spotted { topic: pair.near, partition: 0, offset: 0 }));
        let places = pair.deliver();
        assert_eq!(places, [stored(pair.far, 0, 1, false)], "an operator wants it");
        if !crashes {
            assert_eq!(pair.here.answer(ticket), Some(Answer::Produced(places[0])));
        }
        let again = pair.here.ask_durably(order);
        assert_eq!(again, Answer::Rejected(Reject::MessageUnknown));
        assert_eq!(pair.there.shard.state().messages(), 2);
    }
}

#[test]
fn a_dead_letter_stays_if_nothing_can_be_sent() {
    let mut pair = Pair::new(&Settings { outbox_bytes_max: 10, ..Settings::default() });
    let letter = given_up(&mut pair);
    let message = pair.letter("again");
    let answer = pair
        .here
        .ask_durably(|ticket| Input::Order(OrderInput::Redrive { ticket, letter, message, group: None }));
    assert_eq!(answer, Answer::Rejected(Reject::Overloaded(Overload::Outbox)));
    assert!(pair.here.message_described(letter).is_some());
}
