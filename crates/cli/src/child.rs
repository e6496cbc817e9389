//! Commands of the user as processes: what they say on stderr, and how they are told to end.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Exit code that asks for another try (EX_TEMPFAIL).
pub(super) const EXIT_RETRY: i32 = 75;
/// Exit code that says that no try will ever help (EX_DATAERR).
pub(super) const EXIT_DEAD: i32 = 65;
/// How long a command that was told to end may take before it is killed.
pub(super) const GRACE: Duration = Duration::from_secs(10);
/// A command that has ended may have left others behind who hold its pipes; what it said itself is here by then.
pub(super) const PIPE_GRACE: Duration = Duration::from_secs(1);
/// The part of a line of stderr that is remembered.
const LINE_BYTES_MAX: usize = 500;
/// Read at once.
const CHUNK_BYTES: usize = 16 << 10;

/// Sends a signal to one process. If it is gone, that is what was wanted.
pub(super) fn tell(process: Option<u32>, signal: Signal) {
    if let Some(pid) = pid(process) {
        let _ = kill_process(pid, signal);
    }
}

/// Sends a signal to a process and everything that it has started.
pub(super) fn tell_group(leader: Option<u32>, signal: Signal) {
    if let Some(pid) = pid(leader) {
        let _ = kill_process_group(pid, signal);
    }
}

fn pid(process: Option<u32>) -> Option<Pid> {
    process.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
}

/// The code that shells give to this end.
pub(super) fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// How it ended, in words, with the last thing it said.
pub(super) fn reason(status: ExitStatus, last_line: &str) -> String {
    let what = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, signal) => format!("ended by signal {}", signal.unwrap_or_default()),
    };
    if last_line.is_empty() { what } else { format!("{what}: {last_line}") }
}

/// Passes everything on, and hands each piece over on the way. A reader of ours that went away is no reason to stop:
/// what the command does still counts.
pub(super) async fn pass_on(
    mut from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
    mut seen: impl FnMut(&[u8]),
) {
    let mut to = Some(to);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let length = match from.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(length) => length,
        };
        let bytes = &chunk[..length];
        seen(bytes);
        if let Some(writer) = &mut to
            && (writer.write_all(bytes).await.is_err() || writer.flush().await.is_err())
        {
            to = None;
        }
    }
}

/// Remembers the last line that says something.
#[derive(Debug, Default)]
pub(super) struct LastLine {
    current: Vec<u8>,
    last: Vec<u8>,
}

impl LastLine {
    pub(super) fn see(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_whole) = part.strip_suffix(b"\n").map_or((part, false), |text| (text, true));
            let room = LINE_BYTES_MAX.saturating_sub(self.current.len());
            self.current.extend_from_slice(&text[..text.len().min(room)]);
            if is_whole {
                self.turn();
            }
        }
    }

    fn turn(&mut self) {
        if !self.current.trim_ascii().is_empty() {
            std::mem::swap(&mut self.last, &mut self.current);
        }
        self.current.clear();
    }

    pub(super) fn text(&self) -> String {
        let unfinished = self.current.trim_ascii();
        let line = if unfinished.is_empty() { self.last.trim_ascii() } else { unfinished };
        String::from_utf8_lossy(line).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everything_is_passed_on_and_the_last_line_is_kept() {
        let mut passed = Vec::new();
        let mut last = LastLine::default();
        pass_on(&b"first\nreal cause\n\n  \n"[..], &mut passed, |bytes| last.see(bytes)).await;
        assert_eq!(passed, b"first\nreal cause\n\n  \n");
        assert_eq!(last.text(), "real cause");
    }

    #[test]
    fn lines_may_come_in_pieces_and_without_an_end() {
        let mut last = LastLine::default();
        assert_eq!(last.text(), "");
        for piece in ["no ro", "ute\nto ", "host"] {
            last.see(piece.as_bytes());
        }
        assert_eq!(last.text(), "to host");
        last.see("x".repeat(2 * LINE_BYTES_MAX).as_bytes());
        assert_eq!(last.text().len(), LINE_BYTES_MAX);
    }

    #[test]
    fn ends_are_told_in_words() {
        assert_eq!(reason(ExitStatus::from_raw(3 << 8), "boom"), "exit 3: boom");
        assert_eq!(reason(ExitStatus::from_raw(9), ""), "ended by signal 9");
        assert_eq!(code(ExitStatus::from_raw(9)), 137);
        assert_eq!(code(ExitStatus::from_raw(3 << 8)), 3);
    }
}
