//! The loop of `driftq consume`: one stream at a time, opened again whenever it ends.

use std::{process, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use tokio::{task::JoinSet, time::Instant};

use super::{
    Args, exec,
    print::Printer,
    settle::{Outcome, Settler, Tally, hand_back, settle},
};
use crate::{
    cli::{Common, output::Format, signal::Signals, suggest},
    client::{CallError, Client, Session, Stream, escape, words::Item},
};

/// Waits between two tries to open the stream again: first and longest.
const REOPEN_WAIT_FIRST: Duration = Duration::from_millis(50);
const REOPEN_WAIT_MAX: Duration = Duration::from_secs(2);
/// What the server has sent ahead is here after this much silence.
const SURPLUS_QUIET: Duration = Duration::from_millis(50);
/// Other readers' acks keep messages coming: somewhere it has to end.
const SURPLUS_WAIT_MAX: Duration = Duration::from_millis(300);

/// Why the loop wakes up.
enum Event {
    Line(Result<Option<bytes::BytesMut>, CallError>),
    /// A command ended and its message was settled.
    Settled(Result<Settled>),
    Idle,
    Stop,
}

struct Settled {
    session: Session,
    outcome: Outcome,
    accepted: bool,
}

/// Everything that outlives a single stream.
struct Consumer {
    args: Arc<Args>,
    client: Client,
    server: Arc<str>,
    settler: Settler,
    printer: Printer,
    tally: Tally,
    running: JoinSet<Result<Settled>>,
    received: u64,
    last_message: Instant,
    signals: Signals,
    /// The user has asked for the end once; asking again means at once.
    stopping: bool,
}

/// What to do after a stream.
#[derive(PartialEq, Eq)]
enum Next {
    Reopen,
    End,
}

pub(in crate::cli) async fn run(common: &Common, args: Args) -> Result<()> {
    let client = common.client()?;
    let mut consumer = Consumer {
        args: Arc::new(args),
        settler: Settler::new(client.clone()),
        server: format!("http://{}", client.authority()).into(),
        client,
        printer: Printer::new(Format::for_stream(common.output)),
        tally: Tally::default(),
        running: JoinSet::new(),
        received: 0,
        last_message: Instant::now(),
        signals: Signals::new()?,
        stopping: false,
    };
    let outcome = consumer.consume().await;
    // Commands that run have their message on loan: their verdict is worth waiting for, whatever ended the loop.
    let drained = consumer.drain().await;
    if consumer.args.exec.is_none() {
        consumer.printer.end()?;
    }
    if outcome.is_ok() || consumer.received > 0 {
        consumer.summarize();
    }
    outcome.and(drained)
}

impl Consumer {
    async fn consume(&mut self) -> Result<()> {
        // The first failure is told at once: most likely the server is not there, or the topic is not.
        let opened = self.open().await;
        let mut session = self.client.session();
        let mut stream = suggest::or_explain(&mut session, &self.args.topic, opened).await?;
        while self.read(&mut stream).await? == Next::Reopen {
            match self.reopen().await? {
                Some(again) => stream = again,
                None => return Ok(()),
            }
        }
        self.hand_back(stream).await;
        Ok(())
    }

    /// The server sends ahead. What has arrived and will not be worked on is given back: left alone, it would fill the
    /// group's window until its lease ends, and the next reader would wait for it.
    async fn hand_back(&mut self, mut stream: Stream) {
        let end = Instant::now() + SURPLUS_WAIT_MAX;
        let mut surplus = Vec::new();
        loop {
            let quiet = (Instant::now() + SURPLUS_QUIET).min(end);
            match tokio::time::timeout_at(quiet, stream.next_line()).await {
                Ok(Ok(Some(line))) => surplus.extend(serde_json::from_slice::<Item>(&line).ok()),
                _ => break,
            }
        }
        drop(stream);
        if surplus.is_empty() {
            return;
        }
        // The server must have seen the stream end, or what is given back would be sent into it again.
        tokio::time::sleep(SURPLUS_QUIET).await;
        hand_back(&mut self.settler.session(), &self.args, &surplus).await;
    }

    async fn open(&self) -> Result<Stream, CallError> {
        let Args { topic, group, owner, lease_ms, .. } = &*self.args;
        let (topic, group, owner) = (escape(topic), escape(group), escape(owner));
        let path = format!("/v1/consume?topic={topic}&group={group}&owner={owner}&lease_ms={lease_ms}");
        self.client.session().stream(&path).await
    }

    /// Tries until the server is back, the user stops, or the time without a message is over.
    async fn reopen(&mut self) -> Result<Option<Stream>> {
        let mut wait = REOPEN_WAIT_FIRST;
        loop {
            match self.open().await {
                Ok(stream) => return Ok(Some(stream)),
                Err(error) if !error.is_transient() => return Err(error.into_error()),
                Err(_) => {}
            }
            let deadline = self.idle_deadline();
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = sleep_until(deadline) => return Ok(None),
                _ = self.signals.next() => {
                    self.stopping = true;
                    return Ok(None);
                }
            }
            wait = (wait * 2).min(REOPEN_WAIT_MAX);
        }
    }

    async fn read(&mut self, stream: &mut Stream) -> Result<Next> {
        loop {
            if self.args.max.is_some_and(|max| self.received >= max) {
                return Ok(Next::End);
            }
            let free = self.running.len() < usize::from(self.args.concurrency);
            let idle = self.running.is_empty().then(|| self.idle_deadline()).flatten();
            let event = tokio::select! {
                line = stream.next_line(), if free => Event::Line(line),
                Some(joined) = self.running.join_next() => Event::Settled(flatten(joined)),
                () = sleep_until(idle) => Event::Idle,
                _ = self.signals.next() => Event::Stop,
            };
            match event {
                Event::Line(Ok(Some(line))) => self.on_line(&line).await?,
                Event::Line(Ok(None)) => return Ok(self.notice("the server ended the stream")),
                Event::Line(Err(error)) if error.is_transient() => return Ok(self.notice(&error.to_string())),
                Event::Line(Err(error)) => return Err(error.into_error()),
                Event::Settled(settled) => self.on_settled(settled?),
                Event::Idle => return Ok(Next::End),
                Event::Stop => {
                    self.stopping = true;
                    return Ok(Next::End);
                }
            }
        }
    }

    fn notice(&self, what: &str) -> Next {
        eprintln!("{what}; opening it again");
        Next::Reopen
    }

    async fn on_line(&mut self, line: &[u8]) -> Result<()> {
        let line = std::str::from_utf8(line).context("a line of the stream is not UTF-8")?;
        let item: Item =
            serde_json::from_str(line).with_context(|| format!("a line of the stream: {line}"))?;
        self.received += 1;
        self.last_message = Instant::now();
        if let Some(command) = self.args.exec.clone() {
            self.start(command, item);
            return Ok(());
        }
        self.printer.item(line, &item)?;
        if self.args.ack {
            let mut session = self.settler.session();
            let accepted = settle(&mut session, &self.args, &item, &Outcome::Done).await?;
            self.on_settled(Settled { session, outcome: Outcome::Done, accepted });
        }
        Ok(())
    }

    fn start(&mut self, command: String, item: Item) {
        let args = self.args.clone();
        let server = self.server.clone();
        let mut session = self.settler.session();
        self.running.spawn(async move {
            let outcome = exec::run(&command, &server, &args, &item).await?;
            let accepted = settle(&mut session, &args, &item, &outcome).await?;
            Ok(Settled { session, outcome, accepted })
        });
    }

    fn on_settled(&mut self, settled: Settled) {
        self.tally.count(&settled.outcome, settled.accepted);
        self.settler.give_back(settled.session);
        self.last_message = Instant::now();
    }

    async fn drain(&mut self) -> Result<()> {
        loop {
            tokio::select! {
                joined = self.running.join_next() => match joined {
                    Some(joined) => self.on_settled(flatten(joined)?),
                    None => return Ok(()),
                },
                signal = self.signals.next() => {
                    if self.stopping {
                        // Their tasks end here, and with them the commands.
                        self.running.shutdown().await;
                        process::exit(signal.exit_code());
                    }
                    self.stopping = true;
                }
            }
        }
    }

    fn idle_deadline(&self) -> Option<Instant> {
        self.args.timeout.map(|timeout| self.last_message + Duration::from_millis(timeout))
    }

    fn summarize(&self) {
        let Tally { acked, nacked, lost } = self.tally;
        let mut text = format!("{} received, {acked} acked", self.received);
        if self.args.exec.is_some() {
            text.push_str(&format!(", {nacked} nacked"));
        }
        if lost > 0 {
            text.push_str(&format!(", {lost} not accepted because the lease had ended"));
        }
        eprintln!("{text}");
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn flatten<T>(joined: Result<Result<T>, tokio::task::JoinError>) -> Result<T> {
    joined.context("a command's task ended")?
}
