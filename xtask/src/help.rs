//! What `--help` teaches.

pub(crate) const OVERVIEW: &str = "\
Chores of the DriftQ workspace.

Usage: cargo xtask <chore> [options]      (cargo xtask <chore> --help tells more)

  test      Everything a change must pass: style, lints, tests, short simulation, mutants, black box
  soak      The long forms: thousands of seeds, every mutant, hundreds of kill -9 cycles
  fuzz      Parsers of foreign bytes under libFuzzer
  sdk       The SDKs alone: packages, their suites, workers under kill -9, the pages' programs
  mutants   Break the product on purpose, one line at a time; the simulator must notice each time
  tidy      House rules: arrows between crates, sizes, headers, leftovers, links
  docs      Write the reference, the OpenAPI document and man pages from the tables in the code
  setup     Install what the tests need besides a Rust toolchain
  postgres  Run a command with a PostgreSQL server of its own, for the tests that need one
  deny      Licences, banned crates and sources, by the lists in deny.toml
  bench     Build with optimisations and run `driftq bench` with the arguments given
  instructions  Count the instructions of the hot paths, and compare them with those that are kept

While you work: `cargo xtask tidy` takes a second, `cargo xtask test --quick` two minutes.
Before you ask for a review: `cargo xtask test`.
";

const TEST: &str = "\
Runs everything a change must pass, and says for each step what it ran and how long it took.

Usage: cargo xtask test [--setup] [--quick]

  --setup   First install what is missing, as `cargo xtask setup` does; on a CI machine (CI is set) this is the default
  --quick   For the inner loop: style, the tests of core, log and engine, 50 seeds; no database, no binary

Needs a Rust toolchain, python3, curl, Node.js with npm, Chromium, PostgreSQL, PgBouncer, Redis and valgrind. With --setup, on
Debian or Ubuntu, as root or with sudo, it installs those that are missing, without starting their services; otherwise it says
what is missing. The SDKs' own tools come from the indexes of Python and npm into target/, sdk/typescript and ui. The tests share one
PostgreSQL server, which is started for them and stopped afterwards. rustfmt, clippy, cargo-nextest and cargo-deny are
used when they are installed. Of the mutants only the short list runs, one or two for each promise; `cargo xtask
mutants` runs all. A failing step does not stop the others; the last line reads `N passed, M failed` and counts steps.
";

const SOAK: &str = "\
Runs the long forms of the simulation, the mutants and the kill -9 loops (messages, effects, connectors, the ledger on
PostgreSQL, a release that uses the ledger and is deployed and rolled back), with optimisations; every fuzz target for a
few seconds; and three servers on one log that are killed, put to sleep, drained and cut off, on PostgreSQL and on NATS,
which break as well.

Usage: cargo xtask soak [--seeds N] [--cycles N] [--minutes M]

  --seeds N      Seeds for the simulator; a fifth of them, too, with several nodes and shards [default: 2000]
  --cycles N     Kill -9 cycles of each loop                              [default: 500]
  --minutes M    Instead of a fixed number of seeds: fresh seeds until M minutes have passed

A violation prints the seed that repeats it.
";

const FUZZ: &str = "\
Runs libFuzzer on every parser that takes foreign bytes: words of /v1 and /v2, queries and cursors, NDJSON, the
canonical form, keys, tokens, certificates of clients, rules of a router, facts, messages, snapshots, segments. The
targets are in fuzz/, and so is what they begin from.

Usage: cargo xtask fuzz [--seconds N] [--target NAME]

  --seconds N      How long each target runs                                  [default: 60]
  --target NAME    Only this one

Needs a C++ compiler. What was found on the way lies below target/fuzz/found and is used again; an input that brings a
target down is written to target/fuzz/crash-*, and named. Mend it with a test that has it.
";

const SDK: &str = "\
Builds the broker and the SDKs' packages, installs the packages as a user would, and runs the suites of the SDKs, the
programs of their quick starts, workers that are killed with SIGKILL, and everything that stands in README and docs.

Usage: cargo xtask sdk [--kills N]

  --kills N    How often a worker of each language is killed                 [default: 100]
";

const MUTANTS: &str = "\
Applies each mutant of crates/sim/mutants.toml to a copy of the workspace and runs the simulator on it.
The simulator must report a violation: a mutant that survives means that a check is missing.

Usage: cargo xtask mutants [--only NAME] [--short] [--seeds N] [--minutes M] [--list]

  --only NAME    Run this mutant alone
  --short        Run the short list only, as `cargo xtask test` does
  --seeds N      Seeds that each mutant may take to be noticed            [default: 200]
  --minutes M    Start no further mutant after M minutes; those left out are named
  --list         Check that every mutant still applies, and run none

A mutant is one entry of the list:

  [[mutant]]
  name    = \"ack-forgets-gap\"
  file    = \"crates/core/src/state/group.rs\"
  find    = \"self.gaps.insert(offset);\"      # occurs exactly once in the file
  replace = \"\"
  breaks  = \"An acked message is never delivered again.\"
  short   = true                             # one of the short list; left out otherwise
  seed    = 71                               # tried first, if few seeds notice it; a hint that may age
  nodes   = 3                                # so many nodes on one log; one server on its own disk otherwise
  shards  = 3                                # so many shards, and messages that hop between them; one otherwise

The short list has a mutant of every file of the list. A full run fails if a check of the simulator spoke up for
mutants outside the short list only.

Exit codes of the simulator: 0 clean, 1 violation reported, anything else is a broken run and catches nothing.
";

const TIDY: &str = "\
Holds the workspace against the house rules. Prints file:line and what to do; fails on any error.

Usage: cargo xtask tidy

  arrow          a crate leans on one that it must not know; the core is not no_std
  clock          a clock, a sleep or randomness in core, wal or sim
  file-size      more than 600 lines (from 400: a warning), outside tests folders
  function-size  more than 70 lines from `fn` to the closing brace, outside tests
  header         a source file that does not open with `//!`
  leftover       unwrap() outside tests, placeholder macros, notes to self
  reason         a lint exception or an ignored test without its reason
  machine-path   an absolute path that exists on one machine only
  whitespace     trailing blanks, tabs in Rust, no newline at the end
  link           a relative Markdown link or anchor that leads nowhere
  room           a file of the core imports from a room above its own
  dead-file      a source file that no `mod` line reaches
";

const DOCS: &str = "\
Writes docs/reference, docs/errors.json and docs/openapi.json from the tables that the server and the command line
work with. The tests fail while a page is not what the tables say.

Usage: cargo xtask docs [--check] [--man DIR]

  --check      Write nothing; fail if a page is out of date
  --man DIR    Instead write man pages, one for each command, into DIR; a relative DIR lies in the workspace
";

const SETUP: &str = "\
Says which programs of other people the tests need and whether they are there, and installs those that are missing.

Usage: cargo xtask setup

Installs on Debian and Ubuntu, as root or with sudo. The services in the packages are not started: the tests start
servers of their own.
";

const POSTGRES: &str = "\
Runs a command with a PostgreSQL server of its own, whose URL it finds in DRIFTQ_TEST_POSTGRES.

Usage: cargo xtask postgres -- COMMAND [ARGUMENT]...

For example: cargo xtask postgres -- cargo test --package driftq-ledger

The server runs as an account without privileges, on a free port of the loopback, in a temporary folder; afterwards it
is gone, also if the command is broken off. Tests that find no such variable start a server each. Where PostgreSQL's
programs are not found by themselves, DRIFTQ_TEST_POSTGRES_BIN names their folder.
";

const DENY: &str = "\
Checks every dependency against deny.toml: licence allowed, crate not banned, source is the default registry.

Usage: cargo xtask deny

Uses cargo-deny when it is installed, and otherwise reads the same lists with `cargo metadata`.
";

const BENCH: &str = "\
Builds with optimisations and runs `driftq bench` with the arguments given.

Usage: cargo xtask bench [arguments of driftq bench]
";

const INSTRUCTIONS: &str = "\
Counts, with valgrind, how many instructions a request costs the broker on its hot paths, and compares the counts with
bench/instructions.json. It fails when one is more than a tenth above.

Usage: cargo xtask instructions [--keep]

  --keep    Write the counts down instead: after a change that makes a path cheaper, or dearer for a good reason

The broker is built as for the tests, so that nothing is built twice; `driftq bench instructions` counts with any build.
Counts do not depend on how busy the machine is. They hold for x86_64 Linux and the toolchain of rust-toolchain.toml.
";

pub(crate) fn of(chore: &str) -> Option<&'static str> {
    match chore {
        "test" => Some(TEST),
        "soak" => Some(SOAK),
        "fuzz" => Some(FUZZ),
        "sdk" => Some(SDK),
        "mutants" => Some(MUTANTS),
        "tidy" => Some(TIDY),
        "docs" => Some(DOCS),
        "setup" => Some(SETUP),
        "postgres" => Some(POSTGRES),
        "deny" => Some(DENY),
        "bench" => Some(BENCH),
        "instructions" => Some(INSTRUCTIONS),
        _ => None,
    }
}
