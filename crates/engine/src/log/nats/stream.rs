//! The streams: made at the first start, checked at every other, like the servers that hold them.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use driftq_core::{SHARDS_MAX, ShardId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::address::Address;
use super::fault::Trouble;
use super::link::Link;
use super::register::millis;
use super::{Names, stream_of};
use crate::clock::Reading;
use crate::failure::StartError;

/// The version of the streams that this program knows.
const VERSION: &str = "1";
/// The version of a first shard's stream that a log is still being taken to: no program serves from it.
const RECEIVING: &str = "0";
/// The oldest servers that are known to do: from 2.12 on a leader checks what is under way, too, before it takes a
/// message that is expected to be the next one.
const SERVER_VERSION_MIN: (u64, u64) = (2, 12);
/// Replicas in a cluster: one server may be lost.
const REPLICAS: u64 = 3;
/// How long a server may take to tell of its settings.
const MONITOR_WAIT: Duration = Duration::from_secs(5);
/// Most bytes that it may tell.
const MONITOR_BYTES_MAX: u64 = 1 << 20;
/// Smallest messages that are worth while.
const PAYLOAD_BYTES_MIN: usize = 16 << 10;

/// What is known of a stream.
#[derive(Deserialize)]
pub(super) struct Info {
    config: Value,
    pub(super) state: State,
    cluster: Option<Cluster>,
    /// What the clock of the server shows that answers.
    #[serde(default)]
    ts: String,
}

#[derive(Deserialize)]
pub(super) struct State {
    pub(super) last_seq: u64,
    /// How many messages each subject has, if that was asked for.
    #[serde(default)]
    pub(super) subjects: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Cluster {
    leader: Option<String>,
    #[serde(default)]
    replicas: Vec<Replica>,
}

#[derive(Deserialize)]
struct Replica {
    name: String,
}

fn refused(what: impl Into<String>, help: impl Into<String>) -> StartError {
    StartError::Database { what: what.into(), help: help.into() }
}

pub(super) fn troubled(trouble: &Trouble) -> StartError {
    refused(trouble.to_string(), trouble.help())
}

/// What is known of a stream now; with the subjects that match, if any are named.
pub(super) fn info(link: &Link, stream: &str, subjects: Option<&str>) -> Result<Info, Trouble> {
    let body = subjects.map_or_else(|| json!({}), |subjects| json!({"subjects_filter": subjects}));
    link.question(&format!("STREAM.INFO.{stream}"), &body)
}

/// What the clock shows of the server that leads a stream.
pub(super) fn clock(link: &Link, stream: &str) -> Result<Reading, Trouble> {
    Reading::take(|| {
        // Asked once: how long the answer took says how wrong it may be.
        let ts = link.call::<Info>(&format!("STREAM.INFO.{stream}"), &json!({}))?.ts;
        let untold = || Trouble::Refused(format!("the server says \"{ts}\" for the time"), None);
        millis(&ts).map(Duration::from_millis).ok_or_else(untold)
    })
}

/// Nothing may go from a stream but what is trimmed.
pub(super) fn config(stream: &str, subjects: &str, cluster: &str, per_subject: i64) -> Value {
    json!({
        "name": stream,
        "subjects": [subjects],
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msgs_per_subject": per_subject,
        "max_msg_size": -1,
        "deny_delete": true,
        "allow_direct": true,
        "metadata": {"driftq_version": VERSION, "driftq_cluster": cluster},
    })
}

/// Looks at the servers and the stream, and makes the stream if there is none.
pub(super) fn make_sure(
    link: &Link,
    address: &Address,
    names: &Names,
    cluster: &str,
) -> Result<(), StartError> {
    check_server(link)?;
    let log = provide(link, &config(&names.log, &names.log_subjects(), cluster, -1))?;
    provide(link, &config(&names.snapshots, &names.snapshot_subjects(), cluster, -1))?;
    let peers = peers(link, &log);
    check_sync(address, &peers)?;
    let clock = link.patiently(|link| clock(link, &names.log));
    clock.map_err(|trouble| troubled(&trouble))?.check("that of the NATS servers")?;
    let replicas = log.config["num_replicas"].as_u64().unwrap_or(1);
    match (replicas, link.server().cluster.is_some()) {
        (1, true) => tracing::warn!(
            "the log is in a stream of one replica, although the NATS servers form a cluster: what that server's disk \
             loses is lost; raise it with `nats stream edit {} --replicas 3`",
            names.log
        ),
        (1, false) => {
            tracing::info!("the log is in JetStream on a single server: what its disk loses is lost");
        }
        _ => tracing::info!(replicas, "the log is in JetStream; most of its replicas have every answer"),
    }
    Ok(())
}

fn check_server(link: &Link) -> Result<(), StartError> {
    let server = link.server();
    let mut numbers = server.version.split('.').map(|number| number.parse().unwrap_or(0_u64));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < SERVER_VERSION_MIN {
        let (major, minor) = SERVER_VERSION_MIN;
        let what = format!("NATS {} is too old to keep a log", server.version);
        return Err(refused(what, format!("bring the servers to {major}.{minor} or newer")));
    }
    if server.max_payload < PAYLOAD_BYTES_MIN {
        let what = format!("the NATS servers take messages of {} bytes at most", server.max_payload);
        return Err(refused(what, "set max_payload to 1MB in their settings"));
    }
    Ok(())
}

/// The stream as it is, if there is one.
fn look(link: &Link, stream: &str) -> Result<Option<Info>, StartError> {
    let look = |link: &Link| match info(link, stream, None) {
        Err(trouble) if trouble.is_absence() => Ok(None),
        found => found.map(Some),
    };
    link.patiently(look).map_err(|trouble| troubled(&trouble))
}

/// The stream as it is, or as it was made.
pub(super) fn provide(link: &Link, wanted: &Value) -> Result<Info, StartError> {
    let stream = wanted["name"].as_str().unwrap_or_default();
    let mut found = look(link, stream)?;
    if found.is_none() {
        let mut make = wanted.clone();
        make["num_replicas"] = link.server().cluster.map_or(1, |_| REPLICAS).into();
        let made =
            link.patiently(|link| match link.call::<Value>(&format!("STREAM.CREATE.{stream}"), &make) {
                Err(trouble) if trouble.is_taken() => Ok(Value::Null),
                made => made,
            });
        made.map_err(|trouble| troubled(&trouble))?;
        found = look(link, stream)?;
    }
    let found = found.ok_or_else(|| refused(format!("the stream {stream} was removed"), "start again"))?;
    check_config(stream, &found.config, wanted)?;
    Ok(found)
}

/// The streams of a log that is taken elsewhere: nothing is made.
pub(super) fn find(link: &Link, names: &Names, cluster: &str) -> Result<(), StartError> {
    check_server(link)?;
    let log = config(&names.log, &names.log_subjects(), cluster, -1);
    let snapshots = config(&names.snapshots, &names.snapshot_subjects(), cluster, -1);
    for wanted in [log, snapshots] {
        let stream = wanted["name"].as_str().unwrap_or_default();
        let Some(found) = look(link, stream)? else {
            let what = format!("there is no stream {stream}");
            return Err(refused(what, "name the stream of `driftq serve --log` at the end of the URL"));
        };
        check_config(stream, &found.config, &wanted)?;
    }
    Ok(())
}

/// The streams of a shard to which a log is taken. That of the first shard says of all of them that they are no log yet:
/// it is made first, and removed last. So others that are there without it are not ours.
pub(super) fn receive(
    link: &Link,
    address: &Address,
    names: &Names,
    (cluster, is_first): (&str, bool),
) -> Result<(), StartError> {
    let mut wanted = config(&names.log, &names.log_subjects(), cluster, -1);
    if is_first {
        check_server(link)?;
        // Before anything is made, as far as that can be told.
        check_sync(address, &[])?;
        wanted["metadata"]["driftq_version"] = RECEIVING.into();
        if look(link, &names.log)?.is_none() {
            let others = (1..SHARDS_MAX).map(|number| stream_of(&names.log, ShardId(number)));
            for other in others.chain([names.snapshots.clone()]) {
                if look(link, &other)?.is_some() {
                    let what = format!("there is a stream {other}, and no stream {}", names.log);
                    let help =
                        "name another stream at the end of the URL, or remove what is left of the old log";
                    return Err(refused(what, help));
                }
            }
        }
    }
    let log = provide(link, &wanted)?;
    provide(link, &config(&names.snapshots, &names.snapshot_subjects(), cluster, -1))?;
    check_sync(address, &peers(link, &log))
}

/// What was taken there is a log from now on. To do so twice is to do so once.
pub(super) fn finish(link: &Link, stream: &str) -> Result<(), Trouble> {
    let mut wanted = info(link, stream, None)?.config;
    wanted["metadata"]["driftq_version"] = VERSION.into();
    link.call::<Value>(&format!("STREAM.UPDATE.{stream}"), &wanted).map(drop)
}

/// Removes a stream. To do so twice is to do so once.
pub(super) fn remove(link: &Link, stream: &str) -> Result<(), Trouble> {
    match link.call::<Value>(&format!("STREAM.DELETE.{stream}"), &json!({})) {
        Err(trouble) if trouble.is_absence() => Ok(()),
        removed => removed.map(drop),
    }
}

fn check_config(stream: &str, found: &Value, wanted: &Value) -> Result<(), StartError> {
    let about = |name: &str| (found["metadata"][name].as_str(), wanted["metadata"][name].as_str());
    let (version, known) = about("driftq_version");
    let Some(version) = version else {
        let what = format!("the stream {stream} is not one of DriftQ's");
        return Err(refused(what, "name another one at the end of the URL of --log"));
    };
    if (version, known) == (RECEIVING, Some(VERSION)) {
        let what = format!("a log is being taken to the stream {stream}, and is not whole yet");
        let help = format!(
            "run the same `driftq migrate` again; or remove what is there, the streams whose names begin with \
             {stream}_ first and {stream} last"
        );
        return Err(refused(what, help));
    }
    if (version, known) == (VERSION, Some(RECEIVING)) {
        let what = format!("there is a log in the stream {stream} already");
        return Err(refused(what, "name another stream at the end of the URL"));
    }
    if Some(version) != known {
        let what = format!("the stream {stream} was made by a newer driftq (version {version})");
        return Err(refused(what, "start a driftq that is as new"));
    }
    let (cluster, own) = about("driftq_cluster");
    if cluster != own {
        let cluster = cluster.unwrap_or_default();
        let what = format!("the stream {stream} belongs to the cluster \"{cluster}\"");
        let help = "name another stream at the end of the URL of --log, or that cluster with --log-cluster";
        return Err(refused(what, help));
    }
    // A server leaves out what is empty.
    let is_same = |key: &str, value: &Value| match &found[key] {
        Value::Null => matches!(value, Value::Bool(false)) || value.as_i64() == Some(0),
        there => there == value,
    };
    let wrong = wanted
        .as_object()
        .into_iter()
        .flatten()
        .find(|(key, value)| *key != "metadata" && !is_same(key, value));
    if let Some((key, value)) = wrong {
        let what = format!("the stream {stream} has {key} = {}, and must have {value}", found[key]);
        return Err(refused(what, format!("set it back with `nats stream edit {stream}`")));
    }
    Ok(())
}

/// The servers that hold the stream: the one by its number, or those of a cluster by their names.
fn peers(link: &Link, log: &Info) -> Vec<String> {
    let Some(cluster) = log.cluster.as_ref().filter(|_| link.server().cluster.is_some()) else {
        return vec![link.server().server_id];
    };
    let others = cluster.replicas.iter().map(|replica| replica.name.clone());
    cluster.leader.iter().cloned().chain(others).collect()
}

/// Whether every server that holds the stream syncs before it answers. No client can see that; the servers tell it
/// where they are monitored.
fn check_sync(address: &Address, peers: &[String]) -> Result<(), StartError> {
    const ALWAYS: &str = "set jetstream { sync_interval: always } in the settings of every NATS server";
    if address.sync_trusted {
        tracing::info!("that the NATS servers sync before they answer is taken on trust (sync=trusted)");
        return Ok(());
    }
    if address.monitors.is_empty() {
        return Err(refused(
            "whether the NATS servers sync before they answer is not known; by default they do so every two minutes, \
             and lose what was answered since then when a machine stops",
            "name where each of them is monitored (monitor=http://host:8222,… in the URL of --log), or vouch for it \
             with sync=trusted",
        ));
    }
    let (mut proven, mut silent) = (Vec::new(), 0);
    for monitor in &address.monitors {
        match settings(monitor) {
            Ok(Settings { server_name, server_id, syncs: true }) => proven.extend([server_name, server_id]),
            Ok(Settings { server_name, syncs: false, .. }) => {
                let what = format!("the NATS server {server_name} answers before it has synced to its disk");
                return Err(refused(what, ALWAYS));
            }
            Err(why) => {
                tracing::warn!(
                    monitor,
                    why,
                    "a NATS server does not tell whether it syncs before it answers"
                );
                silent += 1;
            }
        }
    }
    // One that cannot be asked is down, as it is when a cluster has just lost it: as long as most have told, that is no
    // reason not to start.
    let unproven: Vec<_> = peers.iter().filter(|peer| !proven.contains(peer)).collect();
    let excused = unproven.len() <= silent && unproven.len() * 2 < peers.len();
    match unproven.first() {
        Some(peer) if !excused => Err(refused(
            format!("whether the NATS server {peer} syncs before it answers is not known"),
            "name where it is monitored, too: monitor=http://host:8222,… in the URL of --log",
        )),
        _ => Ok(()),
    }
}

/// What a server tells of itself where it is monitored.
struct Settings {
    server_name: String,
    server_id: String,
    syncs: bool,
}

fn settings(monitor: &str) -> Result<Settings, String> {
    let words = |error: std::io::Error| error.to_string();
    let mut places = monitor.to_socket_addrs().map_err(words)?;
    let place = places.next().ok_or("the host has no address")?;
    let mut stream = TcpStream::connect_timeout(&place, MONITOR_WAIT).map_err(words)?;
    stream.set_read_timeout(Some(MONITOR_WAIT)).map_err(words)?;
    stream.set_write_timeout(Some(MONITOR_WAIT)).map_err(words)?;
    write!(stream, "GET /varz HTTP/1.0\r\nhost: {monitor}\r\n\r\n").map_err(words)?;
    let mut answer = Vec::new();
    stream.take(MONITOR_BYTES_MAX).read_to_end(&mut answer).map_err(words)?;
    let body = answer.windows(4).position(|four| four == b"\r\n\r\n").map(|at| &answer[at + 4..]);
    let told: Value = serde_json::from_slice(body.unwrap_or_default()).map_err(|error| error.to_string())?;
    let text =
        |name: &str| told[name].as_str().map(str::to_owned).ok_or_else(|| format!("it tells no {name}"));
    let (server_name, server_id) = (text("server_name")?, text("server_id")?);
    let syncs = told["jetstream"]["config"]["sync_always"].as_bool().unwrap_or(false);
    Ok(Settings { server_name, server_id, syncs })
}
