//! `driftq ledger show`.

use std::io::{self, Write as _};

use anyhow::Result;
use driftq_ledger::{LedgerError, Record};

use super::{
    Name, Place,
    fault::fault,
    words::{self, Shown},
};
use crate::{
    Common,
    exit::{Exit, Fault},
    message::words::aligned,
    output,
    when::Now,
};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  driftq ledger show ann 'POST /pay' order-7
  driftq ledger show ann 'POST /pay' order-7 --body > answer.json
  driftq ledger show ann 'POST /pay' order-7 -o json | jq .outcome.headers")]
pub(super) struct Args {
    #[command(flatten)]
    name: Name,
    /// Print the stored answer's bytes as they are, and nothing else
    #[arg(long)]
    body: bool,
}

pub(super) async fn run(common: &Common, place: &Place, args: &Args) -> Result<()> {
    let identity = args.name.identity()?;
    let ledger = place.ledger(common)?;
    let found = ledger.get(&identity).await.map_err(|error| fault(&error))?;
    let record = found.ok_or_else(|| fault(&LedgerError::NotFound))?;
    if args.body {
        return print_body(&record);
    }
    output::print_one(common.output, &Shown::new(&record), || aligned(&words::facts(&record, Now::read())))
}

fn print_body(record: &Record) -> Result<()> {
    let Some(outcome) = &record.outcome else {
        let why = format!("it has no answer yet: it is {}", words::status(record.status));
        return Err(Fault::new(Exit::Conflict, why).into());
    };
    if let Some(bytes) = outcome.response.omitted() {
        let why = format!("the answer had {bytes} bytes and was too large to keep");
        return Err(Fault::new(Exit::Failure, why).into());
    }
    let mut out = io::stdout().lock();
    out.write_all(&outcome.response.payload)?;
    out.flush()?;
    Ok(())
}
