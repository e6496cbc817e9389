//! Who may ask, and under which key.

use axum::Router;
use axum::routing::post;
use driftq_ledger::RequestHash;
use driftq_ledger::http::IdempotencyLayer;
use http::Method;

use crate::http::bed::Bed;

const UUID: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";

async fn bed(set_up: impl FnOnce(IdempotencyLayer) -> IdempotencyLayer) -> Bed {
    Bed::start(|layer, signals| {
        let handler = move || async move { format!("run {}", signals.run()) };
        Router::new().route("/pay", post(handler.clone()).get(handler)).layer(set_up(layer))
    })
    .await
}

#[tokio::test]
async fn a_request_without_a_key_goes_through_unless_one_is_required() {
    let bed = bed(|layer| layer).await;
    for run in 1..=2 {
        // Also if nobody can be made out: without a key there is nothing to keep apart.
        let answer = bed.post("/pay").user("unknown").send().await;
        assert_eq!((answer.status.as_u16(), answer.text()), (200, format!("run {run}").as_str()));
        assert!(!answer.is_replayed());
    }
    assert!(bed.ledger.stats().await.unwrap().by_status.values().all(|count| *count == 0));

    let bed = self::bed(|layer| layer.required(true)).await;
    bed.post("/pay").send().await.is_problem(400, "key-missing");
    assert_eq!(bed.runs(), 0);
}

#[tokio::test]
async fn methods_that_are_not_selected_go_through() {
    let bed = bed(|layer| layer.required(true)).await;
    for run in 1..=2 {
        let answer = bed.post("/pay").method(Method::GET).key("\"k\"").send().await;
        assert_eq!(answer.text(), format!("run {run}"));
    }
    let bed = self::bed(|layer| layer.methods([Method::GET])).await;
    let answers = [(); 2].map(|()| bed.post("/pay").method(Method::GET).key("\"k\"").send());
    for answer in answers {
        assert_eq!(answer.await.text(), "run 1");
    }
    assert_eq!(bed.post("/pay").key("\"k\"").send().await.text(), "run 2");
}

#[tokio::test]
async fn a_key_that_cannot_be_read_is_refused() {
    let bed = bed(|layer| layer).await;
    let long = format!("\"{}\"", "k".repeat(256));
    for key in [
        "",
        "\"\"",
        "\"   \"",
        "\"open",
        r#""a\b""#,
        r#""a", "b""#,
        r#""a";v=1"#,
        "a b",
        "\"ключ\"",
        "ключ",
        &long,
    ] {
        bed.post("/pay").key(key).send().await.is_problem(400, "key-invalid");
    }
    bed.post("/pay").key(b"\"\xff\"").send().await.is_problem(400, "key-invalid");
    bed.post("/pay").key("\"a\"").key("\"a\"").send().await.is_problem(400, "key-invalid");
    assert_eq!(bed.runs(), 0);
    let longest = format!("\"{}\"", "k".repeat(255));
    assert_eq!(bed.post("/pay").key(&longest).send().await.text(), "run 1");
    assert!(bed.post("/pay").key(&longest).send().await.is_replayed());
}

#[tokio::test]
async fn a_key_in_quotes_and_the_same_without_are_one() {
    let bed = bed(|layer| layer).await;
    for key in [UUID.to_owned(), format!("\"{UUID}\""), format!("\"  {UUID} \"")] {
        assert_eq!(bed.post("/pay").key(key).send().await.text(), "run 1");
    }
    let odd = r#""\"a\" \\ b""#;
    assert_eq!(bed.post("/pay").key(odd).send().await.text(), "run 2");
    assert!(bed.record("POST /pay", r#""a" \ b"#).await.is_some());

    let bed = self::bed(|layer| layer.strict_key(true)).await;
    bed.post("/pay").key(UUID).send().await.is_problem(400, "key-invalid");
    assert_eq!(bed.post("/pay").key(format!("\"{UUID}\"")).send().await.text(), "run 1");
}

/// Title and detail as the examples of the draft have them, and the type as a page of the service.
#[tokio::test]
async fn the_words_are_those_of_the_draft() {
    let page = "https://developer.example.com/idempotency";
    let bed = Bed::start(|layer, signals| {
        let handler = move |body: String| async move {
            if body == "wait" {
                signals.pause().await;
            }
            format!("run {}", signals.run())
        };
        Router::new().route("/pay", post(handler)).layer(layer.required(true).documentation(page))
    })
    .await;
    let outstanding = tokio::spawn(bed.post("/pay").key("\"o\"").body("wait").send());
    bed.signals.until_entered().await;
    assert_eq!(bed.post("/pay").key("\"k\"").send().await.status, 200);
    let usage = "This operation is idempotent and it requires correct usage of Idempotency Key.";
    for (post, status, word, title, detail) in [
        (bed.post("/pay"), 400, "key-missing", "Idempotency-Key is missing", usage.to_owned()),
        (
            bed.post("/pay").key("\"k\"").body("other"),
            422,
            "key-reused",
            "Idempotency-Key is already used",
            format!("{usage} Idempotency Key MUST not be reused across different payloads of this operation."),
        ),
        (
            bed.post("/pay").key("\"o\"").body("wait"),
            409,
            "in-progress",
            "A request is outstanding for this Idempotency-Key",
            "A request with the same Idempotency-Key for the same operation is being processed or is outstanding."
                .to_owned(),
        ),
    ] {
        let answer = post.send().await;
        assert_eq!((answer.status.as_u16(), answer.header("content-language")), (status, Some("en")));
        let kind = format!("{page}#{word}");
        let expected =
            serde_json::json!({ "type": kind, "title": title, "status": status, "detail": detail });
        assert_eq!(answer.problem(), expected);
    }
    let malformed = bed.post("/pay").key("\"open").send().await;
    assert_eq!(malformed.status, 400);
    assert_eq!(malformed.problem()["title"], "Idempotency-Key is malformed");
    assert!(malformed.problem()["detail"].as_str().unwrap().starts_with(usage));
    bed.signals.let_go();
    outstanding.await.unwrap();
}

#[tokio::test]
async fn the_header_has_the_name_that_the_service_gives_it() {
    let bed = bed(|layer| layer.required(true).key_header("X-Request-Key").unwrap()).await;
    let missing = bed.post("/pay").key("\"k\"").send().await;
    missing.is_problem(400, "key-missing");
    let (_, _, _, layer) = Bed::parts();
    assert!(layer.key_header("not a name").is_err());
    assert_eq!(missing.problem()["title"], "X-Request-Key is missing");
    for _ in 0..2 {
        assert_eq!(bed.post("/pay").header("x-request-key", "\"k\"").send().await.text(), "run 1");
    }
}

#[tokio::test]
async fn what_counts_as_the_same_request_is_the_services_to_say() {
    // The content type and a trace in the query do not count here.
    let bed = bed(|layer| layer.fingerprint(|_, body| RequestHash::of_bytes(body))).await;
    let post = bed.post("/pay").key("\"k\"");
    assert_eq!(post.clone().body("5").send().await.text(), "run 1");
    let traced = bed.post("/pay?trace=7").header("content-type", "text/plain").key("\"k\"");
    assert_eq!(traced.body("5").send().await.text(), "run 1");
    post.body("5 ").send().await.is_problem(422, "key-reused");
}

#[tokio::test]
async fn nobody_has_no_keys_and_everybody_has_their_own() {
    let bed = bed(|layer| layer).await;
    for nobody in ["unknown", " UNKNOWN ", " "] {
        bed.post("/pay").user(nobody).key("\"k\"").send().await.is_problem(401, "no-principal");
    }
    assert_eq!(bed.runs(), 0);
    for (user, run) in [("ann", "run 1"), ("bob", "run 2"), ("ann", "run 1"), ("bob", "run 2")] {
        assert_eq!(bed.post("/pay").user(user).key("\"k\"").send().await.text(), run);
    }
}

#[tokio::test]
async fn a_key_belongs_to_its_scope() {
    let bed = bed(|layer| layer).await;
    let long = format!("/{}", "x".repeat(400));
    assert_eq!(bed.post("/pay").key("\"k\"").send().await.text(), "run 1");
    // The path is another scope, and so it is another request; the query is not, and so it is the key used twice.
    assert_eq!(bed.post("/nowhere").key("\"k\"").send().await.status, 404);
    assert_eq!(bed.post(&long).key("\"k\"").send().await.status, 404);
    assert!(bed.post(&long).key("\"k\"").send().await.is_replayed());
    bed.post("/pay?again").key("\"k\"").send().await.is_problem(422, "key-reused");

    let bed = self::bed(|layer| layer.scope(|_| "everything".to_owned())).await;
    assert_eq!(bed.post("/pay").key("\"k\"").send().await.text(), "run 1");
    bed.post("/nowhere").key("\"k\"").send().await.is_problem(422, "key-reused");

    let bed = self::bed(|layer| layer.scope(|_| " ".to_owned())).await;
    bed.post("/pay").key("\"k\"").send().await.is_problem(500, "misconfigured");
    assert_eq!(bed.runs(), 0);
}
