//! `driftq dlq …`: dead letters.

use anyhow::{Context, Result};
use driftq_api::Moment;
use driftq_api::v2::{
    Cause, Causes, DeadLetter, DeadTopic, DeadTopics, Item, LetterFilter, LetterPlace, Letters, Purge,
    Redrive, Selection, Topic,
};

use crate::message::{ATTEMPTS, facts, tables};
use crate::parse::{self, owned};
use crate::{
    Amount, Columns, Common, Exit, Fault, Format, Now, Pages, Path, Rows, Subject, aligned,
    args::MessageAddress, confirm, grouped, job, or_dash, printable, section,
};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List topics that have dead letters, or the dead letters of a topic
    #[command(after_help = "PARTITION and OFFSET name the letter in `dlq get`, `dlq redrive --letter` and \
`dlq purge --letter`.

Examples:
  driftq dlq list                       # topics that have dead letters
  driftq dlq list orders --limit 20
  driftq dlq list orders --group billing --after 2030-01-31T12:00:00Z
  driftq dlq list orders --all -o ndjson | jq -r .key")]
    List {
        /// The topic that the letters come from; without it, all topics that have some are listed
        topic: Option<String>,
        #[command(flatten)]
        amount: Amount,
        #[command(flatten)]
        conditions: Conditions,
    },
    /// Count the dead letters of a topic by what killed them
    #[command(
        after_help = "A cause is the last error without the numbers and names in it. `dlq list`, `dlq \
redrive` and `dlq purge` take it as --cause.

Examples:
  driftq dlq causes orders
  driftq dlq redrive orders --cause 'no such customer' --dry-run"
    )]
    Causes {
        /// The topic that the letters come from
        topic: String,
        #[command(flatten)]
        conditions: Conditions,
    },
    /// Show one dead letter and the history of its attempts
    #[command(after_help = "PARTITION and OFFSET are those of `driftq dlq list`.

Examples:
  driftq dlq get orders 0 12
  driftq dlq get orders 0 12 -o json | jq .envelope.dead_letter.history")]
    Get(MessageAddress),
    /// Send dead letters back to where they came from
    Redrive(RedriveArgs),
    /// Throw dead letters away
    Purge(PurgeArgs),
}

#[derive(clap::Args)]
#[command(after_help = "The server does the work as a job. This command waits for it and shows how far it \
is; Ctrl-C ends only the waiting. A letter that goes back keeps its identity and starts with no attempts used up.

Examples:
  driftq dlq redrive orders --all --dry-run             # how many there are
  driftq dlq redrive orders --all --rate 100            # a hundred per second
  driftq dlq redrive orders --letter 0:12 --letter 0:15
  driftq dlq redrive orders --group billing --before 2030-01-31T12:00:00Z --no-wait
  driftq dlq redrive orders --label team=risk --target orders-repaired")]
pub(crate) struct RedriveArgs {
    /// The topic that the letters come from
    topic: String,
    #[command(flatten)]
    selection: SelectionArgs,
    /// At most this many per second
    #[arg(long, value_name = "N")]
    rate: Option<u32>,
    /// Only count them
    #[arg(long)]
    dry_run: bool,
    /// Send them to this topic instead
    #[arg(long, value_name = "TOPIC")]
    target: Option<String>,
    #[command(flatten)]
    waiting: job::Waiting,
}

#[derive(clap::Args)]
#[command(after_help = "What is purged is gone. The server does the work as a job, and this command waits \
for it.

Examples:
  driftq dlq purge orders --all --dry-run                            # how many there are
  driftq dlq purge orders --before 2030-01-31T12:00:00Z              # asks for the name
  driftq dlq purge orders --letter 0:12 --yes                        # for scripts")]
pub(crate) struct PurgeArgs {
    /// The topic that the letters come from
    topic: String,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Only count them
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    waiting: job::Waiting,
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::List { topic: Some(topic), amount, conditions } => {
            let first = with_filter(letters_of(topic), &conditions.filter()?);
            letters(common, topic, first, amount).await
        }
        Command::List { topic: None, conditions, .. } => topics(common, &conditions.filter()?).await,
        Command::Get(letter) => {
            let mut caller = common.about(Subject::Letters(&letter.topic))?;
            common.show(&caller.get(letter.within(letters_of(&letter.topic))).await?, text)
        }
        Command::Causes { topic, conditions } => causes(common, topic, &conditions.filter()?).await,
        Command::Redrive(args) => redrive(common, args).await,
        Command::Purge(args) => purge(common, args).await,
    }
}

/// `/v2/dlq/{topic}`.
fn letters_of(topic: &str) -> Path {
    Path::of("/v2/dlq").part(topic)
}

const TOPICS: Columns<DeadTopic> = &[
    ("TOPIC", |topic, _| printable(&topic.name)),
    ("LETTERS", |topic, _| grouped(topic.letters)),
    ("OLDEST DIED", |topic, now| or_dash(topic.oldest_at.map(|at| now.show(at)))),
];

async fn topics(common: &Common, filter: &LetterFilter<'_>) -> Result<()> {
    if *filter != LetterFilter::default() {
        let fault = Fault::new(Exit::Usage, "conditions need a topic");
        return Err(fault.help("for example `driftq dlq list orders --group billing`").into());
    }
    let part = |page: DeadTopics| (page.topics, page.cursor);
    let topics = common.caller()?.collect(Path::of("/v2/dlq"), part).await?;
    common.show_all(&topics, TOPICS, "no topic has dead letters")
}

const CAUSES: Columns<Cause<'static>> = &[
    ("LETTERS", |cause, _| grouped(cause.letters)),
    ("FIRST DIED", |cause, now| now.tell(cause.first_at)),
    ("LAST DIED", |cause, now| now.tell(cause.last_at)),
    ("CAUSE", |cause, _| printable(&cause.cause)),
];

async fn causes(common: &Common, topic: &str, filter: &LetterFilter<'_>) -> Result<()> {
    let path = with_filter(letters_of(topic).word("causes"), filter);
    let causes: Causes<'static> = common.about(Subject::Letters(topic))?.get(path).await?;
    common.show_all(&causes.causes, CAUSES, "no dead letter fits")?;
    if causes.more {
        let scanned = grouped(causes.scanned);
        eprintln!(
            "note: there are more letters or causes than are counted here; {scanned} letters were looked at"
        );
    }
    Ok(())
}

async fn letters(common: &Common, topic: &str, first: Path, amount: &Amount) -> Result<()> {
    let mut caller = common.about(Subject::Topic(topic))?;
    let mut rows = Rows::new(common.output.unwrap_or(Format::Table), tables::DEAD);
    let mut pages = Pages::new(first, amount);
    while let Some(path) = pages.next(rows.printed()) {
        let answer = caller.session.get::<Letters<'static>>(path).await;
        if answer.as_ref().is_err_and(|error| error.code() == "TOPIC_UNKNOWN") {
            // A topic that is there and never had a dead letter has none that fits.
            caller.get::<Topic>(Path::topic(topic)).await?;
            break;
        }
        let page = caller.explain(answer).await?;
        for letter in &page.letters {
            rows.row(letter, letter)?;
        }
        pages.turn(page.cursor);
    }
    rows.end("no dead letter fits")?;
    if let Some(source) = topic.strip_prefix("dlq.").filter(|_| rows.printed() == 0) {
        eprintln!(
            "note: dead letters are listed by the topic that they come from: `driftq dlq list {source}`"
        );
    }
    pages.hint(common);
    Ok(())
}

const LETTER: Columns<DeadLetter<'static>> = &[
    ("came from", |letter, _| format!("{} {}/{}", printable(&letter.topic), letter.partition, letter.offset)),
    ("given up by", |letter, _| printable(&letter.group)),
    ("died", |letter, now| now.show(letter.at)),
    ("reason", |letter, _| printable(&letter.reason)),
    ("last error", |letter, _| printable(&letter.last_error)),
    ("attempts", |letter, _| letter.attempts.to_string()),
];

fn text(item: &Item<'static>) -> String {
    let now = Now::read();
    let mut facts = facts(item, now);
    let Some(letter) = item.envelope.as_ref().and_then(|envelope| envelope.dead_letter.as_ref()) else {
        return aligned(&facts);
    };
    facts.extend(LETTER.iter().map(|(name, cell)| (*name, cell(letter, now))));
    aligned(&facts) + &section(ATTEMPTS, &letter.history)
}

async fn redrive(common: &Common, args: &RedriveArgs) -> Result<()> {
    let request = Redrive {
        selection: args.selection.selection()?,
        rate_per_second: args.rate,
        dry_run: args.dry_run,
        target_topic: owned(args.target.as_ref()),
    };
    let mut caller = common.about(Subject::Letters(&args.topic))?;
    let answer = caller.session.post(letters_of(&args.topic).word("redrive"), &request).await;
    if let (Err(error), Some(target)) = (&answer, &args.target)
        && error.code() == "TOPIC_UNKNOWN"
    {
        // Either topic may be the one that is not there.
        let found = common.about(Subject::Topic(target))?.get::<Topic>(Path::topic(target)).await;
        found.with_context(|| format!("--target {target}"))?;
    }
    let job = caller.explain(answer).await?;
    job::follow(common, &mut caller, job, &args.waiting).await
}

async fn purge(common: &Common, args: &PurgeArgs) -> Result<()> {
    let request = Purge { selection: args.selection.selection()?, dry_run: args.dry_run };
    let mut caller = common.about(Subject::Letters(&args.topic))?;
    let what = format!("throw away {} of {}", args.selection.display(), args.topic);
    confirm::by_name(args.yes || args.dry_run, &what, &args.topic)?;
    let job = caller.post(letters_of(&args.topic).word("purge"), &request).await?;
    job::follow(common, &mut caller, job, &args.waiting).await
}

/// Conditions, all of which must hold.
#[derive(clap::Args)]
#[command(next_help_heading = "Conditions")]
pub(crate) struct Conditions {
    /// Given up by this group
    #[arg(long)]
    group: Option<String>,
    /// With this key
    #[arg(long)]
    key: Option<String>,
    /// Of this run
    #[arg(long, visible_alias = "run-id", value_name = "ID")]
    run: Option<String>,
    /// Of this tenant
    #[arg(long, visible_alias = "tenant-id", value_name = "ID")]
    tenant: Option<String>,
    /// With this label; can be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse::pair)]
    label: Vec<(String, String)>,
    /// Given up for this reason, as `dlq get` shows it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// With this cause, as `dlq causes` lists it
    #[arg(long, value_name = "TEXT")]
    cause: Option<String>,
    /// Died before this time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    before: Option<Moment>,
    /// Died at this time or later (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    after: Option<Moment>,
}

impl Conditions {
    fn filter(&self) -> Result<LetterFilter<'static>, Fault> {
        Ok(LetterFilter {
            group: owned(self.group.as_ref()),
            key: owned(self.key.as_ref()),
            run_id: owned(self.run.as_ref()),
            tenant_id: owned(self.tenant.as_ref()),
            labels: parse::labels(&self.label)?,
            reason: owned(self.reason.as_ref()),
            cause: owned(self.cause.as_ref()),
            before: self.before,
            after: self.after,
        })
    }
}

/// The filter as a query.
fn with_filter(path: Path, filter: &LetterFilter<'_>) -> Path {
    path.with_some("group", filter.group.as_deref())
        .with_some("key", filter.key.as_deref())
        .with_some("run_id", filter.run_id.as_deref())
        .with_some("tenant_id", filter.tenant_id.as_deref())
        .with_labels(&filter.labels)
        .with_some("reason", filter.reason.as_deref())
        .with_some("cause", filter.cause.as_deref())
        .with_some("before", filter.before.map(|at| at.to_string()).as_deref())
        .with_some("after", filter.after.map(|at| at.to_string()).as_deref())
}

/// What a job works on.
#[derive(clap::Args)]
pub(crate) struct SelectionArgs {
    /// All of them
    #[arg(long)]
    all: bool,
    /// This one, as PARTITION:OFFSET of `dlq list`; can be given several times
    #[arg(long, value_name = "PARTITION:OFFSET", value_parser = parse::place)]
    letter: Vec<LetterPlace>,
    #[command(flatten)]
    conditions: Conditions,
}

impl SelectionArgs {
    /// Exactly one way of choosing: a typing error must not send back everything.
    fn selection(&self) -> Result<Selection<'static>, Fault> {
        let filter = self.conditions.filter()?;
        let is_filtered = filter != LetterFilter::default();
        match (self.all, self.letter.is_empty(), is_filtered) {
            (true, true, false) => Ok(Selection::All),
            (false, false, false) => Ok(Selection::Letters(self.letter.clone())),
            (false, true, true) => Ok(Selection::Filter(Box::new(filter))),
            (false, true, false) => Err(Fault::new(Exit::Usage, "which dead letters?")
                .help("give --all, --letter PARTITION:OFFSET, or conditions such as --group and --key")),
            _ => Err(Fault::new(Exit::Usage, "--all, --letter and conditions exclude each other")
                .help("leave out all but one of them")),
        }
    }

    /// In words, for a question.
    fn display(&self) -> &'static str {
        match (self.all, self.letter.is_empty()) {
            (true, _) => "all dead letters",
            (false, false) => "the named dead letters",
            (false, true) => "the dead letters that fit",
        }
    }
}
