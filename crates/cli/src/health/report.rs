//! `driftq report`: how the server does, and what to do about it.

use anyhow::Result;
use driftq_api::v2::{Report, Urgency};
use serde::Serialize;

use crate::{
    Common,
    colour::{self, Tone},
    context,
    exit::Exit,
    grouped, output, printable,
};

#[derive(clap::Args)]
#[command(
    after_help = "Asks the server what it finds in everything that can go wrong, as the dashboard does, and says of each \
finding what it is, why it is so, and which \
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

/// What the server found, and which server that is.
#[derive(Serialize)]
struct Told {
    server: String,
    #[serde(flatten)]
    report: Report<'static>,
}

pub(crate) async fn run(common: &Common, _args: &Args) -> Result<Exit> {
    let chosen = context::choose(common)?;
    let mut report: Report<'static> = common.caller()?.get("/v2/report").await?;
    // What is pasted goes to the same server.
    for next in report.findings.iter_mut().filter_map(|finding| finding.next.as_mut()) {
        if next.starts_with("driftq ") && !next.starts_with("driftq serve") {
            next.to_mut().push_str(&chosen.repeat());
        }
    }
    let told = Told { server: chosen.server, report };
    output::print_one(common.output, &told, || text(&told.report))?;
    Ok(if told.report.act > 0 { Exit::Failure } else { Exit::Success })
}

fn text(report: &Report<'_>) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        text.push_str(&format!("{} {}\n", painted(finding.verdict), printable(&finding.what)));
        if !finding.cause.is_empty() {
            text.push_str(&format!("      {}\n", printable(&finding.cause)));
        }
        if let Some(next) = &finding.next {
            text.push_str(&format!(
                "      {}\n",
                colour::on_stdout(Tone::Heading, &format!("$ {}", printable(next)))
            ));
        }
    }
    let things = |count: u64| if count == 1 { "1 thing".to_owned() } else { format!("{count} things") };
    let verdict = match (report.act, report.look) {
        (0, 0) => "nothing to do".to_owned(),
        (0, look) => format!("nothing needs action; look at {}", things(look)),
        (act, 0) => format!("do something about {}", things(act)),
        (act, look) => format!("do something about {}, and look at {}", things(act), things(look)),
    };
    if report.left_out > 0 {
        text.push_str(&format!("      {} more are left out\n", grouped(report.left_out)));
    }
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
