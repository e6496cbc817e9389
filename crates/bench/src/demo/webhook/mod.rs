//! `driftq demo --scenario webhook`: a server that is killed while it sends, and a receiver that is no better.
//!
//! The server runs its connector itself. The receiver is this process: it takes deliveries, refuses some, breaks off
//! others, and has the server killed with a delivery in its hands. At the end its books are compared with the server's.

mod plan;
mod receiver;
mod report;
mod show;

use std::{
    io,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use driftq_api::v2::{
    DELIVERIES_PREFIX, Deliveries, DeliveryTaken, ENDPOINT_GROUP_PREFIX, Endpoint, SendOutcome, SendState,
};
use driftq_client::Client;
use hyper::Method;
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};

use super::{Args, LOOK_AGAIN, RUN_TIMEOUT, crew::SIGKILL, fresh_seed, provider::Order, server::Server};
use driftq_cli::{
    Common, client,
    colour::Paint,
    exit::Exit,
    output::{self, Format},
    work::fault,
    wrap,
};
use plan::Plan;
use receiver::Receiver;
use report::{Recorded, Report};
use show::Show;

/// Where everything goes.
const ENDPOINT: &str = "shop";
/// What the webhooks are signed with. It opens nothing but this demo.
const SECRET: &str = "whsec_ZHJpZnRxIGRlbW86IG5vdCBhIHNlY3JldCBhdCBhbGw=";
/// How long a delivery waits after a kill: short for a demo.
const LEASE: Duration = Duration::from_secs(1);
/// By when the receiver has answered.
const TIMEOUT_MS: u64 = 5_000;
/// Short, and more of them than anything here needs.
const RETRY_SCHEDULE_MS: [u64; 20] = [200; 20];

pub(super) async fn play(common: &Common, args: &Args, place: PathBuf) -> Result<Exit> {
    let is_for_programs = matches!(common.output, Some(Format::Json | Format::Ndjson));
    let seed = args.seed.unwrap_or_else(fresh_seed);
    let begun = Instant::now();
    let show = Show::new(is_for_programs, args, seed);
    let (kill, kills) = mpsc::channel(1);
    let plan = Plan::new(seed, args.messages, args.kills());
    let receiver = Arc::new(Receiver::new(plan, kill, place.join("received.ndjson"))?);
    let mut parts = JoinSet::new();
    let url = Arc::clone(&receiver).listen(&mut parts).await?;
    let mut stage = Stage { place, receiver, show, kills, crashes: 0 };
    let Ok(played) = timeout(RUN_TIMEOUT, stage.run(&url, args)).await else {
        bail!("the demo did not end within {} s", RUN_TIMEOUT.as_secs())
    };
    let recorded = played?;
    let report = Report::new(&stage.receiver.books(), &recorded, stage.crashes, args, seed, begun.elapsed());
    stage.show.done();
    let paint = Paint::of(&io::stdout());
    output::print_one(common.output, &report, || report.text(paint, wrap::width_of_stdout()))?;
    Ok(if report.passed { Exit::Success } else { Exit::Failure })
}

struct Stage {
    place: PathBuf,
    receiver: Arc<Receiver>,
    show: Show,
    /// The receiver wants the server killed, with this delivery in its hands.
    kills: mpsc::Receiver<u32>,
    crashes: u64,
}

impl Stage {
    /// Sends everything, and kills the server as often as the receiver wants it, until all is settled.
    async fn run(&mut self, url: &str, args: &Args) -> Result<Vec<Recorded>> {
        let connect = self.place.join("connect.toml");
        let text = format!("[deliveries]\nallow = [\"127.0.0.0/8\"]\nlease_ms = {}\n", LEASE.as_millis());
        std::fs::write(&connect, text).context("the file of connectors")?;
        let secret = self.place.join("secret");
        std::fs::write(&secret, SECRET).context("the secret of the webhooks")?;
        let mut server = self.start(&connect).await?;
        let mut client = Client::new(&server.url()).map_err(fault)?;
        put_endpoint(&server.url(), url, &secret, args.workers).await?;
        for number in 0..args.messages {
            send(&client, &Order::new(number)).await?;
        }
        self.receiver.may_kill();
        loop {
            tokio::select! {
                Some(number) = self.kills.recv() => {
                    self.kill(server, number).await?;
                    server = self.start(&connect).await?;
                    client = Client::new(&server.url()).map_err(fault)?;
                    self.receiver.may_kill();
                }
                () = tokio::time::sleep(LOOK_AGAIN) => {
                    self.show.update(&self.receiver.books(), self.crashes);
                    if self.receiver.has_all() && is_settled(&client).await? {
                        break;
                    }
                }
            }
        }
        let mut recorded = Vec::new();
        for number in 0..args.messages {
            recorded.push(look_up(&client, &Order::new(number).order).await?);
        }
        server.end().await?;
        Ok(recorded)
    }

    async fn start(&self, connect: &Path) -> Result<Server> {
        Server::start_with(&self.place, &["--connect".as_ref(), connect.as_os_str()]).await
    }

    async fn kill(&mut self, server: Server, number: u32) -> Result<()> {
        let (pid, status) = server.kill().await?;
        // Only what the system confirms counts.
        if status.signal() != Some(SIGKILL) {
            bail!("the server was to be killed and ended with {status} by itself");
        }
        self.crashes += 1;
        self.show.killed(&Order::new(number).order, pid);
        Ok(())
    }
}

async fn put_endpoint(server: &str, url: &str, secret: &Path, at_a_time: u16) -> Result<()> {
    let spec = json!({
        "kind": "webhook",
        "url": url,
        "secrets": [{"file": secret}],
        "concurrency": at_a_time,
        "timeout_ms": TIMEOUT_MS,
        "retry_schedule_ms": RETRY_SCHEDULE_MS,
    });
    let mut session = client::Client::new(server)?.session();
    let path = format!("/v2/endpoints/{ENDPOINT}");
    let made: Result<Endpoint, _> = session.send(Method::PUT, path, &spec).await;
    made.map(drop).map_err(|error| error.into_error()).context("making the endpoint")
}

async fn send(client: &Client, order: &Order) -> Result<()> {
    let delivery = json!({"delivery_id": order.order, "endpoint": ENDPOINT, "body": order});
    client.post::<DeliveryTaken<'static>>("/v2/deliveries", &delivery).await.map(drop).map_err(fault)
}

/// Whether nothing is left to send.
async fn is_settled(client: &Client) -> Result<bool> {
    let (topic, group) =
        (format!("{DELIVERIES_PREFIX}{ENDPOINT}"), format!("{ENDPOINT_GROUP_PREFIX}{ENDPOINT}"));
    Ok(client.group(&topic, &group).await.map_err(fault)?.lag == 0)
}

/// What the server knows of a delivery.
async fn look_up(client: &Client, delivery_id: &str) -> Result<Recorded> {
    let path = format!("/v2/deliveries?endpoint={ENDPOINT}&delivery_id={delivery_id}");
    // Records borrow from what they are read from.
    let page: Value = client.get(&path).await.map_err(fault)?;
    let page: Deliveries<'static> = serde_json::from_value(page).context("a page of deliveries")?;
    let record = page.deliveries.into_iter().next();
    let record = record.with_context(|| format!("the server does not know {delivery_id}"))?;
    let count = |wanted| record.attempts.iter().filter(|send| send.outcome == wanted).count() as u64;
    Ok(Recorded { is_delivered: record.state == SendState::Delivered, unknown: count(SendOutcome::Unknown) })
}
