//! A shard whose numbers of topics are nearly used up. A program of its own: the list of those that are gone is large.

use driftq_core::{
    Action, Answer, Input, LeaseRequest, NewMessage, OrderInput, Output, Payload, Position, Reject, Settings,
    Settlement, Shard, State, Ticket, Time, TopicId, TopicSettings, Verdict,
};

const TOPICS_EVER: usize = 1 << 24;
/// Where a snapshot without anything in it says how many topics there ever were.
const COUNT_AT: usize = 4 + 3 * 8 + 4 + 32 + 4 + 4;
const NOW: Time = Time(1_000_000);
const TICKET: Ticket = Ticket(1);

/// A state in which that many topics were created, and deleted again.
fn used_up(topics: usize) -> State {
    let mut bytes = State::new(1).encode();
    bytes[COUNT_AT..COUNT_AT + 4].copy_from_slice(&(topics as u32).to_le_bytes());
    bytes.splice(COUNT_AT + 4..COUNT_AT + 4, std::iter::repeat_n(0, topics));
    State::decode(&bytes, 1).expect("it could have happened")
}

struct Desk {
    shard: Shard,
    out: Output,
}

impl Desk {
    fn ask(&mut self, input: Input) -> Option<Answer> {
        self.tell(input);
        let upto = Position(u64::MAX / 2);
        self.tell(Input::Durable { upto });
        let replies = self.out.actions.extract_if(.., |action| matches!(action, Action::Reply { .. }));
        let answers = replies.filter_map(|action| match action {
            Action::Reply { answer, .. } => Some(answer),
            _ => None,
        });
        answers.last()
    }

    fn tell(&mut self, input: Input) {
        self.shard.handle(NOW, input, &mut self.out);
    }

    fn create(&mut self, name: &str) -> Option<Answer> {
        let settings = TopicSettings::default();
        let (ticket, name, tenant) = (TICKET, name.to_owned(), None);
        let order = OrderInput::CreateTopic { ticket, name, partitions: 1, settings, tenant, exact: true };
        self.ask(Input::Order(order))
    }
}

#[test]
fn no_topic_is_made_without_a_number_and_nothing_is_lost_for_it() {
    assert!(State::decode(&used_up(TOPICS_EVER).encode(), 1).is_ok());
    let mut desk =
        Desk { shard: Shard::new(Settings::default(), used_up(TOPICS_EVER - 1)), out: Output::default() };
    desk.shard.open(NOW, Position(1 << 32), [7; 32], &mut desk.out);
    assert_eq!(desk.create("last"), Some(Answer::TopicReady { partitions: 1, created: true }));
    let refused = desk.create("beyond");
    assert!(matches!(refused, Some(Answer::Rejected(Reject::Limit(_)))), "{refused:?}");
    // Nor can one be made for its dead letters: what has died stays where it is.
    let topic = TopicId(TOPICS_EVER as u32 - 1);
    let payload = Payload { bytes: b"x".to_vec(), check: 1, size: 1 };
    let message = NewMessage { topic, payload: payload.clone(), ..NewMessage::default() };
    desk.ask(Input::Produce { ticket: TICKET, message });
    let request = LeaseRequest {
        topic,
        group: "g".into(),
        owner: "o".into(),
        max: 1,
        lease_ms: Some(1000),
        wait_ms: 0,
        request: None,
    };
    let leased = desk.ask(Input::Lease { ticket: TICKET, request });
    let Some(Answer::Leased(leased)) = leased else { panic!("not leased: {leased:?}") };
    let verdict = Verdict::Nack { delay_ms: None, dead: true, error: "poison".into() };
    let items = vec![Settlement { receipt: leased[0].receipt, verdict }];
    desk.ask(Input::Settle { ticket: TICKET, items });
    let receipt = desk.out.actions.iter().find_map(|action| match action {
        Action::Fetch(burial) => Some(burial.receipt),
        _ => None,
    });
    let receipt = receipt.expect("it is to be buried");
    desk.tell(Input::Bury { receipt, payload });
    assert_eq!(desk.shard.state().messages(), 1);
    assert!(desk.shard.next_deadline().is_some(), "it is tried again");
}
