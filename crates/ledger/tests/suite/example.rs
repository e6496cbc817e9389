//! The example does what it says: a server that is tormented and killed charges nobody twice.

use std::path::PathBuf;
use std::process::Command;

use driftq_testbed::Postgres;

/// The example lies beside the folder of the test programs.
fn payments() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(|deps| deps.parent()).unwrap();
    let program = folder.join("examples").join("payments");
    let hint = "`cargo build -p driftq-ledger --examples` makes it; `cargo test` does so by itself";
    assert!(program.is_file(), "{} is not there: {hint}", program.display());
    program
}

#[test]
fn a_tormented_server_charges_once() {
    let postgres = Postgres::shared().unwrap();
    let mut command = Command::new(payments());
    command.args(["torment", "--keys", "4", "--racers", "4", "--kills", "2", "--database", postgres.url()]);
    let output = command.output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    for line in [
        "charges       16        16           0     0     0        0         0",
        "every key happened once, and everybody was told so",
    ] {
        assert!(said.contains(line), "{said}");
    }
}

#[test]
fn what_the_command_line_does_not_know_is_said() {
    for (arguments, part) in [
        (&["--help"][..], "POST /payouts"),
        (&["serve"], "serve needs --database"),
        (&["--kills", "many"], "not a number"),
        (&["--speed", "1"], "torment does not know --speed"),
        (&["--keys"], "--keys needs a value"),
    ] {
        let output = Command::new(payments()).args(arguments).output().unwrap();
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(said.contains(part), "{arguments:?}: {said}");
        assert_eq!(output.status.success(), arguments == ["--help"], "{said}");
    }
}
