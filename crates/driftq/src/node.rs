//! `driftq serve --node-url`: one of several servers that share a log.
//!
//! One of them has the seat and serves; the others pass on what they are asked, and watch the seat. The address stays
//! bound through every change of roles: whoever connects in between waits a moment and is answered.

use std::{
    net::{self, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use driftq_cli::signal::Signals;
use driftq_engine::{
    Started,
    cluster::{SEAT_TIME, Seat, Standing},
};
use driftq_server::{config::Config, http};
use tokio::{
    net::TcpListener,
    sync::{oneshot, watch},
    time::timeout,
};

use super::{
    serve::{Manner, Serving, leave, open},
    startup,
};

/// How long a server that was asked to leave the work to others goes on at most until all of them know, and keep new
/// requests back: what they send to one that is closing its connections may be lost without an answer.
const NOTICE_MAX: Duration = SEAT_TIME.saturating_mul(3);

/// Serves in turns with the others, until a signal ends it.
pub(super) async fn serve(
    config: &Config,
    manner: &impl Manner,
    signals: &mut Signals,
    listener: TcpListener,
) -> Result<()> {
    let address = listener.local_addr().context("the listen address")?;
    let listener = listener.into_std().context("the listener")?;
    let (storage, url) = (config.engine().storage, own_url(config, address));
    let seat =
        tokio::task::spawn_blocking(move || Seat::keep(&storage, &url)).await.context("the start ended")?;
    let seat = Arc::new(seat.map_err(|error| startup::explain(&error, config))?);
    let mut standing = seat.standing();
    startup::announce_node(config, seat.url(), address)?;
    loop {
        let standby = Standby::begin(config, &listener, &seat)?;
        tokio::select! {
            got = standing.wait_for(|standing| standing.is_mine) => drop(got.context("the seat is gone")?),
            signal = signals.next() => {
                tracing::info!(signal = signal.name(), "stopping");
                return standby.end().await;
            }
        }
        // Requests wait until the log is open: nobody else serves.
        let started = open(config, signals).await?;
        let Started { broker, recovery } = match started {
            Ok(started) => started,
            Err(error) => {
                tracing::error!(%error, "the log cannot be opened; the seat is left to others");
                seat.leave().await;
                continue;
            }
        };
        if config.keys_required() {
            broker.load_keys().await.context("reading the keys")?;
        }
        let recovered = startup::recovered(&recovery);
        tracing::info!(node = seat.url(), recovered, "this server serves now");
        standby.hand_over();
        let fenced = broker.fenced();
        let serving = Serving::begin(config, manner, dup(&listener)?, broker, Some(Arc::clone(&seat)))?;
        tokio::select! {
            why = replaced(&mut standing, fenced) => {
                tracing::info!(why, "this server hands over");
                serving.end().await?;
                seat.leave().await;
            }
            signal = signals.next() => {
                tracing::info!(signal = signal.name(), "stopping; a second signal ends the process at once");
                let graceful = async {
                    let counters = serving.end().await?;
                    seat.leave().await;
                    manner.part(config, &counters)
                };
                return tokio::select! {
                    outcome = graceful => outcome,
                    signal = signals.next() => leave(signal),
                };
            }
        }
    }
}

/// Where the others reach this server. A port of 0 stands for the one that it listens on.
fn own_url(config: &Config, address: SocketAddr) -> String {
    match config.node_url.strip_suffix(":0") {
        Some(host) => format!("{host}:{}", address.port()),
        None => config.node_url.clone(),
    }
}

/// Resolves when this server must not serve any longer, with the reason.
async fn replaced(
    standing: &mut watch::Receiver<Standing>,
    mut fenced: watch::Receiver<bool>,
) -> &'static str {
    let asked = |now: &Standing| !now.is_mine || now.is_drained;
    let settled = |now: &Standing| !now.is_mine || !now.is_drained || now.is_noticed;
    loop {
        let ended = tokio::select! {
            ended = standing.wait_for(asked) => ended.map(drop),
            // By a server that takes no part in the cluster, or by one that took over while this one slept.
            _ = fenced.wait_for(|is_fenced| *is_fenced) => return "another server has opened the log",
        };
        if ended.is_err() {
            return "the seat is gone";
        }
        // Those that do not know in time were told nothing for as long.
        drop(timeout(NOTICE_MAX, standing.wait_for(settled)).await);
        let now = standing.borrow();
        if !now.is_mine {
            return "another server has the seat";
        }
        if now.is_drained {
            return "an operator has asked it to";
        }
    }
}

/// The edge of a server that does not serve.
struct Standby {
    running: tokio::task::JoinHandle<std::io::Result<()>>,
    /// Dropping it ends the edge.
    stop: oneshot::Sender<()>,
}

impl Standby {
    fn begin(config: &Config, listener: &net::TcpListener, seat: &Arc<Seat>) -> Result<Self> {
        let listener = dup(listener)?;
        let options = config.http(listener.local_addr().context("the listen address")?.port());
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = Box::pin(async move { drop(stopped.await) });
        let running = tokio::spawn(http::stand_by(listener, options, Arc::clone(seat), shutdown));
        Ok(Self { running, stop })
    }

    /// Takes no more connections; what is under way comes to its end by itself.
    fn hand_over(self) {
        drop(self.stop);
    }

    async fn end(self) -> Result<()> {
        drop(self.stop);
        self.running.await.context("the HTTP edge ended")??;
        Ok(())
    }
}

/// Another handle of the same socket: who lets go of one does not close it.
fn dup(listener: &net::TcpListener) -> Result<TcpListener> {
    listener.try_clone().and_then(TcpListener::from_std).context("sharing the listener")
}
