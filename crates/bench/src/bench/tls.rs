//! What TLS costs: produce on connections that stay and connections that are new, beside a bare hyper server with the same
//! TLS and beside ourselves without.

use std::{
    cell::Cell,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    rc::Rc,
    sync::Arc,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use driftq_tls::tokio_rustls::{
    TlsConnector,
    rustls::{client::Resumption, pki_types::ServerName},
};
use tokio::{net::TcpStream, process::Command, task::LocalSet};

use super::{
    Plan,
    child::Server,
    figure::{Figure, Must, Report, Unit},
    load::{self, Connection, Done, Length, Load},
    progress::Progress,
    setup::{TOPIC, create_topic, data_directory},
    statistics::{median, ratio},
    template::Template,
};

const CONNECTIONS: usize = 64;
/// Clients that come, ask once and go, at the same time.
const NEWCOMERS: usize = 16;
/// A name that the certificate is for.
const NAME: &str = "localhost";
/// What produce must reach beside the bare server is the same with TLS as without.
const MUST_RATIO: f64 = 0.50;
/// A new connection is the library's work for both.
const MUST_NEW_RATIO: f64 = 0.90;

/// A certificate, and clients that trust it.
#[derive(Clone)]
struct Trust {
    directory: PathBuf,
    connector: TlsConnector,
}

impl Trust {
    /// Has this program make a certificate.
    async fn make(directory: &Path) -> Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut made = Command::new(program);
        made.args(["tls", "dev", "--out"]).arg(directory).stdout(Stdio::null());
        ensure!(made.status().await.context("making a certificate")?.success(), "`driftq tls dev` failed");
        let config = driftq_tls::client(Some(&directory.join("ca.pem"))).map_err(anyhow::Error::msg)?;
        let mut config = Arc::unwrap_or_clone(config);
        // A session that is taken up again is not a new connection.
        config.resumption = Resumption::disabled();
        Ok(Self { directory: directory.to_owned(), connector: TlsConnector::from(Arc::new(config)) })
    }

    /// The options of a server with this certificate.
    fn options(&self) -> [String; 2] {
        let option = |flag: &str, name: &str| format!("--{flag}={}", self.directory.join(name).display());
        [option("tls-cert", "cert.pem"), option("tls-key", "key.pem")]
    }

    async fn open(&self, address: SocketAddr) -> Result<Connection> {
        let socket = TcpStream::connect(address).await.with_context(|| format!("connecting to {address}"))?;
        socket.set_nodelay(true).context("setting no-delay")?;
        let name = ServerName::try_from(NAME).context("the name of the server")?;
        Ok(Connection::over(self.connector.connect(name, socket).await.context("beginning TLS")?))
    }
}

/// Rates of the rounds, and the server's processor time for one new connection in microseconds.
#[derive(Default)]
struct Side {
    produce: Vec<f64>,
    new: Vec<f64>,
    new_cost: Vec<f64>,
}

pub(super) async fn measure(plan: &Plan, progress: &Progress, report: &mut Report) -> Result<()> {
    progress.expect(plan.rounds * 5 + 1);
    progress.step("starting servers");
    let data = data_directory(plan)?;
    let trust = Trust::make(&data.path().join("tls")).await?;
    let [certificate, key] = trust.options();
    let options = [certificate.as_str(), key.as_str()];
    let bare = Server::bare_with(&options).await?;
    let open = Server::driftq(&data.path().join("open")).await?;
    let ours = Server::driftq_with(&data.path().join("data"), &options).await?;
    create_topic(open.address, TOPIC, 1).await?;
    let spec =
        Template::request(ours.address, "PUT", &format!("/v2/topics/{TOPIC}"), "application/json", "{}");
    ask(&mut trust.open(ours.address).await?, &spec).await?;
    let (mut peer, mut own, mut without) = (Side::default(), Side::default(), Vec::new());
    for _ in 0..plan.rounds {
        progress.step("produce without TLS");
        let templates = vec![Template::produce(open.address, TOPIC, plan.payload)];
        let (address, length) = (open.address, plan.length);
        let load = Load { address, connections: CONNECTIONS, pipeline: 1, templates, length };
        without.push(load::run(load).await?.rate());
        for (name, server, side) in [("bare hyper", &bare, &mut peer), ("driftq", &ours, &mut own)] {
            progress.step(&format!("produce over TLS, {name}"));
            side.produce.push(produce(plan, &trust, server.address).await?);
            progress.step(&format!("new connections with TLS, {name}"));
            let before = server.cpu_seconds();
            let done = newcomers(plan, &trust, server.address).await?;
            side.new.push(done.rate());
            let used = server.cpu_seconds().zip(before).map(|(after, before)| after - before);
            side.new_cost.extend(used.map(|used| used * 1e6 / done.requests.max(1) as f64));
        }
    }
    add(report, &own, &peer, &without);
    bare.kill().await?;
    open.kill().await?;
    ours.kill().await
}

fn add(report: &mut Report, own: &Side, peer: &Side, without: &[f64]) {
    let name = format!("produce over TLS, {CONNECTIONS} connections");
    let figure = || Figure::new(name.clone(), median(&own.produce), Unit::PerSecond);
    let beside = ("bare hyper with TLS", median(&peer.produce), ratio(&own.produce, &peer.produce));
    report.add(figure().beside(beside.0, beside.1, beside.2).must(Must::RatioAtLeast(MUST_RATIO)));
    report.add(figure().beside("driftq without TLS", median(without), ratio(&own.produce, without)));
    let name = format!("new connections with TLS, one request each, {NEWCOMERS} at a time");
    let figure = Figure::new(name, median(&own.new), Unit::PerSecond);
    let beside = figure.beside("bare hyper with TLS", median(&peer.new), ratio(&own.new, &peer.new));
    report.add(beside.must(Must::RatioAtLeast(MUST_NEW_RATIO)));
    if !own.new_cost.is_empty() && own.new_cost.len() == peer.new_cost.len() {
        let name = "processor time of the server for a new connection with TLS";
        let figure = Figure::new(name, median(&own.new_cost), Unit::Microseconds);
        let (cost, ratio) = (median(&peer.new_cost), ratio(&own.new_cost, &peer.new_cost));
        report.add(figure.beside("bare hyper with TLS", cost, ratio));
    }
}

/// Produces on connections that stay.
async fn produce(plan: &Plan, trust: &Trust, address: SocketAddr) -> Result<f64> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(trust.open(address).await?);
    }
    let templates = vec![Template::produce(address, TOPIC, plan.payload)];
    let load = Load { address, connections: CONNECTIONS, pipeline: 1, templates, length: plan.length };
    Ok(load::run_on(load, connections).await?.rate())
}

/// A new connection for every request, so that no handshake counts that the server has not finished.
async fn newcomers(plan: &Plan, trust: &Trust, address: SocketAddr) -> Result<Done> {
    let template = Rc::new(Template::bare_get(address, "/v2/healthz"));
    let (started, answered) = (Instant::now(), Rc::new(Cell::new(0)));
    let left = match plan.length {
        Length::Requests(count) => count,
        Length::Time(_) => u64::MAX,
    };
    let (left, length) = (Rc::new(Cell::new(left)), plan.length);
    let local = LocalSet::new();
    let come = || {
        let (template, answered, left, trust) =
            (Rc::clone(&template), Rc::clone(&answered), Rc::clone(&left), trust.clone());
        local.spawn_local(async move {
            while left.get() > 0 && !matches!(length, Length::Time(length) if started.elapsed() >= length) {
                left.set(left.get() - 1);
                ask(&mut trust.open(address).await?, &template).await?;
                answered.set(answered.get() + 1);
            }
            anyhow::Ok(())
        })
    };
    let tasks: Vec<_> = (0..NEWCOMERS).map(|_| come()).collect();
    local
        .run_until(async {
            for task in tasks {
                task.await.context("a newcomer's task ended")??;
            }
            anyhow::Ok(())
        })
        .await?;
    Ok(Done { requests: answered.get(), seconds: started.elapsed().as_secs_f64() })
}

async fn ask(connection: &mut Connection, template: &Template) -> Result<()> {
    let mut out = Vec::new();
    template.render(&mut out);
    connection.send(&out).await?;
    let (status, body) = connection.answer_body().await?;
    ensure!((200..300).contains(&status), "the server answered {status}: {}", String::from_utf8_lossy(&body));
    Ok(())
}
