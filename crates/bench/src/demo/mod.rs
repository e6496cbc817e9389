//! `driftq demo`: workers that are killed in the worst moments, and the consequences.
//!
//! Everything is real: a server on disk, worker processes, SIGKILL. Two crews work on the same orders. One charges and
//! acks; the other asks the ledger first. The payment provider is this process, which neither of them can reach except
//! by a call, and which does what real ones do: it charges for every call, as often as workers call.
//!
//! `webhook` is another story: a server that is killed while it sends webhooks.

mod crew;
mod plan;
mod provider;
mod report;
mod screen;
mod server;
mod show;
#[cfg(feature = "connect")]
mod webhook;
mod worker;

use std::{
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};
use driftq_client::{Client, Outgoing, json, wire::TopicSpec};

use crew::Stage;
use driftq_cli::{
    Common, block_on,
    colour::Paint,
    exit::{Exit, Fault},
    output::{self, Format},
    signal::Signals,
    temporary_directory::TemporaryDirectory,
    work::fault,
    wrap,
};
use plan::{KILLS_PER_ORDER_MAX, Plan};
use provider::{Order, Provider};
use report::Report;
use show::Show;

pub use server::{COMMAND as SERVER_COMMAND, die_with};
pub use worker::{Args as WorkerArgs, COMMAND as WORKER_COMMAND, run as run_worker};

/// More orders or kills than these are a load test, not a demonstration.
const MESSAGES_MAX: u32 = 10_000;
const KILLS_MAX: u32 = 1_000;
const KILLS_DEFAULT: u32 = 20;
/// Each takes the server with it, and a second.
const KILLS_OF_WEBHOOKS_DEFAULT: u32 = 5;
const MESSAGES_DEFAULT: u32 = 30;
const WORKERS_DEFAULT: u16 = 3;
/// A run that takes longer hangs.
const RUN_TIMEOUT: Duration = Duration::from_secs(300);
/// Between two looks at the groups, once everything was worked on.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

#[derive(clap::Args)]
#[command(
    after_help = "A server on a directory of its own, real worker processes, real SIGKILL: before the charge, right after \
it, or before the ack, as the seed says. Two crews work on copies of the same orders. The naive one charges and acks. \
The other one runs the charge as an effect: `hold`, and a reconciler that asks the provider by the order's name. The \
payment provider is outside of both and counts. At the end nothing is left behind, unless you --keep it.

With --scenario webhook it is the server that is killed, while it sends webhooks to a receiver that refuses some and \
breaks off others. The receiver checks signatures and counts by webhook-id; every repeat must be on the server's record \
as one that may be.

The exit code is 0 only if all kills took place and DriftQ charged every order exactly once, or lost no webhook and told \
of every repeat; else 1.

Examples:
  driftq demo
  driftq demo --kills 100 --messages 60
  driftq demo --seed 7 -o json | jq .driftq
  driftq demo --keep                       # and look at the log afterwards
  driftq demo --scenario webhook --kills 10"
)]
pub struct Args {
    /// Which story is told
    #[arg(long, value_enum, default_value = "charges")]
    scenario: Scenario,
    /// How many worker processes of each crew are killed, 20 if not given; of webhook, how often the server is, 5 if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(KILLS_MAX)))]
    kills: Option<u32>,
    /// How many orders or webhooks there are
    #[arg(long, default_value_t = MESSAGES_DEFAULT, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MESSAGES_MAX)))]
    messages: u32,
    /// Worker processes of each crew at a time; of webhook, sends at a time
    #[arg(long, default_value_t = WORKERS_DEFAULT, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=32))]
    workers: u16,
    /// Which orders are hit, and where: the same seed, the same choice; another one every time if not given
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Keep the server's directory, and the books of the provider or receiver
    #[arg(long)]
    keep: bool,
}

/// Which story is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Scenario {
    /// Workers that charge cards are killed, with DriftQ and without
    Charges,
    /// A server that sends webhooks is killed
    Webhook,
}

impl Args {
    fn kills(&self) -> u32 {
        self.kills.unwrap_or_else(|| self.kills_default())
    }

    const fn kills_default(&self) -> u32 {
        match self.scenario {
            Scenario::Charges => KILLS_DEFAULT,
            Scenario::Webhook => KILLS_OF_WEBHOOKS_DEFAULT,
        }
    }

    /// Kills of one order or webhook.
    const fn kills_per_message_max(&self) -> u32 {
        match self.scenario {
            Scenario::Charges => KILLS_PER_ORDER_MAX,
            Scenario::Webhook => 1,
        }
    }

    /// The command that does the same again: all that decides what happens, and nothing that is so anyway.
    fn again(&self, seed: u64) -> String {
        let mut command = "driftq demo".to_owned();
        if self.scenario == Scenario::Webhook {
            command.push_str(" --scenario webhook");
        }
        command.push_str(&format!(" --seed {seed}"));
        for (flag, value, default) in [
            ("kills", self.kills(), self.kills_default()),
            ("messages", self.messages, MESSAGES_DEFAULT),
            ("workers", self.workers.into(), WORKERS_DEFAULT.into()),
        ] {
            if value != default {
                command.push_str(&format!(" --{flag} {value}"));
            }
        }
        command
    }

    #[cfg(all(test, feature = "connect"))]
    const fn of_webhooks(messages: u32, kills: u32) -> Self {
        let (scenario, workers) = (Scenario::Webhook, WORKERS_DEFAULT);
        Self { scenario, kills: Some(kills), messages, workers, seed: None, keep: false }
    }
}

pub fn run(common: &Common, args: &Args) -> Result<Exit> {
    block_on(run_all(common, args))
}

async fn run_all(common: &Common, args: &Args) -> Result<Exit> {
    let most = args.kills_per_message_max();
    if args.kills() > args.messages * most {
        let text =
            format!("--kills {}: each of the --messages is hit {most} times at the most", args.kills());
        return Err(Fault::new(Exit::Usage, text).help("give more --messages").into());
    }
    let mut signals = Signals::new()?;
    let directory = TemporaryDirectory::new("driftq-demo-").context("a directory")?;
    let place = directory.path().to_owned();
    let outcome = {
        let playing = async {
            match args.scenario {
                Scenario::Charges => play(common, args, place.clone()).await,
                #[cfg(feature = "connect")]
                Scenario::Webhook => webhook::play(common, args, place.clone()).await,
                #[cfg(not(feature = "connect"))]
                Scenario::Webhook => Err(driftq_cli::absent::refusal("demo --scenario webhook").into()),
            }
        };
        tokio::select! {
            outcome = playing => outcome,
            // Whatever was started ends with the future that is dropped here.
            signal = signals.next() => Err(Fault::new(Exit::Failure, format!("ended by {}", signal.name())).into()),
        }
    };
    if args.keep {
        let kept = directory.keep().context("keeping the demo's directory")?;
        eprintln!("kept: {}", kept.display());
        eprintln!("  driftq serve --data {}/data     # the server's data", kept.display());
    } else {
        directory.close().context("removing the demo's directory")?;
    }
    outcome
}

async fn play(common: &Common, args: &Args, place: PathBuf) -> Result<Exit> {
    let is_for_programs = matches!(common.output, Some(Format::Json | Format::Ndjson));
    let seed = args.seed.unwrap_or_else(fresh_seed);
    let plan = Plan::new(seed, args.messages, args.kills());
    let begun = Instant::now();
    let server = server::Server::start(&place).await?;
    let client = Client::new(&server.url()).map_err(fault)?;
    for crew in provider::CREWS {
        fill(&client, crew.topic(), args.messages).await?;
    }
    let show = Show::new(is_for_programs, args, seed);
    let provider = Provider::new(&plan, place.join("charges.ndjson"))?;
    let stage = Arc::new(Stage::new(provider, show, server.url(), place));
    let finished = tokio::time::timeout(RUN_TIMEOUT, stage.run(args.workers, || all_settled(&client))).await;
    let Ok(finished) = finished else { bail!("the demo did not end within {} s", RUN_TIMEOUT.as_secs()) };
    finished?;
    server.end().await?;
    let report = Report::new(&stage.books(), args, seed, begun.elapsed());
    stage.show().done();
    let paint = Paint::of(&io::stdout());
    output::print_one(common.output, &report, || report.text(paint, wrap::width_of_stdout()))?;
    Ok(if report.passed { Exit::Success } else { Exit::Failure })
}

/// The topic of a crew, with all orders.
async fn fill(client: &Client, topic: &str, messages: u32) -> Result<()> {
    client.create_topic(topic, &TopicSpec::default()).await.map_err(fault)?;
    let orders: Vec<Outgoing> = (0..messages).map(|number| json(&Order::new(number))).collect();
    for stored in client.produce_all(topic, orders).await.map_err(fault)? {
        stored.map_err(fault)?;
    }
    Ok(())
}

/// Waits until neither group has anything left.
async fn all_settled(client: &Client) -> Result<()> {
    for crew in provider::CREWS {
        while client.group(crew.topic(), worker::GROUP).await.map_err(fault)?.lag > 0 {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
    Ok(())
}

fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Short, so that one user can tell it to another.
    now.as_millis() as u64 % 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_says_all_that_decides() {
        let args = |scenario, kills, messages, workers| Args {
            scenario,
            kills,
            messages,
            workers,
            seed: None,
            keep: true,
        };
        let usual = args(Scenario::Charges, None, MESSAGES_DEFAULT, WORKERS_DEFAULT);
        assert_eq!(usual.again(7), "driftq demo --seed 7");
        let given = args(Scenario::Charges, Some(6), 8, 2);
        assert_eq!(given.again(7), "driftq demo --seed 7 --kills 6 --messages 8 --workers 2");
        let webhook = args(Scenario::Webhook, Some(KILLS_DEFAULT), 30, WORKERS_DEFAULT);
        assert_eq!(webhook.again(7), "driftq demo --scenario webhook --seed 7 --kills 20");
    }
}
