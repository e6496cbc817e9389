//! `driftq topic create`.

use anyhow::{Error, Result};
use driftq_api::v2::{Topic, TopicPut, TopicSettings, TopicSpec};
use driftq_http::Method;
use serde::Serialize;

use super::settings::{self, SettingArgs};
use crate::{CallError, Common, Fault, Path, Session, parse, printable};

/// Partitions of a topic that is not asked to have more.
const PARTITIONS_DEFAULT: u32 = 1;

#[derive(clap::Args)]
#[command(after_help = "Messages with the same key go to the same partition and are delivered in order; \
messages without a key
are spread over all of them (over /v1 they all go to the first one). The number of
partitions cannot be changed later; settings can, with `driftq topic set`. What is not given is the server's default.
A topic that is there already stays as it is; if partitions or settings are asked for that it does not have, that is
an error.

Examples:
  driftq topic create orders --partitions 8
  driftq topic create payments --ordering key --retry-max-attempts 5 --retry-backoff 1s
  driftq topic create clicks --retention 7d --max-in-flight 1000 --lease 30s
  driftq topic create acme.orders --tenant acme")]
pub(crate) struct Args {
    /// Its name
    #[arg(value_parser = parse::name)]
    name: String,
    /// How many ordered lanes it has [default: 1]
    #[arg(short, long, value_name = "N")]
    partitions: Option<u32>,
    /// The tenant that it belongs to; keys of other tenants do not know of it [default: shared by all]
    #[arg(long, value_name = "TENANT", value_parser = parse::name)]
    tenant: Option<String>,
    #[command(flatten)]
    settings: SettingArgs,
}

/// What is printed. A plain create prints what it always has; a user who asks for settings wants to see them.
#[derive(Serialize)]
struct Created {
    status: &'static str,
    name: String,
    partitions: usize,
    #[serde(flatten)]
    more: Option<More>,
}

#[derive(Serialize)]
struct More {
    /// Whether it is new.
    created: bool,
    settings: TopicSettings,
}

impl Created {
    fn new(topic: Topic, created: bool, is_plain: bool) -> Self {
        let more = (!is_plain).then_some(More { created, settings: topic.settings });
        let status = if created { "created" } else { "exists" };
        Self { status, name: topic.name, partitions: topic.partitions.len(), more }
    }
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let spec = args.settings.spec(args.partitions.unwrap_or(PARTITIONS_DEFAULT));
    let spec = TopicSpec { tenant: args.tenant.clone(), ..spec };
    let mut session = common.client()?.session();
    let created = match create(&mut session, &args.name, &spec, args.partitions.is_some()).await {
        Ok(created) => created,
        Err(error) => {
            let fault = explained(&mut session, &args.name, &spec, error).await;
            return Err(Error::from(fault).context(format!("creating topic {}", args.name)));
        }
    };
    common.show(&created, |created| {
        let so = match (created.status, args.partitions) {
            ("created", _) => "is created, with",
            (_, Some(_)) => "exists already, as asked for, with",
            (_, None) => "exists already, with",
        };
        format!("topic {} {so} {} partition(s)\n", printable(&created.name), created.partitions)
    })
}

/// Creates it. One that is there is good enough, whatever its settings are, if it has what was asked for: scripts create
/// topics at every start.
async fn create(
    session: &mut Session,
    name: &str,
    spec: &TopicSpec,
    wants_partitions: bool,
) -> Result<Created, CallError> {
    let path = Path::topic(name);
    let is_plain = *spec == TopicSpec { partitions: spec.partitions, ..TopicSpec::default() };
    match session.send::<TopicPut>(Method::PUT, &path, spec).await {
        Ok(put) => Ok(Created::new(put.topic, put.created, is_plain)),
        Err(error) if is_plain && error.code() == "SETTINGS_DIFFER" => {
            let topic: Topic = session.get(&path).await?;
            let is_as_asked = spec.partitions.is_some_and(|count| topic.partitions.len() == count as usize);
            if wants_partitions && !is_as_asked {
                return Err(error);
            }
            Ok(Created::new(topic, false, is_plain))
        }
        Err(error) => Err(error),
    }
}

/// The error, with what is there and what was asked for if these differ.
async fn explained(session: &mut Session, name: &str, spec: &TopicSpec, error: CallError) -> Fault {
    let differs = if let CallError::Refused(refusal) = &error
        && refusal.word == "SETTINGS_DIFFER"
    {
        // The server names the first setting that differs, as its last word.
        refusal.detail.rsplit(' ').next().map(str::to_owned)
    } else {
        None
    };
    let mut fault = Fault::from(error);
    let Some(setting) = differs else { return fault };
    let Ok(topic) = session.get::<Topic>(Path::topic(name)).await else { return fault };
    let is_partitions = setting == "partitions";
    let there = if is_partitions {
        Some(topic.partitions.len().to_string())
    } else {
        settings::rows(&topic.settings).into_iter().find(|(name, _)| *name == setting).map(|(_, value)| value)
    };
    let asked = serde_json::to_value(spec).ok().and_then(|spec| spec.get(&setting).cloned());
    if let Some(there) = there {
        let asked = asked.map_or_else(
            || "the server's default".to_owned(),
            |asked| settings::change_words(&setting, &asked),
        );
        fault.message = fault.message.replacen(
            &format!("another {setting}"),
            &format!("{setting} {there}, not {asked}"),
            1,
        );
    }
    if is_partitions {
        fault = fault.help(
            "the number of partitions cannot be changed: choose another name, or ask for what is there",
        );
    }
    fault
}
