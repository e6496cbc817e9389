//! What the tests need from the machine besides a Rust toolchain, and how to get it there.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Result, bail};

use crate::command::{answers, expect_success};

struct Tool {
    program: &'static str,
    package: &'static str,
    purpose: &'static str,
}

const TOOLS: [Tool; 2] = [
    Tool { program: "python3", package: "python3", purpose: "the compatibility scripts in tests/python" },
    Tool { program: "curl", package: "curl", purpose: "the README's tour" },
];

/// Installs what is missing where we know how, and otherwise says what to install.
pub(crate) fn provide() -> Result<()> {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !is_there(tool.program)).collect();
    for tool in &TOOLS {
        let state = if is_there(tool.program) { "there" } else { "missing" };
        println!("{}: {state} (for {})", tool.program, tool.purpose);
    }
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    if !is_there("apt-get") {
        bail!(
            "missing: {0}; install the packages {0} with this system's package manager",
            packages.join(" ")
        );
    }
    let is_root = is_root();
    if !is_root && !is_there("sudo") {
        bail!("missing: {0}; as root: apt-get update && apt-get install -y {0}", packages.join(" "));
    }
    // Package lists of a fresh image are empty or old, so an install without an update would not find anything.
    expect_success(apt_get(is_root).arg("update"))?;
    expect_success(apt_get(is_root).args(["install", "-y", "--no-install-recommends"]).args(&packages))?;
    match missing.iter().find(|tool| !is_there(tool.program)) {
        Some(tool) => bail!("{} was installed and still does not answer; look at the PATH", tool.program),
        None => Ok(()),
    }
}

fn apt_get(is_root: bool) -> Command {
    let mut command = Command::new(if is_root { "apt-get" } else { "sudo" });
    if !is_root {
        command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    }
    command.env("DEBIAN_FRONTEND", "noninteractive").arg("-q");
    command
}

fn is_there(program: &str) -> bool {
    match program {
        "apt-get" => Path::new("/usr/bin/apt-get").exists(),
        other => answers(Command::new(other).arg("--version")),
    }
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").stderr(Stdio::null()).output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
