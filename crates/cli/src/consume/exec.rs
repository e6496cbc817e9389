//! Runs the user's command for one message and reads its verdict.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::Command;

use super::{Args, delivery::Delivery, settle::Outcome};

/// Exit code that asks for another try (EX_TEMPFAIL).
const EXIT_RETRY: i32 = 75;
/// Exit code that says that no try will ever help (EX_DATAERR).
const EXIT_DEAD: i32 = 65;
/// The part of a stderr line that goes into the reason.
const REASON_CHARS_MAX: usize = 500;

/// Runs the command to its end.
pub(super) async fn run(command: &str, server: &str, args: &Args, one: &Delivery) -> Result<Outcome> {
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(command)
        .envs(variables(server, args, one))
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
    let ((), last_line, status) = tokio::join!(feed, forward(stderr), child.wait());
    group.0 = None;
    Ok(verdict(status.context("waiting for the command")?, &last_line))
}

/// The processes of a command; all of them end with it.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // There is no safe call for this in the standard library, but every shell has one. If it fails, the
            // command goes on by itself, and there is nobody left to tell.
            drop(std::process::Command::new("sh").args(["-c", &format!("kill -KILL -{leader}")]).status());
        }
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
        ("DRIFTQ_KEY", item.key.to_string()),
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

/// Passes the command's stderr on and remembers its last line that says something.
async fn forward(stderr: impl AsyncRead + Unpin) -> String {
    let mut lines = BufReader::new(stderr).split(b'\n');
    let mut last = String::new();
    while let Ok(Some(line)) = lines.next_segment().await {
        let text = String::from_utf8_lossy(&line);
        eprintln!("{text}");
        if !text.trim().is_empty() {
            last = text.trim().chars().take(REASON_CHARS_MAX).collect();
        }
    }
    last
}

fn verdict(status: ExitStatus, last_line: &str) -> Outcome {
    let with_line = |what: String| {
        Outcome::Failed(if last_line.is_empty() { what } else { format!("{what}: {last_line}") })
    };
    match (status.code(), status.signal()) {
        (Some(0), _) => Outcome::Done,
        (Some(EXIT_RETRY), _) => with_line("retry requested (exit 75)".to_owned()),
        (Some(EXIT_DEAD), _) => with_line("dead letter requested (exit 65)".to_owned()),
        (Some(code), _) => with_line(format!("exit {code}")),
        (None, signal) => with_line(format!("ended by signal {}", signal.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_has_its_verdict() {
        let failed = |text: &str| Outcome::Failed(text.to_owned());
        for (code, line, expected) in [
            (0, "noise", Outcome::Done),
            (75, "", failed("retry requested (exit 75)")),
            (75, "busy", failed("retry requested (exit 75): busy")),
            (65, "bad record", failed("dead letter requested (exit 65): bad record")),
            (3, "boom", failed("exit 3: boom")),
        ] {
            assert_eq!(verdict(ExitStatus::from_raw(code << 8), line), expected, "exit {code}");
        }
        assert_eq!(verdict(ExitStatus::from_raw(9), ""), failed("ended by signal 9"));
    }

    #[tokio::test]
    async fn the_last_line_that_says_something_is_kept() {
        assert_eq!(forward(&b"first\nreal cause\n\n  \n"[..]).await, "real cause");
        assert_eq!(forward(&b""[..]).await, "");
        let long = "x".repeat(2 * REASON_CHARS_MAX);
        assert_eq!(forward(long.as_bytes()).await.len(), REASON_CHARS_MAX);
    }
}
