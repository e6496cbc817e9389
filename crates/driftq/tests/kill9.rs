//! `kill -9` on the real binary, again and again, under load; an outside checker judges what was seen.
//!
//! `DRIFTQ_KILL_CYCLES` sets the number of kills, `DRIFTQ_KILL_SEED` repeats the choices of an earlier run.
#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that is not as it should be")]

#[path = "kill9/checker.rs"]
mod checker;
#[path = "kill9/checker_objects.rs"]
mod checker_objects;
#[path = "kill9/history.rs"]
mod history;
#[path = "kill9/random.rs"]
mod random;
mod support;
#[path = "kill9/wire.rs"]
mod wire;
#[path = "kill9/workload.rs"]
mod workload;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use checker::{Expectation, check};
use history::{Address, Event, Work};
use random::Random;
use support::Server;
use wire::{Lines, Wire};
use workload::{MAX_ATTEMPTS, Reader, World, address_of};

const CYCLES_DEFAULT: u32 = 50;
/// A life is between these long, counted from the first answer.
const LIFE_MS: (u64, u64) = (30, 220);
/// Violations of one kind that are printed in full.
const VIOLATIONS_SHOWN: u32 = 8;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(120);
/// Outlives several lives of the broker. In the one in which it began it lapses only if the machine stands still.
const LEASE_LONG_MS: u64 = 2_000;
/// Lapses within most lives.
const LEASE_SHORT_MS: u64 = 25;

const TOPICS: [(&str, u32); 3] = [("orders", 4), ("single", 1), ("never-used", 7)];

const READERS: [Reader; 5] = [
    Reader { topic: "orders", group: "billing", lease_ms: LEASE_LONG_MS },
    Reader { topic: "orders", group: "billing", lease_ms: LEASE_LONG_MS },
    Reader { topic: "orders", group: "lapsing", lease_ms: LEASE_SHORT_MS },
    Reader { topic: "single", group: "mail", lease_ms: LEASE_LONG_MS },
    Reader { topic: "single", group: "audit", lease_ms: LEASE_LONG_MS },
];

/// Small files and many snapshots, so that kills meet rolls, snapshots and trims too.
const FLAGS: [&str; 4] =
    ["--segment-bytes=1MiB", "--snapshot-every-bytes=200KiB", "--in-flight-max=16", "--log-level=error"];

#[test]
fn nothing_is_lost_repeated_or_reordered_by_kill_9() {
    let cycles = variable("DRIFTQ_KILL_CYCLES").map_or(CYCLES_DEFAULT, |count| count as u32);
    let clock =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let seed = variable("DRIFTQ_KILL_SEED").unwrap_or(clock);
    println!("{cycles} kills; repeat the choices with DRIFTQ_KILL_SEED={seed}");
    let mut random = Random::new(seed);
    let data = tempfile::tempdir().expect("a temporary directory");
    let world = World::new();
    let started = Instant::now();
    std::thread::scope(|scope| {
        let server = first_life(&world, data.path());
        for producer in 0..4 {
            let (world, random) = (&world, Random::new(random.next()));
            let topic = if producer < 3 { "orders" } else { "single" };
            scope.spawn(move || world.produce(producer, topic, random));
        }
        for reader in READERS {
            let (world, random) = (&world, Random::new(random.next()));
            scope.spawn(move || world.consume(reader, random));
        }
        // A failed assertion here must end the threads too, or the scope would wait for them for ever.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let server = kill_again_and_again(&world, data.path(), server, cycles, &mut random);
            drain(&world, &server);
            read_dead_letters(&world, &server);
            list_topics(&world, &server);
        }));
        world.stop_producing.store(true, Ordering::Relaxed);
        world.stop.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
    world.history.record(Event::Drained);
    let confirmed = world.confirmed.load(Ordering::Relaxed);
    let (times, events) = world.history.into_events();
    println!(
        "{confirmed} messages confirmed, {} events, {:.1} s",
        events.len(),
        started.elapsed().as_secs_f64()
    );
    let violations = check(&events, &times, &expectation());
    // The first of each kind say most; a broken promise tends to be broken many times.
    let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
    for violation in &violations {
        let text = violation.to_string();
        let count = kinds.entry(text.split(' ').next().unwrap_or_default().to_owned()).or_default();
        *count += 1;
        if *count <= VIOLATIONS_SHOWN {
            println!("VIOLATION {text}");
            let about = |(_, event): &(_, &Event)| event.work().is_some() && event.work() == violation.work();
            for (time, event) in times.iter().zip(&events).filter(about) {
                println!("  {:9.3} s {event:?}", time.as_secs_f64());
            }
        }
    }
    println!("violations: {kinds:?}");
    assert!(violations.is_empty(), "{} violations with seed {seed}", violations.len());
    assert!(confirmed > u64::from(cycles), "the load was no load: {confirmed} messages in {cycles} lives");
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

fn expectation() -> Expectation {
    let groups = READERS.iter().map(|reader| (reader.topic.to_owned(), reader.group.to_owned()));
    let lapsing_groups = vec!["lapsing".to_owned()];
    let lease = Duration::from_millis(LEASE_LONG_MS);
    Expectation { groups: groups.collect(), lapsing_groups, lease, attempts_max: MAX_ATTEMPTS }
}

fn first_life(world: &World, data: &Path) -> Server {
    let server = Server::start(data, &FLAGS);
    let mut wire = Wire::connect(server.address).expect("the server listens");
    for (topic, partitions) in TOPICS {
        let (status, _) =
            wire.post("/v1/topics", &json!({"name": topic, "partitions": partitions})).expect("an answer");
        assert_eq!(status, 201);
        world.history.record(Event::TopicConfirmed { topic: topic.to_owned(), partitions });
    }
    // A message leaves when every group is done with it, and a group that comes later has missed it: all of them are
    // there, and on disk, before the first message that counts.
    for reader in READERS {
        let path = format!("/v2/topics/{}/groups/{}/lease", reader.topic, reader.group);
        let (status, body) = wire.post(&path, &json!({"owner": "setup", "max": 1})).expect("an answer");
        assert_eq!(status, 200, "{body}");
    }
    let (status, _) =
        wire.post("/v1/produce", &json!({"topic": "never-used", "value": "ready"})).expect("an answer");
    assert_eq!(status, 200);
    world.set_life(1, Some(server.address));
    server
}

fn kill_again_and_again(
    world: &World,
    data: &Path,
    mut server: Server,
    cycles: u32,
    random: &mut Random,
) -> Server {
    for life in 1..=cycles {
        let (least, most) = LIFE_MS;
        std::thread::sleep(Duration::from_millis(least + random.below(most - least)));
        // Killed first, announced second: whoever is in the middle of a call must meet a dead server.
        server.kill();
        world.set_life(life, None);
        // In the last life nothing is left on loan any more: it would not come back before the end.
        world.draining.store(life == cycles, Ordering::Relaxed);
        server = Server::start(data, &FLAGS);
        if life % 10 == 0 {
            list_topics(world, &server);
            println!("life {life}: {} events", world.history.len());
        }
        world.set_life(life + 1, Some(server.address));
    }
    server
}

fn list_topics(world: &World, server: &Server) {
    let mut wire = Wire::connect(server.address).expect("the server listens");
    let (status, body) = wire.get("/v1/topics").expect("an answer");
    assert_eq!(status, 200);
    let listed: Value = serde_json::from_str(&body).expect("JSON");
    let names = listed["topics"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|name| name.as_str().expect("a name").to_owned());
    // Creating a topic again says how many partitions it really has and changes nothing.
    let topics = names.filter(|name| TOPICS.iter().any(|(topic, _)| topic == name)).map(|name| {
        let (_, body) = wire.post("/v1/topics", &json!({"name": name, "partitions": 1})).expect("an answer");
        let created: Value = serde_json::from_str(&body).expect("JSON");
        (name, created["partitions"].as_u64().expect("a count") as u32)
    });
    world.history.record(Event::TopicsListed { topics: topics.collect() });
}

/// Lets the consumers ack everything that is left.
fn drain(world: &World, server: &Server) {
    world.stop_producing.store(true, Ordering::Relaxed);
    let deadline = Instant::now() + DRAIN_TIMEOUT;
    let mut wire = Wire::connect(server.address).expect("the server listens");
    loop {
        let lag: u64 = TOPICS.iter().map(|(topic, _)| lag_of(&mut wire, topic)).sum();
        if lag == 0 {
            return;
        }
        assert!(Instant::now() < deadline, "{lag} messages were not drained in time");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn lag_of(wire: &mut Wire, topic: &str) -> u64 {
    let (status, body) = wire.get(&format!("/v2/topics/{topic}/groups")).expect("an answer");
    assert_eq!(status, 200, "{body}");
    let groups: Value = serde_json::from_str(&body).expect("JSON");
    groups["groups"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|group| group["lag"].as_u64().expect("a count"))
        .sum()
}

/// Reads every dead-letter topic to its end.
fn read_dead_letters(world: &World, server: &Server) {
    let mut wire = Wire::connect(server.address).expect("the server listens");
    for (topic, _) in TOPICS {
        let dead = format!("dlq.{topic}");
        let (_, body) = wire.get("/v1/topics").expect("an answer");
        if !body.contains(&format!("\"{dead}\"")) {
            continue;
        }
        let path = format!("/v1/consume?topic={dead}&group=coroner&owner=coroner&lease_ms={LEASE_LONG_MS}");
        let mut lines = Lines::open(server.address, &path, Duration::from_millis(500)).expect("a stream");
        let mut count = 0;
        while let Some(line) = lines.next().expect("the server lives") {
            let item: Value = serde_json::from_str(&line).expect("JSON");
            let source = &item["envelope"]["dlq"];
            let letter = address_of(&dead, &item);
            let address = address_of(topic, source);
            let group = source["group"].as_str().expect("a group").to_owned();
            let Address { partition, offset, .. } = letter.clone();
            let value = item["value"].as_str().expect("a value").to_owned();
            let attempts = source["attempts"].as_u64().expect("a count") as u32;
            world.history.record(Event::Buried { letter, work: Work { group, address }, attempts, value });
            let ack = json!({"topic": dead, "group": "coroner", "partition": partition, "offset": offset, "owner": "coroner"});
            assert_eq!(wire.post("/v1/ack", &ack).expect("an answer").0, 204);
            count += 1;
        }
        println!("{count} dead letters in {dead}");
    }
}
