//! Who serves a log that several servers share: a stream that keeps the newest message of each subject.
//!
//! Times are those that the servers of NATS stamped on the messages: ages are told from two of them, and no clock of ours
//! counts. The seat changes hands by comparison with the message that was read. It only says who should serve; that
//! nobody else writes is the doing of the claim in the log.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fault::Trouble;
use super::link::{Expect, Link, Stored};
use super::stream::{self, troubled};
use super::{Names, NatsLog};
use crate::cluster::{Claim, Node, Register, SEAT_TIME, Secret, Standing};
use crate::failure::StartError;
use crate::house::HOME;
use crate::log::NatsPlace;

/// Subjects that are looked at: two of each server, the seat, and the secret.
const SUBJECTS_MAX: u32 = 514;
/// A server that was not seen for so long is forgotten, unless it is to stay drained: one that always comes back under
/// another URL must not fill the register.
const GONE_MS: u64 = 3_600_000;
/// How often in a row the seat may have changed between the look at it and the claim.
const RACES_MAX: u32 = 3;
/// Bytes of a URL's digest in the name of a subject, which may not have every letter in it.
const DIGEST_BYTES: usize = 8;

/// What is said of a server, or of the seat.
#[derive(Serialize, Deserialize)]
struct Said {
    url: String,
    /// The seat is free; the server leaves the work to others.
    #[serde(default)]
    is_off: bool,
}

/// The register of a cluster.
pub(crate) struct NatsRegister {
    link: Link,
    names: Names,
    url: String,
    secret: Secret,
    /// Servers that are gone have been forgotten.
    is_swept: bool,
}

/// Who has the seat after a beat.
enum Sat {
    /// This server, by this beat.
    Mine,
    Taken {
        by: String,
        free_in: Duration,
    },
    Free,
}

/// One of its messages.
struct Entry {
    sequence: u64,
    subject: String,
    time_ms: u64,
    said: Said,
}

impl NatsRegister {
    /// Looks at the log's streams, and makes that of the cluster if there is none.
    pub(crate) fn open(place: &NatsPlace, url: &str) -> Result<Self, StartError> {
        let NatsLog { address, names, .. } = NatsLog::new(place.clone(), HOME, u32::MAX)?;
        let link = Link::new(&address).map_err(|trouble| troubled(&trouble))?;
        stream::make_sure(&link, &address, &names, &place.cluster)?;
        let names = Names::new(&address.stream);
        stream::provide(
            &link,
            &stream::config(&names.register(), &names.register_subjects(), &place.cluster, 1),
        )?;
        let secret = secret(&link, &names)?;
        Ok(Self { link, names, url: url.to_owned(), secret, is_swept: false })
    }

    fn put(&self, subject: &str, expect: &Expect, said: &Said) -> Result<u64, Trouble> {
        let payload = serde_json::to_vec(said).unwrap_or_default();
        self.link.tell(&self.names.register(), subject, expect, &payload.into())
    }

    /// Everything, from a replica that has what was put at `upto`.
    fn look(&self, upto: u64) -> Result<Vec<Entry>, String> {
        let found = self.link.newest(&self.names.register(), &self.names.register_subjects(), SUBJECTS_MAX);
        let found = found.map_err(|trouble| trouble.to_string())?;
        if found.iter().all(|message| message.sequence < upto) {
            return Err("a replica of the register lags behind".into());
        }
        Ok(found.into_iter().filter_map(entry).collect())
    }

    /// Renews or takes the seat, if that is wanted and may be; what an earlier beat has asked for says nothing about how
    /// long the seat lasts.
    fn sit(&self, mut seat: Option<Entry>, is_wanted: bool, now_ms: u64) -> Result<Sat, String> {
        for _ in 0..RACES_MAX {
            let taken = seat.as_ref().filter(|seat| seat.is_taken(now_ms));
            if !is_wanted || taken.is_some_and(|seat| seat.said.url != self.url) {
                return Ok(taken.map_or(Sat::Free, |seat| Sat::Taken {
                    by: seat.said.url.clone(),
                    free_in: SEAT_TIME.saturating_sub(Duration::from_millis(seat.age_ms(now_ms))),
                }));
            }
            let expect = Expect::LastOfSubject(seat.map_or(0, |seat| seat.sequence));
            let said = Said { url: self.url.clone(), is_off: false };
            match self.put(&self.names.seat(), &expect, &said) {
                Ok(_) => return Ok(Sat::Mine),
                Err(trouble) if trouble.is_lost_race() => {}
                Err(trouble) => return Err(trouble.to_string()),
            }
            // Another server was quicker, or a word of this one came late, or the replica that was asked lags behind.
            let last = self.link.last(&self.names.register(), &self.names.seat());
            seat = last.map_err(|trouble| trouble.to_string())?.and_then(entry);
        }
        Err("the seat changes faster than it can be renewed".into())
    }

    fn node(&self, kind: &str, url: &str) -> String {
        node(&self.names.log, kind, url)
    }

    /// Forgets the servers that are gone, once. What cannot be removed now is removed by the next server that starts.
    fn sweep(&mut self, all: &[Entry], now_ms: u64) {
        if std::mem::replace(&mut self.is_swept, true) {
            return;
        }
        for subject in gone(&self.names.log, all, now_ms) {
            let purge = format!("STREAM.PURGE.{}", self.names.register());
            if let Err(trouble) = self.link.call::<Value>(&purge, &json!({"filter": subject})) {
                return tracing::debug!(%trouble, "a server that is gone could not be forgotten");
            }
        }
    }
}

/// The subject of what is said of a server.
fn node(log: &str, kind: &str, url: &str) -> String {
    let digest = blake3::hash(url.as_bytes());
    let name: String = digest.as_bytes()[..DIGEST_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("driftq.{log}.cluster.{kind}.{name}")
}

/// The subjects of servers that are to be forgotten.
fn gone(log: &str, all: &[Entry], now_ms: u64) -> Vec<String> {
    let is_drained = |subject: &str| all.iter().any(|entry| entry.subject == subject && entry.said.is_off);
    let old = all.iter().filter(|entry| {
        entry.subject == node(log, "node", &entry.said.url) && entry.age_ms(now_ms) >= GONE_MS
    });
    let subjects = old.map(|entry| (entry.subject.clone(), node(log, "drained", &entry.said.url)));
    subjects.filter(|(_, drained)| !is_drained(drained)).flat_map(|(own, drained)| [own, drained]).collect()
}

/// The secret of the cluster. The first one that is kept stays.
fn secret(link: &Link, names: &Names) -> Result<Secret, StartError> {
    let (stream, subject, new) = (names.register(), names.secret(), Secret::new()?);
    let kept = link.patiently(|link| {
        let payload = new.bytes().to_vec().into();
        match link.publish(&stream, &subject, &Expect::LastOfSubject(0), payload) {
            Err(trouble) if !trouble.is_lost_race() => return Err(trouble),
            _ => {}
        }
        let kept = link.last(&stream, &subject)?;
        kept.ok_or_else(|| Trouble::Unsure("a replica of the register lags behind".into()))
    });
    Secret::kept(&kept.map_err(|trouble| troubled(&trouble))?.payload)
}

impl Entry {
    fn age_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.time_ms)
    }

    /// Whether somebody has this seat.
    fn is_taken(&self, now_ms: u64) -> bool {
        !self.said.is_off && u128::from(self.age_ms(now_ms)) < SEAT_TIME.as_millis()
    }
}

fn entry(message: Stored) -> Option<Entry> {
    let Stored { sequence, subject, time, payload } = message;
    Some(Entry { sequence, subject, time_ms: millis(&time)?, said: serde_json::from_slice(&payload).ok()? })
}

impl Register for NatsRegister {
    fn beat(&mut self, claim: Claim) -> Result<Standing, String> {
        let own = self.node("node", &self.url);
        let said = Said { url: self.url.clone(), is_off: false };
        let upto = self.put(&own, &Expect::Nothing, &said).map_err(|trouble| trouble.to_string())?;
        let all = self.look(upto)?;
        let now_ms = all.iter().map(|entry| entry.time_ms).max().unwrap_or(0);
        self.sweep(&all, now_ms);
        let is_drained = |url: &str| {
            let subject = self.node("drained", url);
            all.iter().any(|entry| entry.subject == subject && entry.said.is_off)
        };
        let is_node = |entry: &&Entry| entry.subject == self.node("node", &entry.said.url);
        let mut nodes: Vec<Node> = all
            .iter()
            .filter(is_node)
            .map(|entry| Node {
                url: entry.said.url.clone(),
                seen_ms_ago: entry.age_ms(now_ms),
                is_drained: is_drained(&entry.said.url),
            })
            .collect();
        nodes.sort_by(|one, other| one.url.cmp(&other.url));
        let is_drained = is_drained(&self.url);
        let is_wanted = claim == Claim::Keep || claim == Claim::Take && !is_drained;
        let seat = all.into_iter().find(|entry| entry.subject == self.names.seat());
        let sat = self.sit(seat, is_wanted, now_ms)?;
        let is_mine = matches!(sat, Sat::Mine);
        let (serving, free_in) = match sat {
            Sat::Mine => (Some(self.url.clone()), None),
            Sat::Taken { by, free_in } => (Some(by), Some(free_in)),
            Sat::Free => (None, None),
        };
        Ok(Standing { serving, is_mine, is_drained, is_noticed: false, free_in, nodes })
    }

    fn leave(&mut self) -> Result<(), String> {
        let seat = self.link.patiently(|link| link.last(&self.names.register(), &self.names.seat()));
        let seat = seat.map_err(|trouble| trouble.to_string())?.and_then(entry);
        let Some(seat) = seat.filter(|seat| seat.said.url == self.url) else { return Ok(()) };
        let said = Said { url: self.url.clone(), is_off: true };
        match self.put(&self.names.seat(), &Expect::LastOfSubject(seat.sequence), &said) {
            Err(trouble) if !trouble.is_lost_race() => Err(trouble.to_string()),
            _ => Ok(()),
        }
    }

    fn drain(&mut self, url: &str, is_drained: bool) -> Result<bool, String> {
        let known = self.link.last(&self.names.register(), &self.node("node", url));
        if known.map_err(|trouble| trouble.to_string())?.is_none() {
            return Ok(false);
        }
        let said = Said { url: url.to_owned(), is_off: is_drained };
        let put = self.put(&self.node("drained", url), &Expect::Nothing, &said);
        put.map(|_| true).map_err(|trouble| trouble.to_string())
    }

    fn secret(&self) -> Secret {
        self.secret
    }
}

/// Milliseconds since 1970 of a time such as `2026-11-17T22:14:01.123456789Z`.
pub(super) fn millis(time: &str) -> Option<u64> {
    let (date, clock) = time.strip_suffix('Z')?.split_once('T')?;
    let mut parts = date.split('-').map(str::parse::<u64>);
    let (year, month, day) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut parts = clock.split(':').map(str::parse::<u64>);
    let (hour, minute, second) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years that begin in March, so that the leap day is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    let thousandths = format!("{fraction:0<3}").get(..3)?.parse::<u64>().ok()?;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000 + thousandths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_gone_is_forgotten_unless_it_is_to_stay_drained() {
        let entry = |kind: &str, url: &str, time_ms, is_off| Entry {
            sequence: 1,
            subject: node("log", kind, url),
            time_ms,
            said: Said { url: url.into(), is_off },
        };
        let now_ms = 10 * GONE_MS;
        let seat =
            Entry { subject: "driftq.log.cluster.seat".into(), ..entry("node", "http://old", 0, false) };
        let all = [
            seat,
            entry("node", "http://here", now_ms, false),
            entry("node", "http://back-soon", now_ms - GONE_MS + 1, false),
            entry("node", "http://old", now_ms - GONE_MS, false),
            entry("drained", "http://old", 0, false),
            entry("node", "http://kept", 0, false),
            entry("drained", "http://kept", 0, true),
        ];
        let forgotten = [node("log", "node", "http://old"), node("log", "drained", "http://old")];
        assert_eq!(gone("log", &all, now_ms), forgotten);
    }

    #[test]
    fn times_of_the_servers_are_understood() {
        for (time, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1970-03-01T00:00:00.5Z", Some(59 * 86_400_000 + 500)),
            ("2000-02-29T12:00:00.001Z", Some(951_825_600_001)),
            ("2026-11-17T22:14:01.123456789Z", Some(1_794_953_641_123)),
            ("2026-11-17", None),
            ("2026-13-17T22:14:01Z", None),
            ("", None),
        ] {
            assert_eq!(millis(time), expected, "{time}");
        }
    }
}
