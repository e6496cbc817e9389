//! `driftq cluster …`: the servers that share a log.

use std::borrow::Cow;

use anyhow::Result;
use driftq_api::v2::{Cluster, ClusterNode, NodeSpec};

use crate::{Columns, Common, output::table, printable};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Show the servers that share the log, and which of them serves
    #[command(after_help = "Every server of a cluster gives the same answer.

Examples:
  driftq cluster status
  driftq cluster status -o json | jq -r .serving")]
    Status,
    /// Have a server leave the work to others, before it is stopped or updated
    #[command(
        after_help = "If it serves, it finishes what is under way and another takes over; requests wait \
meanwhile. It stays drained, also when it is started anew, until it is resumed.

Examples:
  driftq cluster drain http://10.0.0.1:8080"
    )]
    Drain(Node),
    /// Have a drained server take its part again
    #[command(after_help = "Examples:
  driftq cluster resume http://10.0.0.1:8080")]
    Resume(Node),
}

#[derive(clap::Args)]
pub(crate) struct Node {
    /// The server, as `driftq cluster status` shows it
    #[arg(value_name = "URL")]
    node: String,
}

const COLUMNS: Columns<ClusterNode<'static>> = &[
    ("SERVER", |node, _| printable(&node.url)),
    ("ROLE", |node, _| role(node).to_owned()),
    ("SEEN", |node, _| format!("{} ms ago", node.seen_ms_ago)),
];

const fn role(node: &ClusterNode<'_>) -> &'static str {
    match (node.serving, node.alive, node.drained) {
        (true, _, false) => "serves",
        (true, _, true) => "serves, and hands over",
        (false, true, false) => "passes requests on, ready to take over",
        (false, true, true) => "passes requests on, drained",
        (false, false, _) => "away",
    }
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    let mut caller = common.caller()?;
    let cluster: Cluster<'static> = match command {
        Command::Status => caller.get("/v2/cluster").await?,
        Command::Drain(node) => caller.post("/v2/cluster/drain", &named(node)).await?,
        Command::Resume(node) => caller.post("/v2/cluster/resume", &named(node)).await?,
    };
    common.show(&cluster, shown)
}

fn named(Node { node }: &Node) -> NodeSpec<'_> {
    NodeSpec { node: Cow::Borrowed(node.trim_end_matches('/')) }
}

fn shown(cluster: &Cluster<'static>) -> String {
    if !cluster.clustered {
        return "this server has its log for itself\n".to_owned();
    }
    table(COLUMNS, &cluster.nodes)
}
