//! Runs the user's command for one message and says what became of it.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, Result};
use rustix::process::Signal;
use tokio::{io::AsyncWriteExt, process::Command};

use super::{Args, delivery::Delivery, settle::Outcome};
use crate::child::{self, EXIT_DEAD, EXIT_RETRY, LastLine, pass_on, tell_group};

/// Runs the command to its end. It is told where the server is, and of the files that open it.
pub(super) async fn run(
    command: &str,
    (server, access): (&str, &[(&'static str, PathBuf)]),
    args: &Args,
    one: &Delivery,
) -> Result<Outcome> {
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(command)
        .envs(variables(server, args, one))
        .envs(access.iter().map(|(name, file)| (name, file)))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own: Ctrl-C in a terminal goes to everything in the foreground, and is meant for us.
        .process_group(0)
        .spawn()
        .context("running sh")?;
    let mut group = Group(child.id());
    let mut stdin = child.stdin.take().context("the command's stdin")?;
    let stderr = child.stderr.take().context("the command's stderr")?;
    let value = &*one.payload;
    let feed = async move {
        // A command that does not want its input closes it early. That is its right.
        drop(stdin.write_all(value).await);
        drop(stdin);
    };
    let mut last_line = LastLine::default();
    let hear = pass_on(stderr, tokio::io::stderr(), |bytes| last_line.see(bytes));
    let ((), (), status) = tokio::join!(feed, hear, child.wait());
    group.0 = None;
    Ok(outcome(status.context("waiting for the command")?, &last_line.text()))
}

/// The processes of a command; all of them end with it.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        tell_group(self.0, Signal::KILL);
    }
}

fn variables(server: &str, args: &Args, one: &Delivery) -> Vec<(&'static str, String)> {
    let (item, origin) = (&one.item, &one.origin);
    let envelope = item.envelope.clone().unwrap_or_default();
    let all = [
        ("DRIFTQ_SERVER", server.to_owned()),
        ("DRIFTQ_TOPIC", args.topic.clone()),
        ("DRIFTQ_GROUP", args.group.clone()),
        ("DRIFTQ_OWNER", args.owner.clone()),
        ("DRIFTQ_PARTITION", item.partition.to_string()),
        ("DRIFTQ_OFFSET", item.offset.to_string()),
        ("DRIFTQ_ORIGIN_TOPIC", origin.topic.to_string()),
        ("DRIFTQ_ORIGIN_INCARNATION", origin.incarnation.to_string()),
        ("DRIFTQ_ORIGIN_PARTITION", origin.partition.to_string()),
        ("DRIFTQ_ORIGIN_OFFSET", origin.offset.to_string()),
        ("DRIFTQ_ATTEMPT", item.attempts.to_string()),
        ("DRIFTQ_MESSAGE_KEY", item.key.to_string()),
        ("DRIFTQ_LAST_ERROR", item.last_error.to_string()),
        ("DRIFTQ_RUN_ID", envelope.run_id.into_owned()),
        ("DRIFTQ_STEP_ID", envelope.step_id.into_owned()),
        ("DRIFTQ_PARENT_STEP_ID", envelope.parent_step_id.into_owned()),
        ("DRIFTQ_TENANT_ID", envelope.tenant_id.into_owned()),
        ("DRIFTQ_IDEMPOTENCY_KEY", envelope.idempotency_key.into_owned()),
        ("DRIFTQ_DEADLINE", envelope.deadline.map(|deadline| deadline.to_string()).unwrap_or_default()),
    ];
    // A variable cannot hold a zero byte; a key can.
    all.into_iter().map(|(name, value)| (name, value.replace('\0', "\u{fffd}"))).collect()
}

/// What its end says about the message.
fn outcome(status: ExitStatus, last_line: &str) -> Outcome {
    let asked = match status.code() {
        Some(0) => return Outcome::Done,
        Some(EXIT_RETRY) => "retry requested (exit 75)",
        Some(EXIT_DEAD) => "dead letter requested (exit 65)",
        _ => return Outcome::Failed(child::reason(status, last_line)),
    };
    let line = if last_line.is_empty() { String::new() } else { format!(": {last_line}") };
    Outcome::Failed(format!("{asked}{line}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn every_exit_has_its_outcome() {
        let failed = |text: &str| Outcome::Failed(text.to_owned());
        for (code, line, expected) in [
            (0, "noise", Outcome::Done),
            (75, "", failed("retry requested (exit 75)")),
            (75, "busy", failed("retry requested (exit 75): busy")),
            (65, "bad record", failed("dead letter requested (exit 65): bad record")),
            (3, "boom", failed("exit 3: boom")),
        ] {
            assert_eq!(outcome(ExitStatus::from_raw(code << 8), line), expected, "exit {code}");
        }
        assert_eq!(outcome(ExitStatus::from_raw(9), ""), failed("ended by signal 9"));
    }
}
