//! Keeps an effect's lease while its command runs.

use std::{borrow::Cow, time::Duration};

use driftq_api::v2::{EffectRenew, EffectRenewed};
use driftq_http::Patience;

use crate::{CallError, Session};

/// Renewals per lease: two may get lost.
const RENEWALS: u32 = 3;

/// Renews until the server says that the lease is lost. A server that cannot be reached is asked again: a lapse alone
/// takes nothing away.
pub(super) async fn keep(mut session: Session, token: &str, lease_ms: u64) -> CallError {
    let pause = Duration::from_millis(lease_ms) / RENEWALS;
    let request = EffectRenew { token: Cow::Borrowed(token), lease_ms: Some(lease_ms) };
    loop {
        tokio::time::sleep(pause).await;
        let retry = Patience::lasting(pause);
        let (answer, _) = session.post_retrying::<EffectRenewed>("/v2/effects/renew", &request, retry).await;
        match answer {
            Ok(_) => {}
            Err(error) if error.is_transient() => {}
            Err(error) => return error,
        }
    }
}
