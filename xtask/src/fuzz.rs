//! Parsers of foreign bytes under libFuzzer: `cargo xtask fuzz`.
//!
//! The targets are in `fuzz/`, one for each parser, with what they begin from in `fuzz/corpus`. They are built with the
//! compiler of the workspace and the flags that cargo-fuzz would give, so that nothing has to be installed.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};

use crate::{args::Args, command, step::Steps};

/// How long each target runs if nothing else is said, in seconds.
const SECONDS: u64 = 60;
/// The same in the soak.
pub(crate) const SOAK_SECONDS: u64 = 8;

pub(crate) struct Settings {
    seconds: u64,
    only: Option<String>,
}

impl Settings {
    pub(crate) fn parse(mut args: Args) -> Result<Self> {
        let settings =
            Self { seconds: args.value("--seconds")?.unwrap_or(SECONDS), only: args.value("--target")? };
        args.finish()?;
        Ok(settings)
    }

    /// A short run of every target.
    pub(crate) const fn short() -> Self {
        Self { seconds: SOAK_SECONDS, only: None }
    }
}

pub(crate) fn run(root: &Path, settings: &Settings) -> Result<()> {
    let targets: Vec<String> = targets(root)?
        .into_iter()
        .filter(|target| settings.only.as_ref().is_none_or(|only| only == target))
        .collect();
    if targets.is_empty() {
        bail!("there is no such target in fuzz/fuzz_targets");
    }
    let mut steps = Steps::new();
    let is_built = steps.run("build", || command::expect_success(&mut command::build_fuzz(root)?));
    for target in &targets {
        if is_built {
            steps.run(target, || fuzz(root, target, settings.seconds));
        } else {
            steps.skip(target, "it did not build");
        }
    }
    steps.finish()
}

/// What is found on the way is kept below the target folder and used again by the next run. An input that brings a
/// target down is written there, too, and named.
fn fuzz(root: &Path, target: &str, seconds: u64) -> Result<()> {
    let found = command::target_folder(root)?.join("fuzz/found").join(target);
    fs::create_dir_all(&found).with_context(|| format!("making {}", found.display()))?;
    command::expect_success(&mut command::fuzz(root, target, &found, seconds)?)
}

/// The names of the targets, in order.
fn targets(root: &Path) -> Result<Vec<String>> {
    let folder = root.join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        if let Some(name) = entry?.file_name().to_str().and_then(|name| name.strip_suffix(".rs")) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}
