//! `driftq audit`: who did what to what, when, from where.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Result;
use driftq_api::Moment;
use driftq_api::v2::{Audit, AuditEntry, LIMIT_MAX, OFFSET_MAX};

use crate::output::{cells, write};
use crate::rows::{Amount, JsonList, Rows};
use crate::{Columns, Common, Format, Now, Path, Signals, parse, printable};

/// How long one call of a follower waits.
const WAIT_MS: u64 = 30_000;

#[derive(clap::Args)]
#[command(after_help = "There is an entry for every call that manages something, and for calls that were \
refused for want of a key or of what it allows. The newest entries are shown; --all shows everything that is kept. \
A condition that ends with a star holds for all that begin with what is before it.

Examples:
  driftq audit
  driftq audit --action delete_topic --since 2027-01-01T00:00:00Z
  driftq audit --actor key:5f0c2a91b3d4e687 --target 'topics/orders*' --all
  driftq audit --outcome refused --follow -o ndjson | jq -r '[.at, .from, .detail] | @tsv'")]
pub(crate) struct Args {
    /// Wait for new entries and print them as they come
    #[arg(long, short)]
    follow: bool,
    /// Only of this actor: root, key:<id>, anybody, unknown
    #[arg(long, value_name = "ACTOR")]
    actor: Option<String>,
    /// Only this call, such as delete_topic
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,
    /// Only about this, such as topics/orders
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// Only with this outcome: done, refused, or the code of a refusal
    #[arg(long, value_name = "OUTCOME")]
    outcome: Option<String>,
    /// Only from then on
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    since: Option<Moment>,
    /// Only before then
    #[arg(long, value_name = "TIME", value_parser = parse::moment, conflicts_with = "follow")]
    until: Option<Moment>,
    #[command(flatten)]
    amount: Amount,
}

impl Args {
    /// Whether not every entry is wanted.
    const fn is_choosy(&self) -> bool {
        self.actor.is_some()
            || self.action.is_some()
            || self.target.is_some()
            || self.outcome.is_some()
            || self.since.is_some()
            || self.until.is_some()
    }

    fn path(&self, after: u64) -> Path {
        let moment = |moment: Option<Moment>| moment.map(|moment| moment.to_string());
        Path::of("/v2/audit")
            .with_number("after", Some(after))
            .with_number("limit", Some(LIMIT_MAX as u64))
            .with_some("actor", self.actor.as_deref())
            .with_some("action", self.action.as_deref())
            .with_some("target", self.target.as_deref())
            .with_some("outcome", self.outcome.as_deref())
            .with_some("since", moment(self.since).as_deref())
            .with_some("until", moment(self.until).as_deref())
    }
}

const COLUMNS: Columns<AuditEntry<'static>> = &[
    ("NUMBER", |entry, _| entry.sequence.to_string()),
    ("AT", |entry, now| now.show(entry.at)),
    ("ACTOR", |entry, _| actor(entry)),
    ("ACTION", |entry, _| printable(&entry.action)),
    ("TARGET", |entry, _| printable(&entry.target)),
    ("OUTCOME", |entry, _| printable(&entry.outcome)),
    ("FROM", |entry, _| printable(&entry.from)),
    ("DETAIL", |entry, _| detail(entry)),
];

fn actor(entry: &AuditEntry<'_>) -> String {
    if entry.note.is_empty() {
        return printable(&entry.actor);
    }
    format!("{} ({})", printable(&entry.actor), printable(&entry.note))
}

fn detail(entry: &AuditEntry<'_>) -> String {
    let detail = printable(&entry.detail);
    match entry.suppressed {
        0 => detail,
        count => format!("{detail} [{count} more refusals before]").trim_start().to_owned(),
    }
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let (entries, seen) = newest(common, args).await?;
    if args.follow {
        return follow(common, args, &entries, seen).await;
    }
    let mut rows = Rows::new(common.output.unwrap_or(Format::Table), COLUMNS);
    for entry in &entries {
        rows.row(entry, entry)?;
    }
    rows.end("the audit has no such entry")
}

/// The newest entries that are wanted, and up to which number all were looked at.
async fn newest(common: &Common, args: &Args) -> Result<(Vec<AuditEntry<'static>>, u64)> {
    let mut caller = common.caller()?;
    let wanted = usize::try_from(args.amount.wanted()).unwrap_or(usize::MAX);
    let (mut newest, mut seen) = (VecDeque::new(), 0);
    if !args.is_choosy() {
        // Without a condition, it is known where the newest begin: so many before the end.
        let end: Audit<'static> = caller.get(args.path(OFFSET_MAX)).await?;
        seen = end.seen.saturating_sub(args.amount.wanted());
    }
    loop {
        let page: Audit<'static> = caller.get(args.path(seen)).await?;
        for entry in page.entries {
            if newest.len() == wanted {
                newest.pop_front();
            }
            newest.push_back(entry);
        }
        seen = page.seen;
        if !page.more {
            return Ok((newest.into(), seen));
        }
    }
}

/// Prints what is there, and then what comes, until it is stopped.
async fn follow(common: &Common, args: &Args, entries: &[AuditEntry<'static>], mut seen: u64) -> Result<()> {
    let mut printer = Printer::new(Format::for_stream(common.output));
    for entry in entries {
        printer.print(entry)?;
    }
    let (mut caller, mut signals) = (common.caller()?, Signals::new()?);
    caller.session = caller.session.waiting(Duration::from_millis(WAIT_MS));
    loop {
        let path = args.path(seen).with_number("wait_ms", Some(WAIT_MS));
        let page: Audit<'static> = tokio::select! {
            page = caller.get(path) => page?,
            _ = signals.next() => return printer.end(),
        };
        for entry in &page.entries {
            printer.print(entry)?;
        }
        seen = page.seen;
    }
}

/// Prints entries one by one: a line each, or as JSON.
struct Printer {
    json: JsonList,
}

impl Printer {
    const fn new(format: Format) -> Self {
        Self { json: JsonList::new(format) }
    }

    fn print(&mut self, entry: &AuditEntry<'static>) -> Result<()> {
        if self.json.format == Format::Table {
            let cells = cells(COLUMNS, entry, Now::read()).filter(|cell| !cell.is_empty());
            write(&(cells.collect::<Vec<_>>().join("  ") + "\n"))?;
        }
        self.json.print(entry)
    }

    fn end(&self) -> Result<()> {
        self.json.end()
    }
}
