//! A connector that is killed in the middle of its work, again and again.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use driftq_client::Client;
use driftq_client::wire::{EffectState, EffectStatus};
use driftq_connect::deliver::attempt::Ending;
use driftq_connect::deliver::endpoint::Kind;
use driftq_connect::deliver::{Connector, Endpoint, Endpoints, Settings};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::bench::{Bench, loopback, until};
use crate::receiver::{Receiver, Reply, status};

/// Tells the process that is killed which endpoint it serves.
const ENDPOINT_VARIABLE: &str = "DELIVER_ENDPOINT";
/// How long a delivery waits after a kill.
const LEASE_MS: u64 = 400;
/// The longest life of a connector.
const LIFE_MS_MAX: u64 = 120;
/// Deliveries for each kill, so that there is always work left.
const DELIVERIES_PER_KILL: usize = 10;
/// The longest that a receiver works on a delivery: room for a kill.
const WORK_MS_MAX: u64 = 20;
/// By when all are delivered after the last kill.
const DONE_WITHIN: Duration = Duration::from_secs(60);

/// What that process has to know of it.
type Told = (String, Kind, String, Option<u32>);

fn told(endpoint: &Endpoint) -> String {
    let Endpoint { name, kind, url, concurrency, .. } = endpoint.clone();
    serde_json::to_string::<Told>(&(name, kind, url, concurrency)).unwrap()
}

fn random(below: u64) -> u64 {
    getrandom::u64().unwrap() % below
}

/// Starts a connector in a process of its own, which is this program once more.
fn connector(bench: &Bench, endpoint: &Endpoint) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::the_connector_that_is_killed", "--ignored", "--quiet"])
        .env("DRIFTQ_SERVER", bench.server.url())
        .env(ENDPOINT_VARIABLE, told(endpoint))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

#[tokio::test]
#[ignore = "the other tests run it, in a process of its own"]
async fn the_connector_that_is_killed() {
    let Ok(endpoint) = std::env::var(ENDPOINT_VARIABLE) else { return };
    let (name, kind, url, concurrency): Told = serde_json::from_str(&endpoint).unwrap();
    let endpoints = Endpoints::given(vec![Endpoint { concurrency, ..Endpoint::new(name, kind, url) }]);
    let lease = Duration::from_millis(LEASE_MS);
    let settings = Settings { allowed: loopback(), lease, ..Settings::default() };
    Connector::new(&Client::connect().unwrap(), endpoints, settings).unwrap().run().await;
}

/// Waits until the receiver got one more, or for as long as nothing comes.
async fn until_one_more(receiver: &Receiver) {
    let (before, end) = (receiver.received().len(), Instant::now() + Duration::from_secs(2));
    while receiver.received().len() == before && Instant::now() < end {
        sleep(Duration::from_millis(1)).await;
    }
}

/// Kills connectors at random points and lets the last one finish. Then every delivery has arrived; one that arrived
/// more than once did so because of a kill, is known by its id, and is written down as one that may have arrived.
async fn killed(kills: usize) {
    let receiver =
        Receiver::start(|_, _| Reply::Busy(Duration::from_micros(random(WORK_MS_MAX * 1000)))).await;
    let mut endpoint = Endpoint::new("orders", Kind::Webhook, receiver.url());
    // One at a time: then a kill can catch one send at most.
    endpoint.concurrency = Some(1);
    let bench = Bench::new(&[&endpoint]).await;
    let ids: Vec<String> = (0..kills * DELIVERIES_PER_KILL).map(|number| format!("order-{number}")).collect();
    for id in &ids {
        bench.deliver(&endpoint, id).await;
    }
    for _ in 0..kills {
        let mut child = connector(&bench, &endpoint);
        until_one_more(&receiver).await;
        sleep(Duration::from_micros(random(LIFE_MS_MAX * 1000))).await;
        child.kill().await.unwrap();
    }
    let mut last = connector(&bench, &endpoint);
    let end = Instant::now() + DONE_WITHIN;
    loop {
        let group = bench.client.group(&endpoint.topic(), &endpoint.group()).await.unwrap();
        if group.lag == 0 && group.in_flight == 0 {
            break;
        }
        assert!(Instant::now() < end, "{} are left", group.lag);
        sleep(Duration::from_millis(20)).await;
    }
    last.kill().await.unwrap();

    let mut sends: BTreeMap<String, usize> = BTreeMap::new();
    for request in receiver.received() {
        *sends.entry(request.header("webhook-id").to_owned()).or_default() += 1;
    }
    let mut expected = ids.clone();
    expected.sort();
    assert!(sends.keys().eq(&expected), "a receiver that looks at ids got each of them, and nothing else");
    let repeats: usize = sends.values().map(|count| count - 1).sum();
    let mut unknown = 0;
    for (id, count) in &sends {
        assert_eq!(bench.effect(&endpoint, id).await.unwrap().state, EffectState::Succeeded, "{id}");
        let attempts = bench.attempts(&endpoint, id).await.attempts;
        let last = attempts.last().unwrap();
        assert_eq!(last.outcome, Ending::Delivered, "{id}");
        assert!(last.attempt as usize >= *count, "{id} was sent {count} times: {attempts:?}");
        let maybe = attempts.iter().filter(|attempt| attempt.outcome == Ending::Unknown).count();
        assert!(maybe + 1 >= *count, "each repeat is told of: {id} was sent {count} times: {attempts:?}");
        unknown += maybe;
    }
    println!("{kills} kills, {} deliveries, {repeats} repeats, {unknown} recorded as unknown", ids.len());
    assert!(repeats <= kills, "{repeats} repeats by {kills} kills");
    assert!(unknown <= kills, "{unknown} unknown by {kills} kills");
}

/// Where a repeat would do harm, the next connector finds out that it does not know, and sends nothing.
#[tokio::test]
async fn a_killed_connector_leaves_what_must_not_be_repeated_to_a_person() {
    let receiver = Receiver::start(|_, before| if before == 0 { Reply::Hang } else { status(200) }).await;
    let endpoint = Endpoint::new("bank", Kind::Http, receiver.url());
    let bench = Bench::new(&[&endpoint]).await;
    bench.deliver(&endpoint, "pay-1").await;
    let mut first = connector(&bench, &endpoint);
    receiver.wait_for(1).await;
    first.kill().await.unwrap();
    let mut second = connector(&bench, &endpoint);
    until("an unknown outcome that is waited for", async || {
        let effect = bench.effect(&endpoint, "pay-1").await.unwrap();
        let group = bench.client.group(&endpoint.topic(), &endpoint.group()).await.unwrap();
        effect.state == EffectState::Unknown && group.in_flight == 0
    })
    .await;
    assert_eq!(receiver.received().len(), 1);
    bench.resolve(&endpoint, "pay-1", EffectStatus::FailedRetryable).await;
    receiver.wait_for(2).await;
    bench.wait_until_idle(&endpoint).await;
    second.kill().await.unwrap();
    assert_eq!(bench.effect(&endpoint, "pay-1").await.unwrap().state, EffectState::Succeeded);
}

#[tokio::test]
async fn a_killed_connector_loses_nothing_and_repeats_only_what_it_says() {
    killed(5).await;
}

#[tokio::test]
#[ignore = "takes minutes; run it by name"]
async fn a_connector_that_is_killed_two_hundred_times_loses_nothing() {
    killed(200).await;
}
