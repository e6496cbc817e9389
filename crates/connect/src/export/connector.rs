//! Exports that are asked for by messages: each place has a topic, and a worker that writes what its messages ask for.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use driftq_api::v2::{
    EXPORT_PLACE_BYTES_MAX, EXPORTS_GROUP, EXPORTS_PREFIX, ExportFormat, ExportSpec, Jitter, RetryPolicy,
    TopicSpec,
};
use driftq_client::{Client, Code, Context, Dead, Error, Failure, Snooze, Worker};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::error::ExportError;
use super::part::{PART_BYTES, PART_ROWS, PartBounds};
use super::place::PlaceUrl;
use super::request::Export;
use super::selection::Selection;
use super::watch::Silent;
use crate::database::Database;

/// Most places of one file: each has a worker of its own.
const PLACES_MAX: usize = 64;
/// Exports to a place at a time, of one connector, if nothing else is said.
const CONCURRENCY: usize = 2;
const CONCURRENCY_MAX: usize = 16;
/// How long what was exported can be looked up, and is remembered: seven days.
const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);
/// A place that is away for this long is given up: the last attempts are an hour apart.
const RETRY: RetryPolicy = RetryPolicy {
    max_attempts: Some(12),
    backoff_ms: Some(5_000),
    max_backoff_ms: Some(3_600_000),
    jitter: Jitter::Half,
};
/// Until a worker that could not run is tried again.
const RESTART_AFTER: Duration = Duration::from_secs(5);
/// Until an export that another attempt holds, or that was stopped, comes again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// `[exports]`: what messages of the topics `exports.<place>` ask for is written to these places.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportsConfig {
    /// Places, by name.
    pub places: BTreeMap<String, PlaceConfig>,
    /// Databases that queries may be asked of, by name.
    #[serde(default)]
    pub databases: BTreeMap<String, Database>,
    /// Exports to a place at a time.
    #[serde(default)]
    pub concurrency: Option<usize>,
}

/// Where files go.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaceConfig {
    /// A directory, or `s3://bucket/prefix`, `gs://…`, `az://…`.
    pub url: String,
    /// Where an S3-compatible store is.
    #[serde(default)]
    pub endpoint: Option<String>,
}

impl ExportsConfig {
    /// Whether what it says can work.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.places.is_empty() || self.places.len() > PLACES_MAX {
            return Err(format!(
                "[exports] has 1 to {PLACES_MAX} places; add [exports.places.NAME] with a url"
            ));
        }
        if let Some(name) =
            self.places.keys().find(|name| name.is_empty() || name.len() > EXPORT_PLACE_BYTES_MAX)
        {
            return Err(format!("place {name:?}: a name has 1 to {EXPORT_PLACE_BYTES_MAX} bytes"));
        }
        if self.concurrency.is_some_and(|count| !(1..=CONCURRENCY_MAX).contains(&count)) {
            return Err(format!("[exports] concurrency lies between 1 and {CONCURRENCY_MAX}"));
        }
        if let Some((name, _)) = self.databases.iter().find(|(_, database)| !database.is_given()) {
            return Err(format!("database `{name}` needs a url, url_env or url_file"));
        }
        Ok(())
    }
}

/// Writes what messages ask for.
pub(crate) struct Exporter {
    places: Vec<(String, PlaceUrl)>,
    databases: BTreeMap<String, Database>,
    concurrency: usize,
}

impl Exporter {
    /// What a file configures.
    pub(crate) fn new(config: ExportsConfig) -> Result<Self, String> {
        config.check()?;
        let ExportsConfig { places, databases, concurrency } = config;
        let places = places.into_iter().map(|(name, place)| {
            match PlaceUrl::parse(&place.url, place.endpoint.as_deref()) {
                Ok(url) => Ok((name, url)),
                Err(error) => Err(format!("place `{name}`: {error}")),
            }
        });
        let places = places.collect::<Result<_, _>>()?;
        Ok(Self { places, databases, concurrency: concurrency.unwrap_or(CONCURRENCY) })
    }

    /// The names of its places.
    pub(crate) fn places(&self) -> impl Iterator<Item = &str> {
        self.places.iter().map(|(name, _)| &**name)
    }

    /// Works until it is halted. Exports that run are left to the next connector.
    pub(crate) async fn run(&self, client: &Client, halted: watch::Receiver<bool>) {
        let mut keepers = JoinSet::new();
        for (name, url) in &self.places {
            let desk = Desk {
                client: client.clone(),
                place: name.clone(),
                url: url.clone(),
                databases: self.databases.clone(),
                owner: format!("export-{}", std::process::id()),
                halted: halted.clone(),
            };
            keepers.spawn(keep(Arc::new(desk), self.concurrency));
        }
        while keepers.join_next().await.is_some() {}
    }
}

/// What the exports to one place need.
struct Desk {
    client: Client,
    place: String,
    url: PlaceUrl,
    databases: BTreeMap<String, Database>,
    owner: String,
    halted: watch::Receiver<bool>,
}

/// Runs the worker of a place until it is halted. A server that is away is waited for.
async fn keep(desk: Arc<Desk>, concurrency: usize) {
    loop {
        let work = async {
            desk.prepare().await?;
            desk.work(concurrency).await
        };
        if let Err(error) = work.await {
            tracing::error!(place = desk.place, %error, "its exports wait; they are tried again soon");
        }
        let is_over = tokio::select! {
            () = sleep(RESTART_AFTER) => *desk.halted.borrow(),
            () = desk.halt() => true,
        };
        if is_over {
            return;
        }
    }
}

impl Desk {
    fn topic(&self) -> String {
        format!("{EXPORTS_PREFIX}{}", self.place)
    }

    /// Ends when the connectors are told to stop.
    fn halt(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut halted = self.halted.clone();
        async move {
            // A sender that is gone means stop, too.
            drop(halted.wait_for(|is_halted| *is_halted).await);
        }
    }

    /// Makes the topic by which this place is known.
    async fn prepare(&self) -> Result<(), Error> {
        let keep_ms = u64::try_from(KEEP.as_millis()).ok();
        let spec = TopicSpec { keep_ms, retry_policy: Some(RETRY), ..TopicSpec::default() };
        match self.client.create_topic(&self.topic(), &spec).await {
            Ok(_) => Ok(()),
            // An operator has made it with other settings.
            Err(error) if error.code() == Some(Code::SettingsDiffer) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn work(self: &Arc<Self>, concurrency: usize) -> Result<(), Error> {
        let desk = Arc::clone(self);
        let worker = Worker::new(&self.client, EXPORTS_GROUP)
            .owner(&*self.owner)
            .concurrency(concurrency)
            .prefetch(0)
            .signals(false)
            .handle_raw(self.topic(), move |_, context| {
                let desk = Arc::clone(&desk);
                async move { desk.export(&context).await }
            });
        let stopper = worker.stopper();
        let halt = async {
            self.halt().await;
            stopper.stop();
        };
        let mut run = std::pin::pin!(worker.run());
        tokio::select! {
            ended = &mut run => ended,
            () = halt => run.await,
        }
    }

    /// Writes what one message asks for.
    async fn export(&self, context: &Context) -> Result<(), Failure> {
        let export = self.asked(context).map_err(|error| Dead::new(error.to_string()))?;
        match export.run(&self.client, &Silent, self.halt()).await {
            Ok(_) => Ok(()),
            // It did not fail: it is another one's for now, or was left to the next connector.
            Err(ExportError::Busy { retry_after, .. }) => {
                Err(Snooze::lasting(retry_after.max(AGAIN_AFTER)).into())
            }
            Err(ExportError::Stopped | ExportError::Overtaken { .. }) => {
                Err(Snooze::lasting(AGAIN_AFTER).into())
            }
            Err(error) if error.is_final() => Err(Dead::new(error.to_string()).into()),
            Err(error) => Err(Failure::new(error.to_string())),
        }
    }

    fn asked(&self, context: &Context) -> Result<Export, ExportError> {
        let invalid = ExportError::Invalid;
        let spec =
            ExportSpec::from_json(context.payload()).map_err(|fault| invalid(fault.message.into_owned()))?;
        if spec.place != self.place {
            return Err(invalid(format!(
                "it asks for place {:?} in the topic of {:?}",
                spec.place, self.place
            )));
        }
        let selection = Selection::try_from(spec.selection)?;
        let database = match &selection {
            Selection::Query { database, .. } => {
                Some(self.databases.get(database).cloned().ok_or_else(|| {
                    invalid(format!(
                        "no database {database:?} is named below [exports.databases] of the connector"
                    ))
                })?)
            }
            _ => None,
        };
        let format = spec.format.unwrap_or(ExportFormat::Ndjson);
        Ok(Export {
            parts: PartBounds {
                rows: spec.part_rows.unwrap_or(PART_ROWS),
                bytes: spec.part_bytes.unwrap_or(PART_BYTES),
            },
            tenant_id: context.tenant_id().unwrap_or_default().to_owned(),
            lease_token: Some(context.token().to_owned()),
            ttl: Some(KEEP),
            owner: self.owner.clone(),
            database,
            ..Export::new(spec.export_id, selection, format, self.url.clone())
        })
    }
}
