//! Ports of the loopback that nobody uses.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};

/// How often a server is started anew because somebody else was quicker to take its port.
pub(crate) const TRIES_MAX: u32 = 5;

/// A port that was free a moment ago. Whoever uses it must expect that it is taken by now.
pub(crate) fn free() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("asking for a free port")?;
    Ok(listener.local_addr().context("asking for a free port")?.port())
}

/// Whether this log says that the port was taken.
pub(crate) fn was_taken(log: &str) -> bool {
    log.contains("Address already in use") || log.contains("could not create any TCP/IP sockets")
}
