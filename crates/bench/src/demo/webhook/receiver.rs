//! The receiver of the webhooks: it checks signatures, keeps books, and behaves as the plan says.

use std::{
    collections::VecDeque,
    fs::File,
    future,
    io::Write,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, Result};
use bytes::Bytes;
use driftq_connect::{
    deliver::signature::{ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, sign},
    secret::{Plain, SigningKey},
};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{
    Request, Response, StatusCode, body::Incoming, header::HeaderMap, server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinSet,
};

use super::{
    super::provider::Order,
    SECRET,
    plan::{Deed, Plan},
};

/// Longer bodies are none of ours.
const BODY_BYTES_MAX: usize = 64 << 10;

/// What has become of one delivery at the receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) arrived: u64,
    /// How often it was taken: once too often is a repeat.
    pub(super) taken: u64,
}

/// Everything that the receiver knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Books {
    pub(super) entries: Vec<Entry>,
    pub(super) refused: u64,
    pub(super) broken_off: u64,
    pub(super) verified: u64,
    /// Signatures that were wrong or missing, and deliveries that nobody sent.
    pub(super) wrong: u64,
}

/// One arrival, in the file.
#[derive(Serialize)]
struct Line<'a> {
    webhook_id: &'a str,
    verified: bool,
    deed: Option<Deed>,
}

struct State {
    books: Books,
    deeds: Vec<VecDeque<Deed>>,
    file: File,
}

pub(super) struct Receiver {
    state: Mutex<State>,
    keys: Vec<SigningKey>,
    kill: mpsc::Sender<u32>,
    life: watch::Sender<Life>,
}

/// Which life of the server this is, and whether it may be ended.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    number: u32,
    may_end: bool,
}

/// It hangs up.
#[derive(Debug, thiserror::Error)]
#[error("the receiver breaks off")]
struct BrokenOff;

impl Receiver {
    /// One that behaves as planned, asks for kills, and writes what arrives into a file.
    pub(super) fn new(plan: Plan, kill: mpsc::Sender<u32>, file: PathBuf) -> Result<Self> {
        let file = File::create(file).context("the receiver's books")?;
        let books = Books { entries: vec![Entry::default(); plan.deeds.len()], ..Books::default() };
        let keys = vec![SigningKey::parse(&Plain::new(SECRET)?)?];
        let state = State { books, deeds: plan.deeds, file };
        Ok(Self { state: Mutex::new(state), keys, kill, life: watch::Sender::default() })
    }

    /// Takes connections until the tasks end. Returns where.
    pub(super) async fn listen(self: Arc<Self>, tasks: &mut JoinSet<()>) -> Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("the receiver")?;
        let url = format!("http://{}/hooks", listener.local_addr().context("the receiver")?);
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    Some(_) = open.join_next(), if !open.is_empty() => continue,
                };
                let Ok((socket, _)) = accepted else { continue };
                let receiver = Arc::clone(&self);
                open.spawn(async move {
                    let service = service_fn(|request| receiver.answer(request));
                    // Connections that end badly are what this is about.
                    drop(http1::Builder::new().serve_connection(TokioIo::new(socket), service).await);
                });
            }
        });
        Ok(url)
    }

    pub(super) fn books(&self) -> Books {
        self.state().books.clone()
    }

    /// Whether every delivery was taken.
    pub(super) fn has_all(&self) -> bool {
        self.state().books.entries.iter().all(|entry| entry.taken > 0)
    }

    /// A server runs that may be killed.
    pub(super) fn may_kill(&self) {
        self.life.send_modify(|life| life.may_end = true);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, BrokenOff> {
        let (head, body) = request.into_parts();
        let body = Limited::new(body, BODY_BYTES_MAX).collect().await.map_err(|_| BrokenOff)?.to_bytes();
        let status = match self.take_in(&head.headers, &body) {
            Some((Deed::Takes, _)) => StatusCode::OK,
            Some((Deed::Refuses, _)) => StatusCode::INTERNAL_SERVER_ERROR,
            Some((Deed::BreaksOff, _)) => return Err(BrokenOff),
            Some((Deed::Kills, number)) => return self.have_killed(number).await,
            None => StatusCode::UNAUTHORIZED,
        };
        let mut answer = Response::new(Empty::new());
        *answer.status_mut() = status;
        Ok(answer)
    }

    /// Has the server killed that waits for this answer. If another kill is under way, this send dies of that one, and
    /// its own comes with the next arrival.
    async fn have_killed<T>(&self, number: u32) -> T {
        let mut life = self.life.subscribe();
        let mine = life.borrow().number;
        let is_next = |life: &Life| life.may_end || life.number != mine;
        if life.wait_for(is_next).await.is_ok_and(|life| life.number == mine) && self.end_life(mine) {
            self.state().deeds[number as usize].pop_front();
            // If nobody listens, the demo is over.
            let _ = self.kill.send(number).await;
        }
        // Whoever asked does not live to hear the answer.
        future::pending().await
    }

    /// Ends this life of the server, if no other arrival has.
    fn end_life(&self, mine: u32) -> bool {
        self.life.send_if_modified(|life| {
            let is_mine = life.may_end && life.number == mine;
            if is_mine {
                *life = Life { number: mine + 1, may_end: false };
            }
            is_mine
        })
    }

    /// Checks it, and writes it down. Says what is done with which delivery, if it is one of ours.
    fn take_in(&self, headers: &HeaderMap, body: &[u8]) -> Option<(Deed, u32)> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let id = text(ID_HEADER);
        let timestamp = text(TIMESTAMP_HEADER).parse();
        let verified = timestamp.is_ok_and(|at| sign(&self.keys, id, at, body) == text(SIGNATURE_HEADER));
        let order: Option<Order> = serde_json::from_slice(body).ok().filter(|_| verified);
        let number = order.filter(|order| order.order == id).map(|order| order.number);
        let mut state = self.state();
        let dealt = number.and_then(|number| Some((state.deal_with(number as usize)?, number)));
        match dealt {
            Some(_) => state.books.verified += 1,
            None => state.books.wrong += 1,
        }
        let line = Line { webhook_id: id, verified, deed: dealt.map(|(deed, _)| deed) };
        // A book that cannot be written is no reason to refuse a delivery.
        let _ = writeln!(state.file, "{}", serde_json::to_string(&line).unwrap_or_default());
        dealt
    }
}

impl State {
    /// What is done with this arrival of a delivery. A kill stays planned until it takes place.
    fn deal_with(&mut self, place: usize) -> Option<Deed> {
        let (deeds, entry) = (self.deeds.get_mut(place)?, self.books.entries.get_mut(place)?);
        let deed = match deeds.front() {
            Some(Deed::Kills) => Deed::Kills,
            _ => deeds.pop_front().unwrap_or(Deed::Takes),
        };
        entry.arrived += 1;
        entry.taken += u64::from(deed != Deed::Refuses);
        self.books.refused += u64::from(deed == Deed::Refuses);
        self.books.broken_off += u64::from(deed == Deed::BreaksOff);
        Some(deed)
    }
}
