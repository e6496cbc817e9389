//! What the tests need from the machine besides a Rust toolchain, and how to get it there.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Result, bail};

use crate::command::{answers, expect_success};

struct Tool {
    name: &'static str,
    /// A command that succeeds where the tool is.
    probe: &'static [&'static str],
    package: &'static str,
    purpose: &'static str,
    /// Whether the tests can do without it.
    is_optional: bool,
}

const TOOLS: [Tool; 10] = [
    Tool {
        name: "python3",
        probe: &["python3", "--version"],
        package: "python3",
        purpose: "the scripts in tests/python",
        is_optional: false,
    },
    Tool {
        name: "python3 venv",
        probe: &["python3", "-c", "import ensurepip, venv"],
        package: "python3-venv",
        purpose: "the Python SDK's tests, and a fuzzer, in environments below target",
        is_optional: false,
    },
    Tool {
        name: "curl",
        probe: &["curl", "--version"],
        package: "curl",
        purpose: "the README's tour",
        is_optional: false,
    },
    Tool {
        name: "PostgreSQL server",
        probe: &["sh", "-c", FIND_INITDB],
        package: "postgresql",
        purpose: "the ledger's tests, which start one of their own",
        is_optional: false,
    },
    Tool {
        name: "pgbouncer",
        probe: &["sh", "-c", "PATH=$PATH:/usr/sbin; pgbouncer --version"],
        package: "pgbouncer",
        purpose: "the ledger behind a pooler",
        is_optional: false,
    },
    Tool {
        name: "redis-server",
        probe: &["redis-server", "--version"],
        package: "redis-server",
        purpose: "the ledger's cache",
        is_optional: false,
    },
    Tool {
        name: "Node.js 20",
        probe: &["node", "-e", IS_NODE_20],
        package: "nodejs",
        purpose: "the TypeScript SDK; without it its tests are left out",
        is_optional: true,
    },
    Tool {
        name: "npm",
        probe: &["npm", "--version"],
        package: "npm",
        purpose: "the TypeScript SDK and the dashboard; without it their tests are left out",
        is_optional: true,
    },
    Tool {
        name: "Chromium",
        probe: &["sh", "-c", FIND_CHROMIUM],
        package: "chromium",
        purpose: "the dashboard; without it its tests are left out",
        is_optional: true,
    },
    Tool {
        name: "valgrind",
        probe: &["callgrind_control", "--version"],
        package: "valgrind",
        purpose: "instruction counts of the hot paths; without it they are left out",
        is_optional: true,
    },
];

/// The names that Chromium goes by.
const FIND_CHROMIUM: &str = r#"
command -v "${DRIFTQ_TEST_CHROMIUM:-/nowhere}" || command -v chromium || command -v chromium-browser || command -v google-chrome
"#;

/// Older ones lack what the SDK and its tests are written in.
const IS_NODE_20: &str = "process.exit(Number(process.versions.node.split('.')[0]) >= 20 ? 0 : 1)";

/// Debian keeps the server's programs out of the PATH.
const FIND_INITDB: &str = r#"
command -v "${DRIFTQ_TEST_POSTGRES_BIN:-/nowhere}/initdb" || command -v initdb || ls /usr/lib/postgresql/*/bin/initdb
"#;

/// Installs packages without starting the services in them: the tests start servers of their own, and the developer did
/// not ask for one at a well-known port. A policy that is there already is left as it is.
const INSTALL: &str = r#"
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy" || exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -q -o DPkg::Lock::Timeout=120 install -y --no-install-recommends "$@"
"#;

impl Tool {
    fn is_there(&self) -> bool {
        is_there(self.probe)
    }
}

/// Whether the caller has asked for packages to be installed: by a flag, or by being a CI machine.
pub(crate) fn may_install(is_asked: bool) -> bool {
    is_asked || std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// Says what is missing, and installs nothing.
pub(crate) fn look() -> Result<()> {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !tool.is_there()).collect();
    for tool in &missing {
        println!("{}: missing (for {}); package {}", tool.name, tool.purpose, tool.package);
    }
    if missing.iter().any(|tool| !tool.is_optional) {
        bail!(
            "programs are missing: `cargo xtask setup` installs them, and so does `cargo xtask test --setup`"
        );
    }
    Ok(())
}

/// Installs what is missing where we know how, and otherwise says what to install.
pub(crate) fn provide() -> Result<()> {
    let (there, missing): (Vec<&Tool>, Vec<&Tool>) = TOOLS.iter().partition(|tool| tool.is_there());
    for (tools, state) in [(&there, "there"), (&missing, "missing")] {
        for tool in tools {
            println!("{}: {state} (for {})", tool.name, tool.purpose);
        }
    }
    let (optional, required): (Vec<&Tool>, Vec<&Tool>) = missing.iter().partition(|tool| tool.is_optional);
    if let Err(error) = install(&optional) {
        println!("going on without: {error:#}");
    }
    install(&required)
}

fn install(missing: &[&Tool]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    if !Path::new("/usr/bin/apt-get").exists() {
        bail!(
            "missing: {0}; install the packages {0} with this system's package manager",
            packages.join(" ")
        );
    }
    let is_root = is_root();
    if !is_root && !is_there(&["sudo", "--version"]) {
        bail!("missing: {0}; as root: apt-get update && apt-get install -y {0}", packages.join(" "));
    }
    // Package lists of a fresh image are empty or old, so an install without an update would not find anything.
    expect_success(as_root(is_root, "apt-get").args(["-q", "update"]))?;
    println!("installing {}; their services are not started", packages.join(" "));
    expect_success(as_root(is_root, "sh").args(["-c", INSTALL, "install"]).args(&packages))?;
    match missing.iter().find(|tool| !tool.is_there()) {
        Some(tool) => bail!("{} was installed and is still missing, or too old; look at the PATH", tool.name),
        None => Ok(()),
    }
}

fn as_root(is_root: bool, program: &str) -> Command {
    let mut command = Command::new(if is_root { program } else { "sudo" });
    if !is_root {
        command.arg(program);
    }
    command
}

/// Whether pages can be looked at.
pub(crate) fn has_chromium() -> bool {
    is_there(&["sh", "-c", FIND_CHROMIUM])
}

fn is_there(probe: &[&str]) -> bool {
    probe.split_first().is_some_and(|(program, arguments)| answers(Command::new(program).args(arguments)))
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").stderr(Stdio::null()).output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
