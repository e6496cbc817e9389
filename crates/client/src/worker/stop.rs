//! How a worker is told to end.

use tokio::sync::watch;

/// Tells a worker to end. Cheap to clone; works from any task, also before the worker runs.
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<Urgency>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// Not at all.
    GoOn,
    /// What was begun may end.
    Drain,
    /// The worker does not wait for handlers.
    AtOnce,
}

impl Stopper {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(Urgency::GoOn))
    }

    /// No more is borrowed, what was not begun is given back, what runs may end. After a second call the worker no
    /// longer waits for handlers, but what they have done is settled.
    pub fn stop(&self) {
        self.0.send_modify(|urgency| {
            *urgency = if *urgency == Urgency::GoOn { Urgency::Drain } else { Urgency::AtOnce };
        });
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Urgency> {
        self.0.subscribe()
    }
}

/// Passes SIGTERM and SIGINT on until it is dropped.
pub(super) async fn forward_signals(stopper: Stopper) {
    loop {
        match signal().await {
            Ok(name) => {
                tracing::info!(signal = name, "stopping");
                stopper.stop();
            }
            Err(error) => {
                tracing::warn!(%error, "signals cannot be heard; the worker ends by its stopper alone");
                return std::future::pending().await;
            }
        }
    }
}

#[cfg(unix)]
async fn signal() -> std::io::Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};

    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => Ok("SIGTERM"),
        _ = interrupt.recv() => Ok("SIGINT"),
    }
}

#[cfg(not(unix))]
async fn signal() -> std::io::Result<&'static str> {
    tokio::signal::ctrl_c().await.map(|()| "interrupt")
}
