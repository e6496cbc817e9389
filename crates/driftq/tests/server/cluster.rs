//! Several real servers on one log in PostgreSQL: one serves, the others pass requests on and take over.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use driftq_testbed::Postgres;
use serde_json::{Value, json};

use crate::command::run_with;
use crate::compat::{Client, Stream};
use crate::postgres_log::{call, check, post};
use crate::support::Server;

static DATABASE: LazyLock<Postgres> = LazyLock::new(|| Postgres::start().unwrap());
/// A take-over takes two seconds and a little; a busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a seat lasts that nobody renews, and a little.
const SEAT_TIME: Duration = Duration::from_millis(2_200);
/// How often the database goes away. If anybody could take the seat afterwards, another server mostly would.
const OUTAGES: usize = 3;

/// A server that takes part in the cluster of this log.
pub(crate) fn node(log: &[&str]) -> Server {
    let nowhere = Path::new("/nonexistent/driftq-data");
    let part = ["--node-url", "http://127.0.0.1:0", "--in-flight-max", "2000"];
    Server::start(nowhere, &[log, &part[..]].concat())
}

fn in_schema(schema: &str) -> impl Fn() -> Server {
    move || node(&["--log", DATABASE.url(), "--log-schema", schema])
}

/// What a server says of the cluster, once it says something that fits.
fn cluster(address: SocketAddr, fits: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let reply = call(address, "GET", "/v2/cluster", "").unwrap_or_default();
        let body = reply.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok());
        if let Some(seen) = body.filter(|seen| reply.starts_with("HTTP/1.1 200") && fits(seen)) {
            return seen;
        }
        assert!(Instant::now() < until, "{reply}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Three servers that know of each other, the one that serves first.
fn three(start: impl Fn() -> Server) -> Vec<Server> {
    let mut nodes: Vec<Server> = (0..3).map(|_| start()).collect();
    let is_whole = |cluster: &Value| {
        let alive = |node: &&Value| node["alive"] == true;
        cluster["nodes"].as_array().is_some_and(|nodes| nodes.iter().filter(alive).count() == 3)
    };
    let seen = cluster(nodes[2].address, is_whole);
    for node in &nodes {
        assert_eq!(cluster(node.address, is_whole)["serving"], seen["serving"], "all say the same");
    }
    let serving = nodes.iter().position(|node| seen["serving"] == node.url().as_str()).expect("one of them");
    nodes.swap(0, serving);
    let topic = Client::connect(nodes[1].address).post_json("/v1/topics", &json!({"name": "t"}));
    assert_eq!(topic.status, 201, "{}", topic.text());
    nodes
}

/// Produces to the servers in turn until told to stop. What was acknowledged, and what was said instead.
fn produce(
    addresses: &[SocketAddr],
    name: usize,
    stop: &AtomicBool,
    taken: &AtomicUsize,
) -> (BTreeSet<String>, Vec<String>) {
    let (mut acknowledged, mut refused) = (BTreeSet::new(), Vec::new());
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let value = format!("{name}-{n}");
        let address = addresses[n % addresses.len()];
        match post(address, &json!({"topic": "t", "value": value}).to_string()) {
            Ok(reply) if reply.starts_with("HTTP/1.1 200") => {
                acknowledged.insert(value);
                taken.fetch_add(1, Ordering::Relaxed);
            }
            other => refused.push(format!("{other:?}")),
        }
    }
    (acknowledged, refused)
}

/// Runs `work` while four producers produce; what was acknowledged, and what was said instead. `work` gets a way to wait
/// until so many more were taken.
fn under_load(
    addresses: &[SocketAddr],
    work: impl FnOnce(&dyn Fn(usize)),
) -> (BTreeSet<String>, Vec<String>) {
    let (stop, taken) = (AtomicBool::new(false), AtomicUsize::new(0));
    let wait = |more: usize| {
        let (from, until) = (taken.load(Ordering::Relaxed), Instant::now() + PATIENCE);
        while taken.load(Ordering::Relaxed) < from + more {
            assert!(Instant::now() < until, "{} taken, {more} more expected", from);
            thread::sleep(Duration::from_millis(5));
        }
    };
    thread::scope(|scope| {
        let (stop, taken) = (&stop, &taken);
        let producers: Vec<_> =
            (0..4).map(|name| scope.spawn(move || produce(addresses, name, stop, taken))).collect();
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&wait)));
        stop.store(true, Ordering::Relaxed);
        let all = producers.into_iter().map(|producer| producer.join().unwrap());
        let whole = all.fold((BTreeSet::new(), Vec::new()), |mut whole, (taken, refused)| {
            whole.0.extend(taken);
            whole.1.extend(refused);
            whole
        });
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        whole
    })
}

#[test]
fn another_takes_over_when_the_serving_one_is_killed() {
    is_replaced_when_killed(in_schema("cluster_killed"));
}

/// The serving one of three is killed under producers: another serves, and nothing that was acknowledged is missing.
pub(crate) fn is_replaced_when_killed(start: impl Fn() -> Server) {
    let mut nodes = three(start);
    let serving = nodes.remove(0);
    let rest: Vec<SocketAddr> = nodes.iter().map(|node| node.address).collect();
    let dead = serving.url();
    let (acknowledged, _) = under_load(&rest, |wait| {
        wait(200);
        serving.kill();
        wait(200);
    });
    let seen = cluster(rest[0], |cluster| cluster["serving"] != dead.as_str());
    assert!(nodes.iter().any(|node| seen["serving"] == node.url().as_str()), "{seen}");
    check(rest[1], 0, &acknowledged);
}

#[test]
fn a_server_that_slept_through_its_time_changes_nothing_and_passes_on() {
    let nodes = three(in_schema("cluster_asleep"));
    let rest: Vec<SocketAddr> = nodes[1..].iter().map(|node| node.address).collect();
    let (acknowledged, _) = under_load(&rest, |wait| {
        wait(100);
        nodes[0].signal("STOP");
        wait(100);
    });
    // Asked while it still sleeps: it wakes up with this in its hands.
    let late = thread::scope(|scope| {
        let late =
            scope.spawn(|| post(nodes[0].address, &json!({"topic": "t", "value": "late"}).to_string()));
        nodes[0].signal("CONT");
        late.join().unwrap()
    });
    let is_late_taken = late.is_ok_and(|reply| reply.starts_with("HTTP/1.1 200"));
    let seen = cluster(nodes[0].address, |cluster| cluster["serving"] != nodes[0].url().as_str());
    assert!(nodes[1..].iter().any(|node| seen["serving"] == node.url().as_str()), "{seen}");
    let until = Instant::now() + PATIENCE;
    while post(nodes[0].address, r#"{"topic":"t","value":"after"}"#).is_ok_and(|said| !said.contains(" 200 "))
    {
        assert!(Instant::now() < until, "it passes nothing on");
    }
    let mut all = acknowledged;
    all.insert("after".to_owned());
    if is_late_taken {
        all.insert("late".to_owned());
    }
    check(rest[0], 0, &all);
    check(nodes[0].address, 1, &all);
}

/// A way to the database that can be held up, as a network that is cut holds it up: nothing arrives, nothing is refused.
struct Wire {
    port: u16,
    is_cut: Arc<AtomicBool>,
}

impl Wire {
    fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        thread::spawn(move || {
            for there in listener.incoming().map_while(Result::ok) {
                let Ok(here) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                for (from, to) in [(&there, &here), (&here, &there)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let cut = Arc::clone(&cut);
                    thread::spawn(move || carry(from, to, &cut));
                }
            }
        });
        Self { port: own, is_cut }
    }

    fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::SeqCst);
    }
}

/// Carries bytes one way until one end closes.
fn carry(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        while is_cut.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(5));
        }
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[test]
fn a_server_that_was_cut_off_answers_nothing_from_memory() {
    let (before, after) = DATABASE.url().rsplit_once(':').unwrap();
    let (port, database) = after.split_once('/').unwrap();
    let wire = Wire::to(port.parse().unwrap());
    let url = format!("{before}:{}/{database}", wire.port);
    let log = ["--log-schema", "cluster_cut_off"];
    let old = node(&[&log[..], &["--log", &url]].concat());
    cluster(old.address, |cluster| cluster["serving"] == old.url().as_str());
    let new = node(&[&log[..], &["--log", DATABASE.url()]].concat());
    wire.cut(true);
    cluster(new.address, |cluster| cluster["serving"] == new.url().as_str());
    let made = Client::connect(new.address).post_json("/v1/topics", &json!({"name": "made-since"}));
    assert_eq!(made.status, 201, "{}", made.text());
    let ready = call(old.address, "GET", "/v2/readyz", "").unwrap();
    assert!(ready.starts_with("HTTP/1.1 503"), "{ready}");
    let asked = thread::scope(|scope| {
        let asked = scope.spawn(|| call(old.address, "GET", "/v2/topics/made-since", ""));
        // It waits for news, and gets them.
        thread::sleep(Duration::from_millis(300));
        wire.cut(false);
        asked.join().unwrap()
    });
    // The connection may be closed when it steps down. That there is no such topic it must not say.
    assert!(!asked.as_ref().is_ok_and(|said| said.starts_with("HTTP/1.1 404")), "{asked:?}");
    let until = Instant::now() + PATIENCE;
    let knows = |said: String| said.starts_with("HTTP/1.1 200");
    while !call(old.address, "GET", "/v2/topics/made-since", "").is_ok_and(knows) {
        assert!(Instant::now() < until, "it passes on what it is asked");
    }
}

#[test]
fn a_drained_server_hands_over_without_an_error() {
    hands_over_when_drained(in_schema("cluster_drained"));
}

/// The serving one of three is drained under producers, who see no error; the last one left is not drained.
pub(crate) fn hands_over_when_drained(start: impl Fn() -> Server) {
    let nodes = three(start);
    let addresses: Vec<SocketAddr> = nodes.iter().map(|node| node.address).collect();
    let (first, drained) = (nodes[0].url(), nodes[0].url());
    let (acknowledged, refused) = under_load(&addresses, |wait| {
        wait(100);
        nodes[1].run(&["cluster", "drain", &drained]).ok();
        cluster(addresses[1], |cluster| {
            cluster["serving"].is_string() && cluster["serving"] != first.as_str()
        });
        wait(100);
    });
    assert!(refused.is_empty(), "{} of {}: {:?}", refused.len(), acknowledged.len(), &refused[..1]);
    check(addresses[0], 0, &acknowledged);
    let shown = nodes[0].run(&["cluster", "status"]);
    assert!(shown.stdout.contains("drained"), "{}{}", shown.stdout, shown.stderr);
    let audit = Client::connect(addresses[0]).get("/v2/audit").json();
    let told = |entry: &Value| entry["action"] == "drain_node" && entry["outcome"] == "done";
    let entry =
        audit["entries"].as_array().unwrap().iter().find(|entry| told(entry)).expect("the audit tells of it");
    assert!(entry["target"].as_str().unwrap().contains("node"), "{entry}");
    // What is left must not be drained, too.
    let second = cluster(addresses[0], |_| true)["serving"].as_str().unwrap().to_owned();
    let third = nodes.iter().map(Server::url).find(|url| *url != first && *url != second).unwrap();
    nodes[0].run(&["cluster", "drain", &third]).ok();
    let refused = nodes[0].run(&["cluster", "drain", &second]);
    assert!(refused.stderr.contains("no other server"), "{}{}", refused.stdout, refused.stderr);
    nodes[0].run(&["cluster", "resume", &first]).ok();
    let unknown = nodes[0].run(&["cluster", "drain", "http://10.9.9.9:1"]);
    assert!(unknown.stderr.contains("cluster status"), "{}{}", unknown.stdout, unknown.stderr);
}

#[test]
fn connections_outlive_a_change_of_roles() {
    let log = ["--log", DATABASE.url(), "--log-schema", "cluster_connections", "--drain-timeout-ms", "1000"];
    let nodes = three(|| node(&log));
    let first = nodes[0].url();
    let message = json!({"topic": "t", "value": "v"});
    let mut kept: Vec<Client> = nodes.iter().map(|node| Client::connect(node.address)).collect();
    let mut produce_to_all = || {
        for client in &mut kept {
            let taken = client.post_json("/v1/produce", &message);
            assert_eq!((taken.status, taken.header("connection")), (200, None), "{}", taken.text());
        }
    };
    produce_to_all();
    let mut stream = Stream::open(nodes[0].address, "topic=t&group=g&owner=me&lease_ms=60000");
    stream.item();
    // One that does not finish what it has begun is not waited for without end.
    let mut half = Client::connect(nodes[0].address);
    half.send("POST /v1/produce HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{");
    nodes[1].run(&["cluster", "drain", &first]).ok();
    let until = Instant::now() + PATIENCE;
    let mut watcher = Client::connect(nodes[1].address);
    while watcher.get("/v2/cluster").json()["serving"].as_str().is_none_or(|serving| serving == first) {
        assert!(Instant::now() < until, "another server takes over");
        produce_to_all();
    }
    produce_to_all();
    assert!(half.is_closed(), "it is cut off");
    while stream.chunk().is_some() {}
    let lease = json!({"owner": "me", "max": 1});
    let lent = stream.client.post_json("/v2/topics/t/groups/other/lease", &lease);
    assert_eq!(lent.json()["messages"].as_array().map(Vec::len), Some(1), "on the connection of the stream");
    nodes[1].run(&["cluster", "resume", &first]).ok();
}

/// The database is gone for longer than a seat lasts, over and over: nobody could renew it, and who had it has it again.
#[test]
fn the_serving_server_goes_on_when_the_database_is_back() {
    let database = Postgres::builder().start().unwrap();
    let nodes = three(|| node(&["--log", database.url(), "--log-schema", "cluster_back"]));
    let serving = || cluster(nodes[1].address, |seen| seen["serving"].is_string())["serving"].clone();
    let epoch = || {
        let status = Client::connect(nodes[1].address).get("/v2/status");
        assert_eq!(status.status, 200, "{}", status.text());
        status.json()["epoch"].clone()
    };
    let before = (serving(), epoch());
    for _ in 0..OUTAGES {
        database.stop().unwrap();
        thread::sleep(SEAT_TIME);
        database.restart().unwrap();
        assert_eq!((serving(), epoch()), before, "it is another server, or it had to read the log again");
    }
}

/// A client that knows all servers asks the one that serves, and the next one when it is gone.
#[test]
fn a_client_that_knows_all_servers_needs_no_balancer() {
    let mut nodes = three(in_schema("cluster_known"));
    let urls = [1, 0, 2].map(|node| nodes[node].url()).join(",");
    let produce = |value: &str| {
        let ran = run_with(&[("DRIFTQ_SERVER", &urls)], &["produce", "t", value]);
        ran.ok();
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = driftq_client::Client::new(&urls).unwrap();
    let send = |value: &str| drop(runtime.block_on(client.produce("t", driftq_client::raw(value))).unwrap());
    produce("by the command line");
    send("by the SDK");
    nodes.remove(0).kill();
    send("after the death of the serving one");
    produce("and by the command line");
    let expected = [
        "by the command line",
        "by the SDK",
        "after the death of the serving one",
        "and by the command line",
    ];
    check(nodes[1].address, 0, &expected.map(str::to_owned).into());
}

/// While a server that has just taken the seat opens the log, it keeps requests instead of pointing at itself.
#[test]
fn a_server_that_is_about_to_serve_does_not_point_at_itself() {
    let mut nodes = three(in_schema("cluster_opening"));
    let dead = nodes.remove(0);
    let dead_url = dead.url();
    let lock = "BEGIN; LOCK TABLE cluster_opening.shard; SELECT pg_sleep(4); COMMIT";
    thread::scope(|scope| {
        scope.spawn(|| DATABASE.psql(lock).unwrap());
        dead.kill();
        for node in &nodes {
            let dead_url = &dead_url;
            scope.spawn(move || {
                let until = Instant::now() + PATIENCE;
                loop {
                    assert!(Instant::now() < until, "another server takes over");
                    let body = json!({"value": "once"}).to_string();
                    let headers = [("prefer", "redirect"), ("content-type", "application/json")];
                    let answer = Client::connect(node.address).call(
                        "POST",
                        "/v2/topics/t/messages",
                        &headers,
                        Some(body.as_bytes()),
                    );
                    let location = answer.header("location").unwrap_or_default().to_owned();
                    assert!(!location.starts_with(&node.url()), "it points at itself");
                    if answer.status == 201 || answer.status == 307 && !location.starts_with(dead_url) {
                        break;
                    }
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
    });
}

#[test]
fn who_prefers_it_is_told_where_to_ask() {
    let nodes = three(in_schema("cluster_told"));
    let prefer = [("prefer", "respond-async, Redirect"), ("content-type", "application/json")];
    let body = json!({"value": "once"}).to_string();
    let path = "/v2/topics/t/messages?x=1";
    let told = Client::connect(nodes[1].address).call("POST", path, &prefer, Some(body.as_bytes()));
    assert_eq!(told.status, 307, "{}", told.text());
    assert_eq!(told.header("location"), Some(format!("{}{path}", nodes[0].url()).as_str()));
    let path = "/v2/topics/t/messages";
    let taken = Client::connect(nodes[0].address).call("POST", path, &prefer, Some(body.as_bytes()));
    assert!(taken.status < 300, "{} {}", taken.status, taken.text());
    let lease = json!({"owner": "me", "max": 10, "wait_ms": 5_000});
    let lent = Client::connect(nodes[2].address).post_json("/v2/topics/t/groups/g/lease", &lease).json();
    assert_eq!(lent["messages"].as_array().map(Vec::len), Some(1), "{lent}");
}

/// The audit names the client, whichever server it asked; and nobody else is believed.
#[test]
fn the_audit_knows_where_a_request_came_from() {
    let nodes = three(in_schema("cluster_audit"));
    let signature = "0".repeat(64);
    let forged = format!("6.6.6.6:66 - {signature}");
    for (node, name) in [(1, "through-another"), (0, "forged")] {
        let mut client = Client::connect(nodes[node].address);
        let own = client.socket.get_ref().local_addr().unwrap().to_string();
        let headers = [("x-request-id", name), ("driftq-relayed", &forged)];
        let headers = if node == 0 { &headers[..] } else { &headers[..1] };
        let made = client.call("PUT", &format!("/v2/topics/{name}"), headers, None);
        assert_eq!(made.status, 201, "{}", made.text());
        let audit = Client::connect(nodes[2].address).get("/v2/audit").json();
        let entries = audit["entries"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["request_id"] == name).unwrap();
        assert_eq!(entry["from"], own, "{entry}");
    }
}

#[test]
fn a_server_that_takes_no_part_does_not_end_the_cluster() {
    let nodes = three(in_schema("cluster_robbed"));
    let nowhere = Path::new("/nonexistent/driftq-data");
    let log = ["--log", DATABASE.url(), "--log-schema", "cluster_robbed"];
    let robber = Server::start(nowhere, &log);
    let until = Instant::now() + PATIENCE;
    let is_taken =
        |address| post(address, r#"{"topic":"t","value":"v"}"#).is_ok_and(|said| said.contains(" 200 "));
    // One of the cluster takes the log back, and the other can write nothing more.
    while !is_taken(nodes[1].address) || is_taken(robber.address) {
        assert!(Instant::now() < until, "the cluster does not serve");
    }
    check(nodes[2].address, 0, &BTreeSet::from(["v".to_owned()]));
}

/// Ends with its test, whatever comes of it.
struct Desk(std::process::Child);

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_desk_has_three_servers_with_one_command() {
    let mut dev = std::process::Command::new(env!("CARGO_BIN_EXE_driftq"));
    dev.args(["dev", "--nodes", "3", "--log", DATABASE.url(), "--log-schema", "cluster_desk"]);
    let dev = dev.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut dev = Desk(dev);
    let lines = BufReader::new(dev.0.stdout.take().unwrap()).lines();
    let told: Vec<String> = lines.map(Result::unwrap).take_while(|line| !line.contains("Ctrl-C")).collect();
    let addresses: Vec<SocketAddr> = told
        .iter()
        .filter(|line| line.contains("(process "))
        .map(|line| line.split_whitespace().nth(2).unwrap().trim_start_matches("http://").parse().unwrap())
        .collect();
    assert_eq!(addresses.len(), 3, "{told:?}");
    cluster(addresses[2], |cluster| cluster["nodes"].as_array().is_some_and(|nodes| nodes.len() == 3));
    let sent = std::process::Command::new("kill").args(["-INT", &dev.0.id().to_string()]).status();
    assert!(sent.unwrap().success() && dev.0.wait().unwrap().success());
    assert!(addresses.iter().all(|address| TcpStream::connect(address).is_err()), "all have stopped");
}

#[test]
fn a_cluster_needs_a_log_that_can_be_shared() {
    let ran = crate::command::run(&["serve", "--ephemeral", "--node-url", "http://127.0.0.1:1"]);
    assert!(ran.stderr.contains("--log postgres://"), "{}{}", ran.stdout, ran.stderr);
    let ran = crate::command::run(&["dev", "--nodes", "3"]);
    assert!(ran.stderr.contains("--log postgres://"), "{}{}", ran.stdout, ran.stderr);
    let ran =
        crate::command::run(&["dev", "--nodes", "3", "--log", "postgres://h/d", "--in-flight-max", "9"]);
    assert!(ran.stderr.contains("--in-flight-max"), "no flag is ignored: {}{}", ran.stdout, ran.stderr);
    let ran = crate::command::run(&["serve", "--node-url", "10.0.0.1:8080"]);
    assert!(ran.stderr.contains("http://host:port"), "{}{}", ran.stdout, ran.stderr);
}
