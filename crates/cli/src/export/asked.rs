//! Exports that connectors are asked for.

use anyhow::Result;
use driftq_api::units::about_bytes;
use driftq_api::v2::{ExportRecord, ExportSpec, ExportTaken, Exports};

use super::check_version;
use super::flags::Selected;
use crate::{Amount, Columns, Common, Exit, Fault, Path, aligned, grouped, or_dash, printable};

const COLUMNS: Columns<ExportRecord<'static>> = &[
    ("EXPORT", |record, _| printable(&record.export_id)),
    ("STATE", |record, _| record.state.name().to_owned()),
    ("ROWS", |record, _| or_dash(record.rows.map(grouped))),
    ("SIZE", |record, _| or_dash(record.bytes.map(about_bytes))),
    ("NEXT", |record, now| or_dash(record.next_at.map(|at| now.tell(at)))),
    ("TAKEN", |record, now| now.tell(record.created_at)),
];

pub(super) async fn request(common: &Common, (place, id): (&str, &str), selected: &Selected) -> Result<()> {
    check_version(selected)?;
    let spec = ExportSpec {
        export_id: id.to_owned(),
        place: place.to_owned(),
        selection: selected.selection(),
        format: Some(selected.format),
        part_rows: Some(selected.part_rows),
        part_bytes: Some(selected.part_bytes),
        tenant_id: selected.tenant.tenant.clone(),
    };
    let taken: ExportTaken<'static> = common.caller()?.post("/v2/exports", &spec).await?;
    common.show(&taken, |taken| {
        let again = if taken.duplicate { ", asked for before" } else { "" };
        format!("{} to {}{again}\n", printable(&taken.export_id), printable(&taken.place))
    })
}

pub(super) async fn list(
    common: &Common,
    place: &str,
    (state, amount): (Option<&str>, &Amount),
) -> Result<()> {
    let part = |page: Exports<'static>| (page.exports, page.cursor);
    let first = Path::of("/v2/exports").with("place", place).with_some("state", state);
    common.caller()?.list(common, (first, amount), (COLUMNS, "no such exports"), part).await
}

pub(super) async fn show(common: &Common, place: &str, id: &str) -> Result<()> {
    let path = Path::of("/v2/exports").with("place", place).with("export_id", id);
    let page: Exports<'static> = common.caller()?.get(path).await?;
    match page.exports.into_iter().next() {
        Some(record) => common.show(&record, display),
        None => {
            let said = format!("no export `{}` to that place is known", printable(id));
            let help = "what is done is kept for seven days; `driftq export list` shows the ids";
            Err(Fault::new(Exit::Invalid, said).help(help).into())
        }
    }
}

fn display(record: &ExportRecord<'_>) -> String {
    let parts = record.parts.map(|parts| {
        let bytes = record.bytes.map(about_bytes).unwrap_or_default();
        format!("{}, {bytes}", grouped(parts))
    });
    let lines = [
        ("export", Some(printable(&record.export_id))),
        ("place", Some(printable(&record.place))),
        ("state", Some(record.state.name().to_owned())),
        ("rows", record.rows.map(grouped)),
        ("parts", parts),
        ("manifest", record.location.as_deref().map(printable)),
        ("digest", record.digest.as_deref().map(printable)),
        ("error", Some(printable(&record.error)).filter(|error| !error.is_empty())),
    ];
    let lines: Vec<_> = lines.into_iter().filter_map(|(name, text)| Some((name, text?))).collect();
    aligned(&lines)
}
