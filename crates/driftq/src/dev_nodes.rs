//! `driftq dev --nodes 3`: several servers on one log, on a desk.

use std::{io, process::Stdio, time::Duration};

use anyhow::{Context, Result, bail};
use driftq_bench::demo;
use driftq_cli::{
    colour::Paint,
    exit::{Exit, Fault},
    output,
    signal::{Signals, terminate},
};
use driftq_server::config::Config;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

use super::dev::program;

/// A desk needs no more.
pub(super) const NODES_MAX: u8 = 9;
/// The knobs that the servers are given; the environment counts for the others.
pub(super) const PASSED_ON: [&str; 4] = ["log", "log_schema", "log_cluster", "log_level"];
/// A server that is not up by then will not come up.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// A server that was told to stop has stopped by then, or is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// A server of its own process.
struct Node {
    child: Child,
    url: String,
}

/// `ignored`: flags that the servers would not hear of.
pub(super) fn run(config: &Config, count: u8, ignored: &[String]) -> Result<()> {
    if !ignored.is_empty() {
        let what = format!("--nodes does not pass {} on to its servers", ignored.join(", "));
        let fault = Fault::new(Exit::Config, what);
        return Err(fault.help("set it in the environment (DRIFTQ_…), which they share").into());
    }
    if !config.is_in_database() {
        let fault = Fault::new(Exit::Config, "several servers share a log only in a database or a stream");
        return Err(fault.help("name one: driftq dev --nodes 3 --log postgres://user@host/database").into());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("starting a runtime")?.block_on(serve(config, count))
}

async fn serve(config: &Config, count: u8) -> Result<()> {
    let mut signals = Signals::new()?;
    let mut nodes = Vec::new();
    for _ in 0..count {
        nodes.push(Node::start(config).await?);
    }
    announce(&nodes)?;
    signals.next().await;
    for node in &nodes {
        terminate(node.child.id());
    }
    for node in &mut nodes {
        // Its end, or its kill when it is dropped.
        let _ = timeout(STOP_TIMEOUT, node.child.wait()).await;
    }
    Ok(())
}

impl Node {
    async fn start(config: &Config) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe().context("finding this program")?);
        command
            .args([demo::SERVER_COMMAND, "--parent", &std::process::id().to_string()])
            .args(["--listen", "127.0.0.1:0", "--node-url", "http://127.0.0.1:0"])
            .args(["--log-schema", &config.log.schema, "--log-cluster", &config.log.cluster])
            .args(["--log-level", &config.log_level])
            // Not among the arguments: there may be a password in it.
            .env("DRIFTQ_LOG", &config.log.url)
            // Ctrl-C in a terminal goes to everything in the foreground; who ends when is decided here.
            .process_group(0)
            .kill_on_drop(true)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = command.spawn().context("starting a server")?;
        let mut lines = BufReader::new(child.stdout.take().context("the server's stdout")?).lines();
        let listens = async {
            while let Some(line) = lines.next_line().await? {
                if let Some(url) = line.strip_prefix("listening on ") {
                    return Ok(url.trim().to_owned());
                }
            }
            bail!("a server ended before it listened; its reason is above")
        };
        let url = timeout(START_TIMEOUT, listens).await.context("a server did not come up in time")??;
        // Whatever it says later must not fill the pipe and stop it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { child, url })
    }
}

fn announce(nodes: &[Node]) -> Result<()> {
    let paint = Paint::of(&io::stdout());
    let name = format!("DriftQ {}", driftq_server::http::VERSION);
    let count = format!("{} servers on one log", nodes.len());
    let mut text = format!("\n  {}  {}\n\n", paint.bold(&name), paint.green(&count));
    for (number, node) in nodes.iter().enumerate() {
        let (name, pid) = (format!("Server {}", number + 1), node.child.id().unwrap_or_default());
        text.push_str(&format!("  {}{}  (process {pid})\n", paint.dim(&format!("{name:<12}")), node.url));
    }
    text.push_str("\n  Next, in another terminal; any server takes any request:\n\n");
    let urls: Vec<&str> = nodes.iter().map(|node| node.url.as_str()).collect();
    let (driftq, urls) = (program(), urls.join(","));
    for line in [
        format!("export DRIFTQ_SERVER={urls}"),
        format!("{driftq} cluster status"),
        format!("{driftq} topic create hello"),
        format!("{driftq} produce hello 'Hello, world'"),
        "kill -9 PROCESS    # of the one that serves: another takes over".to_owned(),
    ] {
        text.push_str(&format!("    {}\n", paint.cyan(&line)));
    }
    text.push_str(&format!("\n  {}\n\n", paint.dim("Ctrl-C stops them.")));
    output::write(&text)
}
