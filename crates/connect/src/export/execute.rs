//! What the holder of an export's lease does: parts, manifest, commit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use driftq_api::v2::{
    Commit, CommitOutput, DatasetVersion, EXPORT_DIGEST_HEADER, EXPORT_LOCATION_HEADER, EffectFinish,
    EffectGet, EffectResult, EffectStatus, Headers, OutputMode,
};
use driftq_api::{Code, Moment};
use driftq_client::Client;
use tokio::task::spawn_blocking;

use super::SCOPE;
use super::column::Columns;
use super::error::ExportError;
use super::hold::Hold;
use super::manifest::{Manifest, ManifestPart, is_manifest, name_of};
use super::part::{PARTS_MAX, Part};
use super::pin::{self, Plan};
use super::place::{Place, STAGING, Staged};
use super::request::{Export, Exported};
use super::selection::Selection;
use super::source::Source;
use super::watch::{Step, Watch};

/// The epoch of an export that has not begun: all others are higher.
const EPOCH_NONE: u64 = 0;

impl Export {
    /// An export that cannot be is refused before it begins, so that its id stays free for the one that was meant.
    pub(super) async fn look_ahead(&self, client: &Client, place: &Place) -> Result<(), ExportError> {
        let tenant_id = (&*self.tenant_id).into();
        let get = EffectGet { tenant_id, scope: SCOPE.into(), key: (&*self.id).into() };
        match client.effect_record(&get).await {
            // It was begun before. It may have ended, and what it has read may be gone.
            Ok(_) => return Ok(()),
            Err(error) if error.code() == Some(Code::EffectUnknown) => {}
            Err(error) => return Err(error.into()),
        }
        let now = Moment::saturating_from_epoch_ms(0);
        pin::pinned(client, &self.selection, &self.tenant_id, now).await?;
        if let Selection::Run { run_id } = &self.selection {
            client.describe_run_of(&self.tenant_id, run_id).await?;
        }
        // A query that its database refuses is none.
        Source::open(client, self, &self.selection).await?;
        place.probe(&format!("{STAGING}/{}/{EPOCH_NONE}", self.folder())).await
    }

    /// Reads the selection and writes everything that the commit will name; returns that, and the manifest's bytes.
    pub(super) async fn prepare(
        &self,
        client: &Client,
        place: &Place,
        hold: &Hold<'_>,
        watch: &dyn Watch,
    ) -> Result<(Exported, Bytes), ExportError> {
        self.expect_tenant(client).await?;
        let scratch = format!("{STAGING}/{}/{}", self.folder(), hold.lease.epoch);
        place.probe(&scratch).await?;
        watch.step(Step::Probed);
        self.clear_older(place, hold.lease.epoch).await?;
        let selection = self.plan(client, place, &scratch, hold).await?;
        watch.step(Step::Planned);
        self.tell_size(client, &selection, watch).await?;
        let parts = self.write_parts(client, place, &selection, (&scratch, watch)).await?;
        let manifest = Manifest::new(&self.id, selection, self.format, parts);
        let bytes = serde_json::to_vec(&manifest).map_err(|error| ExportError::Encode(error.to_string()))?;
        let bytes = Bytes::from(bytes);
        place.create(&scratch, &format!("{}/{}", self.folder(), name_of(&bytes)), bytes.clone()).await?;
        watch.step(Step::Described);
        Ok((self.exported(place, manifest, &bytes, false), bytes))
    }

    /// Removes what this export staged, and what earlier attempts have left. A sweep does the former otherwise.
    pub(super) async fn clear(&self, place: &Place, was_tried: bool) {
        if was_tried && let Err(error) = self.clear_orphans(place).await {
            tracing::debug!(id = self.id, %error, "parts of earlier attempts are still there");
        }
        if let Err(error) = place.remove(&format!("{STAGING}/{}", self.folder())).await {
            tracing::debug!(id = self.id, %error, "what was staged is still there");
        }
    }

    /// Removes parts that earlier attempts have left and that no manifest names: a query gives other rows each time.
    async fn clear_orphans(&self, place: &Place) -> Result<(), ExportError> {
        let folder = self.folder();
        let names = place.list(&folder).await?;
        let mut named = BTreeSet::new();
        for name in names.iter().filter(|name| is_manifest(name)) {
            let bytes = place.read(&format!("{folder}/{name}")).await?.unwrap_or_default();
            // What cannot be read may name anything.
            let Ok(manifest) = serde_json::from_slice::<Manifest>(&bytes) else { return Ok(()) };
            named.extend(manifest.parts.into_iter().map(|part| part.name));
        }
        for name in names.iter().filter(|name| !is_manifest(name) && !named.contains(*name)) {
            place.remove(&format!("{folder}/{name}")).await?;
        }
        Ok(())
    }

    /// An effect belongs to the tenant of its delivery. The pointer must, too, and a sweep must find the record.
    async fn expect_tenant(&self, client: &Client) -> Result<(), ExportError> {
        if self.lease_token.is_none() || !self.tenant_id.is_empty() {
            return Ok(());
        }
        let get = EffectGet { tenant_id: "".into(), scope: SCOPE.into(), key: (&*self.id).into() };
        match client.effect_record(&get).await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(Code::EffectUnknown) => Err(ExportError::Invalid(
                "the message of the lease belongs to a tenant: name that tenant".to_owned(),
            )),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes what earlier attempts staged.
    async fn clear_older(&self, place: &Place, epoch: u64) -> Result<(), ExportError> {
        let folder = format!("{STAGING}/{}", self.folder());
        for name in place.list(&folder).await? {
            if name.parse::<u64>().is_ok_and(|older| older < epoch) {
                place.remove(&format!("{folder}/{name}")).await?;
            }
        }
        Ok(())
    }

    async fn plan(
        &self,
        client: &Client,
        place: &Place,
        scratch: &str,
        hold: &Hold<'_>,
    ) -> Result<Selection, ExportError> {
        let request_hash = self.request_hash()?;
        if let Some(plan) = pin::read(place, &self.folder()).await?
            && plan.request_hash == request_hash
        {
            return Ok(plan.selection);
        }
        let now = begun_at(hold.lease.expires_at, self.lease);
        let selection = pin::pinned(client, &self.selection, &self.tenant_id, now).await?;
        let plan = Plan { request_hash, tenant_id: self.tenant_id.clone(), selection };
        pin::settle(place, (&self.folder(), scratch), plan).await
    }

    async fn tell_size(
        &self,
        client: &Client,
        selection: &Selection,
        watch: &dyn Watch,
    ) -> Result<(), ExportError> {
        if let Selection::Topic { topic, partition: None, from: Some(from), to: Some(to) } = selection {
            watch.expects(client.topic(topic).await?.messages.min(to.saturating_sub(*from)));
        }
        Ok(())
    }

    async fn write_parts(
        &self,
        client: &Client,
        place: &Place,
        selection: &Selection,
        (scratch, watch): (&str, &dyn Watch),
    ) -> Result<Vec<ManifestPart>, ExportError> {
        let mut source = Source::open(client, self, selection).await?;
        let columns = source.columns();
        let mut parts = Vec::new();
        let mut open: Option<(Staged, Part)> = None;
        while let Some(rows) = source.next().await? {
            let count = rows.len() as u64;
            let mut rows = rows.into_iter();
            while rows.len() > 0 {
                let (staged, mut part) = match open.take() {
                    Some(open) => open,
                    None => self.new_part(place, (scratch, parts.len()), &columns).await?,
                };
                let filling = spawn_blocking(move || part.fill(&mut rows).map(|()| (part, rows)));
                let (part, left) = filling.await.map_err(std::io::Error::other)??;
                rows = left;
                if part.is_full() {
                    parts.push(self.end_part(place, (staged, part), parts.len(), watch).await?);
                } else {
                    open = Some((staged, part));
                }
            }
            watch.wrote(count);
        }
        if let Some(last) = open {
            parts.push(self.end_part(place, last, parts.len(), watch).await?);
        }
        Ok(parts)
    }

    async fn new_part(
        &self,
        place: &Place,
        (scratch, number): (&str, usize),
        columns: &Columns,
    ) -> Result<(Staged, Part), ExportError> {
        if number >= PARTS_MAX {
            return Err(ExportError::TooManyParts);
        }
        let staged = place.stage(scratch).await?;
        let part = Part::new(staged.writer()?, self.format, Arc::clone(columns), self.parts)?;
        Ok((staged, part))
    }

    /// Ends a part and gives it its name, which says what is in it: if the name is there, so are the bytes.
    async fn end_part(
        &self,
        place: &Place,
        (staged, part): (Staged, Part),
        number: usize,
        watch: &dyn Watch,
    ) -> Result<ManifestPart, ExportError> {
        let whole = spawn_blocking(move || part.finish()).await.map_err(std::io::Error::other)??;
        watch.step(Step::Staged(number));
        let part = ManifestPart::new(number, self.format, &whole);
        place.publish(staged, &format!("{}/{}", self.folder(), part.name)).await?;
        watch.step(Step::Placed(number));
        Ok(part)
    }

    /// The one step that readers see: the effect ends and the pointer moves, under the lease, or neither does.
    pub(super) async fn commit(
        &self,
        client: &Client,
        hold: &Hold<'_>,
        exported: &Exported,
        manifest: &[u8],
    ) -> Result<(), ExportError> {
        let headers = vec![
            (EXPORT_LOCATION_HEADER.into(), (&*exported.location).into()),
            (EXPORT_DIGEST_HEADER.into(), (&*exported.digest).into()),
        ];
        let result = EffectResult {
            headers: Headers::new(headers).map_err(ExportError::Encode)?,
            body: Some(manifest.into()),
            ..EffectResult::new(EffectStatus::Succeeded)
        };
        let read = match &exported.manifest.selection {
            Selection::Dataset { dataset, version: Some(version) } if self.lease_token.is_some() => {
                Some(DatasetVersion { dataset: dataset.into(), version: version.into() })
            }
            _ => None,
        };
        let commit = Commit {
            fence: self.lease_token.iter().map(Into::into).collect(),
            effects: vec![EffectFinish { token: (&*hold.lease.token).into(), result }],
            outputs: vec![CommitOutput {
                dataset: (&*self.dataset).into(),
                version: (&*self.version).into(),
                partition_key: (&*self.id).into(),
                mode: OutputMode::Replace,
                dedupe_key: None,
                location: (&*exported.location).into(),
                digest: (&*exported.digest).into(),
            }],
            reads: read.into_iter().collect(),
            tenant_id: (&*self.tenant_id).into(),
            ..Commit::default()
        };
        client.commit(&commit).await.map(drop).map_err(|error| hold.refused(error))
    }
}

/// When a lease began that ends then, by the same clock.
fn begun_at(expires_at: Moment, lease: Duration) -> Moment {
    let (seconds, nanos) = expires_at.parts();
    let ends = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let began = ends - i128::try_from(lease.as_nanos()).unwrap_or(i128::MAX);
    let seconds = i64::try_from(began.div_euclid(1_000_000_000)).unwrap_or(0);
    Moment::saturating_from_parts(seconds, u32::try_from(began.rem_euclid(1_000_000_000)).unwrap_or(0))
}
