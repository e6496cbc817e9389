//! Chores of the workspace, run as `cargo xtask <chore>`. `cargo xtask --help` teaches them.

mod args;
mod command;
mod deny;
mod fuzz;
mod help;
mod host;
mod instructions;
mod mutants;
mod outside;
mod postgres;
mod sdk;
mod soak;
mod spdx;
mod step;
mod task;
mod test;
mod tidy;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use args::Args;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<step::Told>() => ExitCode::FAILURE,
        Err(error) => {
            // Without a backtrace: the reader wants to know what to do, not where xtask noticed.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(words: &[String]) -> Result<()> {
    let (chore, rest) = match words.split_first() {
        Some((chore, rest)) => (chore.as_str(), rest),
        None => ("--help", words),
    };
    let root = workspace_root()?;
    // After `--` comes the command line of another program.
    let mut ours = rest.iter().take_while(|word| *word != "--");
    let wants_help = ours.any(|word| word == "--help" || word == "-h");
    if let Some(text) = help::of(chore).filter(|_| wants_help && chore != "bench") {
        print!("{text}");
        return Ok(());
    }
    match chore {
        "--help" | "-h" | "help" => {
            let text = rest.first().and_then(|chore| help::of(chore)).unwrap_or(help::OVERVIEW);
            print!("{text}");
            Ok(())
        }
        "test" => test::run(&root, &test::Settings::parse(Args::new(rest))?),
        "soak" => soak::run(&root, &soak::Settings::parse(Args::new(rest))?),
        "fuzz" => fuzz::run(&root, &fuzz::Settings::parse(Args::new(rest))?),
        "sdk" => sdk::run(&root, &sdk::Settings::parse(Args::new(rest))?),
        "mutants" => mutants::run(&root, &mutants::Settings::parse(Args::new(rest))?),
        "instructions" => instructions::run(&root, &instructions::Settings::parse(Args::new(rest))?),
        "tidy" => {
            Args::new(rest).finish()?;
            tidy::run(&root)
        }
        "deny" => {
            Args::new(rest).finish()?;
            deny::run(&root)
        }
        "setup" => {
            Args::new(rest).finish()?;
            host::provide()
        }
        "docs" => command::expect_success(&mut command::docs(&root, rest)),
        "postgres" => postgres::run(&root, rest),
        "bench" => command::expect_success(&mut command::bench(&root, rest)),
        other => bail!("there is no chore `{other}`; `cargo xtask --help` lists them"),
    }
}

/// The folder above this crate, wherever the command was called from.
fn workspace_root() -> Result<PathBuf> {
    // Cargo sets the variable at run time, so a moved or copied workspace is found where it lies now.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    manifest.parent().map(Path::to_owned).context("the xtask crate lies in the workspace's folder")
}
