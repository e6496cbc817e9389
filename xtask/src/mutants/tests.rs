//! The whole hunt on a toy workspace whose simulator is ten lines long.

use std::{fs, path::Path};

use super::{Settings, run_in};

const MANIFEST: &str = "[workspace]\nmembers = [\"crates/sim\"]\nresolver = \"3\"\n";
const MEMBER: &str = "[package]\nname = \"driftq-sim\"\nversion = \"0.0.0\"\nedition = \"2024\"\n";

/// Checks one sum per seed. The third argument is the number of seeds, the fifth the first seed.
const SIMULATOR: &str = r#"
fn main() {
    let number = |at: usize| std::env::args().nth(at).expect("an argument").parse::<u64>().expect("a number");
    for seed in number(5)..number(5) + number(3) {
        let sum = seed + 1;
        if sum <= seed {
            println!("seed {seed}: violation: the sum did not grow");
            std::process::exit(1);
        }
    }
}
"#;

fn toy(mutants: &[(&str, &str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary folder");
    let entry = |(name, find, replace): &(&str, &str, &str)| {
        format!(
            "[[mutant]]\nname = '{name}'\nfile = 'crates/sim/src/main.rs'\nfind = '{find}'\nreplace = '{replace}'\n\
             breaks = 'Sums grow.'\n{}",
            if name.starts_with("long-") { "" } else { "short = true\n" }
        )
    };
    fs::create_dir_all(root.path().join("crates/sim/src")).expect("the folder is new");
    for (path, text) in [
        ("Cargo.toml", MANIFEST.to_owned()),
        ("crates/sim/Cargo.toml", MEMBER.to_owned()),
        ("crates/sim/src/main.rs", SIMULATOR.to_owned()),
        ("crates/sim/mutants.toml", mutants.iter().map(entry).collect()),
    ] {
        fs::write(root.path().join(path), text).expect("a folder takes a file");
    }
    root
}

fn hunt(root: &Path) -> Result<(), String> {
    run_in(root, &root.join("work"), &Settings::full(10)).map_err(|error| format!("{error:#}"))
}

#[test]
fn a_caught_mutant_passes_and_leaves_no_trace() {
    let root = toy(&[("no-growth", "seed + 1", "seed"), ("late", "seed + 1", "seed + 1 - seed / 7")]);
    // The second hunt finds the artefacts of the first; a wrong file time would show as a broken unbroken tree.
    for _ in 0..2 {
        assert_eq!(hunt(root.path()), Ok(()));
    }
    let source = fs::read_to_string(root.path().join("crates/sim/src/main.rs")).expect("it is there");
    assert_eq!(source, SIMULATOR);
}

#[test]
fn mutants_that_show_nothing_fail() {
    for (name, find, replace) in [
        ("survives", "seed + 1", "seed + 2"),
        ("does-not-build", "seed + 1", "seed +"),
        ("crashes", "seed + 1", "seed + [1][seed as usize]"),
        (
            "wrong-exit-code",
            "if sum <= seed",
            "std::process::exit(2); #[allow(unreachable_code)] if sum <= seed",
        ),
    ] {
        let root = toy(&[(name, find, replace)]);
        let error = hunt(root.path()).expect_err(name);
        assert!(error.contains(&format!("not caught: {name}")), "{error}");
    }
}

#[test]
fn the_short_list_runs_alone_and_must_fail_every_check() {
    let root = toy(&[("no-growth", "seed + 1", "seed"), ("long-survivor", "seed + 1", "seed + 2")]);
    let short = Settings { is_short: true, ..Settings::full(10) };
    run_in(root.path(), &root.path().join("work"), &short).expect("the survivor is not in the short list");

    let other = r#"{ println!("seed 1: violation: another check: it spoke"); std::process::exit(1); 1 }"#;
    let root = toy(&[("no-growth", "seed + 1", "seed"), ("long-other", "seed + 1", other)]);
    let error = hunt(root.path()).expect_err("only a long mutant fails the other check");
    assert!(error.contains("another check"), "{error}");
    let root = toy(&[("long-growth", "seed + 1", "seed")]);
    let error = hunt(root.path()).expect_err("the file has no mutant in the short list");
    assert!(error.contains("crates/sim/src/main.rs"), "{error}");
}

#[test]
fn a_stale_list_fails_before_anything_is_built() {
    for find in ["never there", "seed"] {
        let root = toy(&[("stale", find, "x")]);
        let error = hunt(root.path()).expect_err("it does not apply once");
        assert!(error.contains("stale"), "{error}");
        assert!(!root.path().join("work").exists());
    }
}

#[test]
fn a_broken_baseline_fails() {
    let root = toy(&[("no-growth", "seed + 1", "seed + 0")]);
    let path = root.path().join("crates/sim/src/main.rs");
    fs::write(path, SIMULATOR.replace("sum <= seed", "sum > seed")).expect("a folder takes a file");
    let error = hunt(root.path()).expect_err("the simulator complains without a mutant");
    assert!(error.contains("unbroken tree"), "{error}");
}
