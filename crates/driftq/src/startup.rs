//! What the server says about itself when it starts, and why it did not start.

use std::net::SocketAddr;

use anyhow::Result;
use driftq_engine::{Recovery, StartError};

use driftq_api::shown::grouped;
use driftq_api::units::about_bytes;
use driftq_cli::{
    exit::{Exit, Fault},
    output,
};
use driftq_server::config::{Config, Exposure};

/// Prints who we are, what is promised, what was found and where to find us. The last line is for programs too: it
/// is the first moment at which connections are answered.
pub(super) fn announce(config: &Config, recovery: &Recovery, address: SocketAddr) -> Result<()> {
    let mut text = format!("driftq {}\n", driftq_server::http::VERSION);
    let mut line = |name: &str, value: &str| text.push_str(&format!("  {name:<11}{value}\n"));
    line("data", &place(config));
    line("durability", durability(config));
    line("recovered", &recovered(recovery));
    if let Exposure::Open(why) = config.exposure() {
        line("access", why);
    }
    if let Some(torn) = &recovery.truncated {
        line("torn tail", &format!("cut off: {torn}. Nothing that was acknowledged is lost"));
    }
    text.push_str(&format!("listening on {}://{address}\n", scheme(config)));
    output::write(&text)
}

/// The same for one of several servers that share a log: which of them serves is told in the log, as it changes.
pub(super) fn announce_node(config: &Config, url: &str, address: SocketAddr) -> Result<()> {
    let mut text = format!("driftq {}\n", driftq_server::http::VERSION);
    let mut line = |name: &str, value: &str| text.push_str(&format!("  {name:<11}{value}\n"));
    line("data", &place(config));
    line("durability", durability(config));
    line("node", &format!("{url}; one server of the cluster serves, the others pass requests on"));
    if let Exposure::Open(why) = config.exposure() {
        line("access", why);
    }
    text.push_str(&format!("listening on {}://{address}\n", scheme(config)));
    output::write(&text)
}

/// How URLs of this server begin.
pub(super) const fn scheme(config: &Config) -> &'static str {
    if config.speaks_tls() { "https" } else { "http" }
}

/// Where everything is kept.
fn place(config: &Config) -> String {
    if config.ephemeral {
        "in memory".to_owned()
    } else if config.is_in_stream() {
        format!("NATS JetStream (cluster {})", config.log.cluster)
    } else if config.is_in_database() {
        format!("PostgreSQL, schema {} (cluster {})", config.log.schema, config.log.cluster)
    } else {
        config.data.display().to_string()
    }
}

/// What is promised about what is stored.
pub(super) fn durability(config: &Config) -> &'static str {
    if config.ephemeral {
        "none: everything is gone when this process ends"
    } else if config.is_in_stream() {
        "every answer waits until what it says is acknowledged by JetStream"
    } else if config.is_in_database() {
        "every answer waits until what it says is committed in the database"
    } else {
        "every answer waits until what it says is synced to disk"
    }
}

/// What was found at the start.
pub(super) fn recovered(recovery: &Recovery) -> String {
    let Recovery { messages, topics, groups, replayed_bytes, duration, epoch, .. } = recovery;
    format!(
        "{} message(s), {} topic(s), {} group(s) in {} ms ({} of log replayed, start number {epoch})",
        grouped(*messages),
        grouped(*topics),
        grouped(*groups),
        duration.as_millis(),
        about_bytes(*replayed_bytes)
    )
}

/// Adds the code and the command that helps.
pub(super) fn explain(error: &StartError, config: &Config) -> Fault {
    let data = config.data.display();
    let message = error.to_string();
    match error {
        StartError::Locked { .. } => Fault::new(Exit::Locked, message)
            .help(format!("stop the other server, or start this one with --data on another directory than {data}")),
        StartError::Damaged(_) | StartError::Facts { .. } if config.is_in_database() => {
            Fault::new(Exit::Damaged, message).help("restore the log from a backup of the database or the stream")
        }
        StartError::Damaged(_) | StartError::Facts { .. } => Fault::new(Exit::Damaged, message).help(format!(
            "look with `driftq wal inspect --data {data}`, then see what a repair would cut with `driftq wal repair \
             --data {data} --dry-run`"
        )),
        StartError::Shards { .. } => Fault::new(Exit::Config, message),
        StartError::Config(_) => {
            Fault::new(Exit::Config, message).help("`driftq config check` shows every value and where it came from")
        }
        StartError::Directory { .. } => Fault::new(Exit::Failure, message)
            .help("name a directory that this user may write with --data, or use --ephemeral"),
        StartError::Database { help, .. } => Fault::new(Exit::Failure, message).help(help.clone()),
        StartError::Fenced(_) => Fault::new(Exit::Locked, message),
        StartError::Log(_) if config.ephemeral || config.is_in_database() => Fault::new(Exit::Failure, message),
        StartError::Log(_) => Fault::new(Exit::Failure, format!("{data}: {message}"))
            .help(format!(
                "if the disk is at fault, see that this user may write in {data} and that there is space, or name \
                 another directory with --data"
            )),
        StartError::Thread(_) => Fault::new(Exit::Failure, message),
    }
}
