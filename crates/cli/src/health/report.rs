//! `driftq report`: how the server does, and what to do about it.

use anyhow::Result;
use serde::Serialize;

use super::{
    rules::{Finding, Urgency, findings},
    survey::{self, Depth},
};
use crate::{
    Common,
    colour::{self, Tone},
    context,
    exit::Exit,
    output, progress,
    when::Now,
};

#[derive(clap::Args)]
#[command(
    after_help = "Asks the server for everything that can go wrong, and says of each finding what it is, why it is so, and which \
command to go on with:
    act   an operator must do something: dead letters, effects whose outcome is unknown,
          a group that no worker has read for in a minute, a message that waits for an
          hour, a partition that is 95 % full, a disk without room
    look  an operator should look: something is paused, a message waits for 5 minutes or
          has failed 5 times, a partition is 80 % full, a topic has no readers, nothing
          is on disk
    ok    it is as it should be

Ends with code 0 if nothing needs action, with 1 if something does, and as every command if the server cannot be asked. \
`driftq check` is for monitors, which have numbers of their own.

Examples:
  driftq report
  driftq report -o json | jq -r '.findings[] | select(.verdict == \"act\") | .next'
  driftq report --context production > report.txt || mail -s 'DriftQ' ops@example.org < report.txt"
)]
pub(crate) struct Args {}

/// Everything that was found.
#[derive(Serialize)]
struct Report {
    server: String,
    verdict: Urgency,
    act: usize,
    look: usize,
    findings: Vec<Finding>,
}

impl Report {
    fn new(server: String, findings: Vec<Finding>) -> Self {
        let count = |urgency| findings.iter().filter(|finding| finding.urgency == urgency).count();
        let (act, look) = (count(Urgency::Act), count(Urgency::Look));
        let verdict = findings.iter().map(|finding| finding.urgency).max().unwrap_or(Urgency::Ok);
        Self { server, verdict, act, look, findings }
    }
}

pub(crate) async fn run(common: &Common, _args: &Args) -> Result<Exit> {
    let chosen = context::choose(common)?;
    let mut session = common.client()?.session();
    let bar = progress::bar("{spinner} {bar:30} {pos}/{len} topics ({elapsed})");
    let survey = survey::take(&mut session, Depth { fronts: true, topics: true }, &bar).await;
    bar.finish_and_clear();
    let survey = survey.map_err(|error| error.into_error())?;
    let mut found = findings(&survey, Now::read());
    // What is pasted goes to the same server.
    for next in found.iter_mut().filter_map(|finding| finding.next.as_mut()) {
        if next.starts_with("driftq ") && !next.starts_with("driftq serve") {
            next.push_str(&chosen.repeat());
        }
    }
    let report = Report::new(chosen.server, found);
    output::print_one(common.output, &report, || text(&report))?;
    Ok(if report.act > 0 { Exit::Failure } else { Exit::Success })
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        text.push_str(&format!("{} {}\n", painted(finding.urgency), finding.what));
        if !finding.cause.is_empty() {
            text.push_str(&format!("      {}\n", finding.cause));
        }
        if let Some(next) = &finding.next {
            text.push_str(&format!("      {}\n", colour::on_stdout(Tone::Heading, &format!("$ {next}"))));
        }
    }
    let things = |count: usize| if count == 1 { "1 thing".to_owned() } else { format!("{count} things") };
    let verdict = match (report.act, report.look) {
        (0, 0) => "nothing to do".to_owned(),
        (0, look) => format!("nothing needs action; look at {}", things(look)),
        (act, 0) => format!("do something about {}", things(act)),
        (act, look) => format!("do something about {}, and look at {}", things(act), things(look)),
    };
    text + &format!("\n{} {verdict}\n", painted(report.verdict))
}

fn painted(verdict: Urgency) -> String {
    let tone = match verdict {
        Urgency::Ok => Tone::Good,
        Urgency::Look => Tone::Caution,
        Urgency::Act => Tone::Bad,
    };
    colour::on_stdout(tone, &format!("{:<5}", verdict.name()))
}
