//! `driftq check`: one line and one number for a monitor.

use std::{ffi::OsString, time::Duration};

use anyhow::Result;
use tokio::time::timeout;

use super::{
    judge::{Judgement, Limits, State, judge},
    survey::{self, Survey},
    threshold::{self, Levels, Threshold},
};
use crate::{
    Common,
    exit::{Exit, Fault},
    output,
    parse::span,
};
use driftq_api::units::{count, duration};

/// The name of the command, which has exit codes of its own.
const NAME: &str = "check";

#[derive(clap::Args)]
#[command(
    after_help = "One line of text with performance data, and an exit code, as Nagios, Icinga, Sensu and their like expect:
    0  OK        nothing is more than its threshold
    1  WARNING   more than a warning threshold, or a router that fails while messages
                 go on without it
    2  CRITICAL  more than a critical threshold, no answer in time, or a server that
                 takes no messages
    3  UNKNOWN   the command line or the configuration is not understood, the answer is
                 not DriftQ's, or a threshold names what is not there

A threshold is a number that may be reached and not exceeded: `--dead-warn 0` warns at the first dead letter. Each \
group (each topic, for dead letters) is compared on its own. NAME= before the number is for one topic, or for one group \
as TOPIC/GROUP; the closest name counts, and each option can be given several times. Without thresholds only the \
server itself is judged. The oldest message of a group is the first that it has not acked.

Examples:
  driftq check --server http://10.0.0.5:8080
  driftq check --lag-warn 1000 --lag-crit 10000 --lag-crit orders/billing=500
  driftq check --dead-warn 0 --unknown-crit 0 --oldest-warn 5m --oldest-crit orders=1h
  driftq check --lag-warn 1000 -o json | jq .figures"
)]
pub(crate) struct Args {
    /// Messages that a group has not acked
    #[arg(long, value_name = "[NAME=]N", value_parser = counted)]
    lag_warn: Vec<Threshold>,
    /// The same, for CRITICAL
    #[arg(long, value_name = "[NAME=]N", value_parser = counted)]
    lag_crit: Vec<Threshold>,
    /// How long the oldest message of a group waits
    #[arg(long, value_name = "[NAME=]DURATION", value_parser = timed)]
    oldest_warn: Vec<Threshold>,
    /// The same, for CRITICAL
    #[arg(long, value_name = "[NAME=]DURATION", value_parser = timed)]
    oldest_crit: Vec<Threshold>,
    /// Dead letters of a topic
    #[arg(long, value_name = "[TOPIC=]N", value_parser = counted)]
    dead_warn: Vec<Threshold>,
    /// The same, for CRITICAL
    #[arg(long, value_name = "[TOPIC=]N", value_parser = counted)]
    dead_crit: Vec<Threshold>,
    /// Effects whose outcome is unknown
    #[arg(long, value_name = "N", value_parser = count)]
    unknown_warn: Option<u64>,
    /// The same, for CRITICAL
    #[arg(long, value_name = "N", value_parser = count)]
    unknown_crit: Option<u64>,
    /// How long to wait for all answers together
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = span)]
    timeout: u64,
}

fn counted(text: &str) -> Result<Threshold, String> {
    threshold::read(text, count)
}

fn timed(text: &str) -> Result<Threshold, String> {
    threshold::read(text, duration)
}

impl Args {
    fn limits(&self) -> Limits {
        let levels =
            |warn: &[Threshold], crit: &[Threshold]| Levels { warn: warn.to_vec(), crit: crit.to_vec() };
        let general =
            |most: Option<u64>| most.map(|most| Threshold { scope: None, most }).into_iter().collect();
        Limits {
            lag: levels(&self.lag_warn, &self.lag_crit),
            oldest: levels(&self.oldest_warn, &self.oldest_crit),
            dead: levels(&self.dead_warn, &self.dead_crit),
            unknown: Levels { warn: general(self.unknown_warn), crit: general(self.unknown_crit) },
        }
    }
}

pub(crate) async fn run(common: &Common, args: &Args) -> Result<Exit> {
    let limits = args.limits();
    let judgement = match look(common, args, &limits).await {
        Ok(survey) => judge(&survey, &limits),
        Err(error) => {
            let fault = error.chain().find_map(|cause| cause.downcast_ref::<Fault>());
            let state = match fault.map(|fault| fault.exit) {
                // Down is what a monitor is there to notice.
                Some(Exit::Unreachable | Exit::ServerFault | Exit::Overloaded) => State::Critical,
                _ => State::Unknown,
            };
            let help = fault
                .and_then(|fault| fault.help.as_deref())
                .map_or_else(String::new, |help| format!("; {help}"));
            Judgement::alone(state, format!("{error:#}{help}"))
        }
    };
    output::print_one(common.output, &judgement, || judgement.line())?;
    Ok(exit(judgement.state))
}

async fn look(common: &Common, args: &Args, limits: &Limits) -> Result<Survey> {
    let mut session = common.client()?.session();
    let looking = survey::take(&mut session, !limits.oldest.is_empty());
    let survey = timeout(Duration::from_millis(args.timeout), Box::pin(looking)).await.map_err(|_| {
        Fault::new(
            Exit::Unreachable,
            format!("the server did not answer everything within {} ms", args.timeout),
        )
        .help("raise --timeout if it is only slow")
    })?;
    survey.map_err(|error| error.into_error())
}

/// Monitors read numbers, and theirs mean something else than ours: the number is what counts here, not the name.
const fn exit(state: State) -> Exit {
    match state {
        State::Ok => Exit::Success,
        State::Warning => Exit::Failure,
        State::Critical => Exit::Usage,
        State::Unknown => Exit::Unreachable,
    }
}

/// Whether a command line that clap does not understand was meant for this command: its first word is our name.
pub fn is_meant(arguments: &[OsString]) -> bool {
    let mut words = arguments.iter().skip(1).filter_map(|word| word.to_str());
    while let Some(word) = words.next() {
        match word {
            "--server" | "--context" | "--output" | "-o" => drop(words.next()),
            _ if word.starts_with('-') => {}
            _ => return word == NAME,
        }
    }
    false
}

/// What a monitor is told about a command line that was not understood: clap's code, 2, would be CRITICAL.
pub fn refuse(error: &clap::Error) -> Exit {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let line = Judgement::alone(State::Unknown, first.trim_start_matches("error: ").to_owned()).line();
    // A monitor that does not read stdout sees the code.
    drop(output::write(&line));
    eprint!("{}", error.render());
    exit(State::Unknown)
}
