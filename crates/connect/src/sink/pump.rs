//! The life of a sink: borrow, write, settle, each while the others go on.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use driftq_client::{Client, Error};
use futures_util::future::{Either, join, select};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::SinkError;
use super::config::SinkConfig;
use super::fault::Fault;
use super::loans::{Limits, Loans};
use super::message::Message;
use super::rows::{Batch, Shape};
use super::statement::Statements;
use super::table::{self, Finding};
use super::write::{Writer, Written};
use crate::database;

/// First pause before a database that is away is asked again; it doubles.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A transaction that takes longer is given up, and its connection with it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(300);

/// How far a sink has got since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rows that were sent to the table and committed.
    pub rows: u64,
    /// Messages that had become rows before.
    pub repeated: u64,
    /// Messages that became dead letters.
    pub dead: u64,
}

/// A sink, ready to be checked and run.
pub struct Sink {
    config: SinkConfig,
    database: database::Place,
    progress: watch::Sender<Progress>,
    /// Whether it was told that messages are skipped which came for the first time.
    is_surprised: AtomicBool,
}

/// A batch whose transaction has ended.
struct Ended {
    batch: Vec<Message>,
    refused: BTreeMap<usize, String>,
}

impl Sink {
    /// A sink of a file that was checked.
    ///
    /// # Errors
    /// If there is no usable URL of a database where the file says that one is.
    pub fn new(config: SinkConfig) -> Result<Self, SinkError> {
        let database = config.postgres.url().and_then(|url| database::Place::new(&url));
        let database = database.map_err(|why| SinkError::Setting { sink: config.name.clone(), why })?;
        Ok(Self {
            config,
            database,
            progress: watch::Sender::default(),
            is_surprised: AtomicBool::new(false),
        })
    }

    /// What it was told.
    #[must_use]
    pub const fn config(&self) -> &SinkConfig {
        &self.config
    }

    /// How far it has got, updated as it goes.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Compares the table with what the sink needs.
    ///
    /// # Errors
    /// If the database cannot be asked.
    pub async fn check(&self) -> Result<Finding, SinkError> {
        let client = self.database.connect().await.map_err(|error| self.refused(&Fault::from(error)))?;
        table::check(&client, &self.config).await.map_err(|fault| self.refused(&fault))
    }

    /// Makes what is missing altogether: the table, the table of progress. What exists is not altered.
    ///
    /// # Errors
    /// If the database refuses.
    pub async fn migrate(&self) -> Result<(), SinkError> {
        let client = self.database.connect().await.map_err(|error| self.refused(&Fault::from(error)))?;
        table::migrate(&client, &self.config).await.map_err(|fault| self.refused(&fault))
    }

    /// Whether its rows can be written by `COPY`.
    async fn takes_copy(&self) -> Result<bool, SinkError> {
        let client = self.database.connect().await.map_err(|error| self.refused(&Fault::from(error)))?;
        table::takes_copy(&client, &self.config).await.map_err(|fault| self.refused(&fault))
    }

    /// Counts what became of a batch. Tells which messages are no rows, and why.
    fn noted(&self, batch: &[Message], written: Written) -> BTreeMap<usize, String> {
        let Written { rows, repeated, surprising, refused } = written;
        let sink = self.config.name.as_str();
        if surprising > 0 && !self.is_surprised.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                sink,
                count = surprising,
                "messages that came for the first time are skipped, because progress has them as written: the group \
                 was moved back, or the server has lost its data and counts anew; in that case give the sink \
                 another name"
            );
        }
        if let Some((index, why)) = refused.iter().next() {
            let offset = batch.get(*index).map(|message| message.offset);
            tracing::warn!(sink, offset, count = refused.len(), "dead letters, the first because: {why}");
        }
        self.progress.send_modify(|progress| {
            progress.rows += rows as u64;
            progress.repeated += repeated as u64;
            progress.dead += refused.len() as u64;
        });
        refused
    }

    fn refused(&self, fault: &Fault) -> SinkError {
        SinkError::Database { sink: self.config.name.clone(), why: fault.to_string() }
    }

    fn server(&self, error: Error) -> SinkError {
        let (sink, topic) = (self.config.name.clone(), self.config.topic.clone());
        SinkError::Server { sink, topic, error: Box::new(error) }
    }

    fn setting(&self, why: String) -> SinkError {
        SinkError::Setting { sink: self.config.name.clone(), why }
    }

    /// Runs until `stop` turns true, and then until what was begun is written and settled.
    ///
    /// # Errors
    /// If the table does not fit, now or later; if the topic does not exist; if the server refuses.
    pub async fn run(&self, client: &Client, stop: watch::Receiver<bool>) -> Result<(), SinkError> {
        let name = &self.config.name;
        let needs = self.check().await?.needs;
        if !needs.is_empty() {
            return Err(SinkError::Table { sink: name.clone(), needs });
        }
        client.topic(&self.config.topic).await.map_err(|error| self.server(error))?;
        let is_copying = self.takes_copy().await?;
        let shape = Arc::new(Shape::new(&self.config).map_err(|why| self.setting(why))?);
        let statements = Statements::new(&self.config).map_err(|why| self.setting(why))?;
        let mut suffix = [0_u8; 4];
        getrandom::fill(&mut suffix).map_err(|error| self.setting(error.to_string()))?;
        let owner = format!("sink-{name}-{}-{:08x}", std::process::id(), u32::from_be_bytes(suffix));
        let lanes = (self.config.topic.clone(), self.config.group());
        let loans = Arc::new(Loans::new(client.clone(), lanes, owner, self.config.lease()));
        let writer =
            Writer::new(self.database.clone(), name.clone(), Arc::clone(&shape), statements, is_copying);
        let mut pump = Pump { sink: self, loans: Arc::clone(&loans), shape, writer, stop };
        tokio::select! {
            // Never ends by itself.
            () = loans.keep() => Ok(()),
            outcome = pump.run() => outcome,
        }
    }
}

/// A sink at work.
struct Pump<'a> {
    sink: &'a Sink,
    loans: Arc<Loans>,
    shape: Arc<Shape>,
    writer: Writer,
    stop: watch::Receiver<bool>,
}

impl Pump<'_> {
    async fn run(&mut self) -> Result<(), SinkError> {
        let mut ended = None;
        let mut waiting = Batch::default();
        loop {
            let is_stopping = *self.stop.borrow();
            let mut batch = std::mem::take(&mut waiting);
            self.loans.begin(&mut batch);
            if is_stopping {
                self.loans.release(&batch.messages).await;
                settle(&self.loans, ended).await;
                return Ok(());
            }
            let (written, borrowed) = self.turn(&batch, ended.take()).await;
            waiting = match borrowed {
                Ok(borrowed) => borrowed,
                Err(error) if error.is_transient() => Batch::default(),
                Err(error) => {
                    let ended =
                        written.ok().flatten().map(|refused| Ended { batch: batch.messages, refused });
                    settle(&self.loans, ended).await;
                    return Err(self.sink.server(error));
                }
            };
            match written {
                Ok(refused) => ended = refused.map(|refused| Ended { batch: batch.messages, refused }),
                Err(fault) => {
                    self.loans.release(&batch.messages).await;
                    self.loans.release(&std::mem::take(&mut waiting).messages).await;
                    self.wait_for_database(fault).await?;
                }
            }
        }
    }

    /// Writes a batch, settles the one before and borrows the next, all at the same time. Tells which messages are no
    /// rows; nothing, if there was no batch, or it is settled already.
    async fn turn(
        &mut self,
        batch: &Batch,
        ended: Option<Ended>,
    ) -> (Result<Option<BTreeMap<usize, String>>, Fault>, Result<Batch, Error>) {
        let (sink, loans) = (self.sink, &*self.loans);
        let limits = Limits { rows: sink.config.batch_rows, bytes: sink.config.batch_bytes };
        // On a thread of its own, where there is one: to read what is lent takes as long as to write it.
        let mut borrowing = JoinSet::new();
        borrowing.spawn({
            let (loans, shape) = (Arc::clone(&self.loans), Arc::clone(&self.shape));
            async move { loans.borrow(limits, &shape).await }
        });
        let mut borrow = pin!(borrowed(&mut borrowing));
        let work = async {
            let write = timeout(WRITE_TIMEOUT, write(&mut self.writer, batch));
            let (written, ()) = join(write, settle(loans, ended)).await;
            let late = |_| Err(Fault::Away("a transaction did not end".to_owned()));
            written
                .unwrap_or_else(late)
                .map(|written| written.map(|written| sink.noted(&batch.messages, written)))
        };
        let mut work = pin!(work);
        match select(work.as_mut(), borrow.as_mut()).await {
            Either::Right((borrowed, _)) => (work.await, borrowed),
            Either::Left((Ok(Some(refused)), _)) => {
                // There is nothing to write yet, so the ack need not wait for the next turn.
                let ((), borrowed) = join(loans.settle(&batch.messages, &refused), borrow).await;
                (Ok(None), borrowed)
            }
            Either::Left((written, _)) => (written, borrow.await),
        }
    }

    /// Waits until the database is back. Nothing is on loan meanwhile.
    async fn wait_for_database(&mut self, fault: Fault) -> Result<(), SinkError> {
        let sink = self.sink.config.name.as_str();
        if let Fault::Table(why) = fault {
            let why = format!("{why}; `driftq connect check` says what the sink needs");
            return Err(SinkError::Database { sink: sink.to_owned(), why });
        }
        tracing::warn!(sink, "the database is away, and is waited for: {fault}");
        let mut pause = PAUSE_FIRST;
        loop {
            tokio::select! {
                () = sleep(pause) => {}
                _ = self.stop.wait_for(|is_stopping| *is_stopping) => return Ok(()),
            }
            if self.writer.connect().await.is_ok() {
                tracing::info!(sink, "the database is back");
                return Ok(());
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// What was borrowed.
async fn borrowed(borrowing: &mut JoinSet<Result<Batch, Error>>) -> Result<Batch, Error> {
    match borrowing.join_next().await {
        Some(Ok(borrowed)) => borrowed,
        Some(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
        // The process ends.
        _ => Ok(Batch::default()),
    }
}

/// Writes a batch, if there is one.
async fn write(writer: &mut Writer, batch: &Batch) -> Result<Option<Written>, Fault> {
    if batch.messages.is_empty() {
        return Ok(None);
    }
    writer.write(batch).await.map(Some)
}

async fn settle(loans: &Loans, ended: Option<Ended>) {
    if let Some(Ended { batch, refused }) = ended {
        loans.settle(&batch, &refused).await;
    }
}
