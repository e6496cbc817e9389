//! Every command line that the chores call, in one place: when one moves, it moves here.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use anyhow::{Context, Result, bail};

/// Set for the kill -9 loops: how many times something is killed.
pub(crate) const KILL_CYCLES: &str = "DRIFTQ_KILL_CYCLES";

/// Set for the Python scripts: the broker to talk to.
pub(crate) const BROKER_BINARY: &str = "DRIFTQ_BIN";

/// Where fixed runs of the simulator begin, so that "the first 200 seeds" means the same everywhere.
pub(crate) const FIRST_SEED: u64 = 1;

/// One set of targets for all steps of `test`. Every cargo call below selects the whole workspace: selecting single
/// packages would unify features differently and build the dependencies a second time.
const WORKSPACE: &str = "--workspace";

/// The ledger's suite on PostgreSQL with statements that are not prepared, which the soak runs.
const LEDGER_DIRECT: &str = "postgres::direct::";
/// All integration tests but those.
const QUICK_ENOUGH: &str = "kind(test) - (package(driftq-ledger) & test(/^postgres::direct::/))";

/// How many more integration tests than cores run at a time.
const TESTS_BEYOND_CORES: usize = 1;

/// Read by cargo: what compiles the crates of this workspace.
const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

/// Read by clippy's driver.
const CLIPPY_ARGUMENTS: &str = "CLIPPY_ARGS";

/// The cargo that runs us, so that a toolchain chosen on the command line is kept.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // A command that lints says so below: a chore that a linted test calls does not inherit it.
    command.current_dir(root).env_remove(WRAPPER).env_remove(CLIPPY_ARGUMENTS);
    command
}

fn cargo_with(root: &Path, arguments: &[&str]) -> Command {
    let mut command = cargo(root);
    command.args(arguments);
    command
}

pub(crate) fn format_check(root: &Path) -> Command {
    cargo_with(root, &["fmt", "--all", "--check"])
}

/// Clippy in the place of the compiler, if it is installed beside it. `cargo clippy` would read every crate without
/// building it, and the build would read it again; so one pass does both. All steps that build must agree on it, or the
/// later ones would build the workspace again.
pub(crate) fn clippy_driver() -> Option<&'static Path> {
    static DRIVER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let printed = Command::new(compiler).args(["--print", "sysroot"]).output().ok()?;
        let sysroot = String::from_utf8(printed.stdout).ok()?;
        let driver = Path::new(sysroot.trim()).join("bin/clippy-driver");
        driver.is_file().then_some(driver)
    };
    DRIVER.get_or_init(find).as_deref()
}

fn linting(mut command: Command) -> Command {
    if let Some(driver) = clippy_driver() {
        command.env(WRAPPER, driver);
        // As `cargo clippy -- -D warnings` hands them on.
        command.env(CLIPPY_ARGUMENTS, "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    }
    command
}

pub(crate) fn cargo_deny(root: &Path) -> Command {
    cargo_with(
        root,
        &["deny", "--all-features", "check", "--hide-inclusion-graph", "licenses", "bans", "sources"],
    )
}

/// Builds what all later steps run: libraries, binaries, tests and examples, in the one profile.
pub(crate) fn build(root: &Path) -> Command {
    linting(cargo_with(root, &["build", WORKSPACE, "--lib", "--bins", "--tests", "--examples"]))
}

pub(crate) fn unit_tests(root: &Path, has_nextest: bool) -> Command {
    linting(match has_nextest {
        true => {
            cargo_with(root, &["nextest", "run", WORKSPACE, "--no-fail-fast", "-E", "kind(lib) + kind(bin)"])
        }
        false => cargo_with(root, &["test", WORKSPACE, "--no-fail-fast", "--lib", "--bins"]),
    })
}

pub(crate) fn integration_tests(root: &Path, has_nextest: bool, kill_cycles: u64) -> Command {
    let mut command = linting(match has_nextest {
        true => cargo_with(root, &["nextest", "run", WORKSPACE, "--no-fail-fast", "-E", QUICK_ENOUGH]),
        false => cargo_with(root, &["test", WORKSPACE, "--no-fail-fast", "--test", "*"]),
    });
    if has_nextest {
        // Most of their time they wait: for a process that starts, a lease that lapses, a disk.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        command.arg("--test-threads").arg((cores + TESTS_BEYOND_CORES).to_string());
    }
    command.env(KILL_CYCLES, kill_cycles.to_string());
    command
}

/// Connectors that are killed hundreds of times: sinks, deliveries, exports.
pub(crate) fn kill_connectors(root: &Path, kill_cycles: u64) -> Command {
    let tests = ["--test", "sink", "--test", "deliver", "--test", "export"];
    let chosen = ["--", "--ignored", "--nocapture", "two_hundred", "kills_at_random"];
    let mut command = linting(cargo_with(root, &["test", WORKSPACE, "--no-fail-fast"]));
    command.args(tests).args(chosen).env(KILL_CYCLES, kill_cycles.to_string());
    command
}

/// Servers that share a log are killed, put to sleep, drained and cut off under load.
pub(crate) fn cluster_chaos(root: &Path, broker: &Path, seconds: u64) -> Command {
    let mut command = python(root, Path::new("tests/python/_cluster_chaos.py"), broker);
    command.args(["--seconds", &seconds.to_string()]);
    command
}

/// The same while what holds the log is broken as well: `postgres` or `nats`, started by the testbed beside the broker.
pub(crate) fn engine_chaos(root: &Path, broker: &Path, engine: &str, shards: u64, seconds: u64) -> Command {
    let mut command = cluster_chaos(root, broker, seconds);
    command.args(["--engine", engine, "--shards", &shards.to_string()]);
    command
}

/// All tests of a few packages.
pub(crate) fn package_tests(root: &Path, has_nextest: bool, packages: &[&str]) -> Command {
    let mut command = linting(match has_nextest {
        true => cargo_with(root, &["nextest", "run", "--no-fail-fast"]),
        false => cargo_with(root, &["test", "--no-fail-fast", "--lib", "--bins", "--tests"]),
    });
    for package in packages {
        command.args(["--package", package]);
    }
    command
}

pub(crate) fn doc_tests(root: &Path) -> Command {
    linting(cargo_with(root, &["test", WORKSPACE, "--doc", "--quiet"]))
}

/// What the README's first command builds, as far as a compiler can complain. Everything else is built with all features.
pub(crate) fn check_first_build(root: &Path) -> Command {
    linting(cargo_with(root, &["check", "--package", "driftq"]))
}

/// Builds what the SDKs' steps run.
pub(crate) fn build_for_sdks(root: &Path) -> Command {
    let packages = ["--package", "driftq", "--package", "driftq-client", "--features", "driftq/full"];
    let mut command = cargo_with(root, &["build", "--bins", "--examples"]);
    command.args(packages);
    command
}

/// Writes the pages that are made from tables. Arguments are passed on; a relative folder lies in the workspace.
pub(crate) fn docs(root: &Path, arguments: &[String]) -> Command {
    let mut command = cargo_with(root, &["run", "--quiet", "--package", "driftq-pages", "--", "--root"]);
    command.arg(root).args(arguments);
    command
}

/// Builds what starts servers for tests.
pub(crate) fn build_testbed(root: &Path) -> Command {
    cargo_with(root, &["build", "--quiet", "--package", "driftq-testbed"])
}

pub(crate) fn build_simulator(root: &Path) -> Command {
    let mut command = cargo_with(root, &["build", "--quiet", "--package", "driftq-sim"]);
    // For every mutant, whatever the environment says about other builds.
    command.env("CARGO_INCREMENTAL", "1");
    command
}

/// The same, as the step that builds everything builds it.
pub(crate) fn build_simulator_linted(root: &Path) -> Command {
    linting(build_simulator(root))
}

pub(crate) fn build_simulator_release(root: &Path) -> Command {
    cargo_with(root, &["build", "--release", "--package", "driftq-sim"])
}

/// Runs seeds `from`, `from + 1`, ... on a built simulator. Exit code 0: clean, 1: violation, other: broken run.
pub(crate) fn simulate(simulator: &Path, from: u64, seeds: u64) -> Command {
    let mut command = Command::new(simulator);
    command.args(["run", "--seeds", &seeds.to_string(), "--from", &from.to_string()]);
    command
}

/// What is simulated: one shard of one server on its own disk, unless it says more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scene {
    /// Nodes that share one log.
    pub(crate) nodes: Option<u64>,
    /// Shards, with messages that hop from one to another.
    pub(crate) shards: Option<u64>,
}

impl Scene {
    /// Those that are not the simplest one.
    pub(crate) const OTHERS: [Self; 3] = [
        Self { nodes: Some(3), shards: None },
        Self { nodes: None, shards: Some(3) },
        Self { nodes: Some(3), shards: Some(3) },
    ];
}

/// The same in another scene.
pub(crate) fn simulate_scene(simulator: &Path, from: u64, seeds: u64, scene: Scene) -> Command {
    let mut command = simulate(simulator, from, seeds);
    for (flag, count) in [("--nodes", scene.nodes), ("--shards", scene.shards)] {
        command.args(count.iter().flat_map(|count| [flag.to_owned(), count.to_string()]));
    }
    command
}

pub(crate) fn kill_loop_release(root: &Path, cycles: u64) -> Command {
    let arguments = ["test", "--release", "--package", "driftq", "--test", "kill9", "--", "--nocapture"];
    let mut command = cargo_with(root, &arguments);
    command.env(KILL_CYCLES, cycles.to_string());
    command
}

/// Workers of the ledger and PostgreSQL itself under kill -9, with an outside checker.
pub(crate) fn kill_ledger_release(root: &Path, cycles: u64) -> Command {
    chaos_release(root, cycles, "no_effect_is_repeated_lost_or_stuck_whatever_dies")
}

/// A release of a service that uses the ledger is deployed and rolled back under load, and its workers are killed.
pub(crate) fn deploy_ledger_release(root: &Path, cycles: u64) -> Command {
    chaos_release(root, cycles, "drill::")
}

fn chaos_release(root: &Path, cycles: u64, test: &str) -> Command {
    let arguments =
        ["test", "--release", "--package", "driftq-ledger", "--test", "chaos", "--", "--nocapture", test];
    let mut command = cargo_with(root, &arguments);
    command.env(KILL_CYCLES, cycles.to_string());
    command
}

/// What every store must do, on PostgreSQL with statements that are not prepared: `test` runs it with prepared ones and
/// behind a pooler.
pub(crate) fn ledger_direct_release(root: &Path) -> Command {
    cargo_with(
        root,
        &["test", "--release", "--package", "driftq-ledger", "--test", "suite", "--", LEDGER_DIRECT],
    )
}

pub(crate) fn bench(root: &Path, arguments: &[String]) -> Command {
    let mut command = cargo_with(root, &["run", "--release", "--features", "full", "--", "bench"]);
    command.args(arguments);
    command
}

pub(crate) fn python(root: &Path, script: &Path, broker: &Path) -> Command {
    let mut command = Command::new("python3");
    command.arg(script).current_dir(root).env(BROKER_BINARY, broker);
    command
}

/// Effects and commits under kill -9, with an outside checker.
pub(crate) fn kill_effects(root: &Path, broker: &Path, cycles: u64) -> Command {
    let mut command = python(root, &root.join("tests/python/effects_kill9.py"), broker);
    command.args(["--cycles", &cycles.to_string()]);
    command
}

/// The same on a server of several shards, whose effects are not where their deliveries are.
pub(crate) fn kill_effects_of_shards(root: &Path, broker: &Path, cycles: u64) -> Command {
    let mut command = kill_effects(root, broker, cycles);
    command.args(["--shards", "3"]);
    command
}

/// Commits that reach from shard to shard under kill -9, with an outside checker.
pub(crate) fn kill_shards(root: &Path, broker: &Path, cycles: u64) -> Command {
    let mut command = python(root, &root.join("tests/python/shards_kill9.py"), broker);
    command.args(["--cycles", &cycles.to_string()]);
    command
}

/// Where cargo puts what it builds, with all ways to configure that taken into account.
pub(crate) fn target_folder(root: &Path) -> Result<PathBuf> {
    let metadata = metadata(root, &["--no-deps"])?;
    let folder = metadata.get("target_directory").and_then(|folder| folder.as_str());
    Ok(PathBuf::from(folder.context("cargo metadata names the target directory")?))
}

pub(crate) fn metadata(root: &Path, arguments: &[&str]) -> Result<serde_json::Value> {
    let mut command = cargo_with(root, &["metadata", "--format-version", "1", "--quiet"]);
    let output =
        command.args(arguments).stderr(Stdio::inherit()).output().context("starting cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed; its message is above");
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata prints JSON")
}

/// Whether a program answers; used to find out what is installed.
pub(crate) fn answers(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Whether `cargo <tool>` exists.
pub(crate) fn has_cargo_tool(root: &Path, tool: &str) -> bool {
    answers(cargo(root).args([tool, "--version"]))
}

/// The command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_else(|| command.get_program());
    let quoted = |word: &std::ffi::OsStr| {
        let word = word.to_string_lossy();
        if word.contains([' ', '*', '(', '&']) { format!("'{word}'") } else { word.into_owned() }
    };
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_string_lossy(), value?.to_string_lossy())));
    let words = std::iter::once(quoted(program)).chain(command.get_args().map(quoted));
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

/// Prints the command, runs it, and fails when it fails.
pub(crate) fn expect_success(command: &mut Command) -> Result<()> {
    let line = shown(command);
    println!("$ {line}");
    let status = command.status().with_context(|| format!("starting `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// What cargo-fuzz would give the compiler: counters for the fuzzer, and the address sanitizer. Both are not stable, and
/// the compiler takes them all the same when it is told to.
const FUZZ_FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address -Ccodegen-units=1";
/// Named, so that the flags are not those of build scripts as well.
const FUZZ_HOST: &str = "x86_64-unknown-linux-gnu";
/// Largest input that is tried, in bytes: enough for a segment.
const FUZZ_INPUT_BYTES_MAX: u32 = 8192;

pub(crate) fn build_fuzz(root: &Path) -> Result<Command> {
    let mut command = cargo_with(
        root,
        &["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target", FUZZ_HOST, "--target-dir"],
    );
    command.arg(target_folder(root)?.join("fuzz/build"));
    command.env("RUSTFLAGS", FUZZ_FLAGS).env("RUSTC_BOOTSTRAP", "1");
    Ok(command)
}

/// One target for so many seconds. What it finds goes to `found`; the corpus of the repository is only read.
pub(crate) fn fuzz(root: &Path, target: &str, found: &Path, seconds: u64) -> Result<Command> {
    let folder = target_folder(root)?.join("fuzz");
    let binary = folder.join("build").join(FUZZ_HOST).join("release").join(target);
    let mut command = Command::new(binary);
    command.current_dir(root).arg(found).arg(root.join("fuzz/corpus").join(target));
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={FUZZ_INPUT_BYTES_MAX}"));
    command.args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=0", "-verbosity=0"]);
    command.arg(format!("-artifact_prefix={}/", folder.display()));
    Ok(command)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{expect_success, python, shown};

    #[test]
    fn a_shown_command_can_be_typed_again() {
        let command = python(Path::new("."), Path::new("a b.py"), Path::new("bin"));
        assert_eq!(shown(&command), "DRIFTQ_BIN=bin python3 'a b.py'");
    }

    #[test]
    fn a_failing_command_is_an_error() {
        assert!(expect_success(&mut std::process::Command::new("false")).is_err());
        assert!(expect_success(&mut std::process::Command::new("there-is-no-such-program")).is_err());
        assert!(expect_success(&mut std::process::Command::new("true")).is_ok());
    }
}
