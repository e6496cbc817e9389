//! The router: how it does, and what it would say.

use driftq_api::v2::{Breaker, OnError, RouterKind, RouterStatus};
use hyper::StatusCode;

use super::Request;
use crate::http::answer::json;
use crate::http::v1::Handled;

pub(super) fn status(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let status = RouterStatus {
        kind: RouterKind::None,
        breaker: Breaker::Closed,
        asked: 0,
        answered: 0,
        failed: 0,
        timed_out: 0,
        refused: 0,
        cached: 0,
        on_error: OnError::Pass,
        topics: Vec::new(),
    };
    Ok(json(StatusCode::OK, &status))
}

pub(super) async fn test(_request: &Request<'_>) -> Handled {
    Err(super::unknown())
}
