//! Finding programs, and running them as somebody who is not root.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use anyhow::{Context, Result, bail};

/// The account that servers run under when the tests run as root, because PostgreSQL and PgBouncer refuse root.
const ACCOUNT: &str = "postgres";

/// Most bytes of a log that an error shows.
const TAIL_BYTES: usize = 2_000;

/// Looks for a program in these folders, then in the PATH and where servers usually lie.
pub(crate) fn find(name: &str, folders: &[PathBuf], package: &str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"].map(PathBuf::from);
    let all = folders.iter().cloned().chain(env::split_paths(&path)).chain(usual);
    let found = all.map(|folder| folder.join(name)).find(|file| file.is_file());
    found.with_context(|| {
        format!("`{name}` is not installed; the Debian package `{package}` has it: apt-get install {package}")
    })
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The program, run as an account without privileges if we are root. Settings of libpq in our own environment must not
/// change which server it talks to.
pub(crate) fn unprivileged(program: &Path, folder: &Path) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={ACCOUNT}")).arg(format!("--regid={ACCOUNT}")).arg("--init-groups");
        command.arg(program);
        command
    } else {
        Command::new(program)
    };
    // The current folder may be one that the account cannot enter.
    command.current_dir(folder).stdin(Stdio::null());
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        command.env_remove(name);
    }
    command
}

/// A new folder that the account can work in. Its guard removes it.
pub(crate) fn folder(purpose: &str) -> Result<PathBuf> {
    let within = env::temp_dir();
    let folder = tempfile::Builder::new().prefix(&format!("driftq-{purpose}-")).tempdir_in(&within);
    let folder = folder.with_context(|| format!("making a folder in {}", within.display()))?.keep();
    if is_root() {
        give_away(&folder)?;
    }
    Ok(folder)
}

/// Makes the account the owner of what lies here.
pub(crate) fn give_away(path: &Path) -> Result<()> {
    let account = format!("{ACCOUNT}:{ACCOUNT}");
    run(Command::new("chown").arg("-R").arg(account).arg(path)).with_context(|| {
        format!(
            "the account `{ACCOUNT}` must exist, because this runs as root and the servers refuse root; the \
             Debian package `postgresql` makes it"
        )
    })?;
    Ok(())
}

/// Runs to the end; an error has everything that the program said.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    let Output { status, stdout, stderr } = output;
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    if !status.success() {
        let said = format!("{stdout}{}", String::from_utf8_lossy(&stderr));
        bail!("{command:?} ended with {status}: {}", tail(&said));
    }
    Ok(stdout)
}

/// The end of a log, for an error.
pub(crate) fn log_tail(log: &Path) -> String {
    match fs::read(log) {
        Ok(bytes) => tail(&String::from_utf8_lossy(&bytes)).to_owned(),
        Err(error) => format!("no log at {}: {error}", log.display()),
    }
}

fn tail(text: &str) -> &str {
    let text = text.trim_end();
    let mut from = text.len().saturating_sub(TAIL_BYTES);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{TAIL_BYTES, find, run, tail};

    #[test]
    fn a_missing_program_is_reported_with_its_package() {
        let error = find("no-such-server", &[], "no-such-package").expect_err("nobody has it");
        assert!(error.to_string().contains("apt-get install no-such-package"), "{error}");
    }

    #[test]
    fn an_error_has_what_the_program_said() {
        let error = run(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]));
        let error = error.expect_err("it ends with 3").to_string();
        assert!(error.contains("out") && error.contains("err") && error.contains('3'), "{error}");
    }

    #[test]
    fn a_tail_is_cut_between_letters() {
        let text = "ä".repeat(TAIL_BYTES);
        assert!(tail(&format!("{text}x")).len() <= TAIL_BYTES);
        assert_eq!(tail("short\n"), "short");
    }
}
