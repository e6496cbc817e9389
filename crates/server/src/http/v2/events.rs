//! What changes, told as it does.

use std::sync::Arc;

use super::Request;
use crate::http::answer;
use crate::http::events::Events;
use crate::http::live;
use crate::http::v1::Handled;

pub(super) async fn stream(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let app = request.app;
    let watching = live::watch(app).await?;
    let edge = (Arc::clone(&app.budget), Arc::clone(request.pulse));
    Ok(answer::events(Events::new(watching, edge, app.options.heartbeat)))
}
