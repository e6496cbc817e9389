//! `driftq topic create`.

use anyhow::{Context, Result};
use driftq_api::v1::Created;

use super::super::{Common, output};
use crate::client::words::CreateTopic;

#[derive(clap::Args)]
#[command(
    after_help = "Messages with the same key go to the same partition and are delivered in order. The number of
partitions cannot be changed later.

Examples:
  driftq topic create orders --partitions 8"
)]
pub(crate) struct Args {
    /// Its name
    name: String,
    /// How many ordered lanes it has
    #[arg(short, long, default_value_t = 1)]
    partitions: u32,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let request = CreateTopic { name: &args.name, partitions: args.partitions };
    let mut session = common.client()?.session();
    let created: Created<'static> = session
        .post("/v1/topics", &request)
        .await
        .map_err(|error| error.into_error())
        .with_context(|| format!("creating topic {}", args.name))?;
    output::print_one(common.output, &created, || {
        let note = if created.partitions == args.partitions { "" } else { " (it existed with this number)" };
        format!("topic {} has {} partition(s){note}\n", created.name, created.partitions)
    })
}
