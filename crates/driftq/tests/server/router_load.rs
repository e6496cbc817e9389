//! Producers keep producing while their router hangs, floods, lies, dies and comes back: every call is answered in
//! time, and whatever was acknowledged is there exactly once, also after a crash.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::compat::{Broker, Client, TIMEOUT};
use crate::router_brain::Act;
use crate::router_world::{Brain, browse, metric, produce, produce_lines, says, status};
use serde_json::{Value, json};

/// Far more than the router's time-out, because machines can be slow; far less than a brain that never answers.
const CALL_MAX: Duration = Duration::from_secs(10);
const ROUTER: [&str; 10] = [
    "--router-timeout-ms",
    "200ms",
    "--router-concurrency-max",
    "4",
    "--router-breaker-cooldown-ms",
    "20ms",
    "--router-breaker-failures-max",
    "2",
    "--router-cache-entries-max",
    "0",
];
/// Messages in one call of a producer of lines.
const LINES: usize = 10;

/// How a producer sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    V1,
    V2,
    Lines,
}

const WAYS: [Way; 6] = [Way::V1, Way::V2, Way::Lines, Way::V1, Way::V2, Way::Lines];

/// What a producer was told: the values that were acknowledged, and the longest call.
#[derive(Default)]
struct Acked {
    values: Vec<String>,
    longest: Duration,
}

#[test]
fn a_router_may_hang_flood_lie_and_die_under_load() {
    let mut brain = Brain::start(sending());
    let broker = Broker::durable(&[&["--router-url", &brain.url()], &ROUTER[..]].concat());
    let mut client = broker.client_with_topic("t", 2);
    client.post("/v1/topics?name=routed&partitions=1");
    let stop = AtomicBool::new(false);
    let acked: Vec<Acked> = thread::scope(|scope| {
        let producers: Vec<_> = WAYS
            .into_iter()
            .enumerate()
            .map(|(number, way)| {
                let (client, stop) = (broker.client(), &stop);
                scope.spawn(move || keep_producing(client, way, number, stop))
            })
            .collect();
        // A test that gives up must not leave its producers running.
        let _stop = StopAtEnd(&stop);
        torment(&mut brain, &broker);
        stop.store(true, Relaxed);
        producers.into_iter().map(|producer| producer.join().unwrap()).collect()
    });
    let longest = acked.iter().map(|acked| acked.longest).max().unwrap();
    let values: Vec<&str> = acked.iter().flat_map(|acked| &acked.values).map(|value| &**value).collect();
    println!("{} messages; the longest call took {longest:?}", values.len());
    assert!(longest < CALL_MAX, "a call took {longest:?}");
    let told = status(&mut client);
    for name in ["answered", "failed", "timed_out", "refused"] {
        assert!(told[name].as_u64() > Some(0), "{name} in {told}");
    }
    assert!(metric(&mut client, "driftq_router_breaker_opened_total") >= 3);
    assert!(metric(&mut client, "driftq_router_undecided_total{reason=\"misdirected\"}") >= 2);
    assert_eq!(metric(&mut client, "driftq_router_calls_in_flight"), 0);
    assert_eq!(metric(&mut client, "driftq_router_messages_total{verdict=\"rejected\"}"), 0);

    all_are_there_once(&mut client, &values);
    let broker = broker.kill_and_restart(&[]);
    all_are_there_once(&mut broker.client(), &values);
}

/// A good brain, that sends everything elsewhere.
fn sending() -> Act {
    Act::Decide(8, json!({"target_topic": "routed", "meta": {"by": "brain"}}))
}

/// Everything that can go wrong with a brain, each until the broker has noticed.
fn torment(brain: &mut Brain, broker: &Broker) {
    grows(broker, "answered", || {});
    for act in [Act::Hang, Act::Drip] {
        grows(broker, "timed_out", || brain.act(act));
    }
    for act in [Act::FloodBody, Act::FloodHead, Act::Announce, Act::Garbage, Act::Half, Act::Close] {
        grows(broker, "failed", || brain.act(act));
    }
    let huge: BTreeMap<String, String> = (0..500).map(|n| (n.to_string(), "m".repeat(900))).collect();
    let lies = [
        "nonsense".to_owned(),
        "[]".to_owned(),
        r#"{"lable": "x"}"#.to_owned(),
        r#"{"label": "x", "partition_override": -1}"#.to_owned(),
        json!({"label": "x", "meta": huge}).to_string(),
        json!({"label": "l".repeat(100_000)}).to_string(),
    ];
    for lie in lies {
        grows(broker, "failed", || brain.act(says(&lie)));
    }
    // Well-formed answers that point nowhere: the brain answers, and the messages stay where they are.
    for lie in [r#"{"label": "x", "target_topic": "nowhere"}"#, r#"{"label": "x", "partition_override": 7}"#]
    {
        let misdirected = "driftq_router_undecided_total{reason=\"misdirected\"}";
        let before = metric(&mut broker.client(), misdirected);
        brain.act(says(lie));
        let mut client = broker.client();
        until(|| metric(&mut client, misdirected) > before, "a place that does not exist");
    }
    brain.die();
    grows(broker, "failed", || {});
    broker.wait_for("/v2/router", "the open breaker", |told| told["breaker"] == "open");
    let mut client = broker.client();
    until(
        || metric(&mut client, "driftq_router_breaker{state=\"open\"}") == 1,
        "the open breaker in metrics",
    );
    brain.come_back(sending());
    broker.wait_for("/v2/router", "the closed breaker", |told| told["breaker"] == "closed");
    grows(broker, "answered", || {});
}

/// Waits until a number of `GET /v2/router` has grown since this was done.
fn grows(broker: &Broker, name: &str, deed: impl FnOnce()) {
    deed();
    let before = status(&mut broker.client())[name].as_u64().unwrap();
    broker.wait_for("/v2/router", name, |told| told[name].as_u64() > Some(before + 1));
}

fn until(mut is_so: impl FnMut() -> bool, what: &str) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        thread::yield_now();
    }
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Under `pass` every message must be acknowledged, whatever the brain does.
fn keep_producing(mut client: Client, way: Way, number: usize, stop: &AtomicBool) -> Acked {
    let (mut acked, mut round) = (Acked::default(), 0);
    while !stop.load(Relaxed) {
        let count = if way == Way::Lines { LINES } else { 1 };
        let messages: Vec<Value> = (0..count).map(|line| message(number, round, line)).collect();
        let began = Instant::now();
        match way {
            Way::V1 => {
                let mut body = messages[0].clone();
                body["topic"] = json!("t");
                let answer = client.post_json("/v1/produce", &body);
                assert_eq!(answer.status, 200, "{}", answer.text());
            }
            Way::V2 => assert_eq!(produce(&mut client, "t", &messages[0])["duplicate"], false),
            Way::Lines => {
                let results = produce_lines(&mut client, "t", &messages);
                assert!(results.iter().all(|result| result["duplicate"] == false), "{results:?}");
            }
        }
        acked.longest = acked.longest.max(began.elapsed());
        acked.values.extend(messages.iter().map(|message| message["value"].as_str().unwrap().to_owned()));
        round += 1;
    }
    acked
}

fn message(producer: usize, round: usize, line: usize) -> Value {
    let name = format!("{producer}-{round}-{line}");
    json!({"key": format!("k{producer}"), "value": name, "envelope": {"idempotency_key": name}})
}

fn all_are_there_once(client: &mut Client, acked: &[&str]) {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    let mut routed = 0;
    for topic in ["t", "routed"] {
        for item in browse(client, topic) {
            let is_routed = item["routing"]["meta"]["by"] == "brain";
            assert_eq!(is_routed, topic == "routed", "{item}");
            routed += usize::from(is_routed);
            *found.entry(item["value"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    for value in acked {
        assert_eq!(found.remove(*value), Some(1), "{value} was acknowledged");
    }
    assert!(found.is_empty(), "nobody was told about {found:?}");
    assert!(routed > 0 && routed < acked.len(), "{routed} of {} were routed", acked.len());
}
