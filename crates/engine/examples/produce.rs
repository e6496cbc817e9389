//! Durable produces through the broker's handle, without HTTP: `produce [tasks] [seconds] [thread|inline|adaptive] [dir|memory|postgres://…|nats://…]`.

use std::time::{Duration, Instant};

use driftq_core::Message;
use driftq_engine::log::{NatsPlace, PostgresPlace};
use driftq_engine::{Broker, Config, Started, Storage, WriteMode};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |n: usize, default: &str| arguments.get(n).map_or(default, String::as_str).to_owned();
    let tasks: usize = text(0, "64").parse().expect("a number of tasks");
    let seconds: u64 = text(1, "3").parse().expect("a number of seconds");
    let commit = match &*text(2, "adaptive") {
        "thread" => WriteMode::Thread,
        "inline" => WriteMode::Inline,
        _ => WriteMode::Adaptive,
    };
    let storage = match &*text(3, "memory") {
        "memory" => Storage::Ephemeral,
        url if url.starts_with("postgres") => {
            let (schema, cluster) = ("driftq_produce".into(), "produce".into());
            Storage::Postgres(PostgresPlace { url: url.into(), schema, cluster })
        }
        url if url.starts_with("nats") => {
            Storage::Nats(NatsPlace { url: url.into(), cluster: "produce".into() })
        }
        dir => Storage::Directory(dir.into()),
    };
    let mut config = Config { storage, commit, ..Config::default() };
    config.settings.partition_messages_max = u64::MAX;
    config.settings.partition_bytes_max = u64::MAX;
    let Started { broker, recovery } = Broker::start(config.clone()).expect("the broker starts");
    println!("{recovery:?}");
    if let Storage::Directory(dir) = &config.storage {
        println!("bare: {:.0} synced writes/s", bare(&dir.join("bare.tmp")));
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("tokio");
    runtime.block_on(async {
        broker.create_topic("bench", 4).await.expect("a topic");
        let before = broker.counters();
        let begun = Instant::now();
        let until = begun + Duration::from_secs(seconds);
        let workers: Vec<_> =
            (0..tasks).map(|task| tokio::spawn(produce(broker.clone(), task, until))).collect();
        let mut total = 0;
        for worker in workers {
            total += worker.await.expect("a worker");
        }
        let took = begun.elapsed().as_secs_f64();
        let after = broker.counters();
        let syncs = after.syncs - before.syncs;
        println!(
            "{commit:?} {tasks} tasks: {:.0}/s, {:.3} syncs per request, {} batches",
            total as f64 / took,
            syncs as f64 / total as f64,
            after.batches - before.batches
        );
        let begun = Instant::now();
        broker.stop().await;
        println!("stopped in {:?}", begun.elapsed());
    });
}

async fn produce(broker: Broker, task: usize, until: Instant) -> u64 {
    let (key, value) = (format!("key-{task}"), vec![b'x'; 100]);
    let mut done = 0;
    while Instant::now() < until {
        let message =
            Message { key: key.as_bytes().into(), value: value.as_slice().into(), ..Message::default() };
        broker.produce("bench", message).await.expect("a message is stored");
        done += 1;
    }
    done
}

/// What the disk can do: small writes, each synced, into a file that was filled before.
fn bare(path: &std::path::Path) -> f64 {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::create(path).expect("a file");
    file.write_all_at(&vec![0; 8 << 20], 0).expect("zeros");
    file.sync_all().expect("a sync");
    let begun = Instant::now();
    let mut count = 0_u32;
    while begun.elapsed() < Duration::from_secs(1) {
        file.write_all_at(&[1; 256], u64::from(count % 30_000) * 256).expect("a write");
        file.sync_data().expect("a sync");
        count += 1;
    }
    std::fs::remove_file(path).expect("the file is removed");
    f64::from(count) / begun.elapsed().as_secs_f64()
}
