//! A process that outlives ours by a moment and cleans up behind it.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

/// Waits until its input ends, which happens when the guard is dropped and also when this process is killed; then
/// runs the command that it was given and removes the folder. Signals of a terminal go past it.
const STOP_LATER: &str = r#"
trap '' INT TERM HUP QUIT
folder=$1; shift
cat >/dev/null
"$@" >/dev/null 2>&1
rm -rf -- "$folder"
"#;

/// Runs the command beside it, says its process number, and ends it when the input ends. The number cannot come to
/// mean another process meanwhile, because the shell has not waited for its child yet.
const RUN_BESIDE: &str = r#"
trap '' INT TERM HUP QUIT
folder=$1; shift
"$@" >"$folder/log" 2>&1 </dev/null &
echo $!
exec >/dev/null
cat
kill -KILL $!
wait
rm -rf -- "$folder"
"#;

/// Cleans up when it is dropped, or when this process ends in whatever way.
#[derive(Debug)]
pub(crate) struct Guard {
    shell: Child,
}

impl Guard {
    /// A guard that runs `stop` and then removes the folder.
    pub(crate) fn new(folder: &Path, stop: &Command) -> Result<Self> {
        let shell = shell(STOP_LATER, folder, stop).stdout(Stdio::null()).spawn();
        Ok(Self { shell: shell.context("starting the guard of a server")? })
    }

    /// A guard with a server beside it, whose output goes to the file `log` in the folder.
    pub(crate) fn beside(folder: &Path, server: &Command) -> Result<(Self, Pid)> {
        let mut shell =
            shell(RUN_BESIDE, folder, server).stdout(Stdio::piped()).spawn().context("starting a server")?;
        let output = shell.stdout.take().context("the guard has an output")?;
        let guard = Self { shell };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).context("reading the number of a server's process")?;
        let number = line.trim().parse().ok().and_then(Pid::from_raw);
        Ok((guard, number.with_context(|| format!("`{line}` is no process number"))?))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // Whoever waits for the value to go away may rely on the server being gone.
        let _ = self.shell.wait();
    }
}

fn shell(script: &str, folder: &Path, command: &Command) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script, "guard"]).arg(folder).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    // A group of its own, so that Ctrl-C at a terminal ends the tests first and then, through the pipe, the server.
    shell.current_dir(folder).stdin(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    shell
}

/// Ends a server that stands beside a guard at once.
pub(crate) fn kill(server: Pid) -> Result<()> {
    kill_process(server, Signal::KILL).context("killing a server")
}

/// Whether a server that stands beside a guard still runs, or holds on to anything. A dead one stays a zombie until its
/// guard goes; its other threads may take a moment longer than the first, and keep its sockets open until then.
pub(crate) fn is_alive(server: Pid) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", server.as_raw_nonzero()));
    threads.into_iter().flatten().flatten().any(|thread| {
        let status = fs::read(thread.path().join("stat"));
        status.is_ok_and(|text| state(&text).is_some_and(|state| !b"ZX".contains(&state)))
    })
}

/// The processes that this one has started and that still run.
pub(crate) fn children(parent: Pid) -> Vec<Pid> {
    let file = format!("/proc/{0}/task/{0}/children", parent.as_raw_nonzero());
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok().and_then(Pid::from_raw)).collect()
}

/// The state of a thread. The name of the program stands in brackets and may contain anything; the state is the letter
/// behind it.
fn state(text: &[u8]) -> Option<u8> {
    let end = text.iter().rposition(|letter| *letter == b')')?;
    text.get(end + 2).copied()
}
