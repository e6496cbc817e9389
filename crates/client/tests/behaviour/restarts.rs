//! A server that is killed in the middle of work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use driftq_client::testkit::expect_effects;
use driftq_client::{Reason, Worker, json};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::support;
use crate::workers::create;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn the_effect_is_finished_and_replayed_and_the_worker_goes_on() {
    let mut server = support::launch().on_disk().start().await.unwrap();
    let client = server.client().unwrap();
    create(&client, "orders").await;
    create(&client, "receipts").await;
    client.produce("orders", json(&1)).await.unwrap();
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (done, mut finished) = mpsc::unbounded_channel();
    let executions = Arc::new(AtomicU32::new(0));
    let worker = Worker::new(&client, "g").concurrency(2).lease(Duration::from_secs(2)).signals(false);
    let worker = worker.handle("orders", {
        let (begun, go_on, executions) = (Arc::clone(&begun), Arc::clone(&go_on), Arc::clone(&executions));
        move |_: u32, context| {
            let (begun, go_on, executions) =
                (Arc::clone(&begun), Arc::clone(&go_on), Arc::clone(&executions));
            let done = done.clone();
            async move {
                let function = || async {
                    executions.fetch_add(1, Ordering::Relaxed);
                    begun.notify_one();
                    go_on.notified().await;
                    Ok("ch_1".to_owned())
                };
                let charge = context.effect("charge").key("order-1").run(function).await?;
                context.send("receipts", json(&charge))?;
                let _ = done.send((context.attempt(), charge));
                Ok(())
            }
        }
    });
    let stopper = worker.stopper();
    let mut progress = worker.progress();
    let working = tokio::spawn(worker.run());
    timeout(SOON, begun.notified()).await.unwrap();
    server.kill().await.unwrap();
    server.restart().await.unwrap();
    go_on.notify_one();
    let mut seen = Vec::new();
    while timeout(SOON, progress.changed()).await.unwrap().is_ok() {
        while let Ok(handled) = finished.try_recv() {
            seen.push(handled);
        }
        if client.group("orders", "g").await.unwrap().lag == 0 {
            break;
        }
    }
    stopper.stop();
    timeout(SOON, working).await.unwrap().unwrap().unwrap();
    assert_eq!(executions.load(Ordering::Relaxed), 1);
    assert_eq!(seen, [(1, "ch_1".to_owned())], "the lease outlived the server: nobody else was asked");
    expect_effects(&client, "charge", 1).await.unwrap();
    assert_eq!(client.topic("receipts").await.unwrap().messages, 1);
    assert_eq!(client.group("orders", "g").await.unwrap().in_flight, 0);
}

#[tokio::test]
async fn a_lease_that_runs_out_while_the_server_is_away_is_lost() {
    let mut server = support::launch().on_disk().start().await.unwrap();
    let client = server.client().unwrap();
    create(&client, "orders").await;
    client.produce("orders", json(&1)).await.unwrap();
    let begun = Arc::new(Notify::new());
    let (told, mut reasons) = mpsc::unbounded_channel();
    let worker = Worker::new(&client, "g").lease(Duration::from_millis(300)).signals(false);
    let worker = worker.handle("orders", {
        let (begun, calls) = (Arc::clone(&begun), AtomicU32::new(0));
        move |_: u32, context| {
            begun.notify_one();
            let told = told.clone();
            // By its own count: a server that was killed may not remember the first attempt.
            let is_first = calls.fetch_add(1, Ordering::Relaxed) == 0;
            async move {
                if is_first {
                    let _ = told.send(context.signal().fired().await);
                }
                Ok(())
            }
        }
    });
    let stopper = worker.stopper();
    let working = tokio::spawn(worker.run());
    timeout(SOON, begun.notified()).await.unwrap();
    server.kill().await.unwrap();
    assert_eq!(timeout(SOON, reasons.recv()).await.unwrap(), Some(Reason::LeaseLost));
    server.restart().await.unwrap();
    timeout(SOON, begun.notified()).await.expect("the message comes again, to the same worker");
    timeout(SOON, async {
        while client.group("orders", "g").await.unwrap().lag > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    stopper.stop();
    timeout(SOON, working).await.unwrap().unwrap().unwrap();
}
