//! The server's configuration: raw texts from file, environment and flags, then one resolved value each.
//!
//! Order: default < profile < file < environment < flag. Every knob has one name, spelled `name` in the file,
//! `DRIFTQ_NAME` in the environment and `--name` on the command line (see [`knob::KNOBS`]). The values that hold
//! when none is given come from the `Default` of the part that uses them, and from nowhere else. In the file,
//! the knobs of the router may also stand in a table: `url` under `[router]` is `router_url`.

mod args;
mod exposure;
mod file;
mod front;
mod knob;
mod log;
mod resolve;
#[macro_use]
mod shapes;
mod table;
mod traces;

use std::path::PathBuf;

use driftq_engine::log::{NatsPlace, PostgresPlace};
use driftq_engine::{Config as EngineConfig, Storage, key_text};

pub use args::KnobArgs;
pub use exposure::Exposure;
pub use knob::KNOBS;
pub use resolve::{Origin, Resolved, resolve};

use crate::http::{
    self,
    door::{ANY, Schemes, host_of},
};
use crate::router::RouterConfig;

/// What `driftq serve` runs with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen, as `host:port`; port 0 lets the system choose.
    pub listen: String,
    /// The file that has the root key; the digest in the data directory counts if there is none.
    pub root_key_file: Option<PathBuf>,
    /// The data directory.
    pub data: PathBuf,
    /// Memory only: nothing survives a stop.
    pub ephemeral: bool,
    /// The database or stream that holds the log instead of the data directory; no URL if none does.
    pub log: PostgresPlace,
    /// Where the other servers that share the log reach this one; empty if it has the log for itself.
    pub node_url: String,
    /// Which set of defaults the rest starts from.
    pub profile: Profile,
    /// The shape of log lines.
    pub log_format: LogFormat,
    /// Which log lines are written: a level, or a filter such as `info,driftq_server::http=debug`.
    pub log_level: String,
    /// A proxy that speaks TLS is the only way to this server.
    pub behind_proxy: bool,
    /// The broker.
    pub engine: EngineConfig,
    /// The HTTP edge.
    pub http: http::Options,
    /// What the engine's router is built from.
    pub router: RouterConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8080".to_owned(),
            root_key_file: None,
            data: PathBuf::from("./driftq-data"),
            ephemeral: false,
            log: PostgresPlace {
                url: String::new(),
                schema: "driftq_log".to_owned(),
                cluster: "main".to_owned(),
            },
            node_url: String::new(),
            profile: Profile::Default,
            log_format: LogFormat::Text,
            log_level: "info".to_owned(),
            behind_proxy: false,
            engine: EngineConfig::default(),
            http: http::Options::default(),
            router: RouterConfig::default(),
        }
    }
}

impl Config {
    /// The values that a profile starts from.
    pub fn of_profile(profile: Profile) -> Self {
        let mut config = Self { profile, ..Self::default() };
        if profile == Profile::V1Dev {
            config.engine.settings = driftq_engine::core::Settings::v1_dev();
        }
        config
    }

    /// Whether only clients with a key are served.
    pub const fn keys_required(&self) -> bool {
        self.http.keys_required
    }

    /// Takes the root key from where it is kept, if keys are asked for.
    ///
    /// # Errors
    /// If there is none, or it cannot be read: in words that name the file and the next step.
    fn load_root_key(&mut self) -> Result<(), String> {
        if !self.http.keys_required {
            return Ok(());
        }
        let data = self.data.display();
        self.http.root_key = match &self.root_key_file {
            Some(path) => {
                let digest = key_text::read_file(path);
                Some(digest.map_err(|error| format!("root_key_file {}: {error}", path.display()))?)
            }
            None if self.ephemeral || self.is_in_database() => None,
            None => key_text::read(&self.data).map_err(|error| format!("the root key in {data}: {error}"))?,
        };
        if self.http.root_key.is_none() {
            return Err(format!(
                "keys are required, and there is no root key to make the first one with: run `driftq key create --root --data {data}`, or name a file with --root-key-file"
            ));
        }
        Ok(())
    }

    /// Whether connections are encrypted.
    pub const fn speaks_tls(&self) -> bool {
        self.http.tls_cert.is_some()
    }

    /// What the HTTP edge is started with: what it is to a browser follows from several knobs here. `port` is the one that
    /// it listens on: the address may ask for any.
    pub fn http(&self, port: u16) -> http::Options {
        let mut options = self.http.clone();
        options.behind_proxy = self.behind_proxy;
        if options.issuer.is_empty() {
            let scheme = if self.speaks_tls() { "https" } else { "http" };
            options.issuer = format!("{scheme}://{}:{port}", host_of(&self.listen));
        }
        host_of(&self.listen).clone_into(&mut options.door.listen_host);
        // A page that has its own name resolve to this server has no key to show.
        if options.keys_required {
            options.door.host_names.push(ANY.to_owned());
        }
        options.door.schemes = match (self.behind_proxy, self.speaks_tls()) {
            (true, _) => Schemes::Either,
            (false, true) => Schemes::Https,
            (false, false) => Schemes::Http,
        };
        options
    }

    /// Whether a database or a stream holds the log.
    pub const fn is_in_database(&self) -> bool {
        !self.log.url.is_empty()
    }

    /// Whether it is a stream.
    pub fn is_in_stream(&self) -> bool {
        self.log.url.starts_with(log::NATS)
    }

    /// What the engine is started with: the storage follows from several knobs here.
    pub fn engine(&self) -> EngineConfig {
        let storage = match (self.ephemeral, self.is_in_database()) {
            (true, _) => Storage::Ephemeral,
            (false, true) if self.is_in_stream() => {
                let PostgresPlace { url, cluster, .. } = self.log.clone();
                Storage::Nats(NatsPlace { url, cluster })
            }
            (false, true) => Storage::Postgres(self.log.clone()),
            (false, false) => Storage::Directory(self.data.clone()),
        };
        let mut engine = EngineConfig { storage, ..self.engine.clone() };
        engine.settings.tells_waits = self.http.traces.endpoint.is_some();
        engine
    }
}

/// A named set of defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    Default,
    V1Dev,
}

/// The shape of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}
