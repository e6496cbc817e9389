//! Runs what a file configures, until it is told to stop.

use std::pin::Pin;
use std::time::Duration;

use driftq_client::Client;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::config::File;
#[cfg(feature = "deliver")]
use crate::deliver::{Connector, Counts, Endpoints, Settings};
#[cfg(feature = "export")]
use crate::export::Exporter;
#[cfg(feature = "postgres")]
use crate::sink::{Sink, SinkError};

/// How long what was begun may go on after the connectors were told to stop.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Why the connectors have ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A sink cannot run.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// Deliveries cannot be sent.
    #[cfg(feature = "deliver")]
    #[error("deliveries: {0}")]
    Deliveries(String),
    /// Exports cannot be written.
    #[cfg(feature = "export")]
    #[error("exports: {0}")]
    Exports(String),
    /// What was begun did not end in time.
    #[error(
        "not everything ended within {} s after the stop; it comes again, and nothing is done twice",
        DRAIN_TIMEOUT.as_secs()
    )]
    NotDrained,
}

/// A connector at work.
pub type Running<'a> = Pin<Box<dyn Future<Output = Result<(), RunError>> + Send + 'a>>;

/// All connectors of a file.
pub struct Connectors {
    #[cfg(feature = "postgres")]
    sinks: Vec<Sink>,
    #[cfg(feature = "deliver")]
    deliveries: Option<Settings>,
    #[cfg(feature = "export")]
    exports: Option<Exporter>,
}

impl Connectors {
    /// Those that a file configures. Nothing is connected yet.
    ///
    /// # Errors
    /// If a setting cannot work.
    pub fn new(file: File) -> Result<Self, RunError> {
        Ok(Self {
            #[cfg(feature = "postgres")]
            sinks: file.sink.into_iter().map(Sink::new).collect::<Result<_, _>>()?,
            #[cfg(feature = "deliver")]
            deliveries: file
                .deliveries
                .map(|deliveries| deliveries.settings())
                .transpose()
                .map_err(|error| RunError::Deliveries(error.to_string()))?,
            #[cfg(feature = "export")]
            exports: file.exports.map(Exporter::new).transpose().map_err(RunError::Exports)?,
        })
    }

    /// The sinks.
    #[cfg(feature = "postgres")]
    #[must_use]
    pub fn sinks(&self) -> &[Sink] {
        &self.sinks
    }

    /// Whether deliveries are sent.
    #[cfg(feature = "deliver")]
    #[must_use]
    pub const fn delivers(&self) -> bool {
        self.deliveries.is_some()
    }

    /// The names of the places that exports are written to.
    #[cfg(feature = "export")]
    pub fn places(&self) -> impl Iterator<Item = &str> {
        self.exports.iter().flat_map(Exporter::places)
    }

    /// What was sent, and how endpoints stand, if deliveries are sent.
    #[cfg(feature = "deliver")]
    #[must_use]
    pub fn counts(&self) -> Option<Counts> {
        self.deliveries.as_ref().map(|settings| settings.counts.clone())
    }

    /// Makes what is missing outside of the server, such as tables. What exists is not altered.
    ///
    /// # Errors
    /// If a database refuses.
    pub async fn migrate(&self) -> Result<(), RunError> {
        #[cfg(feature = "postgres")]
        for sink in &self.sinks {
            sink.migrate().await?;
        }
        Ok(())
    }

    /// Runs all of them until `stop` turns true, and then until what was begun has ended. One that cannot run stops
    /// the others.
    ///
    /// # Errors
    /// Why one of them cannot run; or that they did not end in time.
    ///
    /// Boxed here, so that the work is compiled where it is written: a caller that is not optimised, as the command line is
    /// not, would otherwise carry it out at half its speed.
    #[must_use = "connectors do nothing until they are polled"]
    pub fn run<'a>(&'a self, client: &'a Client, stop: watch::Receiver<bool>) -> Running<'a> {
        Box::pin(self.run_all(client, stop))
    }

    async fn run_all(&self, client: &Client, stop: watch::Receiver<bool>) -> Result<(), RunError> {
        let halt = watch::Sender::new(false);
        let mut running: FuturesUnordered<Running<'_>> = FuturesUnordered::new();
        #[cfg(feature = "postgres")]
        for sink in &self.sinks {
            let halted = halt.subscribe();
            running.push(Box::pin(async move { sink.run(client, halted).await.map_err(RunError::from) }));
        }
        #[cfg(feature = "deliver")]
        if let Some(settings) = &self.deliveries {
            let connector = Connector::new(client, Endpoints::Server, settings.clone());
            let connector = connector.map_err(|error| RunError::Deliveries(error.to_string()))?;
            running.push(Box::pin(delivering(connector, halt.subscribe())));
        }
        #[cfg(feature = "export")]
        if let Some(exporter) = &self.exports {
            let halted = halt.subscribe();
            running.push(Box::pin(async move {
                exporter.run(client, halted).await;
                Ok(())
            }));
        }
        let mut stop = stop;
        let mut outcome = Ok(());
        while !*halt.borrow() {
            let ended = tokio::select! {
                ended = running.next() => ended,
                _ = stop.wait_for(|is_stopping| *is_stopping) => None,
            };
            if let Some(Err(error)) = ended {
                outcome = Err(error);
            }
            halt.send_replace(true);
        }
        let drain = async { while running.next().await.is_some() {} };
        match timeout(DRAIN_TIMEOUT, drain).await {
            Ok(()) => outcome,
            Err(_) => outcome.and(Err(RunError::NotDrained)),
        }
    }
}

#[cfg(feature = "deliver")]
async fn delivering(connector: Connector, mut halted: watch::Receiver<bool>) -> Result<(), RunError> {
    let stopper = connector.stopper();
    let watch = async {
        // A sender that is gone means stop, too.
        drop(halted.wait_for(|is_halted| *is_halted).await);
        stopper.stop();
    };
    tokio::join!(connector.run(), watch);
    Ok(())
}
