//! A PostgreSQL server that lives as long as the value.

mod builder;
mod cluster;
mod url;

use std::{
    env,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
pub use builder::Builder;
use cluster::Cluster;

use crate::program;

/// Names a server (as a URL) that tests share instead of starting one each.
pub const SHARED_VARIABLE: &str = "DRIFTQ_TEST_POSTGRES";

/// The name under which the server's administrator is known; there is no password.
const USER: &str = "driftq";

/// Settings of a server that nobody crashes: what it holds is thrown away in the end, so that it need not reach the
/// disk. Many test processes use it at a time.
const SHARED_SETTINGS: [(&str, &str); 3] =
    [("fsync", "off"), ("full_page_writes", "off"), ("max_connections", "300")];

/// Longest that a new standby may take until commits wait for it.
const CATCH_UP_WAIT: Duration = Duration::from_secs(60);

/// A PostgreSQL server: one of our own, or one that somebody else keeps.
#[derive(Debug)]
pub struct Postgres {
    url: String,
    /// None if the server belongs to somebody else.
    cluster: Option<Cluster>,
}

impl Postgres {
    /// The server that [`SHARED_VARIABLE`] names; if it names none, a new one for this process, which writes nothing
    /// through to the disk. Tests make a schema of their own in it, and leave it running.
    ///
    /// # Errors
    /// If a new one cannot be started.
    pub fn shared() -> Result<Self> {
        match env::var(SHARED_VARIABLE) {
            Ok(url) if !url.is_empty() => Ok(Self { url, cluster: None }),
            _ => Self::shareable().start(),
        }
    }

    /// A server as [`shared`](Self::shared) starts it.
    #[must_use]
    pub fn shareable() -> Builder {
        SHARED_SETTINGS.iter().fold(Self::builder(), |builder, (name, value)| builder.setting(name, value))
    }

    /// A new server with PostgreSQL's own settings. It writes through to the disk (`fsync` is on), so that it may be
    /// crashed.
    ///
    /// # Errors
    /// If it cannot be started; the error says what is missing, or has the end of the server's log.
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// A new server with other settings.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    fn of(cluster: Cluster) -> Self {
        Self {
            url: format!("postgresql://{USER}@127.0.0.1:{}/postgres", cluster.port()),
            cluster: Some(cluster),
        }
    }

    /// How to connect to it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How to connect to another of its databases.
    #[must_use]
    pub fn url_for(&self, database: &str) -> String {
        url::with_database(&self.url, database)
    }

    /// How to connect to it through somebody who listens at another port of the loopback.
    pub(crate) fn url_through(&self, port: u16) -> String {
        url::with_place(&self.url, &format!("127.0.0.1:{port}"))
    }

    /// User and password, and host and port, as they stand in the URL.
    pub(crate) fn parts(&self) -> Result<url::Parts<'_>> {
        url::parts(&self.url).with_context(|| format!("`{}` is no URL of a PostgreSQL server", self.url))
    }

    /// Runs SQL by `psql` and returns what it prints: a line per row, columns divided by `|`.
    ///
    /// # Errors
    /// With what `psql` says.
    pub fn psql(&self, sql: &str) -> Result<String> {
        psql(&self.url, sql)
    }

    /// How to connect to it as a user to whom its clock shows so many seconds more than it does to others.
    ///
    /// # Errors
    /// With what `psql` says.
    pub fn with_clock_ahead(&self, seconds: u32) -> Result<String> {
        let user = format!("ahead_{seconds}");
        for sql in [
            format!("CREATE SCHEMA {user}"),
            format!(
                "CREATE FUNCTION {user}.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS \
                 $$SELECT pg_catalog.clock_timestamp() + interval '{seconds} s'$$"
            ),
            format!("CREATE USER {user} SUPERUSER"),
            format!("ALTER ROLE {user} SET search_path = {user}, pg_catalog"),
        ] {
            self.psql(&sql)?;
        }
        Ok(self.url.replacen(&format!("{USER}@"), &format!("{user}@"), 1))
    }

    /// Ends all its processes at once, as a crash does (`pg_ctl stop -m immediate`). [`restart`](Self::restart) lets it
    /// recover.
    ///
    /// # Errors
    /// If it does not run, or belongs to somebody else.
    pub fn crash(&self) -> Result<()> {
        self.own()?.stop("immediate")
    }

    /// Ends it in an orderly way, without waiting for its clients.
    ///
    /// # Errors
    /// If it does not run, or belongs to somebody else.
    pub fn stop(&self) -> Result<()> {
        self.own()?.stop("fast")
    }

    /// Starts it again with the same data at the same port; stops it first if it runs.
    ///
    /// # Errors
    /// If it does not start, or belongs to somebody else.
    pub fn restart(&self) -> Result<()> {
        let cluster = self.own()?;
        if cluster.is_running() {
            cluster.stop("fast")?;
        }
        cluster.start()
    }

    /// Whether it runs. One that belongs to somebody else runs if it answers.
    #[must_use]
    pub fn is_running(&self) -> bool {
        match &self.cluster {
            Some(cluster) => cluster.is_running(),
            None => self.psql("SELECT 1").is_ok(),
        }
    }

    /// A read-only copy that follows this server (a hot standby).
    ///
    /// # Errors
    /// If it cannot be made, or this server belongs to somebody else.
    pub fn standby(&self) -> Result<Self> {
        let following = || self.psql("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'");
        let before = following()?;
        let standby = Self::of(self.own()?.standby()?);
        // It is up before it follows.
        let deadline = Instant::now() + CATCH_UP_WAIT;
        while following()? == before {
            ensure!(Instant::now() < deadline, "the standby does not follow");
        }
        Ok(standby)
    }

    /// A copy without which this server answers no commit (a synchronous standby). The copy itself waits for nobody, so
    /// that it serves alone once it is [promoted](Self::promote).
    ///
    /// # Errors
    /// If it cannot be made, or does not catch up.
    pub fn synchronous_standby(&self) -> Result<Self> {
        let standby = self.standby()?;
        self.psql("ALTER SYSTEM SET synchronous_standby_names = '*'")?;
        self.psql("SELECT pg_reload_conf()")?;
        let deadline = Instant::now() + CATCH_UP_WAIT;
        while self.psql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'")? != "1" {
            ensure!(Instant::now() < deadline, "the standby did not become synchronous");
        }
        Ok(standby)
    }

    /// Makes a standby a server that takes writes, and returns when it does.
    ///
    /// # Errors
    /// If it is none, or belongs to somebody else.
    pub fn promote(&self) -> Result<()> {
        self.own()?.promote()
    }

    /// Kills all its processes (`kill -9`), as a machine that is gone. It is not started again.
    ///
    /// # Errors
    /// If it does not run, or belongs to somebody else.
    pub fn kill(&self) -> Result<()> {
        self.own()?.kill()
    }

    /// How to connect to whichever of these two takes writes.
    #[must_use]
    pub fn url_with(&self, other: &Self) -> String {
        let port = |server: &Self| url::parts(&server.url).map_or(0, |parts| parts.port);
        url::with_place(&self.url, &format!("127.0.0.1:{},127.0.0.1:{}", port(self), port(other)))
    }

    /// Where its data, its socket and its log lie.
    ///
    /// # Errors
    /// If it belongs to somebody else.
    pub fn folder(&self) -> Result<PathBuf> {
        Ok(self.own()?.folder().to_owned())
    }

    fn own(&self) -> Result<&Cluster> {
        let Some(cluster) = &self.cluster else {
            bail!(
                "this server belongs to somebody else ({SHARED_VARIABLE}); `Postgres::start` gives one of your own"
            );
        };
        Ok(cluster)
    }
}

pub(crate) fn psql(url: &str, sql: &str) -> Result<String> {
    let mut command: Command = program::unprivileged(&cluster::program("psql")?, &env::temp_dir());
    command.env("PGCONNECT_TIMEOUT", "10");
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql]);
    Ok(program::run(&mut command)?.trim_end().to_owned())
}
