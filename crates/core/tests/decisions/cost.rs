//! What one message costs, with little and with much around it. Not a test of speed but of shape: the numbers are
//! for people. `cargo test --release -p driftq-core --test decisions cost -- --ignored --nocapture`

use std::time::Instant;

use crate::support::ledger::{finishing, wish};
use crate::support::{Draft, START};
use driftq_core::ledger::Status;
use driftq_core::{
    Action, Answer, BeginEffect, Commit, CommitInput, EffectInput, EffectReceipt, Identity, Input, KeyHash,
    LeaseRequest, NewMessage, Order, OrderInput, Output, Position, Receipt, Settings, Settlement, Shard,
    Start, State, Ticket, Time, TopicId, TopicSettings, Verdict,
};

const MILLION: usize = 1_000_000;
const BATCH: usize = 1000;
const ROUNDS: usize = 50;

/// A shard without a log: facts are counted and dropped.
struct Bench {
    shard: Shard,
    out: Output,
    now: Time,
    base: Position,
}

impl Bench {
    fn new(settings: TopicSettings) -> (Self, TopicId) {
        let limits = Settings {
            partition_messages_max: u64::MAX,
            partition_bytes_max: u64::MAX,
            lease_in_flight_max: u32::MAX,
            commits_max: u64::MAX,
            ..Settings::default()
        };
        let shard = Shard::new(limits, State::new(1));
        let mut bench = Self { shard, out: Output::default(), now: START, base: Position(1 << 32) };
        bench.shard.open(bench.now, bench.base, [1; 32], &mut bench.out);
        bench.sync();
        let (ticket, name, exact) = (Ticket(0), "t".into(), false);
        bench.tell(Input::Order(OrderInput::CreateTopic {
            ticket,
            name,
            partitions: 1,
            settings,
            tenant: None,
            exact,
        }));
        bench.sync();
        bench.lease(TopicId(0), 1);
        (bench, TopicId(0))
    }

    fn tell(&mut self, input: Input) {
        self.shard.handle(self.now, input, &mut self.out);
    }

    fn sync(&mut self) {
        self.base = self.base.plus(self.out.facts.len());
        self.out.facts.clear();
        self.shard.begin_batch(self.base);
        self.tell(Input::Durable { upto: self.base });
    }

    /// Lets time pass without handling what is due, then handles it.
    fn advance(&mut self, ms: u64) {
        self.now = self.now.after_ms(ms);
        while self.shard.next_deadline().is_some_and(|due| due <= self.now) {
            self.tell(Input::Tick);
        }
        self.out.actions.clear();
    }

    fn produce(&mut self, messages: Vec<NewMessage>) {
        self.tell(Input::ProduceMany { ticket: Ticket(1), messages });
        self.sync();
        self.out.actions.clear();
    }

    fn lease(&mut self, topic: TopicId, max: u32) -> Vec<Receipt> {
        self.out.actions.clear();
        let request = LeaseRequest {
            topic,
            group: "g".into(),
            owner: "o".into(),
            max,
            lease_ms: Some(100_000_000),
            wait_ms: 0,
            request: None,
        };
        self.tell(Input::Lease { ticket: Ticket(2), request });
        // One input looks at so many messages at the most, and goes on in the next turn.
        while self.out.actions.is_empty() && self.shard.next_deadline().is_some_and(|due| due <= self.now) {
            self.tell(Input::Tick);
        }
        match self.out.actions.pop() {
            Some(Action::Reply { answer: Answer::Leased(leased), .. }) => {
                leased.iter().map(|d| d.receipt).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    fn ack(&mut self, receipts: &[Receipt]) {
        let items = receipts.iter().map(|&receipt| Settlement { receipt, verdict: Verdict::Ack }).collect();
        self.tell(Input::Settle { ticket: Ticket(3), items });
        self.sync();
        self.out.actions.clear();
    }

    /// Nanoseconds per message of produce, lease and ack, a thousand at a time; acks one by one, too.
    fn measure(&mut self, name: &str, draft: impl Fn(usize) -> NewMessage) {
        let mut spent = [0_u128; 4];
        let mut topic = TopicId(0);
        // The cursor passes over what is scheduled once, a few thousand messages at a time.
        self.produce(vec![draft(0)]);
        while self.lease(topic, 1).is_empty() {}
        for round in 0..ROUNDS {
            let messages: Vec<NewMessage> = (0..BATCH).map(|n| draft(round * BATCH + n)).collect();
            topic = messages[0].topic;
            let start = Instant::now();
            self.produce(messages);
            spent[0] += start.elapsed().as_nanos();
            let start = Instant::now();
            let mut receipts = self.lease(topic, BATCH as u32);
            spent[1] += start.elapsed().as_nanos();
            assert!(!receipts.is_empty());
            let singles = receipts.split_off(receipts.len() / 2);
            let start = Instant::now();
            self.ack(&receipts);
            spent[2] += start.elapsed().as_nanos() * BATCH as u128 / receipts.len().max(1) as u128;
            let start = Instant::now();
            for receipt in &singles {
                self.ack(std::slice::from_ref(receipt));
            }
            spent[3] += start.elapsed().as_nanos() * BATCH as u128 / singles.len().max(1) as u128;
        }
        let each = spent.map(|spent| spent / (ROUNDS * BATCH) as u128);
        println!(
            "{name:42} produce {:>6} ns  lease {:>6} ns  ack {:>6} ns  ack one by one {:>6} ns",
            each[0], each[1], each[2], each[3]
        );
        self.advance(0);
        let _ = topic;
    }

    fn fill(&mut self, count: usize, draft: impl Fn(usize) -> NewMessage) {
        for from in (0..count).step_by(BATCH) {
            self.produce((from..from + BATCH).map(&draft).collect());
        }
    }
}

fn plain(topic: TopicId) -> Draft {
    Draft { value: "x".repeat(100), ..Draft::to(topic) }
}

#[test]
#[ignore = "prints numbers for people; takes a while"]
fn cost_per_message() {
    for scheduled in [1000, MILLION] {
        let (mut bench, topic) = Bench::new(TopicSettings::default());
        let far = Draft { start: Start::After(1 << 40), ..plain(topic) };
        bench.fill(scheduled, |n| {
            Draft { start: Start::After((1 << 40) + n as u64), ..far.clone() }.message()
        });
        bench.measure(&format!("{scheduled} scheduled"), |_| plain(topic).message());
        let soon = Draft { start: Start::After(10), ..plain(topic) };
        bench.fill(50_000, |_| soon.message());
        let start = Instant::now();
        bench.advance(10);
        println!("{:42} coming due {:>6} ns", "", start.elapsed().as_nanos() / 50_000);
    }
    for retained in [1000, MILLION] {
        let (mut bench, topic) = Bench::new(TopicSettings::default());
        bench.fill(retained, |_| plain(topic).message());
        // Another group keeps them all; this one is done with them.
        bench.tell(Input::Lease {
            ticket: Ticket(9),
            request: LeaseRequest {
                topic,
                group: "keeper".into(),
                owner: "o".into(),
                max: 1,
                lease_ms: None,
                wait_ms: 0,
                request: None,
            },
        });
        bench.sync();
        for _ in 0..retained / BATCH {
            let receipts = bench.lease(topic, BATCH as u32);
            bench.ack(&receipts);
        }
        bench.measure(&format!("{retained} retained"), |_| plain(topic).message());
    }
    for backlog in [1000, MILLION] {
        let (mut bench, topic) = Bench::new(TopicSettings::default());
        bench.fill(backlog, |_| plain(topic).message());
        bench.measure(&format!("{backlog} waiting"), |_| plain(topic).message());
        let (mut bench, topic) = Bench::new(TopicSettings::default());
        bench.fill(backlog, |n| Draft { priority: (n % 10) as u8, ..plain(topic) }.message());
        bench.measure(&format!("{backlog} waiting, with priorities"), |n| {
            Draft { priority: (n % 10) as u8, ..plain(topic) }.message()
        });
    }
    for keys in [1000, 10_000] {
        let settings = TopicSettings { order: Order::Key, ..TopicSettings::default() };
        for backlog in [0, 50_000] {
            let (mut bench, topic) = Bench::new(settings);
            let draft = |n: usize| Draft { key: KeyHash(1 + (n % keys) as u64), ..plain(topic) }.message();
            bench.fill(backlog, draft);
            bench.measure(&format!("{keys} keys in order, {backlog} waiting"), draft);
        }
    }
    let (mut bench, topic) =
        Bench::new(TopicSettings { retention_bytes: Some(1 << 20), ..TopicSettings::default() });
    bench.fill(MILLION, |_| {
        Draft { start: Start::After(1 << 40), value: String::new(), ..Draft::to(topic) }.message()
    });
    bench.measure("a million scheduled, retention by bytes", |_| plain(topic).message());
}

/// Acks that come while a large batch with priorities is not durable yet: each looks for something to deliver.
#[test]
#[ignore = "prints numbers for people; takes a while"]
fn cost_of_an_ack_beside_what_is_not_durable() {
    for unsynced in [0, 1000, 10_000] {
        let (mut bench, topic) = Bench::new(TopicSettings::default());
        bench.fill(2000, |_| plain(topic).message());
        let receipts = bench.lease(topic, 500);
        let request = LeaseRequest {
            topic,
            group: "g".into(),
            owner: "o".into(),
            max: 1,
            lease_ms: None,
            wait_ms: 50_000,
            request: None,
        };
        while !bench.lease(topic, 1000).is_empty() {}
        bench.tell(Input::Lease { ticket: Ticket(5), request });
        let messages = (0..unsynced).map(|_| Draft { priority: 5, ..plain(topic) }.message()).collect();
        bench.tell(Input::ProduceMany { ticket: Ticket(4), messages });
        let start = Instant::now();
        for receipt in &receipts {
            let items = vec![Settlement { receipt: *receipt, verdict: Verdict::Ack }];
            bench.tell(Input::Settle { ticket: Ticket(3), items });
        }
        println!("ack beside {unsynced:>6} that are not durable: {:>7} ns", start.elapsed().as_nanos() / 500);
    }
}

#[test]
#[ignore = "prints numbers for people; takes a while"]
fn cost_of_a_key_that_is_remembered() {
    cost_of_what_is_remembered("a message with a key", |topic, key| {
        let message = Draft { value: String::new(), ..plain(topic) }.keyed(key).message();
        vec![Input::Produce { ticket: Ticket(1), message }]
    });
}

#[test]
#[ignore = "prints numbers for people; takes a while"]
fn cost_of_a_commit_that_is_remembered() {
    cost_of_what_is_remembered("a commit by key, of a message", |topic, key| {
        let messages = vec![Draft { value: String::new(), ..plain(topic) }.message()];
        let commit = Commit { name: Some(Identity::of("", "commit", key)), messages, ..Commit::default() };
        vec![Input::Commit(CommitInput::One { ticket: Ticket(1), commit: Box::new(commit) })]
    });
}

#[test]
#[ignore = "prints numbers for people; takes a while"]
fn cost_of_an_effect_that_is_remembered() {
    let mut number = 0;
    cost_of_what_is_remembered("an effect that is begun and finished", |_, key| {
        number += 1;
        let (ticket, receipt) = (Ticket(1), EffectReceipt { number, epoch: 1 });
        let finish = finishing(receipt, Status::Succeeded, "done");
        let ask = BeginEffect { owner: "worker".into(), ..wish(key) };
        vec![
            Input::Effect(EffectInput::Begin { ticket, ask: Box::new(ask) }),
            Input::Effect(EffectInput::Finish { ticket, finish }),
        ]
    });
}

/// Two millions, in the memory of a process that has done nothing else before; of the messages next to nothing is kept.
fn cost_of_what_is_remembered(name: &str, mut inputs: impl FnMut(TopicId, &str) -> Vec<Input>) {
    const REMEMBERED: usize = 2 * MILLION;
    let retention = TopicSettings { retention_bytes: Some(1), ..TopicSettings::default() };
    let (mut bench, topic) = Bench::new(retention);
    let (memory, mut spent, mut longest) = (resident_bytes(), 0, 0);
    for n in 0..REMEMBERED {
        let inputs = inputs(topic, &n.to_string());
        let start = Instant::now();
        inputs.into_iter().for_each(|input| bench.tell(input));
        let took = start.elapsed().as_nanos();
        spent += took;
        longest = longest.max(took);
        if n % BATCH == 0 {
            bench.now = bench.now.after_ms(100);
            bench.sync();
            bench.out.actions.clear();
        }
    }
    let (each, longest) = (spent / REMEMBERED as u128, longest / 1000);
    let bytes = resident_bytes().saturating_sub(memory) / REMEMBERED;
    println!("{name}: {each} ns, {bytes} bytes; the longest took {longest} µs");
    let start = Instant::now();
    let snapshot = bench.shard.state().encode();
    let (written, start) = (start.elapsed(), Instant::now());
    State::decode(&snapshot, 1).expect("a snapshot that was just written");
    println!(
        "  a snapshot of {} bytes: written in {written:?}, read in {:?}",
        snapshot.len(),
        start.elapsed()
    );
}

/// Memory of this process that is in use.
fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or_default() * 4096
}
