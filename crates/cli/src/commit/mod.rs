//! `driftq commit`: several changes that happen together or not at all.

mod describe;
mod flags;

use anyhow::{Context, Result};
use driftq_api::v2::Committed;
use serde_json::{Value, value::RawValue};

use crate::{CallError, Common, Exit, Fault, Session, Subject, file, suggest};
use flags::Parts;

#[derive(clap::Args)]
#[command(after_help = "All of it happens, or nothing does: if one token is stale, nothing is acked, \
finished, stored or registered, and the error names the part. The same commit again within an hour changes nothing and \
prints the same answer. Outputs need at least one token in --ack, --fence or --finish.

Names that hold the marks / = @ # and anything beyond these flags go into a file: the JSON body of POST /v2/commit.

Examples:
  driftq commit --ack \"$message\" --finish \"${effect}:succeeded\" --produce receipts='7 is paid'
  driftq commit --ack \"$message\" --finish \"${effect}:succeeded=ch_981\"
  driftq commit --ack \"$message\" --replace-output sales/v2/2030-01=s3://lake/a.parquet@sha256:9f86d0
  driftq commit --fence \"$message\" --append-output sales/v2/log=s3://lake/b@sha256:2c26#batch-7
  driftq commit --ack \"$message\" --expect order-7=3    # only if order-7 is at version 3
  driftq commit --file commit.json
  jq -n --arg t \"$message\" '{ack: [$t]}' | driftq commit --file - -o json")]
pub(crate) struct Args {
    #[command(flatten)]
    parts: Parts,
    /// The whole commit as JSON; `-` is stdin
    #[arg(long, value_name = "PATH", conflicts_with_all = Parts::NAMES)]
    file: Option<String>,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let body = body(args)?;
    let asked: Value = serde_json::from_str(body.get()).context("reading the commit again")?;
    let mut session = common.client()?.session();
    match session.patiently::<Committed<'static>>("/v2/commit", &body, 0).await {
        Ok(committed) => common.show(&committed, |committed| describe::text(&asked, committed)),
        Err(error) => Err(refused(&mut session, &asked, error).await.into()),
    }
}

/// The commit as it is sent.
fn body(args: &Args) -> Result<Box<RawValue>> {
    if let Some(path) = &args.file {
        let invalid = |error: serde_json::Error| {
            Fault::new(Exit::Usage, format!("--file {path}: not JSON: {error}"))
                .help("it holds an object with ack, fence, effects, produce, outputs and expect")
        };
        return Ok(serde_json::from_slice(&file::read("--file", path)?).map_err(invalid)?);
    }
    if args.parts.is_empty() {
        let fault = Fault::new(Exit::Usage, "nothing to commit");
        return Err(fault.help("give --ack, --finish, --produce and so on, or --file; see --help").into());
    }
    serde_json::value::to_raw_value(&args.parts.commit()).context("writing the commit")
}

/// The refusal with what it is about. An unknown topic is looked for among those that are there.
async fn refused(session: &mut Session, asked: &Value, error: CallError) -> Fault {
    let Some(part) = error.part().map(str::to_owned) else {
        return error.into();
    };
    let topic = describe::item(asked, &part).and_then(|item| item["topic"].as_str());
    let mut fault = match topic {
        Some(topic) => suggest::explained(session, Subject::Topic(topic), error).await,
        None => error.into(),
    };
    fault.message = format!("nothing was committed: {}", fault.message);
    fault
}
