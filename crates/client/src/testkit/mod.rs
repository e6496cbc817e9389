//! For tests of workers: a throwaway server, "until the topic is done", and questions to the ledger.
//!
//! ```no_run
//! # async fn example() -> Result<(), driftq_client::Failure> {
//! use driftq_client::testkit::{Server, expect_effects, run_until_idle};
//! use driftq_client::{Worker, json};
//!
//! let server = Server::ephemeral().await?;
//! let client = server.client()?;
//! client.create_topic("orders", &Default::default()).await?;
//! client.produce("orders", json(&17)).await?;
//! let worker = Worker::new(&client, "billing").handle("orders", |order: u32, context| async move {
//!     context.effect("charge").key(order.to_string()).run(|| async { Ok(()) }).await
//! });
//! run_until_idle(worker).await?;
//! expect_effects(&client, "charge", 1).await?;
//! # Ok(())
//! # }
//! ```

mod ledger;
mod server;

use std::time::Duration;

use driftq_api::Code;
use tokio::time::timeout;

pub use ledger::{effects, expect_effects};
pub use server::{Launch, Server};

use crate::client::Client;
use crate::error::Error;
use crate::outcome::Failure;
use crate::worker::Worker;

/// By when a topic must be done.
const IDLE_WITHIN: Duration = Duration::from_secs(30);
/// How often the server is asked how far the group is, while the worker itself has nothing to tell.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs the worker until its group is through with everything in its topics, and stops it.
///
/// # Errors
/// The worker's own; and if it is not done within 30 s.
pub async fn run_until_idle(worker: Worker) -> Result<(), Failure> {
    let worker = worker.signals(false);
    let (client, group, topics) = (worker.client().clone(), worker.group().to_owned(), worker.topics());
    let (stopper, mut progress) = (worker.stopper(), worker.progress());
    let watch = async {
        loop {
            progress.borrow_and_update();
            if is_idle(&client, &group, &topics).await? {
                stopper.stop();
                return Ok::<(), Failure>(());
            }
            // What was settled is the sign to look again; retries and lapses happen at the server.
            let _ = timeout(LOOK_EVERY, progress.changed()).await;
        }
    };
    let work = async { worker.run().await.map_err(Failure::from) };
    match timeout(IDLE_WITHIN, async { tokio::try_join!(work, watch) }).await {
        Ok(done) => done.map(drop),
        Err(_) => {
            Err(Failure::new(format!("group {group:?} was not done within {} s", IDLE_WITHIN.as_secs())))
        }
    }
}

async fn is_idle(client: &Client, group: &str, topics: &[String]) -> Result<bool, Error> {
    for topic in topics {
        match client.group(topic, group).await {
            Ok(found) if found.lag == 0 && found.in_flight == 0 => {}
            Ok(_) => return Ok(false),
            // It begins with the first lease.
            Err(error) if error.code() == Some(Code::GroupUnknown) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
