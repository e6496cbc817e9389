//! The Rust SDK: packed as crates, unpacked, and built into a newcomer's program.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::{Shop, newcomer_runs};
use crate::{
    command,
    task::{Log, fresh_folder},
};

/// The SDK and what it depends on, in that order.
const CRATES: [&str; 9] = [
    "driftq-client",
    "driftq-http",
    "driftq-api",
    "driftq-api-derive",
    "driftq-ledger",
    "driftq-postgres",
    "driftq-rules",
    "driftq-canonical",
    "driftq-tls",
];
const VERSION: &str = env!("CARGO_PKG_VERSION");
const PROGRAM: &str = "crates/client/examples/quickstart.rs";

/// Nothing is fetched: the workspace's own build has brought everything.
pub(super) fn package(shop: &Shop, log: &mut Log) -> Result<()> {
    let folder = shop.folder.join("rust");
    fresh_folder(&folder)?;
    // Whether the packed crates build is seen below, all at once.
    let mut pack = command::cargo(&shop.root);
    pack.args(["package", "--quiet", "--offline", "--no-verify", "--allow-dirty", "--target-dir"])
        .arg(&folder);
    for name in CRATES {
        pack.args(["--package", name]);
    }
    log.expect_success(&mut pack)?;
    for name in CRATES {
        let file = folder.join(format!("package/{name}-{VERSION}.crate"));
        log.expect_success(Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(&folder))?;
    }
    let newcomer = folder.join("newcomer");
    write_newcomer(shop, &newcomer)?;
    log.expect_success(command::cargo(&newcomer).args(["build", "--quiet", "--offline"]))?;
    newcomer_runs(shop, log, PROGRAM, &Command::new(newcomer.join("target/debug/newcomer")))
}

/// A crate with one dependency of ours, which is found where it was unpacked.
fn write_newcomer(shop: &Shop, folder: &Path) -> Result<()> {
    let patches: String =
        CRATES.iter().map(|name| format!("{name} = {{ path = \"../{name}-{VERSION}\" }}\n")).collect();
    let manifest = format!(
        "[package]\nname = \"newcomer\"\nedition = \"2024\"\n\n[dependencies]\ndriftq-client = \"{VERSION}\"\n\
         serde = {{ version = \"1\", features = [\"derive\"] }}\n\
         tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\n\n\
         [patch.crates-io]\n{patches}\n[profile.dev]\ndebug = false\n\n[workspace]\n"
    );
    fresh_folder(&folder.join("src"))?;
    fs::write(folder.join("Cargo.toml"), manifest).context("writing the newcomer's Cargo.toml")?;
    let copies: [(PathBuf, &str); 2] =
        [(shop.root.join(PROGRAM), "src/main.rs"), (shop.root.join("Cargo.lock"), "Cargo.lock")];
    for (from, to) in copies {
        fs::copy(&from, folder.join(to)).with_context(|| format!("copying {}", from.display()))?;
    }
    Ok(())
}
