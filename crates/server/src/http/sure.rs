//! Whether a server of a cluster may still answer from what it knows.
//!
//! A server that cannot see its seat may have been replaced. What it has written is written: the log refuses a deposed
//! writer. But a question or a refusal needs no writing, and may be of yesterday.

use driftq_api::v2::Operation;
use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

use super::answer::{Answer, refusal};
use super::app::App;
use super::endpoint::Endpoint;
use super::relay::RELAYED;
use super::standby::{HOLD, nobody, not_here};

const UNSURE: &str = "this server cannot see whether it still serves";

impl App {
    /// Refuses a request that no server has looked at, unless no other server of the cluster can serve. A server that
    /// cannot see its seat waits until it can; one that passed the request on is told at once, and waits by itself.
    pub(super) async fn refuse_unsure(
        &self,
        endpoint: Endpoint,
        head: &Parts,
        id: &HeaderValue,
    ) -> Option<Answer> {
        let seat = self.seat.as_ref().filter(|seat| !endpoint.is_own() && !seat.is_sure())?;
        if head.headers.contains_key(&RELAYED) {
            return Some(not_here(id));
        }
        let is_sure = seat.wait_sure(HOLD).await;
        (!is_sure).then(|| refusal(&nobody(UNSURE), endpoint.dialect(), id))
    }

    /// In place of an answer that a server which is no longer sure would give from memory. It does not say that the request
    /// was not looked at: whoever passed it on must not repeat it.
    pub(super) fn instead_of_stale(
        &self,
        endpoint: Endpoint,
        (method, status): (&Method, StatusCode),
        id: &HeaderValue,
    ) -> Option<Answer> {
        let is_unsure = self.seat.as_ref().is_some_and(|seat| !seat.is_sure());
        (is_unsure && may_be_stale(endpoint, method, status))
            .then(|| refusal(&nobody(UNSURE), endpoint.dialect(), id))
    }
}

/// Whether an answer says something that another server may know better. One that says that the outcome is not known says
/// more than a refusal would.
fn may_be_stale(endpoint: Endpoint, method: &Method, status: StatusCode) -> bool {
    // They ask about a delivery, and write nothing.
    let asks = matches!(endpoint, Endpoint::V2(Operation::Introspect | Operation::MintCredential));
    let is_read = asks || *method == Method::GET;
    !endpoint.is_own() && !status.is_server_error() && (is_read || !status.is_success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_told_and_what_was_looked_up_is_not() {
        let (produce, look) = (Endpoint::V2(Operation::Produce), Endpoint::V2(Operation::GetTopic));
        for (endpoint, method, status, is_stale) in [
            (produce, Method::POST, StatusCode::CREATED, false),
            (produce, Method::POST, StatusCode::NOT_FOUND, true),
            (produce, Method::POST, StatusCode::CONFLICT, true),
            // Whether it was carried out is not known: nobody may take that for a refusal, and repeat it.
            (produce, Method::POST, StatusCode::SERVICE_UNAVAILABLE, false),
            (look, Method::GET, StatusCode::OK, true),
            (look, Method::GET, StatusCode::NOT_FOUND, true),
            (Endpoint::V2(Operation::Introspect), Method::POST, StatusCode::OK, true),
            (Endpoint::Metrics, Method::GET, StatusCode::OK, false),
        ] {
            assert_eq!(may_be_stale(endpoint, &method, status), is_stale, "{endpoint:?} {status}");
        }
    }
}
