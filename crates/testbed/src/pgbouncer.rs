//! A connection pooler in front of a PostgreSQL server, in transaction mode.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Instant,
};

use anyhow::{Context, Result, bail};
use rustix::process::Pid;

use crate::{
    Postgres,
    guard::{self, Guard},
    port,
    postgres::psql,
    program::{self, log_tail},
    redis::{ASK_EVERY, START_MAX},
};

/// A PgBouncer that hands out a connection for one transaction at a time.
#[derive(Debug)]
pub struct PgBouncer {
    url: String,
    process: Pid,
    _guard: Guard,
}

impl PgBouncer {
    /// Starts one at a free port of the loopback.
    ///
    /// # Errors
    /// If it cannot be started; the error says what is missing, or has the end of its log.
    pub fn start(postgres: &Postgres) -> Result<Self> {
        let program = program::find("pgbouncer", &[], "pgbouncer")?;
        let mut tries = 0;
        loop {
            let folder = program::folder("pgbouncer")?;
            tries += 1;
            match Self::start_in(&folder, &program, postgres) {
                Err(error) if tries < port::TRIES_MAX && port::was_taken(&format!("{error:#}")) => {}
                result => return result,
            }
        }
    }

    fn start_in(folder: &Path, program: &Path, postgres: &Postgres) -> Result<Self> {
        let port = port::free()?;
        let configuration = configure(folder, postgres, port)?;
        let mut command = program::unprivileged(program, folder);
        command.arg(configuration);
        let (guard, process) = Guard::beside(folder, &command)?;
        let pooler = Self { url: postgres.url_through(port), process, _guard: guard };
        let until = Instant::now() + START_MAX;
        while let Err(error) = psql(&pooler.url, "SELECT 1") {
            if !guard::is_alive(process) || Instant::now() > until {
                bail!("PgBouncer did not start: {error:#}\nits log: {}", log_tail(&folder.join("log")));
            }
            thread::sleep(ASK_EVERY);
        }
        Ok(pooler)
    }

    /// How to connect to the server through it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends it at once, with every connection through it.
    ///
    /// # Errors
    /// If the process cannot be ended.
    pub fn kill(&self) -> Result<()> {
        guard::kill(self.process)
    }
}

/// Writes its configuration, for whoever may read the folder: the account that it runs under.
fn configure(folder: &Path, postgres: &Postgres, port: u16) -> Result<PathBuf> {
    let parts = postgres.parts()?;
    let (host, server_port) = (parts.host, parts.port);
    let (users, file) = (folder.join("users"), folder.join("pgbouncer.ini"));
    let quoted = |word: &str| word.replace('"', "\"\"");
    let (user, password) = (parts.user.unwrap_or_default(), parts.password.unwrap_or_default());
    let text = format!(
        "[databases]\n* = host={host} port={server_port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
         listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\n\
         max_client_conn = 500\ndefault_pool_size = 20\n",
        users.display()
    );
    let write = || {
        fs::write(&users, format!("\"{}\" \"{}\"\n", quoted(user), quoted(password)))?;
        fs::write(&file, text)
    };
    write().with_context(|| format!("writing PgBouncer's configuration to {}", folder.display()))?;
    if program::is_root() {
        program::give_away(folder)?;
    }
    Ok(file)
}
