//! The arrows between crates point one way only. This table is the design's; Cargo.toml files are held against it.

use std::path::Path;

use anyhow::{Context, Result};
use toml::Table;

use super::{
    finding::Finding,
    source::{Source, words},
};

/// What one crate may depend on.
struct Row {
    package: &'static str,
    /// Workspace crates that it may use.
    workspace: &'static [&'static str],
    /// Workspace crates that its tests may use on top.
    workspace_in_tests: &'static [&'static str],
    /// When present, the only outside crates that it may use (its tests are free).
    outside_only: Option<&'static [&'static str]>,
    /// Outside crates that neither it nor its tests may use.
    outside_never: &'static [&'static str],
    /// Told to the developer who breaks the row.
    because: &'static str,
}

const ROWS: [Row; 22] = [
    Row {
        package: "driftq-rules",
        workspace: &[],
        workspace_in_tests: &[],
        outside_only: Some(&[]),
        outside_never: &["tokio"],
        because: "every store obeys the rules, and builds nothing for them",
    },
    Row {
        package: "driftq-canonical",
        workspace: &[],
        workspace_in_tests: &[],
        outside_only: Some(&["serde", "serde_json"]),
        outside_never: &["tokio"],
        because: "one form of a document in every program, and nothing else",
    },
    Row {
        package: "driftq-tls",
        workspace: &[],
        workspace_in_tests: &[],
        outside_only: Some(&["rustls-native-certs", "rustls-webpki", "tokio-rustls"]),
        outside_never: &["openssl"],
        because: "whom to trust is one decision for every client, and who a server is one for every server",
    },
    Row {
        package: "driftq-postgres",
        workspace: &["driftq-tls"],
        workspace_in_tests: &[],
        outside_only: Some(&["tokio", "tokio-postgres"]),
        outside_never: &["openssl"],
        because: "how a database is reached is one decision for every program that reaches one",
    },
    Row {
        package: "driftq-core",
        workspace: &["driftq-rules"],
        workspace_in_tests: &[],
        outside_only: Some(&["blake3", "hashbrown"]),
        outside_never: &["tokio"],
        because: "every decision must be testable by seed",
    },
    Row {
        package: "driftq-wal",
        workspace: &[],
        workspace_in_tests: &[],
        outside_only: None,
        outside_never: &["tokio", "chrono", "jiff", "time", "rand", "fastrand", "getrandom"],
        because: "the log knows bytes and positions, not topics, clocks or runtimes",
    },
    Row {
        package: "driftq-api-derive",
        workspace: &[],
        workspace_in_tests: &[],
        outside_only: Some(&[]),
        outside_never: &[],
        because: "it is there so that nothing has to be built",
    },
    Row {
        package: "driftq-api",
        workspace: &["driftq-api-derive", "driftq-canonical"],
        workspace_in_tests: &["driftq-api"],
        outside_only: None,
        outside_never: &["axum", "hyper", "hyper-util", "tokio"],
        because: "the vocabulary is shared by server, command line and SDKs, which do not share a server",
    },
    Row {
        package: "driftq-engine",
        workspace: &["driftq-core", "driftq-postgres", "driftq-wal"],
        workspace_in_tests: &["driftq-engine", "driftq-testbed"],
        outside_only: None,
        outside_never: &["axum", "hyper", "hyper-util"],
        because: "the engine runs decisions and does not know who asks",
    },
    Row {
        package: "driftq-http",
        workspace: &["driftq-api", "driftq-tls"],
        workspace_in_tests: &["driftq-http"],
        outside_only: None,
        outside_never: &["axum", "openssl", "reqwest"],
        because: "it is the one way to a server for programs without a broker, and adds nothing of its own",
    },
    Row {
        package: "driftq-client",
        // The ledger that a server keeps, for services without a worker; a feature that is off unless asked for.
        workspace: &["driftq-api", "driftq-http", "driftq-ledger"],
        workspace_in_tests: &["driftq-client"],
        outside_only: None,
        outside_never: &[],
        because: "a user of the SDK must not build a broker",
    },
    Row {
        package: "driftq-ledger",
        // The words of a server and the way to it only for a feature that is off unless asked for.
        workspace: &[
            "driftq-rules",
            "driftq-canonical",
            "driftq-postgres",
            "driftq-tls",
            "driftq-api",
            "driftq-http",
        ],
        workspace_in_tests: &["driftq-ledger", "driftq-testbed"],
        outside_only: None,
        outside_never: &[],
        because: "a service with PostgreSQL and no broker uses it alone",
    },
    Row {
        package: "driftq-connect",
        workspace: &["driftq-api", "driftq-client", "driftq-postgres", "driftq-tls"],
        workspace_in_tests: &["driftq-connect", "driftq-testbed"],
        outside_only: None,
        outside_never: &["axum", "openssl"],
        because: "connectors are users of the SDK and know no more of the broker than any other program",
    },
    Row {
        package: "driftq-server",
        workspace: &["driftq-api", "driftq-engine", "driftq-http", "driftq-tls"],
        workspace_in_tests: &[],
        outside_only: None,
        outside_never: &["tokio-postgres", "async-nats"],
        because: "the server knows HTTP and its configuration; storage is reached through the engine",
    },
    Row {
        package: "driftq-cli",
        workspace: &[
            "driftq-api",
            "driftq-client",
            "driftq-connect",
            "driftq-engine",
            "driftq-http",
            "driftq-ledger",
        ],
        workspace_in_tests: &[],
        outside_only: None,
        outside_never: &["tokio-postgres", "async-nats"],
        because: "commands speak the public API, like any other client; the engine is for `wal` alone",
    },
    Row {
        package: "driftq-bench",
        workspace: &[
            "driftq-api",
            "driftq-cli",
            "driftq-client",
            "driftq-connect",
            "driftq-engine",
            "driftq-ledger",
            "driftq-tls",
        ],
        workspace_in_tests: &[],
        outside_only: None,
        outside_never: &["tokio-postgres", "async-nats"],
        because: "it measures a server from outside",
    },
    Row {
        package: "driftq",
        workspace: &["driftq-api", "driftq-bench", "driftq-cli", "driftq-engine", "driftq-server"],
        workspace_in_tests: &[
            "driftq",
            "driftq-client",
            "driftq-ledger",
            "driftq-testbed",
            "driftq-tls",
            "driftq-wal",
        ],
        outside_only: None,
        outside_never: &["tokio-postgres", "async-nats"],
        because: "the binary joins the server, the commands and the benchmark",
    },
    Row {
        package: "driftq-pages",
        workspace: &["driftq", "driftq-api", "driftq-cli"],
        workspace_in_tests: &[],
        outside_only: None,
        outside_never: &[],
        because: "pages are made from the tables of the binary and nothing else",
    },
    Row {
        package: "driftq-sim",
        workspace: &["driftq-core", "driftq-wal"],
        workspace_in_tests: &[],
        outside_only: None,
        outside_never: &["tokio", "chrono", "jiff", "time", "rand", "fastrand", "getrandom"],
        because: "a seed must give the same run on every machine",
    },
    Row {
        package: "driftq-fuzz",
        workspace: &[
            "driftq-api",
            "driftq-canonical",
            "driftq-core",
            "driftq-engine",
            "driftq-tls",
            "driftq-wal",
        ],
        workspace_in_tests: &[],
        outside_only: Some(&["libfuzzer-sys"]),
        outside_never: &[],
        because: "it calls parsers and nothing else",
    },
    Row {
        package: "driftq-testbed",
        workspace: &[],
        workspace_in_tests: &[],
        outside_only: None,
        outside_never: &[],
        because: "it starts servers for the tests of others and knows none of them",
    },
    Row {
        package: "xtask",
        workspace: &[],
        workspace_in_tests: &[],
        outside_only: None,
        outside_never: &[],
        because: "chores must build before, and without, the product",
    },
];

/// Checks one member's Cargo.toml.
pub(crate) fn check_manifest(path: &Path, text: &str) -> Result<Vec<Finding>> {
    let manifest: Table = text.parse().with_context(|| format!("{} is not valid TOML", path.display()))?;
    let name = manifest.get("package").and_then(|package| package.get("name")).and_then(|name| name.as_str());
    let name = name.with_context(|| format!("{} has no package name", path.display()))?;
    let Some(row) = ROWS.iter().find(|row| row.package == name) else {
        let message = format!(
            "`{name}` has no row in the table of arrows: decide its arrows in xtask/src/tidy/arrow.rs"
        );
        return Ok(vec![Finding::error(path, 1, "arrow", message)]);
    };
    let mut findings = Vec::new();
    for (dependency, is_test_only) in dependencies(&manifest) {
        if let Some(complaint) = row.complaint(&dependency, is_test_only) {
            let line = line_of(text, &dependency);
            let message = format!("{complaint}, because {}", row.because);
            findings.push(Finding::error(path, line, "arrow", message));
        }
    }
    Ok(findings)
}

impl Row {
    fn complaint(&self, dependency: &str, is_test_only: bool) -> Option<String> {
        let name = self.package;
        let is_member = dependency == "driftq" || dependency == "xtask" || dependency.starts_with("driftq-");
        if is_member {
            let in_tests = is_test_only && self.workspace_in_tests.contains(&dependency);
            let is_allowed = in_tests || self.workspace.contains(&dependency);
            return (!is_allowed).then(|| format!("`{name}` must not depend on `{dependency}`"));
        }
        if self.outside_never.contains(&dependency) {
            return Some(format!("`{name}` must never depend on `{dependency}`"));
        }
        let only = self.outside_only.filter(|_| !is_test_only)?;
        (!only.contains(&dependency))
            .then(|| format!("`{name}` may use {} and not `{dependency}`", only.join(", ")))
    }
}

/// All dependencies of a manifest with their real names, and whether only tests use them.
fn dependencies(manifest: &Table) -> Vec<(String, bool)> {
    let targets = manifest.get("target").and_then(|target| target.as_table());
    let tables = targets.into_iter().flat_map(Table::values).filter_map(|value| value.as_table());
    let mut found = Vec::new();
    for table in std::iter::once(manifest).chain(tables) {
        for (section, is_test_only) in
            [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
        {
            for (key, value) in table.get(section).and_then(|value| value.as_table()).into_iter().flatten() {
                let renamed = value.get("package").and_then(|package| package.as_str());
                found.push((renamed.unwrap_or(key).to_owned(), is_test_only));
            }
        }
    }
    found
}

/// The first line that names the dependency as a key or as the real name behind a renaming.
fn line_of(text: &str, dependency: &str) -> usize {
    let names = |line: &str| {
        let key = line.split(['=', '.']).next().unwrap_or_default().trim().trim_matches('"');
        key == dependency || line.ends_with(&format!("dependencies.{dependency}]")) || {
            line.contains("package") && line.contains(&format!("\"{dependency}\""))
        }
    };
    text.lines().position(names).map_or(1, |index| index + 1)
}

/// The crates that prove their purity by compiling without the standard library.
const PURE_ROOTS: [&str; 2] = ["crates/core/src/lib.rs", "crates/rules/src/lib.rs"];

pub(crate) fn check_pure(source: &Source) -> Vec<Finding> {
    if !PURE_ROOTS.iter().any(|root| source.path == Path::new(root)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if !source.code.contains("#![no_std]") {
        let message =
            "no `#![no_std]`: this crate must not be able to name a clock, a file or a thread; put it back";
        findings.push(Finding::error(&source.path, 1, "arrow", message));
    }
    for offset in words(&source.code, "extern crate std").filter(|&offset| !source.in_test(offset)) {
        let message = "`extern crate std` outside tests: use `core` and `alloc`";
        findings.push(Finding::error(&source.path, source.line(offset), "arrow", message));
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{PURE_ROOTS, Source, check_manifest, check_pure};

    fn lines(package: &str, rest: &str) -> Vec<usize> {
        let text = format!("[package]\nname = \"{package}\"\n{rest}");
        let findings = check_manifest(Path::new("Cargo.toml"), &text).expect("the sample is a manifest");
        findings.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn each_forbidden_arrow_fails() {
        for (package, dependency) in [
            ("driftq-rules", "serde"),
            ("driftq-rules", "driftq-core"),
            ("driftq-core", "serde"),
            ("driftq-core", "driftq-wal"),
            ("driftq-wal", "driftq-core"),
            ("driftq-wal", "tokio"),
            ("driftq-api", "driftq-core"),
            ("driftq-api", "driftq-engine"),
            ("driftq-api", "axum"),
            ("driftq-api", "hyper"),
            ("driftq-engine", "driftq-api"),
            ("driftq-engine", "axum"),
            ("driftq-engine", "hyper"),
            ("driftq", "driftq-wal"),
            ("driftq-server", "driftq-cli"),
            ("driftq-cli", "driftq-server"),
            ("driftq", "tokio-postgres"),
            ("driftq", "async-nats"),
            ("driftq-client", "driftq-core"),
            ("driftq-ledger", "driftq-core"),
            ("driftq-client", "driftq-engine"),
            ("driftq-sim", "tokio"),
            ("driftq-sim", "driftq-engine"),
            ("xtask", "driftq-core"),
        ] {
            let found = lines(package, &format!("[dependencies]\n{dependency}.workspace = true\n"));
            assert_eq!(found, [4], "{package} -> {dependency}");
        }
    }

    #[test]
    fn the_arrows_of_the_design_pass() {
        for (package, dependency) in [
            ("driftq-core", "blake3"),
            ("driftq-core", "hashbrown"),
            ("driftq-core", "driftq-rules"),
            ("driftq-ledger", "driftq-rules"),
            ("driftq-engine", "driftq-core"),
            ("driftq-engine", "driftq-wal"),
            ("driftq", "driftq-engine"),
            ("driftq-sim", "driftq-wal"),
        ] {
            assert!(
                lines(package, &format!("[dependencies]\n{dependency} = \"1\"\n")).is_empty(),
                "{dependency}"
            );
        }
        assert!(lines("driftq-core", "[dev-dependencies]\nproptest = \"1\"\n").is_empty());
        assert!(lines("driftq", "[dev-dependencies]\ndriftq-wal = \"1\"\n").is_empty());
    }

    #[test]
    fn an_arrow_cannot_hide() {
        assert_eq!(
            lines("driftq-wal", "[dependencies]\nrt = { package = \"tokio\", version = \"1\" }\n"),
            [4]
        );
        assert_eq!(lines("driftq-wal", "[target.'cfg(unix)'.dependencies]\ntokio = \"1\"\n"), [4]);
        assert_eq!(lines("driftq-wal", "[dependencies.tokio]\nversion = \"1\"\n"), [3]);
        assert_eq!(lines("driftq-wal", "[dev-dependencies]\ntokio = \"1\"\n"), [4]);
        assert_eq!(lines("driftq-new", ""), [1]);
    }

    #[test]
    fn what_is_pure_must_stay_no_std() {
        for root in PURE_ROOTS {
            let check = |text: &str| check_pure(&Source::new(root, text)).len();
            assert_eq!(check("//! x\n#![no_std]\n#[cfg(test)]\nextern crate std;\n"), 0);
            assert_eq!(check("//! x\n"), 1);
            assert_eq!(check("//! x\n// #![no_std]\n"), 1);
            assert_eq!(check("//! x\n#![cfg_attr(not(test), no_std)]\n"), 1);
            assert_eq!(check("//! x\n#![no_std]\nextern crate std;\n"), 1);
        }
    }
}
