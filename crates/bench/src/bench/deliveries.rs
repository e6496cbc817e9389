//! Deliveries to a hundred endpoints of which one hangs, beside deliveries to a hundred that answer.

use std::{
    convert::Infallible,
    future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use bytes::Bytes;
use driftq_client::{Client, raw, wire::TopicSpec};
use driftq_connect::deliver::{
    Connector, Endpoint, Endpoints, Settings,
    address::{Allowed, Network},
    endpoint::Kind,
};
use http_body_util::{BodyExt as _, Empty};
use hyper::{Request, Response, StatusCode, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, sync::Notify, task::JoinSet, time::timeout};

use super::{
    Plan,
    child::Server,
    figure::{Figure, Must, Report, Unit},
    progress::Progress,
    setup::data_directory,
    statistics::{median, ratio},
};

/// What the endpoints that answer must keep of their rate when one hangs.
const MUST_RATIO: f64 = 0.9;
const ENDPOINTS: u64 = 100;
/// The one that hangs: the first to be served.
const HANGING: u64 = 0;
/// Short, so that sends also end and are tried again while the others are measured.
const TIMEOUT_MS: u64 = 1_000;
/// The part of the messages of a consume round that makes a round here: each costs several requests.
const SHARE: u64 = 10;
/// A round that takes longer will not end.
const ROUND_MAX: Duration = Duration::from_secs(300);

pub(super) async fn measure(plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
    progress.expect(plan.rounds * 2);
    let each = (plan.consume_messages / SHARE / ENDPOINTS).max(1);
    let (mut ours, mut peer) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        progress.step("deliveries, all endpoints answer");
        peer.push(round(plan, each, false).await?);
        progress.step("deliveries, one endpoint hangs");
        ours.push(round(plan, each, true).await?);
    }
    let name = format!("deliveries to {} of {ENDPOINTS} endpoints, one hangs", ENDPOINTS - 1);
    let figure = Figure::new(name, median(&ours), Unit::PerSecond);
    let figure = figure.beside("the same, all answer", median(&peer), ratio(&ours, &peer));
    report.add(figure.must(Must::RatioAtLeast(MUST_RATIO)));
    Ok(())
}

/// Deliveries per second to all endpoints but the one that may hang: from the start of the connector until the last of
/// them has arrived.
async fn round(plan: &Plan, each: u64, one_hangs: bool) -> Result<f64> {
    let folder = data_directory(plan)?;
    let server = Server::driftq(folder.path()).await?;
    let client = Client::new(&format!("http://{}", server.address))?;
    let arrived = Arc::new(Arrived { left: AtomicU64::new((ENDPOINTS - 1) * each), all: Notify::new() });
    let (mut receivers, mut endpoints) = (JoinSet::new(), Vec::new());
    for number in 0..ENDPOINTS {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("a receiver")?;
        let url = format!("http://{}/", listener.local_addr().context("a receiver")?);
        let manner = match (number == HANGING, one_hangs) {
            (true, true) => Manner::Hangs,
            (true, false) => Manner::Answers(None),
            (false, _) => Manner::Answers(Some(Arc::clone(&arrived))),
        };
        receivers.spawn(receive(listener, manner));
        let endpoint = Endpoint {
            timeout_ms: Some(TIMEOUT_MS),
            ..Endpoint::new(format!("receiver-{number}"), Kind::Webhook, url)
        };
        fill(&client, &endpoint, each, plan.payload).await?;
        endpoints.push(endpoint);
    }
    let loopback = Network::parse("127.0.0.0/8")?;
    let allowed = Allowed { networks: vec![loopback], hosts: Vec::new() };
    let settings = Settings { allowed, ..Settings::default() };
    let connector = Connector::new(&client, Endpoints::given(endpoints), settings)?;
    let mut connectors = JoinSet::new();
    let started = Instant::now();
    connectors.spawn(connector.run());
    timeout(ROUND_MAX, arrived.all.notified()).await.context("not everything was delivered")?;
    let elapsed = started.elapsed();
    // What hangs is not waited for: nothing of this round is used again.
    connectors.shutdown().await;
    receivers.shutdown().await;
    server.kill().await?;
    Ok(((ENDPOINTS - 1) * each) as f64 / elapsed.as_secs_f64())
}

/// The endpoint's topic, with everything that is to be delivered.
async fn fill(client: &Client, endpoint: &Endpoint, each: u64, payload: usize) -> Result<()> {
    let topic = endpoint.topic();
    client.create_topic(&topic, &TopicSpec::default()).await?;
    let body = format!("\"{}\"", "x".repeat(payload));
    let messages = (0..each).map(|number| raw(body.clone()).idempotency_key(format!("delivery-{number}")));
    for stored in client.produce_all(&topic, messages).await? {
        stored?;
    }
    Ok(())
}

/// How many have not arrived.
struct Arrived {
    left: AtomicU64,
    all: Notify,
}

/// What a receiver does with a delivery.
#[derive(Clone)]
enum Manner {
    /// Says that it has it, and counts it if it is counted.
    Answers(Option<Arc<Arrived>>),
    /// Takes it, and says nothing.
    Hangs,
}

async fn receive(listener: TcpListener, manner: Manner) {
    let mut open = JoinSet::new();
    loop {
        let socket = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = open.join_next(), if !open.is_empty() => continue,
        };
        let Ok((socket, _)) = socket else { continue };
        let manner = manner.clone();
        open.spawn(async move {
            let service = service_fn(|request| answer(request, manner.clone()));
            // A connection that breaks off is a delivery that comes again.
            drop(http1::Builder::new().serve_connection(TokioIo::new(socket), service).await);
        });
    }
}

async fn answer(request: Request<Incoming>, manner: Manner) -> Result<Response<Empty<Bytes>>, Infallible> {
    // What cannot be read to its end is answered all the same: nothing here looks at it.
    drop(request.into_body().collect().await);
    match manner {
        Manner::Hangs => future::pending().await,
        Manner::Answers(arrived) => {
            if arrived.as_ref().is_some_and(|arrived| arrived.left.fetch_sub(1, Ordering::Relaxed) == 1) {
                arrived.inspect(|arrived| arrived.all.notify_one());
            }
            let mut answer = Response::new(Empty::new());
            *answer.status_mut() = StatusCode::NO_CONTENT;
            Ok(answer)
        }
    }
}
