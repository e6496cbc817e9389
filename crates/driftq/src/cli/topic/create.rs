//! `driftq topic create`.

use anyhow::{Context, Result};
use driftq_api::v2::{Topic, TopicPut, TopicSettings, TopicSpec};
use serde::Serialize;

use super::{
    super::{Common, output},
    settings::SettingArgs,
};
use crate::client::{CallError, Path, Session};

#[derive(clap::Args)]
#[command(
    after_help = "Messages with the same key go to the same partition and are delivered in order. The number of
partitions cannot be changed later; settings can, with `driftq topic set`. What is not given is the server's default.
A topic that is there already stays as it is; if settings are asked for that it does not have, that is an error.

Examples:
  driftq topic create orders --partitions 8
  driftq topic create payments --ordering key --retry-max-attempts 5 --retry-backoff 1s
  driftq topic create clicks --retention 7d --max-in-flight 1000 --lease 30s"
)]
pub(crate) struct Args {
    /// Its name
    name: String,
    /// How many ordered lanes it has
    #[arg(short, long, default_value_t = 1)]
    partitions: u32,
    #[command(flatten)]
    settings: SettingArgs,
}

/// What is printed.
#[derive(Serialize)]
struct Created {
    name: String,
    partitions: usize,
    created: bool,
    settings: TopicSettings,
}

impl Created {
    fn new(created: bool, topic: Topic) -> Self {
        Self { name: topic.name, partitions: topic.partitions.len(), created, settings: topic.settings }
    }
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let spec = args.settings.spec(args.partitions);
    let mut session = common.client()?.session();
    let created = create(&mut session, &args.name, &spec)
        .await
        .map_err(|error| error.into_error())
        .with_context(|| format!("creating topic {}", args.name))?;
    output::print_one(common.output, &created, || {
        let note = match created.created {
            true => "",
            false if created.partitions as u64 == u64::from(args.partitions) => " (it was there)",
            false => " (it existed with this number)",
        };
        format!("topic {} has {} partition(s){note}\n", created.name, created.partitions)
    })
}

/// Creates it. Where nothing but a number of partitions is asked for, one that is there is good enough, whatever it is:
/// scripts create topics at every start.
async fn create(session: &mut Session, name: &str, spec: &TopicSpec) -> Result<Created, CallError> {
    let path = Path::topic(name);
    let is_plain = *spec == TopicSpec { partitions: spec.partitions, ..TopicSpec::default() };
    match session.put::<TopicPut>(path.as_str(), spec).await {
        Ok(put) => Ok(Created::new(put.created, put.topic)),
        Err(error) if is_plain && error.code() == "SETTINGS_DIFFER" => {
            let topic: Topic = session.get(path.as_str()).await?;
            Ok(Created::new(false, topic))
        }
        Err(error) => Err(error),
    }
}
