//! A client that does its worst: it submits twice, races, changes its mind, and kills the server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use driftq_ledger::postgres::PostgresStore;
use driftq_ledger::{Ending, Filter, Ledger, Resolve, Resolver, Status};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::client::{Answer, Client};
use crate::provider;
use crate::server::{LEASE, PAYOUT};
use crate::tally::{HEAD, Tally};

/// Everything is over by then, or something is wrong.
const TIME_MAX: Duration = Duration::from_secs(120);
/// The server says where it listens within this time.
const START_MAX: Duration = Duration::from_secs(20);
/// How often those who wait for the ledger look.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How bad it gets.
pub(crate) struct Settings {
    pub(crate) database: Option<String>,
    pub(crate) keys: u64,
    pub(crate) racers: u64,
    pub(crate) kills: u64,
    pub(crate) seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { database: None, keys: 10, racers: 8, kills: 3, seed: 1 }
    }
}

/// Numbers that look random and are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33) % sides
    }
}

/// The server, as a process that can be killed.
struct Server {
    database: String,
    provider: PathBuf,
    address: watch::Sender<SocketAddr>,
    child: Child,
}

impl Server {
    async fn start(database: &str, provider: &Path) -> Result<Self> {
        let (child, address) = spawned(database, provider).await?;
        let address = watch::Sender::new(address);
        Ok(Self { database: database.to_owned(), provider: provider.to_owned(), address, child })
    }

    /// `kill -9`, and a new one.
    async fn crash(&mut self) -> Result<()> {
        self.child.kill().await.context("killing the server")?;
        let (child, address) = spawned(&self.database, &self.provider).await?;
        self.child = child;
        self.address.send_replace(address);
        Ok(())
    }
}

async fn spawned(database: &str, provider: &Path) -> Result<(Child, SocketAddr)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([
        "serve",
        "--database",
        database,
        "--listen",
        "127.0.0.1:0",
        "--ends-with-input",
        "--provider",
    ]);
    // It ends with its standard input, so that it is gone even if this process is killed.
    command.arg(provider).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().context("starting the server")?;
    let out = child.stdout.take().context("the server has no output")?;
    let mut lines = BufReader::new(out).lines();
    let line =
        tokio::time::timeout(START_MAX, lines.next_line()).await.context("the server did not start")??;
    let line = line.context("the server ended at once")?;
    let address = line.strip_prefix("listening on ").context("the server said something else")?.parse()?;
    Ok((child, address))
}

/// One endpoint and what was done to it.
struct Victim {
    path: &'static str,
    tally: Tally,
}

/// Runs it all; whether everything was right.
pub(crate) async fn torment(settings: Settings) -> Result<bool> {
    tokio::time::timeout(TIME_MAX, whole(settings)).await.context("it takes too long; something hangs")?
}

async fn whole(settings: Settings) -> Result<bool> {
    let started = Instant::now();
    let folder = tempfile::tempdir().context("making a folder")?;
    let book = folder.path().join("provider.log");
    let database = settings.database.as_deref().context("there is no database")?;
    let schema = format!("payments_{}_{}", std::process::id(), settings.seed);
    let database = in_schema(database, &schema).await?;
    let mut server = Server::start(&database, &book).await?;
    let client = Client::new(server.address.subscribe());
    let ledger = Ledger::new(PostgresStore::connect(&database)?);
    let mut victims = [("/charges", "charges"), ("/payouts", "payouts")]
        .map(|(path, name)| Victim { path, tally: Tally::new(name) });
    let mut dice = Dice(settings.seed);

    for victim in &mut victims {
        println!("{}: {} keys, each submitted twice", victim.path, settings.keys);
        submit_twice(&client, victim, &settings).await?;
        println!("{}: {} keys, {} clients race for each", victim.path, settings.keys, settings.racers);
        race(&client, victim, &settings).await?;
        println!("{}: another payload under a used key", victim.path);
        change_payload(&client, victim, &settings).await?;
    }
    println!("{} times kill -9 while clients submit", settings.kills);
    crash(&client, &mut victims, &mut server, &settings, &mut dice).await?;
    let held = reconcile(&ledger, &book).await?;
    println!("{held} payouts were held because nobody knew; the provider was asked, and clients ask again");
    victims[1].tally.held = held;
    ask_again(&client, &mut victims).await?;

    victims[0].tally.happened = charged(&database).await?;
    victims[1].tally.happened = provider::paid(&book)?;
    victims[1].tally.unknown = unknown(&ledger).await?.len() as u64;
    println!("\n{HEAD}");
    for victim in &victims {
        println!("{}", victim.tally);
    }
    let right = victims.iter().all(|victim| victim.tally.is_right());
    println!(
        "\n{} requests in {:.1} s; seed {}",
        client.requests(),
        started.elapsed().as_secs_f64(),
        settings.seed
    );
    println!(
        "{}",
        if right { "every key happened once, and everybody was told so" } else { "THIS IS WRONG" }
    );
    drop_schema(&database, &schema).await?;
    Ok(right)
}

fn payload(key: &str, amount: u64) -> String {
    format!("{{\"account\":\"of {key}\",\"amount\":{amount}}}")
}

/// The first answer and the second are the same, and the second says that it is a stored one.
async fn submit_twice(client: &Client, victim: &mut Victim, settings: &Settings) -> Result<()> {
    for n in 0..settings.keys {
        let key = format!("twice-{n}");
        let first = client.insist(victim.path, &key, &payload(&key, n)).await?;
        let second = client.insist(victim.path, &key, &payload(&key, n)).await?;
        ensure!(second.replayed, "{key}: the second answer is no replay: {second:?}");
        victim.tally.note(&key, first);
        victim.tally.note(&key, second);
    }
    Ok(())
}

async fn race(client: &Client, victim: &mut Victim, settings: &Settings) -> Result<()> {
    for n in 0..settings.keys {
        let key = format!("race-{n}");
        for answer in crowd(client, victim.path, &key, settings.racers).await? {
            victim.tally.note(&key, answer);
        }
    }
    Ok(())
}

/// Many clients send one request at the same time, each until it has an answer.
async fn crowd(client: &Client, path: &'static str, key: &str, clients: u64) -> Result<Vec<Answer>> {
    let mut racers = JoinSet::new();
    for _ in 0..clients {
        let (client, key) = (client.clone(), key.to_owned());
        racers.spawn(async move { client.insist(path, &key, &payload(&key, 7)).await });
    }
    racers.join_all().await.into_iter().collect()
}

async fn change_payload(client: &Client, victim: &Victim, settings: &Settings) -> Result<()> {
    for n in 0..settings.keys {
        let key = format!("twice-{n}");
        let answer = client.insist(victim.path, &key, &payload(&key, n + 1)).await?;
        ensure!(answer.status == 422, "{key}: another payload is answered with {answer:?}");
    }
    Ok(())
}

/// Clients go on while the server is killed and started again.
async fn crash(
    client: &Client,
    victims: &mut [Victim],
    server: &mut Server,
    settings: &Settings,
    dice: &mut Dice,
) -> Result<()> {
    for round in 0..settings.kills {
        let mut clients = JoinSet::new();
        for (at, victim) in victims.iter().enumerate() {
            for n in 0..settings.keys {
                let (client, path, key) = (client.clone(), victim.path, format!("crash-{round}-{n}"));
                let delay = Duration::from_millis(dice.roll(60));
                clients.spawn(async move {
                    sleep(delay).await;
                    let answer = client.insist(path, &key, &payload(&key, round)).await;
                    (at, key, answer)
                });
            }
        }
        // The moment is drawn: before, in the middle of, or after what the clients want.
        sleep(Duration::from_millis(dice.roll(100))).await;
        server.crash().await?;
        while let Some(ended) = clients.join_next().await {
            let (at, key, answer) = ended?;
            let tally = &mut victims[at].tally;
            match answer? {
                // It stays without an answer for now.
                answer if answer.is_unknown() => drop(tally.keys.entry(key).or_default()),
                answer => tally.note(&key, answer),
            }
        }
    }
    Ok(())
}

/// Finds out about payouts of which nobody knows whether they happened, and says so. Waits first until no lease of a
/// server that was killed can be live any more.
async fn reconcile(ledger: &Ledger, book: &Path) -> Result<u64> {
    let until = Instant::now() + 10 * LEASE;
    while in_progress(ledger).await? > 0 {
        ensure!(Instant::now() < until, "something is still in progress");
        sleep(LOOK_EVERY).await;
    }
    let paid = provider::paid(book)?;
    let held = unknown(ledger).await?;
    for record in &held {
        let ending = match paid.contains_key(record.identity.key()) {
            true => Ending::succeeded(driftq_ledger::Response::new("{\"reconciled\":true}").code(200)),
            false => Ending::failed_retryable("the provider has not heard of it"),
        };
        let resolver = Resolver { by: "torment".to_owned(), why: "asked the provider by key".to_owned() };
        let (identity, epoch) = (record.identity.clone(), Some(record.epoch));
        let ttl = Duration::from_secs(3600);
        ledger.resolve(&Resolve { identity, epoch, ending, resolver, ttl }).await?;
    }
    Ok(held.len() as u64)
}

async fn unknown(ledger: &Ledger) -> Result<Vec<driftq_ledger::Record>> {
    listed(ledger, Status::Unknown).await
}

async fn in_progress(ledger: &Ledger) -> Result<usize> {
    let records = listed(ledger, Status::InProgress).await?;
    Ok(records.iter().filter(|record| record.identity.method() == PAYOUT).count())
}

async fn listed(ledger: &Ledger, status: Status) -> Result<Vec<driftq_ledger::Record>> {
    let mut filter = Filter { status: Some(status), limit: 1000, ..Filter::default() };
    let mut records = Vec::new();
    loop {
        let page = ledger.list(&filter).await?;
        records.extend(page.records);
        if page.cursor.is_none() {
            return Ok(records);
        }
        filter.cursor = page.cursor;
    }
}

/// Every key once more: what has an answer is answered the same, and what was held has one now.
async fn ask_again(client: &Client, victims: &mut [Victim]) -> Result<()> {
    for victim in victims {
        let keys: Vec<String> = victim.tally.keys.keys().cloned().collect();
        for key in keys {
            let answer = client.insist(victim.path, &key, &payload(&key, amount(&key)?)).await?;
            victim.tally.note(&key, answer);
        }
    }
    Ok(())
}

/// The amount that was asked for under a key.
fn amount(key: &str) -> Result<u64> {
    let parts: Vec<&str> = key.split('-').collect();
    match parts.as_slice() {
        ["twice", n] => Ok(n.parse()?),
        ["race", _] => Ok(7),
        ["crash", round, _] => Ok(round.parse()?),
        _ => bail!("{key} was never sent"),
    }
}

/// How many charges there are under each key.
async fn charged(database: &str) -> Result<std::collections::BTreeMap<String, u64>> {
    let store = PostgresStore::connect(database)?;
    let client = store.pool().get().await?;
    let rows = client.query("SELECT idempotency_key, count(*) FROM charges GROUP BY 1", &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), u64::try_from(row.get::<_, i64>(1)).unwrap_or(0))).collect())
}

/// A schema of its own in this database, and how to work in it.
async fn in_schema(database: &str, schema: &str) -> Result<String> {
    let store = PostgresStore::connect(database)?;
    let client = store.pool().get().await.context("connecting to the database")?;
    client.batch_execute(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}")).await?;
    let more = if database.contains('?') { '&' } else { '?' };
    Ok(format!("{database}{more}options=-csearch_path%3D{schema}"))
}

async fn drop_schema(database: &str, schema: &str) -> Result<()> {
    let store = PostgresStore::connect(database)?;
    let client = store.pool().get().await?;
    client.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await?;
    Ok(())
}
