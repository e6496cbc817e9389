//! From the question whether to run to the pointer that readers follow.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use driftq_api::Code;
use driftq_api::v2::{
    EXPORT_ID_BYTES_MAX, EffectBegin, EffectDecision, EffectOutcome, EffectStatus, OnLapse, WAIT_MS_MAX,
    is_export_id,
};
use driftq_client::{Client, canonical, sha256_hex};
use serde_json::json;
use tokio::time::Instant;

use super::error::ExportError;
use super::format::Format;
use super::hold::Hold;
use super::manifest::{Manifest, name_of};
use super::part::{PartBounds, digest};
use super::place::{Place, PlaceUrl};
use super::selection::Selection;
use super::watch::{Step, Watch};
use super::{DATASET, SCOPE, VERSION};
use crate::database::Database;

/// How long an export is this process's between two signs of life.
const LEASE: Duration = Duration::from_secs(60);
/// Digits of the hash by which the folders of tenants are told apart.
const TENANT_DIGITS: usize = 16;
/// The epoch of an export that no process has begun before.
const EPOCH_FIRST: u64 = 1;
/// Bytes of randomness in the name of a call.
const REQUEST_ID_BYTES: usize = 16;

/// An export: what, as what, where to, and under which name.
#[derive(Clone, Debug)]
pub struct Export {
    /// Its identity: the same id again is the same export.
    pub id: String,
    /// What is exported.
    pub selection: Selection,
    /// What the files are.
    pub format: Format,
    /// Where they go.
    pub place: PlaceUrl,
    /// When a part ends.
    pub parts: PartBounds,
    /// Whose it is; may be empty.
    pub tenant_id: String,
    /// The delivery on whose behalf it runs: a newer attempt of the message takes it over, and fences this one off.
    pub lease_token: Option<String>,
    /// The dataset whose pointer is moved.
    pub dataset: String,
    /// The version of that dataset.
    pub version: String,
    /// How long it is this process's between two signs of life.
    pub lease: Duration,
    /// For how long the server remembers it; as long as it remembers other effects if not given.
    pub ttl: Option<Duration>,
    /// How long to wait for another process that runs it.
    pub wait: Duration,
    /// Who runs it, for people to read.
    pub owner: String,
    /// The database of a query.
    pub database: Option<Database>,
}

/// An export that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// What it consists of.
    pub manifest: Manifest,
    /// Where the manifest lies: what the pointer names.
    pub location: String,
    /// The digest of the manifest's bytes.
    pub digest: String,
    /// Whether it was there before, and nothing was written.
    pub is_replay: bool,
}

impl Export {
    /// An export with the usual bounds and pointer.
    pub fn new(id: impl Into<String>, selection: Selection, format: Format, place: PlaceUrl) -> Self {
        Self {
            id: id.into(),
            selection,
            format,
            place,
            parts: PartBounds::default(),
            tenant_id: String::new(),
            lease_token: None,
            dataset: DATASET.to_owned(),
            version: VERSION.to_owned(),
            lease: LEASE,
            ttl: None,
            wait: Duration::ZERO,
            owner: String::new(),
            database: None,
        }
    }

    /// Runs it, or finds that it was run. Nothing is visible to readers until all of it is. When `stop` ends first, it is
    /// left to the next process.
    ///
    /// # Errors
    /// Why there is no export; the same export again continues.
    pub async fn run(
        &self,
        client: &Client,
        watch: &dyn Watch,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<Exported, ExportError> {
        self.run_until(client, watch, Box::pin(stop)).await
    }

    /// Boxed here, so that the work is compiled where it is written, and not in a caller that is not optimised.
    fn run_until<'a>(
        &'a self,
        client: &'a Client,
        watch: &'a dyn Watch,
        stop: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    ) -> Pin<Box<dyn Future<Output = Result<Exported, ExportError>> + Send + 'a>> {
        Box::pin(self.run_to_the_end(client, watch, stop))
    }

    async fn run_to_the_end(
        &self,
        client: &Client,
        watch: &dyn Watch,
        mut stop: Pin<Box<dyn Future<Output = ()> + Send + '_>>,
    ) -> Result<Exported, ExportError> {
        self.check()?;
        let place = Place::open(&self.place)?;
        let begun = tokio::select! {
            biased;
            () = &mut stop => return Err(ExportError::Stopped),
            begun = async {
                self.look_ahead(client, &place).await?;
                self.begin(client).await
            } => begun?,
        };
        let lease = match begun {
            EffectDecision::Execute { lease } => lease,
            EffectDecision::Replay { outcome } => return self.replayed(&place, &outcome),
            EffectDecision::InProgress { retry_after_ms, .. } => {
                let retry_after = Duration::from_millis(retry_after_ms);
                return Err(ExportError::Busy { id: self.id.clone(), retry_after });
            }
            EffectDecision::Retryable { outcome, .. } => return Err(self.ended(&outcome.error)),
            EffectDecision::Unknown { .. } => {
                return Err(self.ended("it is not known how; see `driftq effect get`"));
            }
        };
        let hold = Hold::new(client, &self.id, lease, self.lease);
        watch.step(Step::Begun);
        let prepared = tokio::select! {
            biased;
            prepared = hold.during(self.prepare(client, &place, &hold, watch)) => prepared,
            () = &mut stop => Err(ExportError::Stopped),
        };
        // The commit ends the lease: from here on it is neither renewed nor given up because a caller wants to stop.
        let committed = match prepared {
            Ok((exported, manifest)) => {
                self.commit(client, &hold, &exported, &manifest).await.map(|()| exported)
            }
            Err(error) => Err(error),
        };
        match committed {
            Ok(exported) => {
                watch.step(Step::Committed);
                self.clear(&place, hold.lease.epoch > EPOCH_FIRST).await;
                Ok(exported)
            }
            Err(error) => {
                hold.give_up().await;
                Err(error)
            }
        }
    }

    fn check(&self) -> Result<(), ExportError> {
        if !is_export_id(&self.id) {
            let why = format!(
                "the id {:?} cannot be the name of a folder: use 1 to {EXPORT_ID_BYTES_MAX} letters, digits, dots, hyphens and \
                 underscores, and no dot in front",
                self.id
            );
            return Err(ExportError::Invalid(why));
        }
        if matches!(self.selection, Selection::Query { .. }) != self.database.is_some() {
            return Err(ExportError::Invalid("a query has a database, and nothing else has one".to_owned()));
        }
        self.parts.check()?;
        self.selection.check()
    }

    /// The folder of its files: its id, and whose it is, because two tenants may choose the same id.
    pub(super) fn folder(&self) -> String {
        if self.tenant_id.is_empty() {
            return self.id.clone();
        }
        let tenant = sha256_hex(&self.tenant_id);
        format!("{}@{}", self.id, &tenant[..TENANT_DIGITS])
    }

    /// What is asked for, in a few bytes: another export under the same id is refused.
    pub(super) fn request_hash(&self) -> Result<String, ExportError> {
        let asked = json!({
            "selection": self.selection,
            "format": self.format,
            "place": self.place.to_string(),
            "part_rows": self.parts.rows,
            "part_bytes": self.parts.bytes,
            "dataset": self.dataset,
            "version": self.version,
        });
        Ok(format!("sha256:{}", sha256_hex(&canonical(&asked)?)))
    }

    async fn begin(&self, client: &Client) -> Result<EffectDecision<'static>, ExportError> {
        let mut random = [0; REQUEST_ID_BYTES];
        getrandom::fill(&mut random)
            .map_err(|error| ExportError::Invalid(format!("no randomness: {error}")))?;
        let mut begin = EffectBegin {
            tenant_id: (&*self.tenant_id).into(),
            scope: SCOPE.into(),
            key: (&*self.id).into(),
            request_hash: Some(self.request_hash()?.into()),
            lease_ms: Some(whole_ms(self.lease)),
            ttl_ms: self.ttl.map(whole_ms),
            on_lapse: OnLapse::Retry,
            reacquire: true,
            lease_token: self.lease_token.as_deref().map(Into::into),
            request_id: Some(format!("{:032x}", u128::from_le_bytes(random)).into()),
            owner: (&*self.owner).into(),
            ..EffectBegin::default()
        };
        let until = Instant::now() + self.wait;
        loop {
            begin.wait_ms = whole_ms(until.saturating_duration_since(Instant::now())).min(WAIT_MS_MAX);
            let decision = client.begin_effect(&begin).await.map_err(|error| match error.code() {
                Some(Code::KeyReused) => ExportError::Reused { id: self.id.clone() },
                _ => error.into(),
            })?;
            // A server that was asked to wait answers in progress only when that time is over.
            if begin.wait_ms == 0 || !matches!(decision, EffectDecision::InProgress { .. }) {
                return Ok(decision);
            }
        }
    }

    fn ended(&self, why: &str) -> ExportError {
        ExportError::Ended { id: self.id.clone(), why: why.to_owned() }
    }

    fn replayed(&self, place: &Place, outcome: &EffectOutcome<'_>) -> Result<Exported, ExportError> {
        let body = outcome.body.as_deref().unwrap_or_default();
        let manifest = (outcome.status == EffectStatus::Succeeded).then(|| serde_json::from_str(body).ok());
        let Some(manifest) = manifest.flatten() else { return Err(self.ended(&outcome.error)) };
        Ok(self.exported(place, manifest, body.as_bytes(), true))
    }

    pub(super) fn exported(
        &self,
        place: &Place,
        manifest: Manifest,
        bytes: &[u8],
        is_replay: bool,
    ) -> Exported {
        let location = place.location(&format!("{}/{}", self.folder(), name_of(bytes)));
        Exported { manifest, location, digest: format!("sha256:{}", digest(bytes)), is_replay }
    }
}

fn whole_ms(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
