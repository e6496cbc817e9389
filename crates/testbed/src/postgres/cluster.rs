//! The files and processes of one PostgreSQL server.

use std::{
    env,
    fmt::Write as _,
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU16, Ordering},
};

use anyhow::{Context, Result, bail};

use rustix::process::{Pid, Signal, kill_process};

use super::{USER, builder::Certificate};
use crate::{
    guard::{self, Guard},
    port,
    program::{self, log_tail, unprivileged},
};

/// Names the folder of PostgreSQL's programs, where they are not found by themselves.
const PROGRAMS_VARIABLE: &str = "DRIFTQ_TEST_POSTGRES_BIN";

/// Where Debian puts the programs of each version.
const DEBIAN_FOLDER: &str = "/usr/lib/postgresql";

/// Longest that a start, a recovery or a stop may take.
const WAIT_SECONDS: &str = "60";

/// Locales for the database, best first: not every image has the first.
const LOCALES: [&str; 2] = ["C.UTF-8", "C"];

/// The files and processes of one server.
#[derive(Debug)]
pub(crate) struct Cluster {
    folder: PathBuf,
    port: AtomicU16,
    /// Stops the server and removes the folder.
    _guard: Guard,
}

impl Cluster {
    /// Makes a new one and starts it.
    pub(crate) fn create(settings: &[(String, String)], certificate: Option<&Certificate>) -> Result<Self> {
        let initdb = program("initdb")?;
        let cluster = Self::empty()?;
        cluster.initialise(&initdb)?;
        cluster.configure(settings)?;
        if let Some(certificate) = certificate {
            cluster.certify(certificate)?;
        }
        cluster.start_somewhere()?;
        Ok(cluster)
    }

    /// Makes a copy that follows this one, and starts it.
    pub(crate) fn standby(&self) -> Result<Self> {
        let basebackup = program("pg_basebackup")?;
        let copy = Self::empty()?;
        let mut command = unprivileged(&basebackup, &copy.folder);
        command.args(["-h", "127.0.0.1", "-U", USER, "-p", &self.port().to_string()]);
        command.args(["-R", "-X", "stream", "-c", "fast", "--no-sync", "-D"]).arg(copy.data());
        program::run(&mut command).context("copying the server for a standby")?;
        copy.start_somewhere()?;
        Ok(copy)
    }

    fn empty() -> Result<Self> {
        let folder = program::folder("postgres")?;
        let mut stop = unprivileged(&program("pg_ctl")?, &folder);
        stop.args(["-D"]).arg(folder.join("data")).args(["-m", "immediate", "-t", WAIT_SECONDS, "stop"]);
        let guard = Guard::new(&folder, &stop)?;
        Ok(Self { folder, port: AtomicU16::new(0), _guard: guard })
    }

    fn initialise(&self, initdb: &Path) -> Result<()> {
        let attempt = |locale: &str| {
            let mut command = unprivileged(initdb, &self.folder);
            command.args(["--no-sync", "-A", "trust", "-U", USER, "-E", "UTF8"]);
            command.arg(format!("--locale={locale}")).arg("-D").arg(self.data());
            program::run(&mut command)
        };
        let [best, fallback] = LOCALES;
        attempt(best).or_else(|_| attempt(fallback)).context("making a PostgreSQL cluster")?;
        Ok(())
    }

    /// Appends settings to the configuration. The last mention of a setting counts.
    fn configure(&self, settings: &[(String, String)]) -> Result<()> {
        let mut text = String::new();
        for (name, value) in settings {
            let value = value.replace('\'', "''");
            writeln!(text, "{name} = '{value}'").context("writing down a setting")?;
        }
        let file = self.data().join("postgresql.conf");
        let append = || OpenOptions::new().append(true).open(&file)?.write_all(text.as_bytes());
        append().with_context(|| format!("appending to {}", file.display()))
    }

    /// Turns TLS on. The server takes a key only from a file that nobody else can read.
    fn certify(&self, certificate: &Certificate) -> Result<()> {
        for (name, pem) in [("server.crt", &certificate.chain), ("server.key", &certificate.key)] {
            let file = self.data().join(name);
            let write = || {
                let mut options = OpenOptions::new();
                options.write(true).create_new(true).mode(0o600).open(&file)?.write_all(pem.as_bytes())
            };
            write().with_context(|| format!("writing {}", file.display()))?;
            if program::is_root() {
                program::give_away(&file)?;
            }
        }
        self.configure(&[("ssl".to_owned(), "on".to_owned())])
    }

    /// Starts it at a free port, and at another one if somebody was quicker.
    fn start_somewhere(&self) -> Result<()> {
        let mut tries = 0;
        loop {
            let port = port::free()?;
            self.port.store(port, Ordering::Relaxed);
            self.configure(&[
                ("port".to_owned(), port.to_string()),
                ("listen_addresses".to_owned(), "127.0.0.1".to_owned()),
                ("unix_socket_directories".to_owned(), self.folder.display().to_string()),
            ])?;
            tries += 1;
            match self.start() {
                Err(_) if tries < port::TRIES_MAX && port::was_taken(&log_tail(&self.log())) => {
                    fs::remove_file(self.log()).context("starting a new log")?;
                }
                result => return result,
            }
        }
    }

    /// Starts it and returns when it takes connections.
    pub(crate) fn start(&self) -> Result<()> {
        let mut command = self.control()?;
        command.arg("-l").arg(self.log()).args(["-w", "start"]);
        match program::run(&mut command) {
            Ok(_) => Ok(()),
            Err(error) => bail!("PostgreSQL did not start: {error:#}\nits log: {}", log_tail(&self.log())),
        }
    }

    /// Stops it in the given mode of `pg_ctl`, and returns when it is gone.
    pub(crate) fn stop(&self, mode: &str) -> Result<()> {
        program::run(self.control()?.args(["-w", "-m", mode, "stop"])).context("stopping PostgreSQL")?;
        Ok(())
    }

    /// Kills the postmaster and everything that it has started, without a word.
    pub(crate) fn kill(&self) -> Result<()> {
        let file = self.data().join("postmaster.pid");
        let text = fs::read_to_string(&file).context("reading who the postmaster is")?;
        let first = text.lines().next().and_then(|line| line.trim().parse().ok());
        let postmaster = first.and_then(Pid::from_raw).context("the postmaster's file names no process")?;
        // Stopped first, so that it starts nobody whom the list lacks.
        kill_process(postmaster, Signal::STOP).context("stopping the postmaster")?;
        let children = guard::children(postmaster);
        for process in children.iter().copied().chain([postmaster]) {
            // One that has just ended by itself is as dead as it should be.
            let _ = kill_process(process, Signal::KILL);
        }
        while children.iter().copied().chain([postmaster]).any(guard::is_alive) {
            std::thread::yield_now();
        }
        // Its number may belong to somebody else soon, whom the guard must not stop.
        fs::remove_file(&file).context("removing the postmaster's file")
    }

    /// Makes a standby a server that takes writes, and returns when it does.
    pub(crate) fn promote(&self) -> Result<()> {
        program::run(self.control()?.args(["-w", "promote"])).context("promoting a standby")?;
        Ok(())
    }

    pub(crate) fn is_running(&self) -> bool {
        self.control().is_ok_and(|mut command| program::run(command.arg("status")).is_ok())
    }

    fn control(&self) -> Result<Command> {
        let mut command = unprivileged(&program("pg_ctl")?, &self.folder);
        command.arg("-D").arg(self.data()).args(["-s", "-t", WAIT_SECONDS]);
        Ok(command)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.load(Ordering::Relaxed)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }
}

/// One of PostgreSQL's programs, all from one version: the newest.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    let chosen = env::var_os(PROGRAMS_VARIABLE).map(PathBuf::from);
    let folders: Vec<PathBuf> = chosen.into_iter().chain(debian_folders(Path::new(DEBIAN_FOLDER))).collect();
    program::find(name, &folders, "postgresql")
        .with_context(|| format!("{PROGRAMS_VARIABLE} can name the folder of PostgreSQL's programs"))
}

/// The folders of all versions, the newest first.
fn debian_folders(within: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(within).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut versions: Vec<u32> =
        names.filter_map(|name| name.to_string_lossy().split('.').next()?.parse().ok()).collect();
    versions.sort_unstable_by(|one, other| other.cmp(one));
    let folders = versions.into_iter().map(|version| within.join(version.to_string()).join("bin"));
    // A folder may be left over with the client's programs only.
    folders.filter(|folder| folder.join("initdb").is_file()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::debian_folders;

    #[test]
    fn the_newest_version_comes_first() {
        let within = tempfile::tempdir().expect("a temporary folder");
        for version in ["9", "15", "16"] {
            let folder = within.path().join(version).join("bin");
            fs::create_dir_all(&folder).expect("the folder is new");
            if version != "16" {
                fs::write(folder.join("initdb"), "").expect("a folder takes a file");
            }
        }
        let found = debian_folders(within.path());
        assert_eq!(found, ["15", "9"].map(|version| within.path().join(version).join("bin")));
    }
}
