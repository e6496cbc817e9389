//! `driftq wal inspect`: what lies in the data directory.

use anyhow::Result;
use driftq_api::units::about_bytes;
use driftq_engine::tools::{self, Inspection, Line, Outlook};
use indicatif::ProgressBar;
use serde::Serialize;

use super::{Directory, explain};
use crate::{Columns, Common, Exit, Fault, Format, grouped, output, printable, progress, table};

#[derive(clap::Args)]
#[command(after_help = "Without options: one line per file, and whether a server would start on it. A log \
that a server is using can be looked at, too; what is found may then be changing.

Looks at one log. If the server has several shards, that of shard n lies in DIR/shard-n: name that directory with --data.

Ends with code 7 if the log is damaged; a torn tail, as a crash leaves it, is no damage.

Examples:
  driftq wal inspect --data /var/lib/driftq
  driftq wal inspect --data /var/lib/driftq/shard-1 # the log of another shard
  driftq wal inspect --segment 12                   # every batch of one segment
  driftq wal inspect --segment 12 --facts -o ndjson # and what it says")]
pub(crate) struct Args {
    #[command(flatten)]
    directory: Directory,
    /// Only this segment, with all its batches
    #[arg(long, value_name = "N")]
    segment: Option<u32>,
    /// What every batch says, in words
    #[arg(long)]
    facts: bool,
}

/// A line as programs read it.
#[derive(Serialize)]
struct Row {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    bytes: u64,
    text: String,
}

#[derive(Serialize)]
struct Report<'a> {
    outlook: &'static str,
    text: &'a str,
    in_use: bool,
    found: &'a [Row],
}

/// Chooses what to keep of what is found, and sums up the batches that are not shown one by one.
struct Sieve {
    segment: Option<u32>,
    /// Whether batches are shown one by one.
    detailed: bool,
    /// The segment that the walk is in.
    current: Option<u32>,
    batches: u64,
    batch_bytes: u64,
}

impl Sieve {
    /// What to show for this line; a summary may come before it.
    fn pass(&mut self, line: Line) -> (Option<Row>, Option<Row>) {
        let summary = if line.file.is_some() { self.finish() } else { None };
        match (line.kind, &line.file) {
            ("segment", _) => {
                self.current = line.text.rsplit(' ').next().and_then(|number| number.parse().ok())
            }
            (_, Some(_)) => self.current = None,
            _ => {}
        }
        if self.segment.is_some() && self.current != self.segment {
            return (summary, None);
        }
        if line.kind == "batch" && !self.detailed {
            self.batches += 1;
            self.batch_bytes += line.bytes;
            return (summary, None);
        }
        let Line { kind, file, at, bytes, text } = line;
        (summary, Some(Row { kind, file, at, bytes, text }))
    }

    /// The sum of the batches since the last file.
    fn finish(&mut self) -> Option<Row> {
        let (batches, bytes) = (std::mem::take(&mut self.batches), std::mem::take(&mut self.batch_bytes));
        let text = format!("{} batches", grouped(batches));
        (batches > 0).then_some(Row { kind: "batches", file: None, at: None, bytes, text })
    }
}

pub(super) fn run(common: &Common, args: &Args) -> Result<()> {
    let detailed = args.facts || args.segment.is_some();
    let mut sieve = Sieve { segment: args.segment, detailed, current: None, batches: 0, batch_bytes: 0 };
    let mut rows = Vec::new();
    let mut shown = 0_u64;
    let mut failure = None;
    let lines_now = common.output == Some(Format::Ndjson);
    let mut show = |row: Row| {
        shown += 1;
        // A log of many gigabytes has more lines than memory should hold: they leave at once where the shape allows.
        if !lines_now {
            rows.push(row);
        } else if failure.is_none() {
            failure = output::print_many(common.output, &[row], String::new).err();
        }
    };
    // Lines that leave at once are a sign of life themselves.
    let spinner = if lines_now { ProgressBar::hidden() } else { progress::spinner("reading the log") };
    let outcome = tools::inspect(&args.directory.data, args.facts, &mut |line| {
        if let Some(file) = &line.file {
            spinner.set_message(format!("reading {}", printable(file)));
        }
        let (summary, row) = sieve.pass(line);
        summary.into_iter().chain(row).for_each(&mut show);
    });
    spinner.finish_and_clear();
    sieve.finish().into_iter().for_each(&mut show);
    let inspection = outcome.map_err(|error| explain(&error))?;
    failure.map_or(Ok(()), Err)?;
    if let Some(number) = args.segment.filter(|_| shown == 0) {
        let fault = Fault::new(Exit::Invalid, format!("there is no segment {number}"));
        return Err(fault.help("`driftq wal inspect` without --segment lists them").into());
    }
    let report = Report {
        outlook: word(inspection.outlook),
        text: &inspection.text,
        in_use: inspection.in_use,
        found: &rows,
    };
    if !lines_now {
        common.show(&report, |report| {
            format!("{}\n{}: {}\n", table(ROWS, report.found), report.outlook, report.text)
        })?;
    }
    judge(&inspection, args)
}

const ROWS: Columns<Row> = &[
    ("KIND", |row, _| row.kind.to_owned()),
    ("WHERE", |row, _| row.file.as_ref().or(row.at.as_ref()).cloned().unwrap_or_default()),
    ("BYTES", |row, _| about_bytes(row.bytes)),
    ("WHAT", |row, _| printable(&row.text)),
];

const fn word(outlook: Outlook) -> &'static str {
    match outlook {
        Outlook::Empty => "empty",
        Outlook::Sound => "sound",
        Outlook::TornTail => "torn tail",
        Outlook::Damaged => "damaged",
        Outlook::Newer => "newer",
    }
}

fn judge(inspection: &Inspection, args: &Args) -> Result<()> {
    if inspection.in_use {
        eprintln!("note: a server is using this directory; what was found may be changing");
    }
    match inspection.outlook {
        Outlook::Empty | Outlook::Sound | Outlook::TornTail => Ok(()),
        Outlook::Damaged => {
            let data = args.directory.data.display();
            let fault = Fault::new(Exit::Damaged, inspection.text.clone());
            Err(fault
                .help(format!("see what a repair would cut: `driftq wal repair --data {data} --dry-run`"))
                .into())
        }
        Outlook::Newer => Err(Fault::new(Exit::Failure, inspection.text.clone()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: &'static str, file: Option<&str>, bytes: u64, text: &str) -> Line {
        Line { kind, file: file.map(str::to_owned), at: None, bytes, text: text.to_owned() }
    }

    fn sift(segment: Option<u32>, detailed: bool) -> Vec<(&'static str, u64, String)> {
        let mut sieve = Sieve { segment, detailed, current: None, batches: 0, batch_bytes: 0 };
        let mut rows = Vec::new();
        for line in [
            line("snapshot", Some("s"), 9, "snapshot of everything below 1:64"),
            line("segment", Some("a"), 100, "segment 1"),
            line("batch", None, 10, "batch"),
            line("batch", None, 20, "batch"),
            line("end", None, 0, "end"),
            line("segment", Some("b"), 100, "segment 2"),
            line("batch", None, 5, "batch"),
            line("other", Some("c"), 1, "spare"),
        ] {
            let (summary, row) = sieve.pass(line);
            rows.extend(summary.into_iter().chain(row));
        }
        rows.extend(sieve.finish());
        rows.into_iter().map(|row| (row.kind, row.bytes, row.text)).collect()
    }

    #[test]
    fn batches_are_summed_up_per_segment() {
        let kinds: Vec<_> = sift(None, false).into_iter().map(|(kind, bytes, _)| (kind, bytes)).collect();
        let expected = [
            ("snapshot", 9),
            ("segment", 100),
            ("end", 0),
            ("batches", 30),
            ("segment", 100),
            ("batches", 5),
            ("other", 1),
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn one_segment_is_shown_alone_and_whole() {
        let kinds: Vec<_> = sift(Some(1), true).into_iter().map(|(kind, bytes, _)| (kind, bytes)).collect();
        assert_eq!(kinds, [("segment", 100), ("batch", 10), ("batch", 20), ("end", 0)]);
    }
}
