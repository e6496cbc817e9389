//! How a worker ends: what runs may end, what was not begun is given back.

use std::future::Future;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use driftq_client::wire::LeaseRequest;
use driftq_client::{Client, Code, Context, Dead, Error, Failure, Reason, Stopper, Worker, json};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support;
use crate::workers::create;

const SOON: Duration = Duration::from_secs(30);
/// What the process of the test below prints when its handler has begun.
const BEGUN: &str = "the handler has begun";

async fn wait_for_in_flight(client: &Client, expected: u64) {
    let reached = async {
        while client.group("orders", "g").await.unwrap().in_flight != expected {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, reached).await.unwrap();
}

/// What is left is delivered as if it never had been.
async fn expect_untouched(client: &Client, count: usize) {
    let group = client.group("orders", "g").await.unwrap();
    assert_eq!((group.lag, group.in_flight), (count as u64, 0));
    let request =
        LeaseRequest { owner: "w".into(), max: 10, wait_ms: 1000, lease_ms: None, request_id: None };
    let items = client.lease("orders", "g", request).await.unwrap();
    let attempts: Vec<u32> = items.into_iter().map(|item| item.lease.unwrap().attempt).collect();
    assert_eq!(attempts, vec![1; count]);
}

#[tokio::test]
async fn sigterm_lets_what_runs_end_and_gives_the_rest_back() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    create(&client, "orders").await;
    client.produce_all("orders", (0..3).map(|number| json(&number))).await.unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "drain::a_process_with_a_worker", "--ignored", "--nocapture"])
        .env("DRIFTQ_SERVER", server.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let begun = async { while !lines.next_line().await.unwrap().unwrap().contains(BEGUN) {} };
    timeout(SOON, begun).await.unwrap();
    wait_for_in_flight(&client, 3).await;
    let pid = Pid::from_raw(i32::try_from(process.id().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    wait_for_in_flight(&client, 1).await;
    process.stdin.take().unwrap().write_all(b"go on\n").await.unwrap();
    assert!(timeout(SOON, process.wait()).await.unwrap().unwrap().success());
    expect_untouched(&client, 2).await;
}

/// One message at a time, two in reserve; the handler goes on when it is told.
#[tokio::test]
#[ignore = "the process of the test above"]
async fn a_process_with_a_worker() {
    let client = Client::connect().unwrap();
    let worker = Worker::new(&client, "g").concurrency(1).prefetch(2);
    let worker = worker.handle("orders", |_: u32, _| async {
        println!("{BEGUN}");
        let mut line = String::new();
        BufReader::new(tokio::io::stdin()).read_line(&mut line).await?;
        Ok(())
    });
    worker.run().await.unwrap();
}

/// A worker whose handler waits, and what its handler was told.
fn waiting(client: &Client) -> (Worker, Arc<Notify>, Arc<Notify>) {
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, goes_on) = (Arc::clone(&begun), Arc::clone(&go_on));
    let worker = Worker::new(client, "g").prefetch(2).signals(false).handle("orders", move |_: u32, _| {
        let (begun, go_on) = (Arc::clone(&begins), Arc::clone(&goes_on));
        async move {
            begun.notify_one();
            go_on.notified().await;
            Ok(())
        }
    });
    (worker, begun, go_on)
}

#[tokio::test]
async fn a_second_stop_ends_it_at_once() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    create(&client, "orders").await;
    client.produce("orders", json(&1)).await.unwrap();
    let (worker, begun, _go_on) = waiting(&client);
    let stopper = worker.stopper();
    let working = tokio::spawn(worker.run());
    timeout(SOON, begun.notified()).await.unwrap();
    stopper.stop();
    stopper.stop();
    timeout(SOON, working).await.unwrap().unwrap().unwrap();
    assert_eq!(client.group("orders", "g").await.unwrap().lag, 1, "it was not acked");
}

#[tokio::test]
async fn a_second_stop_settles_what_is_done() {
    const HANDLED: usize = 40;
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    create(&client, "orders").await;
    client.produce_all("orders", (0..HANDLED).map(|number| json(&number))).await.unwrap();
    let worker = Worker::new(&client, "g").concurrency(HANDLED).signals(false);
    let (stopper, unheard) = (worker.stopper(), worker.unheard());
    let handled = Arc::new(AtomicUsize::new(0));
    let worker = worker.handle("orders", move |_: u32, _| {
        let (stopper, handled) = (stopper.clone(), Arc::clone(&handled));
        async move {
            if handled.fetch_add(1, Ordering::Relaxed) + 1 == HANDLED {
                stopper.stop();
                stopper.stop();
            }
            Ok(())
        }
    });
    timeout(SOON, worker.run()).await.unwrap().unwrap();
    assert_eq!(*unheard.borrow(), 0);
    let group = client.group("orders", "g").await.unwrap();
    assert_eq!((group.lag, group.in_flight), (0, 0));
}

/// A worker that waits for messages of a topic that has none.
async fn idle(client: &Client) -> (Stopper, JoinHandle<Result<(), Error>>, Arc<Notify>) {
    create(client, "orders").await;
    let (worker, begun, _) = waiting(client);
    let stopper = worker.stopper();
    let working = tokio::spawn(worker.run());
    // The group is there when the first call for messages is.
    timeout(SOON, async { while client.group("orders", "g").await.is_err() {} }).await.unwrap();
    (stopper, working, begun)
}

#[tokio::test]
async fn a_group_that_is_deleted_begins_anew() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    let (stopper, working, begun) = idle(&client).await;
    client.delete::<Value>("/v2/topics/orders/groups/g?confirm=g").await.unwrap();
    client.produce("orders", json(&1)).await.unwrap();
    timeout(SOON, begun.notified()).await.unwrap();
    stopper.stop();
    stopper.stop();
    timeout(SOON, working).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_topic_that_is_deleted_ends_the_worker() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    let (_, working, _) = idle(&client).await;
    client.delete::<Value>("/v2/topics/orders?confirm=orders").await.unwrap();
    let error = timeout(SOON, working).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.code(), Some(Code::TopicUnknown), "{error}");
}

#[tokio::test]
async fn an_idle_worker_stops_without_borrowing() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    let (stopper, working, _) = idle(&client).await;
    stopper.stop();
    timeout(SOON, working).await.unwrap().unwrap().unwrap();
    client.produce_all("orders", (0..2).map(|number| json(&number))).await.unwrap();
    expect_untouched(&client, 2).await;
}

/// A worker with hardly any time to drain is stopped while its handler is at it.
async fn cut_short<Fut>(client: &Client, handler: impl Fn(Context) -> Fut + Send + Sync + 'static)
where
    Fut: Future<Output = Result<(), Failure>> + Send + 'static,
{
    create(client, "orders").await;
    client.produce("orders", json(&1)).await.unwrap();
    let begun = Arc::new(Notify::new());
    let begins = Arc::clone(&begun);
    let worker = Worker::new(client, "g").drain_timeout(Duration::from_millis(50)).signals(false);
    let worker = worker.handle("orders", move |_: u32, context| {
        begins.notify_one();
        handler(context)
    });
    let stopper = worker.stopper();
    let working = tokio::spawn(worker.run());
    timeout(SOON, begun.notified()).await.unwrap();
    stopper.stop();
    timeout(SOON, working).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn what_takes_too_long_to_drain_is_told_and_given_back() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    cut_short(&client, async |context: Context| {
        let reason = context.signal().fired().await;
        assert_eq!(reason, Reason::Stopped);
        Err(Error::from(reason).into())
    })
    .await;
    expect_untouched(&client, 1).await;
}

#[tokio::test]
async fn what_does_not_listen_is_ended_and_given_back() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    cut_short(&client, async |_| std::future::pending().await).await;
    expect_untouched(&client, 1).await;
}

#[tokio::test]
async fn what_a_stopped_handler_says_on_purpose_counts() {
    let server = support::server().await.unwrap();
    let client = server.client().unwrap();
    cut_short(&client, async |context: Context| {
        context.signal().fired().await;
        Err(Dead::new("no use").into())
    })
    .await;
    // The broker writes the letter a moment after it has heard that the message is dead.
    let buried = async {
        while client.group("orders", "g").await.unwrap().lag > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, buried).await.expect("it is a dead letter");
    assert_eq!(client.group("orders", "g").await.unwrap().in_flight, 0);
}

/// Whether by an ack or by a commit: a server that is gone does not keep the worker.
#[tokio::test]
async fn a_server_that_never_hears_of_the_end_is_not_waited_for() {
    for sends in [false, true] {
        let mut server = support::launch().on_disk().start().await.unwrap();
        let client = server.client().unwrap();
        create(&client, "orders").await;
        client.produce("orders", json(&1)).await.unwrap();
        let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (begins, goes_on) = (Arc::clone(&begun), Arc::clone(&go_on));
        let worker = Worker::new(&client, "g").drain_timeout(SOON * 10).signals(false);
        let worker = worker.handle("orders", move |_: u32, context: Context| {
            let (begun, go_on) = (Arc::clone(&begins), Arc::clone(&goes_on));
            async move {
                begun.notify_one();
                go_on.notified().await;
                if sends {
                    context.send("orders", json(&2))?;
                }
                Ok(())
            }
        });
        let (stopper, progress, unheard) = (worker.stopper(), worker.progress(), worker.unheard());
        let working = tokio::spawn(worker.run());
        timeout(SOON, begun.notified()).await.unwrap();
        server.kill().await.unwrap();
        stopper.stop();
        go_on.notify_one();
        timeout(SOON, working).await.unwrap().unwrap().unwrap();
        assert_eq!((*progress.borrow(), *unheard.borrow()), (0, 1), "nothing was settled, and that is said");
    }
}
