//! Connectors that run in the process of a server, as clients of it.

use std::net::SocketAddr;

use driftq_server::{Deliveries, config::Config};
use tokio::{sync::watch, task::JoinHandle};

/// The connectors of a file, if there is one.
#[derive(Clone, Default)]
pub(super) struct Beside {
    #[cfg(feature = "connect")]
    connectors: Option<std::sync::Arc<driftq_cli::connect::Connectors>>,
}

#[cfg(feature = "connect")]
impl Beside {
    /// Reads the file, so that what is wrong with it is told before the server starts.
    pub(super) fn read(file: Option<&std::path::Path>) -> anyhow::Result<Self> {
        let connectors = file.map(driftq_cli::connect::read).transpose()?;
        Ok(Self { connectors: connectors.map(std::sync::Arc::new) })
    }

    /// What they send, for the server's metrics.
    pub(super) fn deliveries(&self) -> Option<Deliveries> {
        let counts = self.connectors.as_ref()?.counts()?;
        Some(Deliveries::new(move || counts.read().into_iter().map(told).collect()))
    }

    /// Starts them.
    pub(super) fn start(self, config: &Config, address: SocketAddr) -> Connecting {
        let stop = watch::Sender::new(false);
        let running = self.connectors.map(|connectors| {
            let scheme = if config.speaks_tls() { "https" } else { "http" };
            let (url, stopped) = (format!("{scheme}://{address}"), stop.subscribe());
            tokio::spawn(async move {
                if let Err(error) = driftq_cli::connect::beside(&connectors, &url, stopped).await {
                    tracing::error!(
                        error = format!("{error:#}"),
                        "the connectors have ended; the server goes on"
                    );
                }
            })
        });
        Connecting { stop, running }
    }
}

/// The words of the connector in those of the metrics.
#[cfg(feature = "connect")]
fn told((endpoint, counts): (String, driftq_cli::connect::EndpointCounts)) -> driftq_server::EndpointSends {
    use driftq_cli::connect::{EndpointCounts, Position};
    use driftq_server::{EndpointBreaker, EndpointSends};
    let EndpointCounts { delivered, failed, unknown, breaker, is_disabled } = counts;
    let breaker = match breaker {
        Position::Closed => EndpointBreaker::Closed,
        Position::Open => EndpointBreaker::Open,
        Position::HalfOpen => EndpointBreaker::HalfOpen,
    };
    EndpointSends { endpoint, delivered, failed, unknown, breaker, is_disabled }
}

#[cfg(not(feature = "connect"))]
impl Beside {
    pub(super) const fn deliveries(&self) -> Option<Deliveries> {
        let Self {} = self;
        None
    }

    pub(super) fn start(self, _: &Config, _: SocketAddr) -> Connecting {
        let Self {} = self;
        Connecting { stop: watch::Sender::new(false), running: None }
    }
}

/// Connectors at work.
pub(super) struct Connecting {
    stop: watch::Sender<bool>,
    running: Option<JoinHandle<()>>,
}

impl Connecting {
    pub(super) async fn stop(self) {
        self.stop.send_replace(true);
        if let Some(running) = self.running {
            // One that panicked has said so.
            drop(running.await);
        }
    }
}
