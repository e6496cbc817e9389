//! `driftq export`: a bounded selection becomes files, all of them or none.

mod asked;
mod flags;
mod report;

use std::process;
use std::time::Duration;

use anyhow::Result;
use driftq_client::Client;
use driftq_connect::database::Database;
use driftq_connect::export::{Export, ExportError, PartBounds, PlaceUrl, Selection, sweep};

use crate::work::fault;
use crate::{Common, Exit, Fault, Signals, context, grouped, printable};
use flags::{Action, Args as Flags, Selected};
use report::{Bar, Report};

pub(crate) use flags::Args;

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    match &args.action {
        Some(Action::Sweep { place, endpoint, tenant }) => {
            let place = PlaceUrl::parse(place, endpoint.as_deref()).map_err(refused)?;
            let swept = sweep(&client(common)?, &place, &tenant.tenant).await.map_err(refused)?;
            common.show(&swept, |swept| {
                let live = match &*swept.live {
                    [] => String::new(),
                    live => format!("; left alone, because they run: {}", printable(&live.join(", "))),
                };
                format!("{} staged file(s) removed{live}\n", grouped(swept.removed))
            })
        }
        Some(Action::Request { place, id, selected }) => asked::request(common, (place, id), selected).await,
        Some(Action::List { place, state, amount }) => {
            asked::list(common, place, (state.as_deref(), amount)).await
        }
        Some(Action::Show { place, id }) => asked::show(common, place, id).await,
        None => export(common, args).await,
    }
}

/// A version of a dataset is named, or the latest one is asked for in so many words.
fn check_version(selected: &Selected) -> Result<()> {
    if selected.dataset.is_some() && selected.version.is_none() && !selected.latest {
        let fault = Fault::new(Exit::Usage, "which version of the dataset? What is current may change")
            .help("name it with --version, or say --latest: then the manifest says which one that was");
        return Err(fault.into());
    }
    Ok(())
}

/// The SDK's way to the server that was chosen.
fn client(common: &Common) -> Result<Client> {
    let chosen = context::choose(common)?;
    let mut client = Client::builder().url(&chosen.server);
    if let Some(key) = chosen.key()? {
        client = client.key(key);
    }
    if let Some(file) = &chosen.ca_file {
        client = client.ca_file(file);
    }
    client.build().map_err(fault)
}

async fn export(common: &Common, args: &Flags) -> Result<()> {
    let export = wanted(args)?;
    let client = client(common)?;
    let mut signals = Signals::new()?;
    let bar = Bar::new();
    let stop = async {
        signals.next().await;
        bar.say("stopping: the lease is given up, so that the next one continues at once");
    };
    let outcome = export.run(&client, &bar, stop).await;
    bar.end();
    let exported = outcome.map_err(refused)?;
    common.show(&Report::new(exported), Report::display)
}

/// What the flags ask for.
fn wanted(args: &Flags) -> Result<Export> {
    let usage = |what: &str| Fault::new(Exit::Usage, what.to_owned()).help("see `driftq export --help`");
    let place = args.place.as_deref().ok_or_else(|| usage("where to? PLACE is missing"))?;
    let id = args.id.as_deref().ok_or_else(|| usage("under which name? --id is missing"))?;
    let selected = &args.selected;
    check_version(selected)?;
    let selection = Selection::try_from(selected.selection()).map_err(refused)?;
    let place = PlaceUrl::parse(place, args.endpoint.as_deref()).map_err(refused)?;
    Ok(Export {
        parts: PartBounds { rows: selected.part_rows, bytes: selected.part_bytes },
        tenant_id: selected.tenant.tenant.clone(),
        lease_token: args.lease_token.clone(),
        dataset: args.dataset_out.clone(),
        version: args.version_out.clone(),
        lease: Duration::from_millis(args.lease),
        ttl: args.ttl.map(Duration::from_millis),
        wait: Duration::from_millis(args.wait),
        owner: args.owner.clone().unwrap_or_else(|| format!("export-{}", process::id())),
        database: selected.database.clone().map(Database::from_env),
        ..Export::new(id, selection, selected.format, place)
    })
}

/// Why there is no export, with its exit code.
fn refused(error: ExportError) -> anyhow::Error {
    let exit = match error {
        ExportError::Server(error) => return fault(error),
        ExportError::Invalid(_) | ExportError::Query(_) => Exit::Usage,
        ExportError::Database(_) => Exit::Unreachable,
        ExportError::Reused { .. } | ExportError::Overtaken { .. } | ExportError::Ended { .. } => {
            Exit::Conflict
        }
        ExportError::Busy { .. } => Exit::InProgress,
        _ => Exit::Failure,
    };
    let message = error.to_string();
    let fault = Fault::new(exit, message);
    match exit {
        Exit::InProgress => fault.help("--wait waits for it").into(),
        _ => fault.into(),
    }
}
