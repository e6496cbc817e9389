//! `driftq router status`.

use anyhow::Result;
use driftq_api::v2::{Breaker, OnError, RouterKind, RouterStatus};

use crate::{
    Common,
    output::{self, grouped, printable},
};

pub(super) async fn run(common: &Common) -> Result<()> {
    let mut session = common.client()?.session();
    let status: RouterStatus = session.get("/v2/router").await.map_err(|error| error.into_error())?;
    output::print_one(common.output, &status, || text(&status))
}

fn text(status: &RouterStatus) -> String {
    let kind = match status.kind {
        RouterKind::None => {
            return "no router is configured: messages go where their producers send them\n".to_owned();
        }
        RouterKind::Http => "a service over HTTP",
        RouterKind::Rules => "the server's own rules",
    };
    let breaker = match status.breaker {
        Breaker::Closed => "closed: the router is asked",
        Breaker::Open => "open: it failed too often and is left alone for a while",
        Breaker::HalfOpen => "half open: it is asked once, to see whether it is back",
    };
    let on_error = match status.on_error {
        OnError::Pass => "messages without a good answer go on without routing",
        OnError::Reject => "messages without a good answer are refused",
    };
    let topics =
        if status.topics.is_empty() { "all".to_owned() } else { printable(&status.topics.join(", ")) };
    format!(
        "router     {kind}\nbreaker    {breaker}\non error   {on_error}\ntopics     {topics}\nasked      {}\nanswered   {}\ncached     {}\nfailed     {}\ntimed out  {}\nnot asked  {}\n",
        grouped(status.asked),
        grouped(status.answered),
        grouped(status.cached),
        grouped(status.failed),
        grouped(status.timed_out),
        grouped(status.refused),
    )
}
