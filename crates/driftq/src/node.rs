//! `driftq serve --node-url`: one of several servers that share a log.
//!
//! One of them has the seat and serves; the others pass on what they are asked, and watch the seat. Connections stay open
//! through every change of roles: what is asked in between waits a moment and is answered.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use driftq_cli::signal::Signals;
use driftq_engine::{
    Started,
    cluster::{SEAT_TIME, Seat, Standing},
};
use driftq_server::{
    config::Config,
    http::{Beside, Front},
};
use tokio::{net::TcpListener, sync::watch, time::timeout};

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
    let (storage, url) = (config.engine().storage, own_url(config, address));
    let seat =
        tokio::task::spawn_blocking(move || Seat::keep(&storage, &url)).await.context("the start ended")?;
    let seat = Arc::new(seat.map_err(|error| startup::explain(&error, config))?);
    let mut standing = seat.standing();
    startup::announce_node(config, seat.url(), address)?;
    let options = config.http(address.port());
    let mut front = Front::standing_by(listener, options, Arc::clone(&seat))?;
    loop {
        tokio::select! {
            got = standing.wait_for(|standing| standing.is_mine) => drop(got.context("the seat is gone")?),
            signal = signals.next() => {
                tracing::info!(signal = signal.name(), "stopping");
                return front.end().await.context("the HTTP edge");
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
        let fenced = broker.fenced();
        let take_over = |broker, deliveries| {
            front.serve(broker, Beside { deliveries, seat: Some(Arc::clone(&seat)) })?;
            Ok(front)
        };
        let serving = Serving::begin(config, manner, address, broker, take_over)?;
        tokio::select! {
            why = replaced(&mut standing, fenced) => {
                tracing::info!(why, "this server hands over");
                front = serving.hand_over(&seat).await;
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
    tokio::select! {
        why = sent_away(standing) => why,
        // By a server that takes no part in the cluster, or by one that took over while this one slept.
        _ = fenced.wait_for(|is_fenced| *is_fenced) => "another server has opened the log",
    }
}

/// Resolves when this server has lost its seat, or has been asked to leave it and the others know.
async fn sent_away(standing: &mut watch::Receiver<Standing>) -> &'static str {
    let asked = |now: &Standing| !now.is_mine || now.is_drained;
    let settled = |now: &Standing| !now.is_mine || !now.is_drained || now.is_noticed;
    loop {
        if standing.wait_for(asked).await.is_err() {
            return "the seat is gone";
        }
        // A server that has not looked for so long cannot reach the log, and learns of it when it can.
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
