//! How a handler learns that it may stop.

use std::sync::Arc;

use tokio::sync::watch;

use crate::error::Error;

/// Why a handler may stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Another worker has the message, or will have it.
    LeaseLost,
    /// A client or an operator cancelled the message.
    Cancelled,
    /// The message's deadline has passed: it is of no use any more.
    DeadlinePassed,
    /// The handler outran its own time-out.
    TimedOut,
    /// The worker is stopping, and its time to drain is over.
    Stopped,
}

impl Reason {
    /// Its name, as all SDKs call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LeaseLost => "LeaseLost",
            Self::Cancelled => "Cancelled",
            Self::DeadlinePassed => "DeadlinePassed",
            Self::TimedOut => "TimedOut",
            Self::Stopped => "Stopped",
        }
    }
}

impl From<Reason> for Error {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::LeaseLost => Self::LeaseLost,
            Reason::Cancelled => Self::Cancelled,
            Reason::DeadlinePassed => Self::DeadlinePassed,
            Reason::TimedOut => Self::TimedOut,
            Reason::Stopped => Self::Stopped,
        }
    }
}

/// Fires once, with a reason. Cheap to clone.
///
/// ```
/// # async fn example(context: driftq_client::Context) -> Result<(), driftq_client::Failure> {
/// # async fn work() {}
/// tokio::select! {
///     () = work() => {}
///     reason = context.signal().fired() => return Err(driftq_client::Error::from(reason).into()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Signal(Arc<watch::Sender<Option<Reason>>>);

impl Signal {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    /// The reason, if it has fired.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        *self.0.borrow()
    }

    /// Waits until it fires.
    pub async fn fired(&self) -> Reason {
        let mut watch = self.0.subscribe();
        loop {
            if let Some(reason) = *watch.borrow_and_update() {
                return reason;
            }
            if watch.changed().await.is_err() {
                // This signal holds the sender itself, so this is never reached.
                std::future::pending::<()>().await;
            }
        }
    }

    /// An error if it has fired: for handlers that work through many small steps.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&self) -> Result<(), Error> {
        self.reason().map_or(Ok(()), |reason| Err(reason.into()))
    }

    /// Fires it. The first reason counts.
    pub(crate) fn fire(&self, reason: Reason) -> bool {
        self.0.send_if_modified(|fired| fired.is_none() && fired.replace(reason).is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_reason_counts_and_everybody_hears_it() {
        let signal = Signal::new();
        let heard = tokio::spawn({
            let signal = signal.clone();
            async move { signal.fired().await }
        });
        assert!(signal.check().is_ok());
        assert!(signal.fire(Reason::Cancelled) && !signal.fire(Reason::LeaseLost));
        assert_eq!(heard.await.unwrap(), Reason::Cancelled);
        assert_eq!(signal.fired().await, Reason::Cancelled);
        assert!(matches!(signal.check(), Err(Error::Cancelled)));
    }
}
