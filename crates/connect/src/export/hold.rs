//! The lease of an export, kept while it runs.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use driftq_api::Code;
use driftq_api::v2::{EffectLease, EffectRelease, EffectRenew};
use driftq_client::Client;
use tokio::time::{sleep, timeout};

use super::error::ExportError;

/// Renewals per lease: two may get lost.
const RENEWALS_PER_LEASE: u32 = 3;
/// A server that does not hear by then that a lease is given up sees it lapse.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

/// An export that is ours to run.
pub(super) struct Hold<'a> {
    client: &'a Client,
    id: &'a str,
    pub(super) lease: EffectLease<'static>,
    length: Duration,
}

impl<'a> Hold<'a> {
    pub(super) const fn new(
        client: &'a Client,
        id: &'a str,
        lease: EffectLease<'static>,
        length: Duration,
    ) -> Self {
        Self { client, id, lease, length }
    }

    /// Works while the lease is renewed, and no longer than it is ours.
    pub(super) async fn during<T>(
        &self,
        work: impl Future<Output = Result<T, ExportError>>,
    ) -> Result<T, ExportError> {
        tokio::select! {
            biased;
            done = work => done,
            lost = self.renewals() => match lost {
                Ok(never) => match never {},
                Err(error) => Err(error),
            },
        }
    }

    async fn renewals(&self) -> Result<Infallible, ExportError> {
        let lease_ms = u64::try_from(self.length.as_millis()).unwrap_or(u64::MAX);
        loop {
            sleep(self.length / RENEWALS_PER_LEASE).await;
            let renew = EffectRenew { token: (&*self.lease.token).into(), lease_ms: Some(lease_ms) };
            match self.client.renew_effect(&renew).await {
                Ok(_) => {}
                Err(error) if error.is_transient() => {
                    tracing::debug!(id = self.id, %error, "not renewed; the next renewal is the repeat");
                }
                Err(error) => return Err(self.refused(error)),
            }
        }
    }

    /// What a refusal means for the holder of a lease.
    pub(super) fn refused(&self, error: driftq_client::Error) -> ExportError {
        match error.code() {
            Some(Code::StaleLease | Code::LeaseUnknown) => ExportError::Overtaken { id: self.id.to_owned() },
            _ => error.into(),
        }
    }

    /// Gives the lease up: nothing is visible, and the next process continues at once.
    pub(super) async fn give_up(&self) {
        let release = EffectRelease { token: (&*self.lease.token).into(), uncertain: false };
        match timeout(TOLD_WITHIN, self.client.release_effect(&release)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::debug!(id = self.id, %error, "its lease was not given up and lapses");
            }
            Err(_) => tracing::debug!(id = self.id, "its lease was not given up in time and lapses"),
        }
    }
}
