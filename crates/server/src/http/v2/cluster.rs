//! The servers that share the log.

use std::borrow::Cow;

use driftq_api::v2::{Cluster, ClusterNode, NodeSpec};
use driftq_api::{Code, Fault};
use driftq_engine::cluster::{Seat, Standing};
use hyper::StatusCode;

use super::Request;
use crate::http::answer::{Answer, json};
use crate::http::audit::about;
use crate::http::v1::Handled;

pub(super) fn get(request: &Request<'_>) -> Handled {
    request.no_query()?;
    Ok(match &request.app.seat {
        Some(seat) => shown(&seat.standing().borrow()),
        None => json(StatusCode::OK, &Cluster { clustered: false, serving: None, nodes: Vec::new() }),
    })
}

/// Has a server leave the work to others, or take its part again.
pub(super) async fn mark(request: &Request<'_>, is_drained: bool) -> Handled {
    request.no_query()?;
    let asked = NodeSpec::from_json(request.json()?)?;
    let seat = seat(request)?;
    let standing = seat.standing();
    if is_drained {
        check_others(&standing.borrow(), &asked.node)?;
    }
    let marked = seat.drain(asked.node.clone().into_owned(), is_drained).await;
    if !marked.map_err(|why| Fault::new(Code::Unavailable, why))? {
        return Err(unknown(&asked.node));
    }
    let mut standing = standing.borrow().clone();
    for node in &mut standing.nodes {
        node.is_drained = if node.url == asked.node { is_drained } else { node.is_drained };
    }
    Ok(about(shown(&standing), &["node", &asked.node]))
}

fn seat<'a>(request: &Request<'a>) -> Result<&'a Seat, Fault> {
    let alone = || {
        Fault::invalid(
            "this server has its log for itself; a cluster is several with the same --log and --node-url",
        )
    };
    request.app.seat.as_deref().ok_or_else(alone)
}

/// Somebody must be there to take over.
fn check_others(standing: &Standing, url: &str) -> Result<(), Fault> {
    if !standing.nodes.iter().any(|node| node.url == url) {
        return Err(unknown(url));
    }
    if standing.nodes.iter().any(|node| node.url != url && node.is_alive() && !node.is_drained) {
        return Ok(());
    }
    let text = "no other server of the cluster could take over: start one, or resume one that is drained";
    Err(Fault::new(Code::Unavailable, text))
}

fn unknown(url: &str) -> Fault {
    Fault::invalid(format!("node: the cluster has no server {url:?}; `driftq cluster status` shows them"))
}

fn shown(standing: &Standing) -> Answer {
    let nodes = standing.nodes.iter().map(|node| ClusterNode {
        url: Cow::Borrowed(&node.url),
        serving: standing.serving.as_ref() == Some(&node.url),
        alive: node.is_alive(),
        drained: node.is_drained,
        seen_ms_ago: node.seen_ms_ago,
    });
    let serving = standing.serving.as_deref().map(Cow::Borrowed);
    json(StatusCode::OK, &Cluster { clustered: true, serving, nodes: nodes.collect() })
}
