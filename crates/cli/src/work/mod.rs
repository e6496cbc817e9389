//! `driftq work`: a worker whose handler is a command.

mod command;
pub(crate) mod log;
mod message_files;
mod report;
mod verdict;

use std::process::{self, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{collections::BTreeSet, path::PathBuf, pin::pin, time::Duration};

use anyhow::{Context as _, Result};
use driftq_api::units::duration;
use driftq_client::{Client, Code, Error, Failure, Stopper, Worker};
use rustix::process::Signal;
use tokio::sync::watch;

use crate::{
    CallError, Common, Exit, Fault, Format, Signals, child::tell_group, context, parse::span, suggest,
    temporary_directory::TemporaryDirectory,
};
pub(super) use message_files::AWAITS;
use report::Report;

/// More commands at once than this would first run out of processes.
const CONCURRENCY_MAX: u16 = 1024;
/// How often the group is looked at for its end, if nothing happens here meanwhile: others may be at work, too.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

const ABOUT: &str = "CMD runs with `sh -c` for each message: the value on stdin, the rest in DRIFTQ_TOPIC, DRIFTQ_GROUP, \
DRIFTQ_PARTITION, DRIFTQ_OFFSET, DRIFTQ_ORIGIN_TOPIC, DRIFTQ_ORIGIN_INCARNATION, DRIFTQ_ORIGIN_PARTITION, \
DRIFTQ_ORIGIN_OFFSET (where it was born), DRIFTQ_ATTEMPT, DRIFTQ_MESSAGE_KEY, DRIFTQ_LAST_ERROR, DRIFTQ_RUN_ID, DRIFTQ_STEP_ID, \
DRIFTQ_PARENT_STEP_ID, DRIFTQ_TENANT_ID, DRIFTQ_IDEMPOTENCY_KEY, DRIFTQ_DEADLINE, DRIFTQ_LABELS (JSON), \
DRIFTQ_LEASE_TOKEN, DRIFTQ_OWNER, DRIFTQ_SERVER and TRACEPARENT. Its exit code decides:
    0   done: ack
   75   try again: nack, with the last line of stderr as the reason
   65   never try again: a dead letter, with the last line of stderr as the reason
   79   put off: it comes again later, and the attempt does not count
   13, 15  as `driftq effect run` ends when another caller carries an effect out, or
        its outcome is unknown: nack, and it comes again after 30s
   14   as it ends when an effect has no attempts left: a dead letter
  else  failed: nack with the exit code and the last line of stderr
Without a delay of its own, a nacked message comes again as its retry policy says.

CMD may write into files that these variables name; nothing counts unless it ends as said:
  DRIFTQ_DELAY       when a message comes again (75, 79, 13, 15), such as 500ms or 5m
  DRIFTQ_FOLLOW_UPS  messages, one {\"topic\": …, \"message\": {\"value\": …}} per line: they are
                     stored together with the ack, all or nothing, and carry run and step on
  DRIFTQ_OUTPUTS     pointers to results, one per line, as in `driftq commit`; likewise

Leases are extended while commands run. If one is lost, the message is cancelled, or --timeout is over, the command \
gets SIGTERM, and three seconds later SIGKILL. Ctrl-C or SIGTERM drains: nothing more is begun, what runs may end; a \
second one ends everything at once. `driftq effect run` in CMD makes what it does safe to retry.

A server that goes away is waited for; that is said once, and once when it is back. If it could not be told at the end \
what became of a message, that is an error, and the exit code is 3: such a message comes again.

With -o ndjson a line per message goes to stdout, and what commands print there goes to stderr.

Examples:
  driftq work orders --group billing --exec './charge.sh'
  driftq work orders -g mail --exec 'xargs -0 ./send-mail' --concurrency 8 --timeout 1m
  driftq work orders -g pay --exec 'driftq effect run --key \"$DRIFTQ_MESSAGE_KEY\" -- ./charge.sh'
  driftq work orders -g look --exec 'cat; echo' --until-idle
  driftq work orders -g next --exec './next.sh >> \"$DRIFTQ_FOLLOW_UPS\"'";

#[derive(clap::Args)]
#[command(after_help = ABOUT)]
pub(crate) struct Args {
    /// The topic
    topic: String,
    /// The consumer group; a new one starts at the oldest message kept
    #[arg(short, long)]
    group: String,
    /// Run this command for each message
    #[arg(long, value_name = "CMD")]
    exec: String,
    /// Commands at once
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(CONCURRENCY_MAX)))]
    concurrency: u16,
    /// How long a message is yours between two signs of life
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = span)]
    lease: u64,
    /// How long a command may take; for ever if not given
    #[arg(long, value_name = "DURATION", value_parser = span)]
    timeout: Option<u64>,
    /// How long running commands may take to end after Ctrl-C or SIGTERM
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = duration)]
    drain_timeout: u64,
    /// End after one message
    #[arg(long, conflicts_with_all = ["until_idle", "concurrency"])]
    once: bool,
    /// End when the group has nothing left, retries and delayed messages included
    #[arg(long)]
    until_idle: bool,
    /// Do not extend leases: for tests of what happens then
    #[arg(long, hide = true)]
    no_heartbeat: bool,
    /// Your name, for people who look; one of its own if not given
    #[arg(long, env = "DRIFTQ_OWNER", hide_env_values = true, value_name = "NAME")]
    owner: Option<String>,
}

/// What all messages have in common.
struct Shop {
    args: Args,
    owner: String,
    server: String,
    /// How commands reach it: the files with a key and with authorities.
    access: Vec<(&'static str, PathBuf)>,
    /// Where the files of messages are.
    place: TemporaryDirectory,
    /// Stdout is ours.
    is_for_programs: bool,
    report: Report,
    stopper: Stopper,
    /// Whether a command has run at all, and why the first one could not.
    trial: Mutex<Trial>,
    /// The process groups of commands that run.
    running: Mutex<BTreeSet<u32>>,
}

/// What is known of the command.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Trial {
    /// None has ended.
    Open,
    /// It can be run.
    Passed,
    /// It cannot, and every message would only tell the same.
    Failed(String),
}

pub(super) async fn run(common: &Common, args: Args) -> Result<()> {
    if common.output == Some(Format::Json) {
        let fault = Fault::new(Exit::Usage, "--output json: this never ends, so it is never one document");
        return Err(fault.help("-o ndjson prints a line per message").into());
    }
    exists(&args.exec).await?;
    let is_for_programs = common.output == Some(Format::Ndjson);
    let chosen = context::choose(common)?;
    let mut client = Client::builder().url(&chosen.server);
    if let Some(key) = chosen.key()? {
        client = client.key(key);
    }
    if let Some(file) = &chosen.ca_file {
        client = client.ca_file(file);
    }
    let client = client.build().map_err(fault)?;
    let owner = args.owner.clone().unwrap_or_else(|| format!("work-{}", process::id()));
    let worker = worker(&client, &args, &owner);
    let shop = Arc::new(Shop {
        owner,
        server: client.url(),
        access: chosen.variables(),
        place: TemporaryDirectory::new("driftq-work-").context("a directory for the files of messages")?,
        is_for_programs,
        report: Report::new(is_for_programs),
        stopper: worker.stopper(),
        trial: Mutex::new(Trial::Open),
        running: Mutex::default(),
        args,
    });
    let worker = worker.handle_raw(&shop.args.topic, {
        let shop = Arc::clone(&shop);
        move |payload, context| {
            let shop = Arc::clone(&shop);
            async move { shop.handle(payload, context).await }
        }
    });
    let unheard = worker.unheard();
    log::start();
    let outcome = shop.open(&client, worker, Signals::new()?).await;
    shop.end_commands();
    if outcome.is_ok() || shop.report.is_begun() {
        shop.report.summarize();
    }
    if let Trial::Failed(why) = &*shop.trial() {
        return Err(not_run(why));
    }
    match outcome {
        Ok(()) => match *unheard.borrow() {
            0 => Ok(()),
            count => Err(not_heard(count)),
        },
        Err(error) if error.code() == Some(Code::TopicUnknown) => {
            let mut session = common.client()?.session();
            Err(suggest::unknown_topic(&mut session, &shop.args.topic, as_fault(error)).await.into())
        }
        Err(error) => Err(fault(error)),
    }
}

/// Refuses a command whose first word is no command, before a message is borrowed for it. What a shell makes of more
/// than a word is found out by the first message.
async fn exists(exec: &str) -> Result<()> {
    let word = exec.split_whitespace().next().unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/+".contains(c);
    if !word.chars().all(is_plain) {
        return Ok(());
    }
    let mut look = tokio::process::Command::new("sh");
    look.args(["-c", "command -v -- \"$1\"", "sh", word]).stdin(Stdio::null()).stdout(Stdio::null());
    match look.stderr(Stdio::null()).status().await {
        Ok(status) if !status.success() => Err(not_run(&format!("`{word}` is not there, or no program"))),
        // What cannot be asked here fails with the first message.
        Ok(_) | Err(_) => Ok(()),
    }
}

fn not_run(why: &str) -> anyhow::Error {
    Fault::new(Exit::Usage, format!("the command of --exec cannot be run: {why}"))
        .help("try it in a shell first; a path that is not absolute is looked for from the current directory")
        .into()
}

/// Operators must not take these messages for done.
fn not_heard(count: u64) -> anyhow::Error {
    let message = format!(
        "the server could not be told what became of {count} message(s): they come again when their leases are over, \
         whatever is said of them above"
    );
    Fault::new(Exit::Unreachable, message)
        .help("a command that must not happen twice belongs into `driftq effect run`")
        .into()
}

fn worker(client: &Client, args: &Args, owner: &str) -> Worker {
    // One message and no more is what `--once` says; waiting ones would be given back.
    let prefetch = if args.once { 0 } else { usize::from(args.concurrency) };
    let worker = Worker::new(client, &args.group)
        .owner(owner)
        .concurrency(args.concurrency.into())
        .prefetch(prefetch)
        .lease(Duration::from_millis(args.lease))
        .heartbeat(!args.no_heartbeat)
        .drain_timeout(Duration::from_millis(args.drain_timeout))
        // They are heard here, where the exit code is known.
        .signals(false);
    match args.timeout {
        Some(limit) => worker.timeout(Duration::from_millis(limit)),
        None => worker,
    }
}

impl Shop {
    async fn open(&self, client: &Client, worker: Worker, mut signals: Signals) -> Result<(), Error> {
        let progress = worker.progress();
        let mut working = pin!(worker.run());
        let mut idle = pin!(self.idle(client, progress));
        let mut is_ending = false;
        loop {
            tokio::select! {
                ended = &mut working => return ended,
                () = &mut idle, if !is_ending && self.args.until_idle => {
                    is_ending = true;
                    self.stopper.stop();
                }
                signal = signals.next() => {
                    self.stopper.stop();
                    if is_ending {
                        self.end_commands();
                        process::exit(signal.exit_code());
                    }
                    is_ending = true;
                    self.report.say("draining; a second signal ends running commands at once");
                }
            }
        }
    }

    async fn handle(&self, payload: bytes::Bytes, context: driftq_client::Context) -> Result<(), Failure> {
        let outcome = self.work_on(&payload, &context).await;
        if self.args.once {
            self.stopper.stop();
        }
        outcome
    }

    /// Ends what runs, at once: a task that was given up may not have had its turn to do so.
    fn end_commands(&self) {
        for leader in &*self.running() {
            tell_group(Some(*leader), Signal::KILL);
        }
    }

    fn trial(&self) -> MutexGuard<'_, Trial> {
        self.trial.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when the group has nothing left.
    async fn idle(&self, client: &Client, mut progress: watch::Receiver<u64>) {
        loop {
            // A group that is not there yet begins with the first borrowing; a server that is away comes back.
            if client.group(&self.args.topic, &self.args.group).await.is_ok_and(|group| group.lag == 0) {
                return;
            }
            let _ = tokio::time::timeout(LOOK_AGAIN, progress.changed()).await;
        }
    }
}

/// What the SDK says, as an error of the command.
pub fn fault(error: Error) -> anyhow::Error {
    as_fault(error).into()
}

/// What the SDK says, in the words of this command line where it has some.
fn as_fault(error: Error) -> Fault {
    let exit = match error {
        Error::Refused(refusal) => return CallError::Refused(refusal).into(),
        Error::NotDriftQ { url, why } => {
            // A page for people is not repeated: the status says enough.
            let why = why.split_once(": <").map_or(&*why, |(status, _)| status).to_owned();
            return CallError::NotDriftQ { url, why, context: None }.into();
        }
        Error::Untrusted { url, why } => return CallError::Untrusted { url, why, context: None }.into(),
        Error::Unreachable { .. } | Error::ConnectionLost { .. } => Exit::Unreachable,
        Error::Invalid(_) => Exit::Usage,
        _ => Exit::Failure,
    };
    Fault::new(exit, error.to_string())
}
