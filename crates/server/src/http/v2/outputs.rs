//! Datasets, their versions, and what readers of them see.

use std::borrow::Cow;

use driftq_api::Fault;
use driftq_api::v2::{
    CurrentVersion, CutOver, Dataset, DatasetSummary, Datasets, Output, OutputMessage, OutputMode,
    PartitionOutputs, PastVersion, RollBack, Seal, VersionDeleted, VersionOutputs, VersionSealed,
    VersionSummary, encode_cursor, encode_place, tenant_and_page, tenant_and_section, tenant_confirmed,
};
use driftq_engine::core::{Named, OutputList, OutputPage, OutputView, VersionsList};
use hyper::StatusCode;

use super::words::moment;
use super::{Request, fault};
use crate::http::answer::json;
use crate::http::audit::{noted, of_tenant};
use crate::http::v1::Handled;

pub(super) async fn datasets(request: &Request<'_>) -> Handled {
    let (tenant, page) = tenant_and_page(request.query()?)?;
    let tenant = request.tenant(tenant)?;
    let listed = request.app.broker.datasets(&tenant, page.after.as_deref(), limit(page.limit)).await;
    let (datasets, more) = listed.map_err(|failure| fault(&failure))?;
    let last = datasets.last().filter(|_| more).map(|last| encode_cursor(&last.dataset));
    let datasets = datasets.iter().map(|summary| DatasetSummary {
        dataset: Cow::Borrowed(&summary.dataset),
        current: summary.current.as_deref().map(Cow::Borrowed),
        versions: summary.versions,
        outputs: summary.outputs,
    });
    Ok(json(StatusCode::OK, &Datasets { datasets: datasets.collect(), cursor: last }))
}

pub(super) async fn dataset(request: &Request<'_>) -> Handled {
    let (tenant, page) = tenant_and_page(request.query()?)?;
    let tenant = request.tenant(tenant)?;
    let name = request.name(0, "dataset")?;
    let list =
        VersionsList { dataset: Named::of(&*tenant, &*name), after: page.after, limit: limit(page.limit) };
    let view = request.app.broker.dataset(list).await.map_err(|failure| fault(&failure))?;
    let cursor = view.versions.last().filter(|_| view.more).map(|last| encode_cursor(&last.version));
    let versions = view.versions.iter().map(|version| VersionSummary {
        version: Cow::Borrowed(&version.version),
        outputs: version.outputs,
        updated_at: moment(version.updated),
        sealed: version.sealed,
    });
    let history = view
        .history
        .iter()
        // Before the first cut-over there was nothing, since ever: that is no entry.
        .filter(|(_, at)| at.0 > 0)
        .map(|(version, at)| PastVersion { version: version.as_deref().map(Cow::Borrowed), at: moment(*at) });
    let answer = Dataset {
        dataset: Cow::Borrowed(&name),
        current: view.summary.current.as_deref().map(Cow::Borrowed),
        cut_over_at: view.cut_over.map(moment),
        versions: versions.collect(),
        history: history.collect(),
        cursor,
    };
    Ok(json(StatusCode::OK, &answer))
}

pub(super) async fn version(request: &Request<'_>) -> Handled {
    let (dataset, version) = (request.name(0, "dataset")?, request.name(1, "version")?);
    let page = list(request, &dataset, &version, None).await?;
    let answer = VersionOutputs {
        dataset: Cow::Borrowed(&dataset),
        version: Cow::Borrowed(&page.version),
        outputs: page.outputs.iter().map(shown).collect(),
        cursor: cursor(&page),
    };
    Ok(json(StatusCode::OK, &answer))
}

pub(super) async fn partition(request: &Request<'_>) -> Handled {
    let (dataset, version) = (request.name(0, "dataset")?, request.name(1, "version")?);
    let key = request.name(2, "partition_key")?;
    let page = list(request, &dataset, &version, Some(&key)).await?;
    let append = page.outputs.first().is_some_and(|output| output.append);
    let answer = PartitionOutputs {
        dataset: Cow::Borrowed(&dataset),
        version: Cow::Borrowed(&page.version),
        partition_key: Cow::Borrowed(&key),
        mode: mode(append),
        outputs: page.outputs.iter().map(shown).collect(),
        cursor: cursor(&page),
    };
    Ok(json(StatusCode::OK, &answer))
}

pub(super) async fn cut_over(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let name = request.name(0, "dataset")?;
    let asked = CutOver::from_json(request.json()?)?;
    let tenant = request.tenant(asked.tenant_id)?;
    let dataset = Named::of(&*tenant, &*name);
    let moved = request.app.broker.cut_over(dataset, &asked.version, asked.expect.as_deref()).await;
    current((&tenant, &name), moved)
}

pub(super) async fn roll_back(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let name = request.name(0, "dataset")?;
    let asked = RollBack::from_json(request.json()?)?;
    let tenant = request.tenant(asked.tenant_id)?;
    let dataset = Named::of(&*tenant, &*name);
    current((&tenant, &name), request.app.broker.roll_back(dataset, &asked.from).await)
}

pub(super) async fn seal(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let name = request.name(0, "dataset")?;
    let asked = Seal::from_json(request.json()?)?;
    let tenant = request.tenant(asked.tenant_id)?;
    let dataset = Named::of(&*tenant, &*name);
    let sealed = request.app.broker.seal_version(dataset, &asked.version).await;
    let (changed, outputs) = sealed.map_err(|failure| fault(&failure))?;
    let detail = of_tenant(&tenant, &format!("version {}", asked.version));
    let answer = VersionSealed { dataset: Cow::Borrowed(&name), version: asked.version, outputs, changed };
    Ok(noted(json(StatusCode::OK, &answer), detail))
}

fn current(
    (tenant, dataset): (&str, &str),
    moved: Result<driftq_engine::CutOver, driftq_engine::Failure>,
) -> Handled {
    let moved = moved.map_err(|failure| fault(&failure))?;
    let answer = CurrentVersion {
        dataset: Cow::Borrowed(dataset),
        current: moved.current.as_deref().map(Cow::Borrowed),
        previous: moved.previous.as_deref().map(Cow::Borrowed),
        changed: moved.changed,
    };
    let version = |version: &Option<Cow<'_, str>>| version.as_deref().unwrap_or("none").to_owned();
    let (now, before) = (version(&answer.current), version(&answer.previous));
    let detail = of_tenant(tenant, &format!("version {now} is current, {before} is the one before"));
    Ok(noted(json(StatusCode::OK, &answer), detail))
}

pub(super) async fn delete(request: &Request<'_>) -> Handled {
    let (dataset, version) = (request.name(0, "dataset")?, request.name(1, "version")?);
    let tenant = request.tenant(tenant_confirmed(request.query()?, &version)?)?;
    let deleted = request.app.broker.drop_version(Named::of(&*tenant, &*dataset), &version).await;
    let deleted = deleted.map_err(|failure| fault(&failure))?;
    let detail = of_tenant(&tenant, &format!("{deleted} outputs"));
    Ok(noted(json(StatusCode::OK, &VersionDeleted { deleted }), detail))
}

async fn list(
    request: &Request<'_>,
    dataset: &str,
    version: &str,
    partition_key: Option<&str>,
) -> Result<OutputPage, Fault> {
    let (tenant, section) = tenant_and_section(request.query()?)?;
    let list = OutputList {
        dataset: Named::of(request.tenant(tenant.unwrap_or_default())?, dataset),
        version: version.to_owned(),
        partition_key: partition_key.map(str::to_owned),
        from: section.after.as_deref().and_then(place),
        limit: limit(section.limit),
    };
    request.app.broker.outputs(list).await.map_err(|failure| fault(&failure))
}

/// Where a list of outputs goes on: how many outputs of a partition were seen, and the partition.
fn cursor(page: &OutputPage) -> Option<String> {
    page.next.as_ref().map(|(key, seen)| encode_place(&[&seen.to_be_bytes()[..], key.as_bytes()].concat()))
}

/// What a cursor says; nothing if it is too short to say anything, and then the list begins anew.
fn place(place: &[u8]) -> Option<(String, u64)> {
    let (seen, key) = place.split_first_chunk::<8>()?;
    Some((String::from_utf8_lossy(key).into_owned(), u64::from_be_bytes(*seen)))
}

fn shown(output: &OutputView) -> Output<'_> {
    Output {
        partition_key: Cow::Borrowed(&output.partition_key),
        mode: mode(output.append),
        dedupe_key: Some(&*output.dedupe_key).filter(|key| !key.is_empty()).map(Cow::Borrowed),
        location: Cow::Borrowed(&output.location),
        digest: Cow::Borrowed(&output.digest),
        committed_at: moment(output.at),
        message: output.by.as_ref().map(|(topic, partition, offset, attempt)| OutputMessage {
            topic: Cow::Borrowed(topic),
            partition: *partition,
            offset: *offset,
            attempt: *attempt,
        }),
    }
}

const fn mode(append: bool) -> OutputMode {
    if append { OutputMode::Append } else { OutputMode::Replace }
}

fn limit(limit: usize) -> u32 {
    u32::try_from(limit).unwrap_or(u32::MAX)
}
