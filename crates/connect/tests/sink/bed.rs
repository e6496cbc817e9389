//! What every test has: a server, a schema, a topic, and a sink to run.

use std::future::Future;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use driftq_client::testkit::{Launch, Server};
use driftq_client::{Client, Code, Outgoing, json};
use driftq_connect::config::File;
use driftq_connect::run::Connectors;
use driftq_connect::sink::Progress;
use driftq_testbed::Postgres;
use serde_json::{Value, json as value};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

pub(crate) static DATABASE: LazyLock<Postgres> = LazyLock::new(|| Postgres::shared().unwrap());
static SCHEMAS: AtomicU32 = AtomicU32::new(0);

/// By when whatever a test waits for must have happened.
pub(crate) const WITHIN: Duration = Duration::from_secs(60);

pub(crate) const TOPIC: &str = "orders";
pub(crate) const GROUP: &str = "sink.test";

pub(crate) struct Bed {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) schema: String,
    pub(crate) url: String,
}

impl Bed {
    pub(crate) async fn new() -> Self {
        Self::on(&DATABASE).await
    }

    pub(crate) async fn on(database: &Postgres) -> Self {
        let named = std::env::var_os("DRIFTQ_BIN").map(PathBuf::from);
        let beside = || Some(std::env::current_exe().ok()?.parent()?.parent()?.join("driftq"));
        let program = named.or_else(beside).expect("a test is a file in a folder");
        let server = Launch::default().binary(program).start().await.unwrap();
        let client = server.client().unwrap();
        let schema = format!("sink_{}_{}", std::process::id(), SCHEMAS.fetch_add(1, Ordering::Relaxed));
        database.psql(&format!("CREATE SCHEMA {schema}")).unwrap();
        // Crashes of a sink are attempts; a topic whose letters matter allows for some.
        let spec = value!({"partitions": 3, "keep_ms": 3_600_000, "retry_policy": {"max_attempts": 1000}});
        client.create_topic(TOPIC, &serde_json::from_value(spec).unwrap()).await.unwrap();
        Self { server, client, schema, url: database.url().to_owned() }
    }

    /// The file of one sink: what is given, and where everything is.
    pub(crate) fn file(&self, rest: &str) -> String {
        let Self { schema, url, .. } = self;
        format!(
            "[[sink]]\nname = \"test\"\ntopic = \"{TOPIC}\"\npostgres = {{ url = \"{url}\" }}\n\
             table = \"{schema}.orders\"\nprogress_table = \"{schema}.progress\"\nlease_ms = 3000\n{rest}"
        )
    }

    pub(crate) fn connectors(&self, rest: &str) -> Connectors {
        Connectors::new(File::parse(&self.file(rest)).unwrap()).unwrap()
    }

    pub(crate) async fn produce(&self, messages: impl IntoIterator<Item = Outgoing>) {
        let messages: Vec<Outgoing> = messages.into_iter().collect();
        for part in messages.chunks(1_000) {
            for stored in self.client.produce_all(TOPIC, part.iter().cloned()).await.unwrap() {
                stored.unwrap();
            }
        }
    }

    pub(crate) async fn produce_json(&self, values: impl IntoIterator<Item = Value>) {
        self.produce(values.into_iter().map(|value| json(&value))).await;
    }

    /// Runs a sink, with its tables made, until its group is through; tells what it did.
    pub(crate) async fn run(&self, rest: &str) -> Progress {
        let connectors = self.connectors(rest);
        connectors.migrate().await.unwrap();
        let progress = connectors.sinks()[0].progress();
        run_until(&connectors, &self.client, self.idle()).await;
        *progress.borrow()
    }

    pub(crate) async fn idle(&self) {
        eventually("the group is through", || async { self.is_idle().await }).await;
    }

    pub(crate) async fn is_idle(&self) -> bool {
        match self.client.group(TOPIC, GROUP).await {
            Ok(group) => group.lag == 0 && group.in_flight == 0,
            // It begins with the first lease.
            Err(error) => {
                assert_eq!(error.code(), Some(Code::GroupUnknown), "{error}");
                false
            }
        }
    }

    pub(crate) fn sql(&self, sql: &str) -> String {
        self.try_sql(sql).unwrap()
    }

    /// What the database answers, or what it says against it.
    pub(crate) fn try_sql(&self, sql: &str) -> Result<String, String> {
        let answered = DATABASE.psql(&format!("SET search_path = {}; {sql}", self.schema));
        answered.map_err(|error| format!("{error:#}"))
    }

    /// The reasons of all dead letters, in order of their offsets.
    pub(crate) async fn letters(&self) -> Vec<String> {
        let page: Value = match self.client.get(&format!("/v2/dlq/{TOPIC}?limit=1000")).await {
            Ok(page) => page,
            // There has never been one.
            Err(error) if error.code() == Some(Code::TopicUnknown) => return Vec::new(),
            Err(error) => panic!("{error}"),
        };
        let letters = page["letters"].as_array().unwrap_or_else(|| panic!("{page}"));
        letters
            .iter()
            .map(|letter| {
                letter["envelope"]["dead_letter"]["last_error"].as_str().unwrap_or_default().to_owned()
            })
            .collect()
    }
}

/// Runs connectors until something has happened, and drains them.
pub(crate) async fn run_until(connectors: &Connectors, client: &Client, until: impl Future<Output = ()>) {
    let stop = watch::Sender::new(false);
    let work = connectors.run(client, stop.subscribe());
    let watch = async {
        until.await;
        stop.send_replace(true);
    };
    let (outcome, ()) = timeout(WITHIN, async { tokio::join!(work, watch) }).await.expect("an end");
    outcome.unwrap();
}

/// Looks again and again until it is true: databases and servers have no signal for it.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut look: impl FnMut() -> F) {
    let look = async {
        while !look().await {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WITHIN, look).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}
