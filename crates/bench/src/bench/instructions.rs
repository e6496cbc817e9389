//! How many instructions a request costs the server, counted by valgrind. Unlike time, that is nearly the same on every
//! machine and under any load: a change that makes a path dearer shows, whoever runs it.
//!
//! One request at a time, and one thread for connections: what waits together would be batched by chance.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use driftq_cli::client::{Client, Session};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{fs, process::Command, time::Instant};

use super::{
    Plan,
    child::Server,
    figure::{Figure, Report, Unit},
    progress::Progress,
    setup::{TOPIC, create_topic, data_directory},
};

/// Requests of one round, and those before the first: caches are full then, and what is made once is made.
const REQUESTS: u64 = 100;
const WARM_UP_REQUESTS: u64 = 30;
/// Messages of a request with many.
const BATCH: usize = 100;
/// Requests of a round with many messages in each.
const BATCH_REQUESTS: u64 = 20;
/// How long valgrind may take to write its counts down.
const COUNT_TIMEOUT: Duration = Duration::from_secs(30);
const COUNT_PAUSE: Duration = Duration::from_millis(20);

/// What is counted.
#[derive(Clone, Copy)]
enum Path {
    Produce,
    ProduceMany,
    LeaseAndAck,
    BeginAndFinish,
    /// A message with an effect and a follow-up, whose lease is taken, and which is acked by the commit.
    Guarded,
}

impl Path {
    /// Messages that are leased are there before.
    const ALL: [Self; 5] =
        [Self::Produce, Self::ProduceMany, Self::LeaseAndAck, Self::BeginAndFinish, Self::Guarded];

    const fn name(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::ProduceMany => "produce, 100 messages in an array",
            Self::LeaseAndAck => "lease and ack of one message",
            Self::BeginAndFinish => "begin and finish of an effect",
            Self::Guarded => "lease, begin and commit of a guarded message",
        }
    }

    const fn requests(self) -> u64 {
        match self {
            Self::ProduceMany => BATCH_REQUESTS,
            _ => REQUESTS,
        }
    }
}

pub(super) async fn measure(plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
    progress.expect(Path::ALL.len() * plan.rounds + 1);
    progress.step("starting a server in valgrind");
    let mut counted = Counted::start(plan).await?;
    for path in Path::ALL {
        for _ in 0..WARM_UP_REQUESTS.min(path.requests()) {
            counted.walk(path).await?;
        }
        let mut rounds = Vec::with_capacity(plan.rounds);
        for _ in 0..plan.rounds {
            progress.step(path.name());
            counted.count().await?;
            for _ in 0..path.requests() {
                counted.walk(path).await?;
            }
            rounds.push(counted.count().await? / path.requests());
        }
        // Housekeeping in between only adds: the least is what the path itself takes.
        let least = rounds.into_iter().min().context("there is at least one round")?;
        report.add(Figure::new(path.name(), least as f64, Unit::Instructions));
    }
    counted.server.kill().await
}

/// A server whose instructions are counted.
struct Counted {
    server: Server,
    session: Session,
    message: Value,
    /// Where the counts are written.
    folder: TempDir,
    counts: u64,
    effects: u64,
}

impl Counted {
    async fn start(plan: &Plan) -> Result<Self> {
        let folder = data_directory(plan)?;
        let server = Server::counted(&folder.path().join("data"), &folder.path().join("counts")).await?;
        create_topic(server.address, TOPIC, 1).await?;
        let session = Client::new(&format!("http://{}", server.address))?.session();
        let message = json!({"value": "x".repeat(plan.payload)});
        Ok(Self { server, session, message, folder, counts: 0, effects: 0 })
    }

    /// Instructions since it was asked last.
    async fn count(&mut self) -> Result<u64> {
        let id = self.server.id().context("the server has ended")?.to_string();
        let told = Command::new("callgrind_control").args(["--dump", &id]).output().await;
        let told = told.context("callgrind_control, which comes with valgrind")?;
        ensure!(told.status.success(), "callgrind_control: {}", String::from_utf8_lossy(&told.stderr));
        self.counts += 1;
        let file = PathBuf::from(format!("{}.{}", self.folder.path().join("counts").display(), self.counts));
        let asked = Instant::now();
        while asked.elapsed() < COUNT_TIMEOUT {
            let text = fs::read_to_string(&file).await.unwrap_or_default();
            // The last line: before it is there, the file is not whole.
            if let Some(total) = text.lines().rev().find_map(|line| line.strip_prefix("totals: ")) {
                return total.trim().parse().with_context(|| format!("the total in {}", file.display()));
            }
            tokio::time::sleep(COUNT_PAUSE).await;
        }
        bail!("valgrind has not written {} within {COUNT_TIMEOUT:?}", file.display())
    }

    async fn post(&mut self, path: &str, body: &Value) -> Result<Value> {
        self.session.post(path, body).await.map_err(|error| error.into_error())
    }

    /// Does once what the path is about.
    async fn walk(&mut self, path: Path) -> Result<()> {
        let messages = format!("/v2/topics/{TOPIC}/messages");
        match path {
            Path::Produce => drop(self.post(&messages, &self.message.clone()).await?),
            Path::ProduceMany => {
                drop(self.post(&messages, &json!(vec![&self.message; BATCH])).await?);
            }
            Path::LeaseAndAck => {
                let token = self.lease().await?;
                self.post("/v2/leases/ack", &json!({"leases": [{"token": token}]})).await?;
            }
            Path::BeginAndFinish => {
                let effect = self.begin(Value::Null).await?;
                self.post("/v2/effects/finish", &ending(&effect)).await?;
            }
            Path::Guarded => {
                let token = self.lease().await?;
                let effect = self.begin(token.clone()).await?;
                let follow_up = json!({"topic": TOPIC, "message": self.message});
                let commit = json!({"ack": [token], "effects": [ending(&effect)], "produce": [follow_up]});
                self.post("/v2/commit", &commit).await?;
            }
        }
        Ok(())
    }

    /// The token of a message that is leased now.
    async fn lease(&mut self) -> Result<Value> {
        let path = format!("/v2/topics/{TOPIC}/groups/bench/lease");
        let leased = self.post(&path, &json!({"owner": "bench", "max": 1, "lease_ms": 600_000})).await?;
        leased.pointer("/messages/0/lease/token").cloned().context("there is nothing to lease")
    }

    /// The token of an effect that is begun now.
    async fn begin(&mut self, lease_token: Value) -> Result<Value> {
        self.effects += 1;
        let begin = json!({
            "scope": "charge", "key": format!("order-{}", self.effects), "owner": "bench",
            "request_hash": "a1b2c3", "lease_token": lease_token,
        });
        let begun = self.post("/v2/effects/begin", &begin).await?;
        begun.pointer("/lease/token").cloned().context("the effect was begun before")
    }
}

fn ending(token: &Value) -> Value {
    json!({"token": token, "status": "succeeded", "code": 200, "body": "{\"charged\":true}"})
}
