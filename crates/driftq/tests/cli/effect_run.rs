//! `driftq effect run`: any command as an effect that happens once.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::Ran;
use crate::support::{Server, driftq};
use serde_json::Value;

/// Nothing here takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

struct World {
    server: Server,
    directory: tempfile::TempDir,
}

impl World {
    fn new(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let flags: Vec<&str> = ["--ephemeral"].iter().chain(arguments).copied().collect();
        Self { server: Server::start(directory.path(), &flags), directory }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `driftq effect run … -- sh -c SCRIPT`, in the world's directory.
    fn command(&self, flags: &[&str], script: &str) -> Command {
        let mut command = driftq();
        command.args(["effect", "run", "--scope", "charge"]).args(flags).args(["--", "sh", "-c", script]);
        command.current_dir(self.directory.path()).env("DRIFTQ_SERVER", self.server.url());
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, flags: &[&str], script: &str) -> Ran {
        self.command(flags, script).output().unwrap().into()
    }

    fn start(&self, flags: &[&str], script: &str) -> Running {
        let mut command = self.command(flags, script);
        Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn effect(&self, key: &str) -> Value {
        self.server.run(&["effect", "get", "charge", key, "-o", "json"]).ok().json()
    }

    /// How often commands noted that they ran.
    fn runs(&self) -> usize {
        std::fs::read_to_string(self.file("runs")).unwrap_or_default().lines().count()
    }
}

/// A run under way. Dropping it kills it.
struct Running(Child);

impl Running {
    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap().success());
    }

    fn end(mut self) -> Ran {
        // What it says is short enough to wait in the pipes.
        wait_until("the run does not end", || self.0.try_wait().unwrap().is_some());
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        Ran { code: self.0.wait().unwrap().code().unwrap_or(-1), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for(path: &Path) {
    wait_until(&format!("{} does not come", path.display()), || path.exists());
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn it_runs_once_and_is_replayed_as_it_was() {
    let world = World::new(&[]);
    let script = "echo x >> runs; printf 'ch_1\\377\\n'";
    let output = |_: ()| world.command(&["--key", "k"], script).output().unwrap();
    let (first, second) = (output(()), output(()));
    assert_eq!(first.stdout, b"ch_1\xff\n", "bytes, not text");
    assert_eq!((first.stdout, first.status.code()), (second.stdout, second.status.code()));
    assert_eq!(world.runs(), 1);
    let effect = world.effect("k");
    assert_eq!((&effect["state"], &effect["outcome"]["code"]), (&"succeeded".into(), &0.into()));
}

#[test]
fn exit_codes_say_what_happened() {
    let world = World::new(&[]);
    // It failed for good: the same end again, without a second run.
    for _ in 0..2 {
        let ran =
            world.run(&["--key", "final"], "echo x >> runs; echo no; echo stolen >&2; exit 65").code(65);
        assert!(ran.stdout == "no\n" && ran.stderr.contains("stolen"), "{} {}", ran.stdout, ran.stderr);
    }
    assert_eq!(world.runs(), 1);
    assert_eq!(world.effect("final")["outcome"]["error"], "exit 65: stolen");
    // It did not happen: it may be tried again, twice here.
    for code in [75, 75, 14] {
        world.run(&["--key", "now", "--max-attempts", "2"], "echo closed >&2; exit 75").code(code);
    }
    assert_eq!(world.effect("now")["state"], "failed_retryable");
    // Nobody knows: with `retry` it runs again, with `hold` somebody has to find out.
    world.run(&["--key", "retry", "--on-lapse", "retry"], "exit 3").code(3);
    assert_eq!(world.effect("retry")["state"], "failed_retryable");
    let failed = world.run(&["--key", "hold", "--lease", "10m"], "echo timed out >&2; exit 3").code(3);
    assert!(failed.stderr.contains("it may have happened"), "it says how it stands: {}", failed.stderr);
    assert!(failed.stderr.contains("exit 3: timed out"), "{}", failed.stderr);
    let begun = Instant::now();
    let ran = world.run(&["--key", "hold", "--wait", "30s"], "echo never").code(15);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("driftq effect resolve"), "{}", ran.stderr);
    assert!(begun.elapsed() < Duration::from_secs(20), "nobody waits for a lease that nobody holds");
    // A command that is not there did nothing.
    let missing = world.server.run(&["effect", "run", "--scope", "charge", "--key", "m", "--", "/no/such"]);
    assert_eq!(missing.code, 127, "{}", missing.stderr);
    let effect = world.effect("m");
    assert_eq!((&effect["released"], &effect["attempt"]), (&true.into(), &0.into()), "it is free again");
    world.run(&["--key", "m", "--wait", "0", "--max-attempts", "1"], "echo now").ok();
}

#[test]
fn a_key_belongs_to_one_request() {
    let world = World::new(&[]);
    world.run(&["--key", "k", "--request-hash", "a"], "echo one").ok();
    let ran = world.run(&["--key", "k", "--request-hash", "b"], "echo two").code(65);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("KEY_REUSED"), "{}", ran.stderr);
    world.run(&["--key", "k", "-o", "json"], "echo two").code(2);
}

#[test]
fn whoever_comes_meanwhile_waits_or_keeps_off() {
    let world = World::new(&[]);
    let script = "touch begun; while [ ! -e go ]; do sleep 0.01; done; echo done";
    let first = world.start(&["--key", "k"], script);
    wait_for(&world.file("begun"));
    let kept_off = world.run(&["--key", "k", "--wait", "0"], "echo never").code(13);
    assert!(kept_off.stderr.contains("another holder has it for up to"), "{}", kept_off.stderr);
    let second = world.start(&["--key", "k"], "echo never");
    std::fs::write(world.file("go"), "").unwrap();
    assert_eq!(first.end().ok().stdout, "done\n");
    assert_eq!(second.end().ok().stdout, "done\n");
}

#[test]
fn the_lease_is_renewed_while_the_command_runs() {
    let world = World::new(&[]);
    let script = "touch begun; while [ ! -e go ]; do sleep 0.01; done; echo done";
    let first = world.start(&["--key", "k", "--lease", "300ms", "--on-lapse", "retry"], script);
    wait_for(&world.file("begun"));
    // Longer than the lease: whoever waits would be given it if it were over.
    world.run(&["--key", "k", "--wait", "1500ms", "--on-lapse", "retry"], "echo never").code(13);
    std::fs::write(world.file("go"), "").unwrap();
    assert_eq!(first.end().ok().stdout, "done\n");
    assert_eq!(world.effect("k")["attempt"], 1);
}

#[test]
fn a_lost_lease_ends_the_command() {
    let world = World::new(&[]);
    world.server.run(&["topic", "create", "t"]).ok();
    world.server.run(&["produce", "t", "v"]).ok();
    let take = ["lease", "take", "t", "g", "--lease", "10m", "-o", "json"];
    let token = world.server.run(&take).ok().json()[0]["lease"]["token"].as_str().unwrap().to_owned();
    let script = "trap 'echo told > told; exit 9' TERM; touch begun; while :; do sleep 0.01; done";
    let mut command = world.command(&["--key", "k", "--lease", "300ms"], script);
    // As `driftq work` does it: the effect belongs to the delivery.
    command.env("DRIFTQ_LEASE_TOKEN", &token);
    let running = Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    wait_for(&world.file("begun"));
    assert_eq!(world.effect("k")["message"]["topic"], "t");
    world.server.run(&["lease", "release", &token]).ok();
    let ran = running.end().code(5);
    assert!(ran.stderr.contains("lost"), "{}", ran.stderr);
    assert!(world.file("told").exists(), "it was told by SIGTERM");
}

#[test]
fn signals_are_the_command_s() {
    let world = World::new(&[]);
    let script = "trap 'echo told; exit 0' TERM; touch begun; while :; do sleep 0.01; done";
    let running = world.start(&["--key", "k"], script);
    wait_for(&world.file("begun"));
    running.signal("-TERM");
    assert_eq!(running.end().ok().stdout, "told\n");
    assert_eq!(world.effect("k")["state"], "succeeded", "its own end counts");
}

#[test]
fn what_is_too_large_happened_all_the_same() {
    let world = World::new(&["--effect-result-bytes-max=1KiB"]);
    let script = "echo x >> runs; head -c 5000 /dev/zero | tr '\\0' x";
    assert_eq!(world.run(&["--key", "k"], script).ok().stdout.len(), 5000);
    let effect = world.effect("k");
    assert_eq!(effect["state"], "succeeded");
    assert_eq!(effect["outcome"]["headers"]["x-driftq-result"], "omitted");
    let ran = world.run(&["--key", "k"], script).code(12);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("too large"), "{}", ran.stderr);
    assert_eq!(world.runs(), 1);
}

#[test]
fn a_reconciler_finds_out() {
    let world = World::new(&[]);
    let unclear = |key: &str| {
        world.run(&["--key", key, "--lease", "50ms"], "echo x >> runs; exit 1").code(1);
    };
    let ask = |key: &str, found: &str| world.run(&["--key", key, "--reconcile", found], "echo again");
    unclear("done");
    assert_eq!(ask("done", "echo ch_1").ok().stdout, "ch_1\n", "it happened: that is the result");
    assert_eq!(world.effect("done")["outcome"]["resolved_by"], "cli");
    unclear("not_done");
    assert_eq!(ask("not_done", "exit 75").ok().stdout, "again\n", "it did not: it runs");
    unclear("failed");
    ask("failed", "echo gone >&2; exit 65").code(65);
    unclear("open");
    ask("open", "exit 1").code(15);
    assert_eq!(world.effect("open")["state"], "unknown");
    assert_eq!(world.runs(), 4);
}
