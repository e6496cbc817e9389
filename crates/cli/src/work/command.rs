//! Runs the command for one message and heeds its lease.

use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use driftq_client::{Context, Error, Failure, Reason, Snooze};
use rustix::process::Signal as Kill;
use tokio::process::{Child, Command};
use tokio::{io::AsyncWriteExt, time::timeout};

use super::verdict::{self, ExitVerdict};
use super::{Shop, Trial, message_files::MessageFiles};
use crate::child::{self, LastLine, PIPE_GRACE, pass_on, tell_group};

/// How long a command that was told to end may take. The SDK gives its handlers five seconds.
const KILL_GRACE: Duration = Duration::from_secs(3);

/// Exit codes of a shell that found something that is no program, or nothing.
const EXIT_NO_PROGRAM: i32 = 126;
const EXIT_NOT_FOUND: i32 = 127;

/// How a command ended.
struct Ended {
    status: ExitStatus,
    last_line: String,
    /// Why it was told to end, if it was.
    told: Option<Reason>,
}

impl Shop {
    /// Runs the command, and says what becomes of the message.
    pub(super) async fn work_on(&self, payload: &[u8], context: &Context) -> Result<(), Failure> {
        let begun = Instant::now();
        let files = MessageFiles::new(self.place.path())?;
        let ended = self.command(payload, context, &files).await?;
        if let Some(reason) = ended.told {
            self.report.told(context, reason.name(), "", begun.elapsed());
            return Err(Error::from(reason).into());
        }
        if self.cannot_run(&ended) {
            self.report.told(context, "released", &ended.last_line, begun.elapsed());
            // It is not the message's fault: the attempt does not count.
            return Err(Snooze { lasting: Duration::ZERO }.into());
        }
        let verdict = match verdict::of(ended.status, &ended.last_line, files.delay(), || files.awaits()) {
            // What it wanted to send counts only if all of it can be sent.
            ExitVerdict::Done => match files.hand_in(context) {
                Ok(()) => ExitVerdict::Done,
                Err(why) => ExitVerdict::Failed(why),
            },
            other => other,
        };
        self.report.told(context, verdict.word(), verdict.reason(), begun.elapsed());
        verdict.into_result()
    }

    /// Whether this is the first command, and the shell says that there is none: then the worker ends. One that ran
    /// before is there, and what it lacks for this message is the message's.
    fn cannot_run(&self, ended: &Ended) -> bool {
        let mut trial = self.trial();
        let is_missing = matches!(ended.status.code(), Some(EXIT_NO_PROGRAM | EXIT_NOT_FOUND));
        match (&*trial, is_missing) {
            (Trial::Open, false) => *trial = Trial::Passed,
            (Trial::Open, true) => {
                *trial = Trial::Failed(child::reason(ended.status, &ended.last_line));
                self.stopper.stop();
            }
            (Trial::Passed | Trial::Failed(_), _) => {}
        }
        is_missing && matches!(*trial, Trial::Failed(_))
    }

    async fn command(
        &self,
        payload: &[u8],
        context: &Context,
        files: &MessageFiles,
    ) -> Result<Ended, Failure> {
        let stdout = if self.is_for_programs { Stdio::piped() } else { Stdio::inherit() };
        let mut child = Command::new("sh")
            .args(["-c", &self.args.exec])
            .envs(self.variables(context))
            .envs(files.variables())
            .envs(self.access.iter().map(|(name, file)| (name, file)))
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(Stdio::piped())
            // A group of its own: Ctrl-C in a terminal goes to everything in the foreground, and is meant for us.
            .process_group(0)
            .spawn()?;
        let mut group = Group::new(self, child.id());
        let ended = watch(&mut child, payload, context).await;
        group.has_ended = true;
        ended
    }

    fn variables(&self, context: &Context) -> Vec<(&'static str, String)> {
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let labels: serde_json::Map<String, serde_json::Value> =
            context.labels().map(|(name, value)| (name.to_owned(), value.into())).collect();
        let origin = context.origin();
        let all = [
            ("DRIFTQ_SERVER", self.server.clone()),
            ("DRIFTQ_TOPIC", context.topic().to_owned()),
            ("DRIFTQ_GROUP", self.args.group.clone()),
            ("DRIFTQ_OWNER", self.owner.clone()),
            ("DRIFTQ_PARTITION", context.partition().to_string()),
            ("DRIFTQ_OFFSET", context.offset().to_string()),
            ("DRIFTQ_ORIGIN_TOPIC", origin.topic.to_string()),
            ("DRIFTQ_ORIGIN_INCARNATION", origin.incarnation.to_string()),
            ("DRIFTQ_ORIGIN_PARTITION", origin.partition.to_string()),
            ("DRIFTQ_ORIGIN_OFFSET", origin.offset.to_string()),
            ("DRIFTQ_ATTEMPT", context.attempt().to_string()),
            ("DRIFTQ_MESSAGE_KEY", context.key().to_owned()),
            ("DRIFTQ_LAST_ERROR", context.last_error().to_owned()),
            ("DRIFTQ_RUN_ID", text(context.run_id())),
            ("DRIFTQ_STEP_ID", text(context.step_id())),
            ("DRIFTQ_PARENT_STEP_ID", text(context.parent_step_id())),
            ("DRIFTQ_TENANT_ID", text(context.tenant_id())),
            ("DRIFTQ_IDEMPOTENCY_KEY", text(context.idempotency_key())),
            ("DRIFTQ_DEADLINE", context.deadline().map(|at| at.to_string()).unwrap_or_default()),
            ("DRIFTQ_LABELS", serde_json::Value::Object(labels).to_string()),
            ("DRIFTQ_LEASE_TOKEN", context.token().to_owned()),
            ("TRACEPARENT", context.trace().traceparent()),
        ];
        // A variable cannot hold a zero byte; a key can.
        all.into_iter().map(|(name, value)| (name, value.replace('\0', "\u{fffd}"))).collect()
    }
}

/// Feeds it, hears it, and waits for its end; tells it to end if the message is no longer ours.
async fn watch(child: &mut Child, payload: &[u8], context: &Context) -> Result<Ended, Failure> {
    let gone = || Failure::new("the command has no pipes");
    let mut stdin = child.stdin.take().ok_or_else(gone)?;
    let stderr = child.stderr.take().ok_or_else(gone)?;
    let stdout = child.stdout.take();
    let mut last_line = LastLine::default();
    let (status, told) = {
        let talk = async {
            let feed = async move {
                // A command that does not want its input closes it early. That is its right.
                drop(stdin.write_all(payload).await);
                drop(stdin);
            };
            let print = async {
                if let Some(stdout) = stdout {
                    pass_on(stdout, tokio::io::stderr(), |_| ()).await;
                }
            };
            let hear = pass_on(stderr, tokio::io::stderr(), |bytes| last_line.see(bytes));
            tokio::join!(feed, print, hear);
        };
        let mut talk = std::pin::pin!(talk);
        let mut is_talking = true;
        let leader = child.id();
        let ended = loop {
            tokio::select! {
                status = child.wait() => break (status?, None),
                () = &mut talk, if is_talking => is_talking = false,
                reason = context.signal().fired() => break (end(child, leader).await?, Some(reason)),
            }
        };
        if is_talking {
            // Other processes that hold the pipes are not waited for.
            let _ = timeout(PIPE_GRACE, talk).await;
        }
        ended
    };
    Ok(Ended { status, last_line: last_line.text(), told })
}

/// Asks it to end, and makes it end if it does not.
async fn end(child: &mut Child, leader: Option<u32>) -> Result<ExitStatus, std::io::Error> {
    tell_group(leader, Kill::TERM);
    if let Ok(status) = timeout(KILL_GRACE, child.wait()).await {
        return status;
    }
    tell_group(leader, Kill::KILL);
    child.wait().await
}

/// The processes of a command; all of them end with it.
struct Group<'a> {
    shop: &'a Shop,
    leader: Option<u32>,
    has_ended: bool,
}

impl<'a> Group<'a> {
    fn new(shop: &'a Shop, leader: Option<u32>) -> Self {
        shop.running().extend(leader);
        Self { shop, leader, has_ended: false }
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            tell_group(self.leader, Kill::KILL);
        }
        // Its number may soon be another's.
        if let Some(leader) = self.leader {
            self.shop.running().remove(&leader);
        }
    }
}
