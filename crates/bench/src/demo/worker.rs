//! The demo's workers: processes of their own, made to be killed.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use driftq_client::{Client, Context, Failure, Found, Worker};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, Stdin, Stdout},
    sync::Mutex,
};

use super::{
    provider::{Call, Crew, Order, Said},
    server::die_with,
};
use driftq_cli::{block_on, work::fault};

/// The hidden command that it is.
pub const COMMAND: &str = "demo-worker";
/// The group of both crews; their topics differ.
pub(super) const GROUP: &str = "billing";
/// What the effects of the demo are called.
const SCOPE: &str = "charge";
/// The next attempt comes when this is over: short for a demo, and long enough that a busy machine does not take a
/// living worker for a dead one.
pub(super) const LEASE: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
pub struct Args {
    /// Ends when this process does
    #[arg(long)]
    parent: u32,
    /// Which crew it belongs to
    #[arg(long, value_enum)]
    crew: Crew,
    /// The demo's server
    #[arg(long)]
    url: String,
}

/// Runs in the child.
pub fn run(args: &Args) -> Result<()> {
    block_on(work(args))
}

async fn work(args: &Args) -> Result<()> {
    die_with(args.parent)?;
    let client = Client::new(&args.url).map_err(fault)?;
    let line = Arc::new(Line::open());
    let crew = args.crew;
    Worker::new(&client, GROUP)
        .lease(LEASE)
        // What waits in a worker that dies would have to wait for its lease to end.
        .prefetch(0)
        .handle(crew.topic(), move |order: Order, context| {
            let line = Arc::clone(&line);
            async move {
                line.call(&Call::Attempt { number: order.number }).await?;
                match crew {
                    Crew::Naive => drop(line.charge(&order).await?),
                    Crew::Driftq => drop(charge_once(&line, &order, &context).await?),
                }
                line.call(&Call::Acking { number: order.number }).await?;
                Ok(())
            }
        })
        .run()
        .await
        .map_err(fault)
}

/// This is all that DriftQ asks for: a name for the charge, and a way to find out.
async fn charge_once(line: &Arc<Line>, order: &Order, context: &Context) -> Result<String, Failure> {
    let (asked, number) = (Arc::clone(line), order.number);
    context
        .effect(SCOPE)
        .key(&order.order)
        .hold()
        .reconcile(move |_| {
            let line = Arc::clone(&asked);
            async move {
                match line.call(&Call::Find { number }).await?.charge {
                    Some(charge) => Found::succeeded(&charge),
                    None => Ok(Found::NotDone),
                }
            }
        })
        .run(|| line.charge(order))
        .await
}

/// The line to the provider, who is the process that started this one.
struct Line {
    ends: Mutex<(Lines<BufReader<Stdin>>, Stdout)>,
}

impl Line {
    fn open() -> Self {
        let answers = BufReader::new(tokio::io::stdin()).lines();
        Self { ends: Mutex::new((answers, tokio::io::stdout())) }
    }

    async fn charge(&self, order: &Order) -> Result<String, Failure> {
        let said = self.call(&Call::Charge { number: order.number, cents: order.cents }).await?;
        said.charge.ok_or_else(|| Failure::new("the provider did not charge"))
    }

    async fn call(&self, call: &Call) -> Result<Said, Failure> {
        let mut ends = self.ends.lock().await;
        let (answers, calls) = &mut *ends;
        calls.write_all(format!("{}\n", serde_json::to_string(call)?).as_bytes()).await?;
        calls.flush().await?;
        let answer = answers.next_line().await?.context("the provider hung up");
        Ok(serde_json::from_str(&answer.map_err(|error| Failure::new(error.to_string()))?)?)
    }
}
