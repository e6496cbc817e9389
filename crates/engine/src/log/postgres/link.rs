//! One connection to the database, for a thread that may wait.
//!
//! Each link has a runtime of its own that runs only while a call is made, in the thread that makes it: no other
//! thread has to wake up for an answer. Nothing is kept in a session (no prepared statement, no lock, no setting), so
//! that a pooler may give every transaction to another one.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use driftq_postgres::{Address, Tls};
use futures_util::TryStreamExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Row};

use super::fault::Trouble;
use crate::locks::lock;

/// How long a connection may take to be made, unless the URL says otherwise.
const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// How long one statement may take, or one row of its answer. After that the connection is given up, and whether the
/// statement took effect is not known.
const ANSWER_WAIT: Duration = Duration::from_secs(15);
/// Connections for reading and keeping; whoever comes when all are in use waits.
const LINKS_MAX: usize = 4;

/// A value for a statement, and the type it goes as.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// The way to the database.
pub(super) struct Route {
    config: Config,
    tls: Option<Tls>,
}

impl Route {
    /// What a URL says; the words for the user if it cannot be obeyed.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let mut address = Address::parse(url)?;
        let tls = address.tls()?;
        let mut config = address.config;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_WAIT);
        }
        if config.get_application_name().is_none() {
            config.application_name("driftq-log");
        }
        if config.get_hosts().len() > 1 {
            // One of them is the primary, and after a fail-over it is another one.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        Ok(Self { config, tls })
    }

    async fn connect(&self, alone: &Arc<AtomicBool>) -> Result<Client, tokio_postgres::Error> {
        let alone = Arc::clone(alone);
        match &self.tls {
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                tokio::spawn(attend(connection, alone));
                Ok(client)
            }
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                tokio::spawn(attend(connection, alone));
                Ok(client)
            }
        }
    }
}

/// The routine of PostgreSQL that waits for a synchronous standby.
const STANDBY_WAIT: &str = "SyncRepWaitForLSN";

/// Carries the messages of a connection. A database that is told to stop waiting for its synchronous standby
/// (`pg_cancel_backend`) commits, answers as if all was well, and says in a warning that the standby may not have it:
/// that is noted here, before the answer arrives.
async fn attend<S, T>(mut connection: Connection<S, T>, alone: Arc<AtomicBool>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notice(notice) = message
            && notice.routine() == Some(STANDBY_WAIT)
        {
            alone.store(true, Ordering::Release);
        }
    }
}

/// One connection, made when it is first needed and again after it broke.
pub(super) struct Link {
    // Dropped before the runtime that its connection lives in.
    client: Option<Client>,
    runtime: Runtime,
    route: Arc<Route>,
    /// The database has committed something that its synchronous standby may not have.
    alone: Arc<AtomicBool>,
}

impl Link {
    pub(super) fn new(route: Arc<Route>) -> Result<Self, Trouble> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(|error| Trouble::Unreachable(error.to_string()))?;
        Ok(Self { client: None, runtime, route, alone: Arc::default() })
    }

    /// Runs one statement, which is a transaction of its own: one round trip.
    pub(super) fn query(&mut self, text: &str, values: &[Parameter<'_>]) -> Result<Vec<Row>, Trouble> {
        self.run(async |client| answered(client.query_typed(text, values)).await)
    }

    /// Runs one statement that has one row to give.
    pub(super) fn query_one(&mut self, text: &str, values: &[Parameter<'_>]) -> Result<Row, Trouble> {
        let row = self.query(text, values)?.pop();
        row.ok_or_else(|| Trouble::Refused("there is no answer where there must be one".into(), None))
    }

    /// Runs several statements without values in one transaction.
    pub(super) fn execute(&mut self, text: &str) -> Result<(), Trouble> {
        self.run(async |client| answered(client.batch_execute(text)).await)
    }

    /// Runs one statement and takes its rows one by one, so that memory is needed for one only, until `each` says
    /// that it has enough.
    pub(super) fn each_row(
        &mut self,
        text: &str,
        values: &[Parameter<'_>],
        each: &mut dyn FnMut(&Row) -> bool,
    ) -> Result<(), Trouble> {
        let whole = self.run(async |client| {
            let rows = answered(client.query_typed_raw(text, values.iter().cloned())).await?;
            let mut rows = pin!(rows);
            while let Some(row) = answered(rows.try_next()).await? {
                if !each(&row) {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        if !whole {
            // The rest of the answer is still under way: the next call must not wait behind it.
            self.client = None;
        }
        Ok(())
    }

    fn run<R>(&mut self, call: impl AsyncFnOnce(&Client) -> Result<R, Trouble>) -> Result<R, Trouble> {
        let (route, alone, client) = (&self.route, &self.alone, self.client.take());
        alone.store(false, Ordering::Release);
        let (client, answer) = self.runtime.block_on(async {
            let client = match client {
                Some(client) if !client.is_closed() => client,
                _ => route.connect(alone).await.map_err(|error| Trouble::of_connecting(&error))?,
            };
            let mut answer = call(&client).await;
            if answer.is_ok() && alone.load(Ordering::Acquire) {
                answer = Err(Trouble::Unsure("it no longer waits for its synchronous standby".into()));
            }
            let stays = matches!(answer, Ok(_) | Err(Trouble::Refused(..))) && !client.is_closed();
            Ok((stays.then_some(client), answer))
        })?;
        self.client = client;
        answer
    }
}

async fn answered<R>(call: impl Future<Output = Result<R, tokio_postgres::Error>>) -> Result<R, Trouble> {
    match tokio::time::timeout(ANSWER_WAIT, call).await {
        Ok(answer) => answer.map_err(|error| Trouble::of_statement(&error)),
        Err(_) => Err(Trouble::Unsure(format!("no answer within {} s", ANSWER_WAIT.as_secs()))),
    }
}

/// Links for threads that read and keep.
pub(super) struct Links {
    route: Arc<Route>,
    state: Mutex<State>,
    back: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Link>,
    lent: usize,
}

impl Links {
    pub(super) fn new(route: Arc<Route>) -> Self {
        Self { route, state: Mutex::default(), back: Condvar::new() }
    }

    /// Lends a link for one call. It is made again, once, if the connection turns out to be gone.
    pub(super) fn with<R>(
        &self,
        mut call: impl FnMut(&mut Link) -> Result<R, Trouble>,
    ) -> Result<R, Trouble> {
        let mut lent = self.lend()?;
        let link = lent.link.as_mut().expect("a link is given back only when it is dropped");
        match call(link) {
            Err(Trouble::Unsure(_)) => call(link),
            done => done,
        }
    }

    fn lend(&self) -> Result<Lent<'_>, Trouble> {
        let full = |state: &mut State| state.lent >= LINKS_MAX;
        let mut state = self.back.wait_while(lock(&self.state), full).unwrap_or_else(PoisonError::into_inner);
        let link = match state.idle.pop() {
            Some(link) => link,
            None => Link::new(Arc::clone(&self.route))?,
        };
        state.lent += 1;
        Ok(Lent { links: self, link: Some(link) })
    }
}

/// A link on loan, which goes back also if its user panics.
struct Lent<'a> {
    links: &'a Links,
    link: Option<Link>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.links.state);
        state.lent -= 1;
        state.idle.extend(self.link.take());
        drop(state);
        self.links.back.notify_one();
    }
}
