//! Several servers on one log: which of them serves.
//!
//! The servers of a cluster share a log, and one of them has it open. Which one is decided where the log is
//! kept, by the clock there: a server takes the seat for a moment and renews it as long as it lives; when its time is
//! over, another takes it. The seat only says who should serve. That nobody else writes is the log's own doing: who
//! opens it fences those before, however wrong they are about the time.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};

use crate::config::Storage;
use crate::failure::StartError;

/// How long a seat lasts after it was last renewed. As long nobody serves when a server dies, and a little longer.
pub const SEAT_TIME: Duration = Duration::from_secs(2);
/// How often it is renewed, and how often the others look whether it is free.
const BEAT: Duration = Duration::from_millis(400);
/// How long after a seat's time is over another server asks for it: whoever is early has to come again.
const OVERTIME: Duration = Duration::from_millis(20);
/// How often all of them look while the server that serves is to leave the work to others: all wait for all.
const HASTY_BEAT: Duration = BEAT.checked_div(4).expect("four is not zero");
/// How long after a server has asked for its seat to be renewed, and was told that it is, it may take for granted that
/// nobody else has it: a little less than the seat lasts, for clocks that do not run alike.
const SURE: Duration = SEAT_TIME.saturating_sub(BEAT.checked_div(4).expect("four is not zero"));
/// Who has given the seat up does not take it back at once: the others come first.
const MODESTY: Duration = BEAT.saturating_mul(3);
/// Orders that wait for the thread that keeps the seat.
const ORDERS_MAX: usize = 64;

/// What is said of a log that this build does not know.
#[cfg(not(all(feature = "nats", feature = "postgres")))]
const ABSENT: &str = "this build keeps no such log; build it with `cargo build --release --features full`";

/// What only the servers of a cluster know, because it is kept where their log is: what is signed with it was said by one
/// of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Secret([u8; SECRET_BYTES]);

/// Bytes of a [`Secret`].
const SECRET_BYTES: usize = 32;

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Secret(..)")
    }
}

#[cfg_attr(not(any(feature = "nats", feature = "postgres")), expect(dead_code, reason = "no register"))]
impl Secret {
    /// A new one.
    pub(crate) fn new() -> Result<Self, StartError> {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| StartError::Log(format!("no randomness: {error}")))?;
        Ok(Self(bytes))
    }

    /// As it is kept.
    pub(crate) const fn bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }

    /// What was kept; an error if it is none.
    pub(crate) fn kept(bytes: &[u8]) -> Result<Self, StartError> {
        let bytes = bytes.try_into().map_err(|_| {
            StartError::Damaged("the secret of the cluster has another length than it was made with".into())
        })?;
        Ok(Self(bytes))
    }
}

/// How the servers of a cluster stand, as the database last said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The URL of the server that serves; none while the seat is free.
    pub serving: Option<String>,
    /// Whether this server has the seat.
    pub is_mine: bool,
    /// Whether an operator has asked this server to leave the work to others.
    pub is_drained: bool,
    /// Whether all the others that live know of that: from then on they keep new requests back.
    pub is_noticed: bool,
    /// When the seat of another server is free, unless that one renews it.
    pub free_in: Option<Duration>,
    /// All servers that were seen lately.
    pub nodes: Vec<Node>,
}

impl Standing {
    /// The server that takes new requests: the one that serves, unless it is about to leave the work to others.
    #[must_use]
    pub fn taker(&self) -> Option<&str> {
        let serving = self.serving.as_deref()?;
        let leaves = self.nodes.iter().any(|node| node.url == serving && node.is_drained);
        (!leaves).then_some(serving)
    }
}

/// A server of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Where the others reach it.
    pub url: String,
    /// How long ago it was last heard of.
    pub seen_ms_ago: u64,
    /// Whether it leaves the work to others.
    pub is_drained: bool,
}

impl Node {
    /// Whether it can be expected to take over.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        u128::from(self.seen_ms_ago) < SEAT_TIME.as_millis()
    }
}

/// Whether the others know that this server is to leave the work to them.
#[derive(Default)]
struct Notice {
    /// When this server had learned of it.
    since: Option<Instant>,
    /// The first beat of each of the others that was later, and when that was at the latest.
    beats: BTreeMap<String, Instant>,
}

impl Notice {
    /// Whether all know, by what was asked for at `asked` and told at `told`. A server looks after it has said that it
    /// lives: it has seen what the one look told when it says so the next time.
    fn is_given(&mut self, standing: &Standing, own: &str, asked: Instant, told: Instant) -> bool {
        if !standing.is_drained {
            *self = Self::default();
            return false;
        }
        let since = *self.since.get_or_insert(told);
        let mut do_all_know = true;
        for node in standing.nodes.iter().filter(|node| node.url != own && node.is_alive()) {
            let ago = Duration::from_millis(node.seen_ms_ago);
            // It is not known when within the question it was looked up: no beat is taken for two.
            let (earliest, latest) = (asked.checked_sub(ago), told.checked_sub(ago).unwrap_or(told));
            do_all_know &= earliest.filter(|beat| *beat > since).is_some_and(|beat| {
                let first = *self.beats.entry(node.url.clone()).or_insert(latest);
                beat > first
            });
        }
        do_all_know
    }
}

/// What is asked of the thread that keeps the seat.
enum Order {
    /// Gives the seat up.
    Leave(oneshot::Sender<()>),
    /// Has a server leave the work to others, or take its part again. The answer: whether there is such a server.
    Drain { url: String, is_drained: bool, done: oneshot::Sender<Result<bool, String>> },
}

/// What a server wants of the seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It has the seat and keeps it, also if it is asked to leave: it does so when it has finished.
    Keep,
    /// It takes the seat if it is free, and if nobody has asked it to leave the work to others.
    Take,
    /// It has just given the seat up.
    Nothing,
}

/// Where seats are kept.
pub(crate) trait Register: Send + 'static {
    /// Says that this server lives, renews the seat or takes it if it is free, and tells how all stand.
    fn beat(&mut self, claim: Claim) -> Result<Standing, String>;
    /// Gives the seat up.
    fn leave(&mut self) -> Result<(), String>;
    /// Marks a server. False if there is none of this URL.
    fn drain(&mut self, url: &str, is_drained: bool) -> Result<bool, String>;
    /// What the servers of the cluster know and nobody else.
    fn secret(&self) -> Secret;
}

/// This server's part in a cluster. Dropping it gives the seat up.
#[derive(Debug)]
pub struct Seat {
    url: String,
    secret: Secret,
    standing: watch::Receiver<Standing>,
    /// When this server last asked for the seat of which it was then told that it has it.
    renewed: watch::Receiver<Option<Instant>>,
    orders: SyncSender<Order>,
}

impl Seat {
    /// Takes part in the cluster of this log, as the server that others reach at `url`.
    ///
    /// # Errors
    /// If the database refuses, or what is in it is not a log; or if nobody else can reach the log.
    #[cfg_attr(
        not(any(feature = "nats", feature = "postgres")),
        expect(unused_variables, reason = "it is refused")
    )]
    pub fn keep(storage: &Storage, url: &str) -> Result<Self, StartError> {
        match storage {
            #[cfg(feature = "postgres")]
            Storage::Postgres(place) => Self::begin(crate::log::PostgresRegister::open(place, url)?, url),
            #[cfg(feature = "nats")]
            Storage::Nats(place) => Self::begin(crate::log::NatsRegister::open(place, url)?, url),
            Storage::Ephemeral | Storage::Directory(_) => {
                Err(StartError::Config("several servers share a log only in a database or a stream"))
            }
            #[cfg(not(feature = "postgres"))]
            Storage::Postgres(_) => Err(StartError::Config(ABSENT)),
            #[cfg(not(feature = "nats"))]
            Storage::Nats(_) => Err(StartError::Config(ABSENT)),
        }
    }

    #[cfg_attr(not(any(feature = "nats", feature = "postgres")), expect(dead_code, reason = "no register"))]
    fn begin(register: impl Register, url: &str) -> Result<Self, StartError> {
        let (tell, standing) = watch::channel(Standing::default());
        let (tell_renewed, renewed) = watch::channel(None);
        let secret = register.secret();
        let (orders, received) = sync_channel(ORDERS_MAX);
        let thread = thread::Builder::new().name("driftq-seat".into());
        let own = url.to_owned();
        thread.spawn(move || keep(register, &own, (&tell, &tell_renewed), &received))?;
        Ok(Self { url: url.to_owned(), secret, standing, renewed, orders })
    }

    /// Signs what this server says to another one of the cluster.
    #[must_use]
    pub fn sign(&self, said: &str) -> String {
        blake3::keyed_hash(self.secret.bytes(), said.as_bytes()).to_hex().to_string()
    }

    /// Whether a server of the cluster has signed this.
    #[must_use]
    pub fn is_signed(&self, said: &str, signature: &str) -> bool {
        // Compared in the same time wherever they differ.
        let signed = blake3::keyed_hash(self.secret.bytes(), said.as_bytes());
        blake3::Hash::from_hex(signature).is_ok_and(|signature| signature == signed)
    }

    /// Where the others reach this server.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How all stand, now and from now on.
    #[must_use]
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.clone()
    }

    /// Whether nobody else can have the seat. If not, what this server knows may be of yesterday: nothing that it writes
    /// would count, but a question or a refusal needs no writing.
    #[must_use]
    pub fn is_sure(&self) -> bool {
        is_fresh(*self.renewed.borrow())
    }

    /// Waits until that is so. False if another server has the seat, or if it takes longer than this.
    pub async fn wait_sure(&self, within: Duration) -> bool {
        let (mut renewed, mut standing) = (self.renewed.clone(), self.standing.clone());
        let is_lost = async {
            // If the thread that keeps the seat is gone, it is lost, too.
            let _ = standing.wait_for(|standing| !standing.is_mine).await;
        };
        tokio::select! {
            sure = renewed.wait_for(|renewed| is_fresh(*renewed)) => sure.is_ok(),
            () = is_lost => false,
            () = tokio::time::sleep(within) => false,
        }
    }

    /// Gives the seat up, so that another server takes it at once instead of when its time is over.
    pub async fn leave(&self) {
        let (done, left) = oneshot::channel();
        if self.orders.try_send(Order::Leave(done)).is_ok() {
            // Whether it worked or not: the seat's time is over soon.
            let _ = left.await;
        }
    }

    /// Has a server leave the work to others, or take its part again. False if there is no such server.
    ///
    /// # Errors
    /// If the database cannot be reached.
    pub async fn drain(&self, url: String, is_drained: bool) -> Result<bool, String> {
        let (done, answer) = oneshot::channel();
        let gone = |_| "this server is stopping".to_owned();
        let full = |_| "as many orders as may wait are waiting for the database".to_owned();
        self.orders.try_send(Order::Drain { url, is_drained, done }).map_err(full)?;
        answer.await.map_err(gone)?
    }
}

/// Whether the seat that was asked for then is surely still there.
fn is_fresh(renewed: Option<Instant>) -> bool {
    renewed.is_some_and(|renewed| renewed.elapsed() < SURE)
}

/// Renews until there is nobody left to give orders.
fn keep(
    mut register: impl Register,
    own: &str,
    (tell, tell_renewed): (&watch::Sender<Standing>, &watch::Sender<Option<Instant>>),
    orders: &Receiver<Order>,
) {
    let (mut is_mine, mut is_away) = (false, false);
    let mut notice = Notice::default();
    let mut left: Option<Instant> = None;
    let mut settled: Option<(oneshot::Sender<_>, Result<bool, String>)> = None;
    loop {
        let claim = match left {
            _ if is_mine => Claim::Keep,
            // Who has the seat could not renew it either, and comes first.
            _ if is_away => Claim::Nothing,
            Some(left) if left.elapsed() < MODESTY => Claim::Nothing,
            _ => Claim::Take,
        };
        let asked = Instant::now();
        let pause = match register.beat(claim) {
            Ok(mut standing) => {
                standing.is_noticed = notice.is_given(&standing, own, asked, Instant::now());
                tell_renewed.send_replace(standing.is_mine.then_some(asked));
                if is_away {
                    tracing::info!("the cluster's seat can be seen again");
                }
                (is_mine, is_away) = (standing.is_mine, false);
                let pause = pause_after(&standing);
                tell.send_if_modified(|told| {
                    let is_news = is_news(told, &standing);
                    *told = standing;
                    is_news
                });
                pause
            }
            // Nobody else can take the seat either: things stay as they are.
            Err(why) => {
                if !std::mem::replace(&mut is_away, true) {
                    tracing::warn!(%why, "the cluster's seat cannot be seen");
                }
                BEAT
            }
        };
        // Not before it is known here: whoever has one server drained may ask for the next one at once.
        if let Some((done, answer)) = settled.take() {
            let _ = done.send(answer);
        }
        let ordered = match orders.recv_timeout(pause) {
            Ok(order) => order,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        match ordered {
            Order::Leave(done) => {
                leave(&mut register);
                (is_mine, left) = (false, Some(Instant::now()));
                tell_renewed.send_replace(None);
                tell.send_modify(|told| told.is_mine = false);
                let _ = done.send(());
            }
            Order::Drain { url, is_drained, done } => {
                settled = Some((done, register.drain(&url, is_drained)));
            }
        }
    }
    if is_mine {
        leave(&mut register);
    }
}

/// When a server looks again. A seat that is not renewed is free within a moment that is known: nobody waits longer.
fn pause_after(standing: &Standing) -> Duration {
    let leaves = standing.serving.is_some() && standing.taker().is_none();
    let pause = if leaves { HASTY_BEAT } else { BEAT };
    standing.free_in.map_or(pause, |left| pause.min(left + OVERTIME))
}

fn leave(register: &mut impl Register) {
    if let Err(why) = register.leave() {
        tracing::warn!(%why, "the cluster's seat could not be given up; it is free when its time is over");
    }
}

/// Whether anything has changed that somebody waits for; when servers were last seen changes all the time.
fn is_news(told: &Standing, now: &Standing) -> bool {
    fn parts(standing: &Standing) -> (Option<&str>, Option<&str>, [bool; 3]) {
        let Standing { is_mine, is_drained, is_noticed, .. } = *standing;
        (standing.serving.as_deref(), standing.taker(), [is_mine, is_drained, is_noticed])
    }
    parts(told) != parts(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that was asked to leave, and two others that were last seen so many milliseconds ago.
    fn drained(seen_ms_ago: [u64; 2]) -> Standing {
        let node = |url: &str, seen_ms_ago| Node { url: url.into(), seen_ms_ago, is_drained: url == "own" };
        let nodes = vec![node("own", 0), node("one", seen_ms_ago[0]), node("other", seen_ms_ago[1])];
        Standing { is_mine: true, is_drained: true, nodes, ..Standing::default() }
    }

    #[test]
    fn the_others_know_when_each_has_looked_and_come_back() {
        let start = Instant::now();
        let mut notice = Notice::default();
        let mut at = |ms: u64, standing: &Standing| {
            let asked = start + Duration::from_millis(ms);
            notice.is_given(standing, "own", asked, asked + Duration::from_millis(5))
        };
        assert!(!at(0, &drained([100, 200])));
        // One has been there since. Whether it has heard what it asked for then is not known; the other is slow.
        assert!(!at(400, &drained([50, 600])));
        assert!(!at(450, &drained([100, 650])), "the same beats again");
        assert!(!at(800, &drained([40, 1_000])));
        assert!(!at(1_200, &drained([30, 1_400])));
        assert!(!at(1_600, &drained([20, 10])), "the first beat since, of the one that was slow");
        assert!(at(2_100, &drained([10, 5])));
        assert!(!at(2_500, &Standing { is_drained: false, ..drained([1, 1]) }));
        assert!(!at(2_900, &drained([1, 1])), "it was asked anew");
    }

    #[test]
    fn a_seat_that_nobody_renews_is_asked_for_as_soon_as_it_is_free() {
        let of = |free_in, is_drained| {
            let node = Node { url: "other".into(), seen_ms_ago: 0, is_drained };
            let serving = Some("other".into());
            pause_after(&Standing { serving, free_in, nodes: vec![node], ..Standing::default() })
        };
        assert_eq!(of(Some(SEAT_TIME), false), BEAT);
        assert_eq!(of(Some(BEAT / 2), false), BEAT / 2 + OVERTIME);
        assert_eq!(of(Some(Duration::ZERO), false), OVERTIME);
        assert_eq!((of(None, false), of(Some(SEAT_TIME), true)), (BEAT, HASTY_BEAT));
        assert_eq!(pause_after(&Standing::default()), BEAT);
    }

    #[test]
    fn a_server_that_is_gone_need_not_know() {
        let (start, later) = (Instant::now(), Duration::from_millis(500));
        let mut notice = Notice::default();
        for (beats, expected) in [(0, false), (1, false), (2, true)] {
            let asked = start + later * beats;
            assert_eq!(notice.is_given(&drained([1, 60_000]), "own", asked, asked), expected);
        }
        let mut alone = drained([60_000, 60_000]);
        assert!(Notice::default().is_given(&alone, "own", start, start));
        alone.nodes.truncate(1);
        assert!(Notice::default().is_given(&alone, "own", start, start));
    }
}
