//! Producers and consumers that work through one life of the server after the other, and write down what they see.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::history::{Address, Event, History, Work};
use super::random::Random;
use super::wire::{Lines, Wire};

/// Producers wait when the readers are this far behind: the test is about crashes, not about a growing backlog.
const BACKLOG_MAX: u64 = 3_000;
const STREAM_PATIENCE: Duration = Duration::from_millis(50);
/// Deliveries after which a message of this workload becomes a dead letter.
pub(crate) const MAX_ATTEMPTS: u32 = 3;

/// What all threads share.
pub(crate) struct World {
    pub(crate) history: History,
    /// The server's current life and where it listens; no address while it is down.
    life: Mutex<(u32, Option<SocketAddr>)>,
    changed: Condvar,
    pub(crate) stop_producing: AtomicBool,
    /// Consumers ack everything from now on.
    pub(crate) draining: AtomicBool,
    pub(crate) stop: AtomicBool,
    pub(crate) confirmed: AtomicU64,
    pub(crate) acked: AtomicU64,
    streams: AtomicU64,
}

/// A consumer's part.
#[derive(Clone, Copy)]
pub(crate) struct Reader {
    pub(crate) topic: &'static str,
    pub(crate) group: &'static str,
    pub(crate) lease_ms: u64,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            history: History::begin(),
            life: Mutex::new((0, None)),
            changed: Condvar::new(),
            stop_producing: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            confirmed: AtomicU64::new(0),
            acked: AtomicU64::new(0),
            streams: AtomicU64::new(1),
        }
    }

    pub(crate) fn set_life(&self, life: u32, address: Option<SocketAddr>) {
        *self.life.lock().unwrap() = (life, address);
        self.changed.notify_all();
    }

    /// The current life, or the next one; none when the test ends.
    fn life(&self, over: &AtomicBool) -> Option<(u32, SocketAddr)> {
        let mut guard = self.life.lock().unwrap();
        loop {
            if over.load(Ordering::Relaxed) {
                return None;
            }
            if let (life, Some(address)) = *guard {
                return Some((life, address));
            }
            guard = self.changed.wait_timeout(guard, Duration::from_millis(50)).unwrap().0;
        }
    }

    /// Produces until told to stop. Odd messages carry an idempotency key and are repeated until they are answered,
    /// sometimes even after that; even ones are sent once.
    pub(crate) fn produce(&self, producer: u32, topic: &str, mut random: Random) {
        let mut connection: Option<(u32, Wire)> = None;
        for number in 0_u64.. {
            while self.confirmed.load(Ordering::Relaxed) > self.acked.load(Ordering::Relaxed) + BACKLOG_MAX {
                if self.stop_producing.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            let keyed = number % 2 == 1;
            let value = format!("{topic}-{producer}-{number}");
            let request = message(topic, &value, keyed, &mut random);
            let confirmed = loop {
                let Some(current) = self.life(&self.stop_producing) else { break None };
                match call(&mut connection, current, "/v1/produce", &request) {
                    Ok(200) => break Some(true),
                    Ok(500..) if keyed => std::thread::sleep(Duration::from_millis(5)),
                    Ok(500..) => break Some(false),
                    Ok(status) => panic!("producing {value} was answered with {status}"),
                    // Nobody knows whether it was stored. Under a key it may be sent again.
                    Err(_) if keyed => std::thread::sleep(Duration::from_millis(1)),
                    Err(_) => break Some(false),
                }
            };
            let stopped = confirmed.is_none();
            let confirmed = confirmed.unwrap_or(false);
            self.history.record(Event::Produced { producer, topic: topic.to_owned(), value, confirmed });
            if stopped {
                return;
            }
            if confirmed {
                self.confirmed.fetch_add(1, Ordering::Relaxed);
            }
            if confirmed && keyed && random.chance(20) {
                // As a client does whose answer got lost. The answer to this one does not matter.
                if let Some(current) = self.life(&self.stop_producing) {
                    drop(call(&mut connection, current, "/v1/produce", &request));
                }
            }
            if random.chance(30) {
                std::thread::sleep(Duration::from_micros(random.below(2_000)));
            }
        }
    }

    /// Consumes until told to stop, opening a new stream in every life.
    pub(crate) fn consume(&self, reader: Reader, mut random: Random) {
        while let Some(current) = self.life(&self.stop) {
            if self.stream(reader, current, &mut random).is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// One stream, to its end.
    fn stream(
        &self,
        reader: Reader,
        (life, address): (u32, SocketAddr),
        random: &mut Random,
    ) -> io::Result<()> {
        let number = self.streams.fetch_add(1, Ordering::Relaxed);
        let owner = format!("owner-{number}");
        let Reader { topic, group, lease_ms } = reader;
        let path = format!("/v1/consume?topic={topic}&group={group}&owner={owner}&lease_ms={lease_ms}");
        let mut lines = Lines::open(address, &path, STREAM_PATIENCE)?;
        let mut wire = Wire::connect(address)?;
        while !self.stop.load(Ordering::Relaxed) {
            let Some(line) = lines.next()? else { continue };
            let item: Value = serde_json::from_str(&line).expect("a line is JSON");
            let work = Work { group: group.to_owned(), address: address_of(topic, &item) };
            let attempt = number_of(&item, "attempts") as u32;
            let text = |name: &str| item[name].as_str().expect("a text").to_owned();
            let (value, last_error) = (text("value"), text("last_error"));
            self.history.record(Event::Delivered {
                life,
                stream: number,
                work: work.clone(),
                attempt,
                value,
                last_error,
            });
            self.settle(&mut wire, life, &owner, work, attempt, random)?;
        }
        Ok(())
    }

    fn settle(
        &self,
        wire: &mut Wire,
        life: u32,
        owner: &str,
        work: Work,
        attempt: u32,
        random: &mut Random,
    ) -> io::Result<()> {
        let Address { topic, partition, offset } = &work.address;
        let mut body = json!({"topic": topic, "group": work.group, "partition": partition, "offset": offset, "owner": owner});
        let choice = if self.draining.load(Ordering::Relaxed) { 0 } else { random.below(100) };
        match choice {
            0..80 => {
                let outcome = wire.post("/v1/ack", &body);
                let confirmed = matches!(outcome, Ok((204, _)));
                refuse_nonsense(&outcome, "ack");
                self.history.record(Event::Acked { life, work, attempt, confirmed });
                if confirmed {
                    self.acked.fetch_add(1, Ordering::Relaxed);
                }
                outcome.map(drop)
            }
            80..92 => {
                let reason = format!("reason-{}", random.next());
                body["reason"] = json!(reason);
                let outcome = wire.post("/v1/nack", &body);
                let confirmed = matches!(outcome, Ok((204, _)));
                refuse_nonsense(&outcome, "nack");
                self.history.record(Event::Nacked { life, work, attempt, reason, confirmed });
                outcome.map(drop)
            }
            // Left on loan: it comes back when the lease lapses, or in the next life.
            _ => Ok(()),
        }
    }
}

/// Acks and nacks are answered with success, with a conflict, with a fault of the server, or not at all.
fn refuse_nonsense(outcome: &io::Result<(u16, String)>, what: &str) {
    if let Ok((status, body)) = outcome {
        assert!(matches!(status, 204 | 409 | 500..), "{what} was answered with {status}: {body}");
    }
}

fn message(topic: &str, value: &str, keyed: bool, random: &mut Random) -> Value {
    let mut envelope = json!({"run_id": "kill9"});
    if keyed {
        envelope["idempotency_key"] = json!(value);
    }
    if random.chance(30) {
        envelope["retry_policy"] =
            json!({"max_attempts": MAX_ATTEMPTS, "backoff_ms": 5, "max_backoff_ms": 50});
    }
    // Random lengths, so that frames end anywhere.
    let key = format!("key-{}", random.below(40));
    json!({"topic": topic, "key": key, "value": value, "envelope": envelope})
}

/// One call on the connection of this life; a new life gets a new connection.
fn call(
    connection: &mut Option<(u32, Wire)>,
    (life, address): (u32, SocketAddr),
    path: &str,
    body: &Value,
) -> io::Result<u16> {
    if connection.as_ref().is_none_or(|(of, _)| *of != life) {
        *connection = Some((life, Wire::connect(address)?));
    }
    let (_, wire) = connection.as_mut().expect("set above");
    let outcome = wire.post(path, body);
    if outcome.is_err() {
        *connection = None;
    }
    outcome.map(|(status, _)| status)
}

pub(crate) fn address_of(topic: &str, item: &Value) -> Address {
    Address {
        topic: topic.to_owned(),
        partition: number_of(item, "partition") as u32,
        offset: number_of(item, "offset"),
    }
}

fn number_of(item: &Value, name: &str) -> u64 {
    item[name].as_u64().unwrap_or_else(|| panic!("no {name} in {item}"))
}
