//! What is stored of an answer: which headers, and in which form.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use driftq_ledger::http::IdempotencyLayer;
use driftq_ledger::memory::MemoryStore;
use driftq_ledger::{
    Begin, Decision, Ending, Failed, Finished, Identity, KeptHeaders, Lease, Ledger, LedgerError,
    RequestHash, Resolve, Resolver, Response, RunError, SEALED, Seal, Settings, Silent, Store, Terms,
};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use crate::support::{BRIEF, Bed, ask, lease};

/// Adds a number to every byte, another one each time, as a cipher does with its nonce.
#[derive(Default)]
struct Shift {
    nonce: AtomicU8,
    seals_fail: AtomicBool,
    opens_fail: AtomicBool,
}

fn shifted(response: Response, by: impl Fn(u8) -> u8) -> Response {
    let payload: Vec<u8> = response.payload.iter().map(|byte| by(*byte)).collect();
    Response { payload: payload.into(), ..response }
}

impl Seal for Shift {
    fn seal(&self, _: &Identity, response: Response) -> Result<Response, Box<dyn Error + Send + Sync>> {
        if self.seals_fail.load(Ordering::SeqCst) {
            return Err("the key is gone".into());
        }
        let nonce = self.nonce.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(shifted(response, |byte| byte.wrapping_add(nonce)).header("x-nonce", nonce.to_string()))
    }

    fn open(&self, _: &Identity, mut stored: Response) -> Result<Response, Box<dyn Error + Send + Sync>> {
        if self.opens_fail.load(Ordering::SeqCst) {
            return Err("the key is gone".into());
        }
        let nonce: u8 = stored.headers.remove("x-nonce").ok_or("there is no nonce")?.parse()?;
        Ok(shifted(stored, |byte| byte.wrapping_sub(nonce)))
    }
}

struct World {
    shift: Arc<Shift>,
    ledger: Ledger,
    /// The same records, as they are stored.
    bare: Ledger,
}

fn settings(shift: &Arc<Shift>) -> Settings {
    Settings { seal: Some(Arc::clone(shift) as _), ..Settings::default() }
}

fn on(store: impl Store + Clone) -> World {
    let shift = Arc::new(Shift::default());
    let ledger = Ledger::with(store.clone(), settings(&shift), Silent);
    World { shift, ledger, bare: Ledger::new(store) }
}

fn identity() -> Identity {
    Identity::new("ann", "pay", "k").unwrap()
}

fn hash() -> RequestHash {
    RequestHash::of_bytes(b"5 EUR")
}

impl World {
    async fn run(&self, response: Response) -> Result<driftq_ledger::Ran, RunError<Failed>> {
        self.ledger.run(identity(), hash(), || async { Ok::<_, Failed>(response) }).await
    }

    async fn stored(&self) -> Response {
        let outcome = self.bare.get(&identity()).await.unwrap().unwrap().outcome.unwrap();
        outcome.response
    }
}

#[tokio::test]
async fn what_is_stored_is_sealed_and_what_is_given_out_is_not() {
    let world = on(MemoryStore::new());
    let paid = || Response::new("paid").code(201).header("location", "/7");
    assert_eq!(world.run(paid()).await.unwrap().response, paid());
    let stored = world.stored().await;
    assert_eq!((&stored.payload[..], stored.headers.contains_key(SEALED)), (&b"qbje"[..], true));
    let ran = world.run(Response::new("not run")).await.unwrap();
    assert_eq!((ran.response, ran.replayed), (paid(), true));
    let seen = world.ledger.get(&identity()).await.unwrap().unwrap().outcome.unwrap();
    assert_eq!(seen.response, paid());
}

#[tokio::test]
async fn the_same_ending_sealed_again_is_the_same() {
    let world = on(MemoryStore::new());
    let asked = Begin::new(identity(), hash());
    let held = lease(&world.ledger, asked).await;
    let ending = Ending::succeeded(Response::new("paid").code(201));
    assert_eq!(world.ledger.finish(&held, &ending).await, Ok(Finished::Committed));
    assert_eq!(world.ledger.finish(&held, &ending).await, Ok(Finished::AlreadyCommitted));
    let other = Ending::succeeded(Response::new("paid twice").code(201));
    assert!(matches!(world.ledger.finish(&held, &other).await, Err(LedgerError::Stale(_))));
}

#[tokio::test]
async fn what_was_stored_before_there_was_a_seal_is_given_out_as_it_is() {
    let world = on(MemoryStore::new());
    let held = lease(&world.bare, Begin::new(identity(), hash())).await;
    world.bare.finish(&held, &Ending::succeeded(Response::new("plain"))).await.unwrap();
    assert_eq!(world.run(Response::new("not run")).await.unwrap().response, Response::new("plain"));
}

#[tokio::test]
async fn an_answer_that_cannot_be_opened_is_not_made_again() {
    let world = on(MemoryStore::new());
    world.run(Response::new("paid")).await.unwrap();
    world.shift.opens_fail.store(true, Ordering::SeqCst);
    for ledger in [&world.ledger, &world.bare] {
        let must_not_run = || async { panic!("it has happened") };
        let ran = ledger.run::<_, _, Response, Failed>(identity(), hash(), must_not_run).await;
        assert!(matches!(ran, Err(RunError::Ledger(LedgerError::Sealed(_)))), "{ran:?}");
    }
    // Whoever looks at the record sees it as it is stored.
    let seen = world.ledger.get(&identity()).await.unwrap().unwrap().outcome.unwrap();
    assert_eq!(seen.response.payload, "qbje");
    world.shift.opens_fail.store(false, Ordering::SeqCst);
    assert!(world.run(Response::new("not run")).await.unwrap().replayed);
}

#[tokio::test]
async fn that_it_happened_is_written_down_also_if_the_answer_cannot_be_sealed() {
    let world = on(MemoryStore::new());
    world.shift.seals_fail.store(true, Ordering::SeqCst);
    let paid = Response::new("paid").code(201).header("location", "/7");
    assert_eq!(world.run(paid.clone()).await.unwrap().response, paid);
    let again = world.run(Response::new("not run")).await.unwrap();
    assert_eq!((again.replayed, again.response.omitted(), again.response.code), (true, Some(4), Some(201)));
    let stored = world.stored().await;
    assert!(stored.payload.is_empty() && !stored.headers.contains_key("location"), "{stored:?}");
    let held = lease(&world.ledger, Begin::new(Identity::new("ann", "pay", "l").unwrap(), hash())).await;
    let refused = world.ledger.finish(&held, &Ending::succeeded(paid)).await;
    assert!(matches!(refused, Err(LedgerError::Invalid(_))), "{refused:?}");
}

#[tokio::test]
async fn what_an_operator_says_is_sealed_as_well() {
    let world = on(MemoryStore::new());
    let held = lease(&world.ledger, Begin::new(identity(), hash())).await;
    world.ledger.finish(&held, &Ending::failed_retryable("who knows")).await.unwrap();
    let resolver = Resolver { by: "eve".to_owned(), why: "asked the bank".to_owned() };
    let ending = Ending::succeeded(Response::new("found").code(201));
    let found = Resolve { identity: identity(), epoch: None, ending, resolver, ttl: BRIEF };
    world.ledger.resolve(&found).await.unwrap();
    assert_ne!(world.stored().await.payload, "found");
    assert_eq!(world.run(Response::new("not run")).await.unwrap().response.payload, "found");
}

#[tokio::test]
async fn a_transaction_seals_as_the_ledger_does() {
    let bed = Bed::new().await;
    let world = on(bed.store.clone());
    let store = bed.store.clone().settings(settings(&world.shift));
    let held = lease(&world.ledger, ask("k").terms(Terms::default())).await;
    let mut client = store.pool().get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let paid = Response::new("paid").code(201).header("Set-Cookie", "session=secret");
    store.finish_tx(&transaction, &held, &Ending::succeeded(paid)).await.unwrap();
    transaction.commit().await.unwrap();
    let row = bed.psql("SELECT encode(response_payload, 'escape'), response_headers FROM {table}");
    assert!(row.contains("qbje") && !row.contains("secret"), "{row}");
    let Decision::Replay(outcome) = world.ledger.begin(ask("k")).await.unwrap() else {
        panic!("it has ended");
    };
    assert_eq!(outcome.response, Response::new("paid").code(201));
}

#[tokio::test]
async fn only_listed_headers_are_stored_and_never_a_credential() {
    let listed = KeptHeaders::default().and("x-charge").and("set-cookie");
    for (headers, expected) in [(KeptHeaders::default(), &["etag"][..]), (listed, &["etag", "x-charge"])] {
        let settings = Settings { headers, ..Settings::default() };
        let ledger = Ledger::with(MemoryStore::new(), settings, Silent);
        let answer = ["etag", "x-charge", "set-cookie", "authorization", "x-token"]
            .into_iter()
            .fold(Response::new("paid"), |answer, name| answer.header(name, "secret"));
        let given = answer.clone();
        let ran = ledger.run(identity(), hash(), || async { Ok::<_, Failed>(given) }).await.unwrap();
        assert_eq!(ran.response, answer, "whoever ran it has it all");
        let must_not_run = |_: Lease| async { panic!("it has happened") };
        let asked = Begin::new(identity(), hash());
        let ran = ledger.run_with::<_, _, Response, Failed>(asked, must_not_run).await.unwrap();
        assert_eq!(ran.response.headers.keys().collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn a_layer_stores_what_is_listed_and_does_not_handle_again_what_it_cannot_open() {
    let world = on(MemoryStore::new());
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let handler = move || async move {
        counted.fetch_add(1, Ordering::SeqCst);
        let headers = ["etag", "x-token", "set-cookie", "www-authenticate"].map(|name| (name, "secret"));
        (StatusCode::CREATED, headers, "paid")
    };
    let layer = IdempotencyLayer::new(world.ledger.clone(), |_| Some("ann".to_owned()));
    let app: Router = Router::new().route("/pay", post(handler).route_layer(layer));
    let posted = || async {
        let request = Request::post("/pay").header("idempotency-key", "k").body(Body::empty()).unwrap();
        let (parts, body) = app.clone().oneshot(request).await.unwrap().into_parts();
        (parts.status, parts.headers, body.collect().await.unwrap().to_bytes())
    };
    let (status, headers, body) = posted().await;
    assert_eq!((status.as_u16(), headers.len(), &body[..]), (201, 6, &b"paid"[..]), "{headers:?}");
    let (status, headers, body) = posted().await;
    assert_eq!((status.as_u16(), &body[..]), (201, &b"paid"[..]));
    let mut names: Vec<&str> = headers.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-length", "content-type", "etag", "idempotent-replayed"]);

    world.shift.opens_fail.store(true, Ordering::SeqCst);
    let (status, headers, body) = posted().await;
    let body = String::from_utf8(body.to_vec()).unwrap();
    assert!(status == 503 && headers.contains_key("retry-after") && body.contains("sealed"), "{body}");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
