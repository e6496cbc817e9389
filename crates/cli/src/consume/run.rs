//! The loop of `driftq consume`: asks for messages, and never for more than it can use.

use std::{path::PathBuf, process, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use driftq_api::v2::{Group, Item};
use tokio::{task::JoinSet, time::Instant};

use super::poll::{Poll, Polled, Poller, release};
use super::settle::{Outcome, Tally, ack, settle};
use super::{Args, delivery::Delivery, exec, print::Printer, window::Window};
use crate::{CallError, Client, Common, Format, Path, Signals, Subject, context, suggest};

/// Most messages of one call, where they are only printed.
const BATCH_MAX: usize = 100;
/// How often the group is looked at while as many messages are on loan as may be: `driftq ack` may settle them.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How long a server may take to hear at the end that what it has just sent is not wanted.
const GIVE_UP_TIMEOUT: Duration = Duration::from_secs(2);

/// Why the loop wakes up.
enum Event {
    Answer(Polled),
    /// A command ended and its message was settled.
    Settled(Result<Settled>),
    Look,
    Idle,
    Stop,
}

struct Settled {
    outcome: Outcome,
    accepted: bool,
}

/// What `consume` is at.
struct Consumer {
    args: Arc<Args>,
    client: Client,
    server: Arc<str>,
    /// How commands reach it: the files with a key and with authorities.
    access: Arc<[(&'static str, PathBuf)]>,
    poller: Poller,
    printer: Printer,
    tally: Tally,
    window: Window,
    running: JoinSet<Result<Settled>>,
    received: u64,
    last_message: Instant,
    /// The server has answered once: from then on, one that goes away is waited for.
    is_met: bool,
    is_away: bool,
    signals: Signals,
    /// The user has asked for the end once; asking again means at once.
    stopping: bool,
}

pub(crate) async fn run(common: &Common, args: Args) -> Result<()> {
    let client = common.client()?;
    let mut consumer = Consumer {
        poller: Poller::new(&client, &args),
        args: Arc::new(args),
        server: client.url().into(),
        access: context::choose(common)?.variables().into(),
        client,
        printer: Printer::new(Format::for_stream(common.output)),
        tally: Tally::default(),
        window: Window::default(),
        running: JoinSet::new(),
        received: 0,
        last_message: Instant::now(),
        is_met: false,
        is_away: false,
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
        let mut poll: Option<Poll> = None;
        while self.args.max.is_none_or(|max| self.received < max) {
            if poll.is_none() {
                poll = self.ask();
            }
            match self.next(&mut poll).await {
                Event::Answer(polled) => {
                    poll = None;
                    let answer = self.poller.answered(polled);
                    let items = self.understood(answer).await?;
                    self.take(items).await?;
                }
                Event::Settled(settled) => self.on_settled(&settled?),
                Event::Look => self.look_at_group().await,
                Event::Idle => break,
                Event::Stop => {
                    self.stopping = true;
                    break;
                }
            }
        }
        if let Some(poll) = poll
            && !self.is_away
        {
            // The user waits for the end of this command.
            drop(tokio::time::timeout(GIVE_UP_TIMEOUT, self.poller.give_up(poll)).await);
        }
        Ok(())
    }

    async fn next(&mut self, poll: &mut Option<Poll>) -> Event {
        let idle = if self.is_met && self.running.is_empty() { self.idle_deadline() } else { None };
        let is_full = poll.is_none() && self.running.is_empty();
        let answer = async {
            match poll {
                Some(poll) => (&mut poll.call).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            polled = answer => Event::Answer(polled),
            Some(joined) = self.running.join_next() => Event::Settled(flatten(joined)),
            () = tokio::time::sleep(LOOK_AGAIN), if is_full => Event::Look,
            () = sleep_until(idle) => Event::Idle,
            _ = self.signals.next() => Event::Stop,
        }
    }

    /// The next call for messages, if there is room for any.
    fn ask(&mut self) -> Option<Poll> {
        let left = self
            .args
            .max
            .map_or(usize::MAX, |max| usize::try_from(max - self.received).unwrap_or(usize::MAX));
        let room = match (&self.args.exec, self.args.ack || self.args.max.is_some()) {
            // What waits here for its turn would lose its lease meanwhile.
            (Some(_), _) => usize::from(self.args.concurrency) - self.running.len(),
            (None, true) => BATCH_MAX,
            (None, false) => self.window.room(Instant::now()).min(BATCH_MAX),
        };
        let room = u32::try_from(room.min(left)).unwrap_or(u32::MAX);
        (room > 0).then(|| self.poller.ask(room, self.idle_deadline()))
    }

    /// The messages of an answer. The first failure is told at once: most likely the server is not there, or the topic
    /// is not.
    async fn understood(
        &mut self,
        answer: Result<Vec<Item<'static>>, CallError>,
    ) -> Result<Vec<Item<'static>>> {
        match answer {
            Ok(items) => {
                self.is_met = true;
                if std::mem::take(&mut self.is_away) {
                    eprintln!("the server is back");
                }
                Ok(items)
            }
            Err(error) if self.is_met && error.is_transient() => {
                if !std::mem::replace(&mut self.is_away, true) {
                    eprintln!("{error}; asking again until the server is back");
                }
                Ok(Vec::new())
            }
            Err(error) => {
                let mut session = self.client.session();
                let subject = Subject::Topic(&self.args.topic);
                Err(suggest::explained(&mut session, subject, error).await.into())
            }
        }
    }

    async fn take(&mut self, items: Vec<Item<'static>>) -> Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        let deliveries: Vec<Delivery> = items.into_iter().map(Delivery::new).collect();
        self.last_message = Instant::now();
        if let Some(command) = self.args.exec.clone() {
            self.received += deliveries.len() as u64;
            for one in deliveries {
                self.start(command.clone(), one);
            }
            return Ok(());
        }
        self.window.lent(deliveries.len(), self.last_message, Duration::from_millis(self.args.lease_ms));
        self.print(&deliveries).await
    }

    /// Prints them. What could not be printed is given back, and what was is acked if that was asked for.
    async fn print(&mut self, deliveries: &[Delivery]) -> Result<()> {
        let mut printed = 0;
        let mut failure = Ok(());
        for one in deliveries {
            failure = self.printer.item(&one.item);
            if failure.is_err() {
                break;
            }
            printed += 1;
        }
        self.received += printed as u64;
        let (seen, unseen) = deliveries.split_at(printed);
        let mut session = self.client.session();
        let unseen: Vec<String> = unseen.iter().map(|one| one.token.clone()).collect();
        release(&mut session, unseen).await;
        if self.args.ack && !seen.is_empty() {
            let accepted = ack(&mut session, &self.args, seen).await?;
            self.tally.acked += accepted;
            self.tally.lost += printed as u64 - accepted;
            self.last_message = Instant::now();
        }
        failure
    }

    /// Finds out whether what is on loan here has been acked. If it cannot be found out now, the leases end.
    async fn look_at_group(&mut self) {
        let path = Path::group(&self.args.topic, &self.args.group);
        if let Ok(group) = self.client.session().get::<Group>(path).await {
            self.window.seen(group.in_flight);
        }
    }

    fn start(&mut self, command: String, one: Delivery) {
        let args = self.args.clone();
        let (server, access) = (self.server.clone(), self.access.clone());
        let mut session = self.client.session();
        self.running.spawn(async move {
            let outcome = exec::run(&command, (&server, &access), &args, &one).await?;
            let accepted = settle(&mut session, &args, &one, &outcome).await?;
            Ok(Settled { outcome, accepted })
        });
    }

    fn on_settled(&mut self, settled: &Settled) {
        self.tally.count(&settled.outcome, settled.accepted);
        self.last_message = Instant::now();
    }

    async fn drain(&mut self) -> Result<()> {
        loop {
            tokio::select! {
                joined = self.running.join_next() => match joined {
                    Some(joined) => self.on_settled(&flatten(joined)?),
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
