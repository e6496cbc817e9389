//! A handler behind the layer that ends the effect itself, in the transaction of its own write. On a real PostgreSQL.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{Extension, IntoResponse, Response};
use axum::routing::post;
use driftq_ledger::http::{Attempt, IdempotencyLayer};
use driftq_ledger::{
    Counters, Ending, Identity, Ledger, LedgerError, OnLapse, Record, Settings, Status, Terms,
};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use tokio::sync::Notify;
use tower::ServiceExt as _;

use crate::support::Bed;

/// What the handler does in one run.
#[derive(Clone, Copy, Debug)]
enum How {
    /// Commits, and answers what it has stored.
    Commit,
    /// Commits, and answers something else: it does not know that it has.
    CommitAndSay(u16),
    /// Commits, and is gone.
    CommitAndPanic,
    /// Commits, and goes on for a while.
    CommitAndWait,
    /// Rolls back what it has written and said, and answers this.
    RollBackAndSay(u16),
    /// Waits, then tries to commit, and answers 503 if it may not.
    WaitAndCommit,
}

struct World {
    bed: Bed,
    ledger: Ledger,
    counters: Arc<Counters>,
    plan: Mutex<VecDeque<How>>,
    entered: Notify,
    go_on: Notify,
}

struct Shared(Arc<Counters>);

impl driftq_ledger::Observer for Shared {
    fn on_call(&self, call: driftq_ledger::Call) {
        self.0.on_call(call);
    }
}

impl World {
    async fn new(plan: &[How]) -> Arc<Self> {
        let bed = Bed::new().await;
        bed.psql(&format!("CREATE TABLE {}.charges (key text)", bed.schema));
        let counters = Arc::new(Counters::default());
        let ledger = Ledger::with(bed.store.clone(), Settings::default(), Shared(Arc::clone(&counters)));
        let plan = Mutex::new(plan.iter().copied().collect());
        Arc::new(Self { bed, ledger, counters, plan, entered: Notify::new(), go_on: Notify::new() })
    }

    fn app(self: &Arc<Self>, terms: Terms) -> Router {
        let layer = IdempotencyLayer::new(self.ledger.clone(), |_| Some("ann".to_owned())).terms(terms);
        Router::new().route("/charges", post(charge).route_layer(layer)).with_state(Arc::clone(self))
    }

    fn charges(&self) -> String {
        self.bed.psql(&format!("SELECT count(*) FROM {}.charges", self.bed.schema))
    }

    async fn record(&self) -> Record {
        self.ledger.get(&identity()).await.unwrap().unwrap()
    }

    async fn run(&self, attempt: &Attempt, how: How) -> Result<Response, LedgerError> {
        if matches!(how, How::WaitAndCommit) {
            self.entered.notify_one();
            self.go_on.notified().await;
        }
        let mut client = self.bed.store.pool().get().await.unwrap();
        let transaction = client.transaction().await.unwrap();
        let insert = format!("INSERT INTO {}.charges VALUES ('k')", self.bed.schema);
        transaction.batch_execute(&insert).await.unwrap();
        let stored = driftq_ledger::Response::new(format!("paid in attempt {}", attempt.number()));
        let stored = stored.code(201).header("content-type", "text/plain");
        let ending = Ending::succeeded(stored);
        self.bed.store.finish_tx(&transaction, attempt.take_lease(), &ending).await?;
        if let How::RollBackAndSay(status) = how {
            transaction.rollback().await.unwrap();
            return Ok((StatusCode::from_u16(status).unwrap(), "rolled back").into_response());
        }
        transaction.commit().await.unwrap();
        match how {
            How::CommitAndPanic => panic!("gone after the commit"),
            How::CommitAndWait => {
                self.entered.notify_one();
                self.go_on.notified().await;
            }
            How::CommitAndSay(status) => {
                return Ok((StatusCode::from_u16(status).unwrap(), "who knows").into_response());
            }
            _ => {}
        }
        let kind = [("content-type", "text/plain")];
        let body = format!("paid in attempt {}", attempt.number());
        Ok((StatusCode::CREATED, kind, body).into_response())
    }
}

async fn charge(State(world): State<Arc<World>>, Extension(attempt): Extension<Attempt>) -> Response {
    assert_eq!(attempt.identity(), &identity());
    let how = world.plan.lock().unwrap().pop_front().expect("the handler runs as often as planned");
    match world.run(&attempt, how).await {
        Ok(response) => response,
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    }
}

fn identity() -> Identity {
    Identity::new("ann", "POST /charges", "k").unwrap()
}

/// What a client gets: the status, the text, and whether it is a stored answer.
async fn posted(app: &Router) -> (u16, String, bool) {
    let request = Request::post("/charges").header("idempotency-key", "\"k\"").body(Body::empty()).unwrap();
    let (parts, body) = app.clone().oneshot(request).await.unwrap().into_parts();
    let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    (parts.status.as_u16(), text, parts.headers.contains_key("idempotent-replayed"))
}

fn paid(attempt: u32, replayed: bool) -> (u16, String, bool) {
    (201, format!("paid in attempt {attempt}"), replayed)
}

fn may_repeat() -> Terms {
    Terms::default().on_lapse(OnLapse::Retry)
}

#[tokio::test]
async fn what_a_handler_commits_is_the_answer_for_everybody() {
    for terms in [Terms::default(), may_repeat()] {
        let world = World::new(&[How::Commit]).await;
        let app = world.app(terms);
        assert_eq!(posted(&app).await, paid(1, false));
        assert_eq!(posted(&app).await, paid(1, true));
        assert_eq!((world.charges().as_str(), world.record().await.status), ("1", Status::Succeeded));
        // The layer wrote nothing of its own.
        assert_eq!(world.counters.calls("finish", "committed"), 0);
    }
}

/// The commit went through, and its answer was lost: the handler says that something is wrong.
#[tokio::test]
async fn a_commit_of_which_the_handler_does_not_know_counts() {
    for terms in [Terms::default(), may_repeat()] {
        for said in [200, 404, 415, 500, 503] {
            let world = World::new(&[How::CommitAndSay(said)]).await;
            let app = world.app(terms.clone());
            assert_eq!(posted(&app).await, paid(1, false), "{said}");
            assert_eq!(posted(&app).await, paid(1, true), "{said}");
            assert_eq!(world.charges(), "1");
        }
    }
}

#[tokio::test]
async fn what_was_rolled_back_runs_again() {
    for said in [500, 503, 422] {
        let world = World::new(&[How::RollBackAndSay(said), How::Commit]).await;
        let app = world.app(may_repeat());
        assert_eq!(posted(&app).await, (said, "rolled back".to_owned(), false));
        assert_eq!(world.charges(), "0");
        // A refusal leaves no record behind, any other failure an attempt.
        let attempt = if said == 422 { 1 } else { 2 };
        assert_eq!(posted(&app).await, paid(attempt, false));
        assert_eq!(posted(&app).await, paid(attempt, true));
        assert_eq!(world.charges(), "1");
    }
}

/// A handler that rolled back and says 201 is wrong, and nobody is told that it succeeded.
#[tokio::test]
async fn a_success_that_was_not_committed_is_none() {
    let world = World::new(&[How::RollBackAndSay(201)]).await;
    let app = world.app(may_repeat());
    let (status, text, replayed) = posted(&app).await;
    assert_eq!((status, replayed), (503, false), "{text}");
    assert!(text.contains("unrecorded"), "{text}");
    let record = world.record().await;
    assert_eq!((record.status, record.outcome), (Status::InProgress, None));
    world.bed.elapse(&identity()).await;
    world.plan.lock().unwrap().push_back(How::Commit);
    assert_eq!(posted(&app).await, paid(2, false));
    assert_eq!(world.charges(), "1");
}

#[tokio::test]
async fn a_handler_that_lost_its_lease_commits_nothing() {
    let world = World::new(&[How::WaitAndCommit, How::Commit]).await;
    let app = world.app(may_repeat());
    let first = {
        let app = app.clone();
        tokio::spawn(async move { posted(&app).await })
    };
    world.entered.notified().await;
    world.bed.elapse(&identity()).await;
    assert_eq!(posted(&app).await, paid(2, false));
    world.go_on.notify_one();
    let (status, text, _) = first.await.unwrap();
    assert_eq!(status, 409, "{text}");
    assert!(text.contains("overtaken"), "{text}");
    assert_eq!((world.charges().as_str(), posted(&app).await), ("1", paid(2, true)));
}

#[tokio::test]
async fn a_handler_that_panics_after_its_commit_has_an_outcome() {
    let world = World::new(&[How::CommitAndPanic]).await;
    let app = world.app(Terms::default());
    let first = {
        let app = app.clone();
        tokio::spawn(async move { posted(&app).await })
    };
    assert!(first.await.unwrap_err().is_panic(), "the panic goes on to whatever is outside");
    assert_eq!(posted(&app).await, paid(1, true));
    assert_eq!(world.charges(), "1");
}

/// The renewal finds that the lease has no say any more, because its own holder has ended the effect.
#[tokio::test]
async fn a_handler_at_work_after_its_commit_is_not_stopped() {
    let world = World::new(&[How::CommitAndWait]).await;
    let app = world.app(may_repeat().lease(Duration::from_millis(150)));
    let first = {
        let app = app.clone();
        tokio::spawn(async move { posted(&app).await })
    };
    world.entered.notified().await;
    while world.counters.calls("renew", "stale") == 0 || world.counters.calls("get", "found") == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(!first.is_finished());
    world.go_on.notify_one();
    assert_eq!(first.await.unwrap(), paid(1, false));
}
