//! Steps that wait more than they work, run side by side. Each writes into a log of its own, which is printed whole when
//! it ends, so that two steps never talk into each other.

use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom, Write},
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::command::shown;

type Work<'a> = Box<dyn FnOnce(&mut Log) -> Result<()> + Send + 'a>;

/// Something to do that has a name.
pub(crate) struct Task<'a> {
    name: String,
    work: Work<'a>,
}

impl<'a> Task<'a> {
    pub(crate) fn new(name: &str, work: impl FnOnce(&mut Log) -> Result<()> + Send + 'a) -> Self {
        Self { name: name.to_owned(), work: Box::new(work) }
    }
}

/// How a task ended.
pub(crate) struct Ended {
    pub(crate) name: String,
    pub(crate) result: Result<()>,
    pub(crate) took: Duration,
}

/// Where the commands of one task write.
pub(crate) struct Log {
    file: File,
}

impl Log {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { file: tempfile::tempfile().context("a file for the log of a step")? })
    }

    /// Writes a line.
    pub(crate) fn say(&mut self, line: &str) {
        // What cannot be written down is no reason to stop.
        let _ = writeln!(self.file, "{line}");
    }

    /// Runs the command, and fails when it fails.
    pub(crate) fn expect_success(&mut self, command: &mut Command) -> Result<()> {
        let line = shown(command);
        self.say(&format!("$ {line}"));
        let (out, err) = (self.file.try_clone()?, self.file.try_clone()?);
        let command = command.stdin(Stdio::null()).stdout(out).stderr(err);
        let status = command.status().with_context(|| format!("starting `{line}`"))?;
        if !status.success() {
            bail!("`{line}` ended with {status}");
        }
        Ok(())
    }

    /// Everything that was written.
    pub(crate) fn text(mut self) -> String {
        let mut bytes = Vec::new();
        let read = self.file.seek(SeekFrom::Start(0)).and_then(|_| self.file.read_to_end(&mut bytes));
        match read {
            Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => format!("the log cannot be read: {error}\n"),
        }
    }
}

/// Runs the tasks, `lanes` at a time, in their order.
pub(crate) fn side_by_side(lanes: usize, tasks: Vec<Task<'_>>) -> Vec<Ended> {
    let count = tasks.len();
    let waiting = Mutex::new(tasks.into_iter().enumerate());
    let ended = Mutex::new(Vec::with_capacity(count));
    std::thread::scope(|scope| {
        for _ in 0..lanes.min(count) {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some((number, task)) = next else { break };
                    let done = run(task);
                    ended.lock().unwrap_or_else(PoisonError::into_inner).push((number, done));
                }
            });
        }
    });
    let mut ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    ended.sort_by_key(|(number, _)| *number);
    ended.into_iter().map(|(_, ended)| ended).collect()
}

fn run(task: Task<'_>) -> Ended {
    let started = Instant::now();
    let (result, text) = match Log::new() {
        Ok(mut log) => ((task.work)(&mut log), log.text()),
        Err(error) => (Err(error), String::new()),
    };
    let took = started.elapsed();
    let verdict = match &result {
        Ok(()) => format!("passed in {:.1} s", took.as_secs_f64()),
        Err(error) => format!("FAILED after {:.1} s: {error:#}", took.as_secs_f64()),
    };
    // One call, so that the text of another lane cannot come between.
    println!("\n=== {0}\n{text}=== {0}: {verdict}", task.name);
    Ended { name: task.name, result, took }
}

/// An empty folder of that name.
pub(crate) fn fresh_folder(path: &Path) -> Result<()> {
    if path.exists() {
        fs::remove_dir_all(path).with_context(|| format!("clearing {}", path.display()))?;
    }
    fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use anyhow::bail;

    use super::{Log, Task, side_by_side};

    #[test]
    fn tasks_keep_their_order_and_fail_alone() {
        let tasks = vec![
            Task::new("one", |log| log.expect_success(&mut Command::new("true"))),
            Task::new("two", |_| bail!("broken")),
            Task::new("three", |log| log.expect_success(&mut Command::new("false"))),
            Task::new("four", |_| Ok(())),
        ];
        let ended = side_by_side(2, tasks);
        let shape: Vec<(&str, bool)> =
            ended.iter().map(|ended| (ended.name.as_str(), ended.result.is_ok())).collect();
        assert_eq!(shape, [("one", true), ("two", false), ("three", false), ("four", true)]);
    }

    #[test]
    fn a_log_has_the_command_and_what_it_said() {
        let mut log = Log::new().expect("a temporary file");
        log.expect_success(Command::new("sh").args(["-c", "echo out; echo err >&2"])).expect("sh runs");
        let text = log.text();
        assert!(
            text.starts_with("$ sh -c") && text.contains("\nout\n") && text.contains("\nerr\n"),
            "{text}"
        );
    }
}
