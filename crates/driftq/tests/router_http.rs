//! The HTTP router against a brain that hangs, floods, lies and dies: real sockets, real bytes.

#[path = "router_brain/example.rs"]
mod example;
mod router_brain;

/// The binary has no library, so this test compiles the module by itself.
#[path = "../src/router/mod.rs"]
mod router;

use std::sync::Arc;
use std::time::{Duration, Instant};

use driftq_engine::core::Message;
use driftq_engine::router::{BreakerConfig, BreakerState, OnError, Refusal, RouterHook, Ruling};
use router::http::{ANSWER_BYTES_MAX, BATCH_HEADER, HttpRouter};
use router::question::VALUE_BYTES_MAX;
use router::{RouterConfig, build, check_url, parse_on_error, parse_topics, show_on_error, show_topics};
use router_brain::{Act, Server};
use serde_json::json;

/// Long enough that only a router which never answers runs into it.
const PATIENT: Duration = Duration::from_secs(20);
/// For routers that never answer.
const SHORT: Duration = Duration::from_millis(100);

fn config(server: &Server, timeout: Duration) -> RouterConfig {
    let breaker = BreakerConfig { failures_max: 1_000, window_calls_min: 1_000, ..BreakerConfig::default() };
    let url = Some(server.url());
    RouterConfig { url, timeout, on_error: OnError::Reject, breaker, ..RouterConfig::default() }
}

fn hook(config: &RouterConfig) -> Arc<RouterHook> {
    build(config).expect("the configuration is good").expect("it names a router")
}

fn message(key: &str) -> Message<'static> {
    Message { key: key.as_bytes().to_vec().into(), value: b"v"[..].into(), ..Message::default() }
}

async fn route(hook: &RouterHook, keys: impl IntoIterator<Item = &str>) -> Vec<Ruling> {
    let messages: Vec<_> = keys.into_iter().map(message).collect();
    let messages: Vec<_> = messages.iter().collect();
    hook.route("t", &messages, &|topic| (topic == "t").then_some(4)).await
}

async fn route_one(hook: &RouterHook) -> Ruling {
    route(hook, ["k"]).await.remove(0)
}

fn label(ruling: &Ruling) -> &str {
    match ruling {
        Ruling::Routed(decision) => &decision.label,
        other => panic!("not routed: {other:?}"),
    }
}

fn answer(body: impl Into<String>) -> Act {
    Act::Answer(200, "", body.into())
}

#[tokio::test]
async fn a_decision_comes_back_and_the_connection_is_used_again() {
    let body =
        r#"{"label": "x", "target_topic": "t", "partition_override": 3, "meta": {"b": "2", "a": "1"}}"#;
    let server = Server::start(answer(body)).await;
    let hook = hook(&config(&server, PATIENT));
    for _ in 0..20 {
        let Ruling::Routed(decision) = route_one(&hook).await else { panic!("not routed") };
        assert_eq!((&*decision.label, decision.partition_override), ("x", Some(3)));
        assert_eq!(decision.target_topic.as_deref(), Some("t"));
        assert_eq!(decision.meta, [("a".into(), "1".into()), ("b".into(), "2".into())]);
    }
    assert_eq!(server.requests().len(), 20);
    assert_eq!(server.requests()[0], json!({"topic": "t", "message": {"key": "k", "value": "v"}}));
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn no_opinion_is_not_a_failure() {
    for act in [Act::Answer(204, "", String::new()), answer("null"), answer("{}")] {
        let server = Server::start(act).await;
        let hook = hook(&config(&server, PATIENT));
        assert_eq!(route_one(&hook).await, Ruling::Unrouted);
        assert_eq!((hook.counts().no_opinion, hook.counts().answered), (1, 1));
    }
}

#[tokio::test]
async fn a_brain_that_never_answers_costs_the_time_out() {
    for act in [Act::Hang, Act::Drip] {
        let server = Server::start(act.clone()).await;
        let hook = hook(&config(&server, SHORT));
        let began = Instant::now();
        assert_eq!(route_one(&hook).await, Ruling::Refused(Refusal::TimedOut), "{act:?}");
        assert!(began.elapsed() >= SHORT);
        assert!(began.elapsed() < PATIENT);
        // The connection is not left behind: the brain sees its end.
        server.connections_ended().await;
    }
}

#[tokio::test]
async fn a_brain_that_breaks_off_has_failed() {
    for act in [Act::Close, Act::Half, Act::Garbage, Act::FloodHead] {
        let server = Server::start(act.clone()).await;
        let hook = hook(&config(&server, PATIENT));
        let ruling = route_one(&hook).await;
        assert!(matches!(ruling, Ruling::Refused(Refusal::Failed(_))), "{act:?}: {ruling:?}");
        assert_eq!(hook.counts().failed, 1);
        server.connections_ended().await;
    }
}

#[tokio::test]
async fn a_brain_that_floods_is_cut_off() {
    for act in [Act::FloodBody, Act::Announce, answer(" ".repeat(ANSWER_BYTES_MAX + 1))] {
        let server = Server::start(act).await;
        let hook = hook(&config(&server, PATIENT));
        let Ruling::Refused(Refusal::Nonsense(why)) = route_one(&hook).await else { panic!("not cut off") };
        assert!(why.contains("longer than"), "{why}");
        server.connections_ended().await;
    }
    let most = format!("{{\"label\": \"x\"}}{}", " ".repeat(ANSWER_BYTES_MAX - 14));
    let server = Server::start(answer(most)).await;
    assert_eq!(label(&route_one(&hook(&config(&server, PATIENT))).await), "x");
}

#[tokio::test]
async fn a_brain_that_lies_is_not_believed() {
    for (body, expected) in [
        ("hello".to_owned(), "expected"),
        (r#"{"label": 5}"#.to_owned(), "string"),
        (r#"{"target": "t"}"#.to_owned(), "target"),
        (r#"{"decisions": []}"#.to_owned(), "decisions"),
        (format!(r#"{{"label": "{}"}}"#, "l".repeat(257)), "label"),
        (r#"{"label": "x", "target_topic": "elsewhere"}"#.to_owned(), "elsewhere"),
        (r#"{"label": "x", "partition_override": 4}"#.to_owned(), "partition 4"),
    ] {
        let server = Server::start(answer(&*body)).await;
        let ruling = route_one(&hook(&config(&server, PATIENT))).await;
        let Ruling::Refused(why) = ruling else { panic!("{body} was believed") };
        assert!(why.to_string().contains(expected), "{body}: {why}");
        let passing = RouterConfig { on_error: OnError::Pass, ..config(&server, PATIENT) };
        assert_eq!(route_one(&hook(&passing)).await, Ruling::Unrouted);
    }
}

#[tokio::test]
async fn a_status_is_a_failure_with_its_text_and_keeps_the_connection() {
    for status in [301, 400, 404, 500, 503] {
        let server = Server::start(Act::Answer(status, "", "the model is loading".to_owned())).await;
        let hook = hook(&config(&server, PATIENT));
        for _ in 0..3 {
            let Ruling::Refused(Refusal::Failed(why)) = route_one(&hook).await else { panic!("{status}") };
            assert!(why.contains(&status.to_string()) && why.contains("the model is loading"), "{why}");
        }
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn a_brain_dies_the_breaker_opens_it_comes_back_the_breaker_closes() {
    let server = Server::start(Act::Label(1)).await;
    let cooldown = Duration::from_millis(50);
    let breaker = BreakerConfig { failures_max: 2, cooldown, ..BreakerConfig::default() };
    let hook = hook(&RouterConfig { breaker, ..config(&server, PATIENT) });
    assert_eq!(label(&route_one(&hook).await), "k");

    let address = server.die().await;
    for _ in 0..2 {
        assert!(matches!(route_one(&hook).await, Ruling::Refused(Refusal::Failed(_))));
    }
    assert_eq!((hook.counts().breaker, hook.counts().breaker_opened), (BreakerState::Open, 1));

    let server = Server::start_at(address, Act::Label(1)).await;
    let began = Instant::now();
    while route_one(&hook).await == Ruling::Refused(Refusal::BreakerOpen) {
        assert!(began.elapsed() < PATIENT, "the breaker never lets a call through");
        tokio::task::yield_now().await;
    }
    assert_eq!(hook.counts().breaker, BreakerState::Closed);
    assert_eq!(label(&route_one(&hook).await), "k");
    assert_eq!((server.requests().len(), server.connections()), (2, 1));
}

#[tokio::test]
async fn a_connection_closed_behind_our_back_costs_no_question() {
    let server = Server::start(Act::AnswerAndClose(r#"{"label": "x"}"#.to_owned())).await;
    let hook = hook(&config(&server, PATIENT));
    for _ in 0..20 {
        assert_eq!(label(&route_one(&hook).await), "x");
    }
    assert_eq!(hook.counts().failed, 0);
}

#[tokio::test]
async fn a_batch_goes_out_in_one_call_once_the_brain_says_it_can() {
    let server = Server::start(Act::Label(8)).await;
    let hook = hook(&RouterConfig { concurrency_max: 1, batch_max: 5, ..config(&server, PATIENT) });
    let keys: Vec<String> = (0..12).map(|n| n.to_string()).collect();
    let rulings = route(&hook, keys.iter().map(|key| &**key)).await;
    for (key, ruling) in keys.iter().zip(&rulings) {
        assert_eq!(label(ruling), key);
    }
    let sizes = |server: &Server| -> Vec<usize> {
        let size = |request: &serde_json::Value| request["messages"].as_array().map_or(1, Vec::len);
        server.requests().iter().map(size).collect()
    };
    // It said 8, we were told no more than 5.
    assert_eq!(sizes(&server), [1, 5, 5, 1]);

    // It comes back in a version that takes one at a time: one batch fails, the rest goes out singly.
    server.act(Act::Answer(400, "", "no batches here".to_owned()));
    assert!(matches!(route(&hook, ["a", "b"]).await[..], [Ruling::Refused(_), Ruling::Refused(_)]));
    server.act(Act::Label(1));
    let rulings = route(&hook, ["a", "b"]).await;
    assert_eq!((label(&rulings[0]), label(&rulings[1])), ("a", "b"));
    assert_eq!(sizes(&server), [1, 5, 5, 1, 2, 1, 1]);
    assert_eq!(BATCH_HEADER, "driftq-batch-max");
}

#[tokio::test]
async fn a_promise_saves_questions() {
    let body = r#"{"label": "x", "cache": {"on": "value", "ttl_ms": 600000}}"#;
    let server = Server::start(answer(body)).await;
    let hook = hook(&RouterConfig { concurrency_max: 1, ..config(&server, PATIENT) });
    let rulings = route(&hook, ["a", "b", "c"]).await;
    assert!(rulings.iter().all(|ruling| label(ruling) == "x"));
    assert_eq!((server.requests().len(), hook.counts().cache_hits), (1, 2));
}

#[tokio::test]
async fn a_huge_message_is_asked_about_by_its_beginning() {
    let server = Server::start(Act::Label(1)).await;
    let hook = hook(&config(&server, PATIENT));
    let huge = Message { key: b"k"[..].into(), value: vec![b'x'; 4 << 20].into(), ..Message::default() };
    assert_eq!(label(&hook.route("t", &[&huge], &|_| Some(1)).await[0]), "k");
    let told = &server.requests()[0]["message"];
    assert_eq!(told["value"].as_str().map(str::len), Some(VALUE_BYTES_MAX));
    assert_eq!((&told["value_truncated"], &told["value_bytes"]), (&json!(true), &json!(4 << 20)));
}

#[tokio::test]
async fn load_with_a_brain_that_changes_its_mind_loses_nothing() {
    const PRODUCERS: usize = 40;
    const ROUNDS: usize = 10;
    const TIMEOUT: Duration = Duration::from_millis(200);
    let server = Server::start(Act::Fickle).await;
    let limits = RouterConfig { concurrency_max: 8, cache_entries_max: 0, ..config(&server, TIMEOUT) };
    let hook = hook(&RouterConfig { on_error: OnError::Pass, ..limits });
    let mut producers = tokio::task::JoinSet::new();
    for producer in 0..PRODUCERS {
        let hook = Arc::clone(&hook);
        producers.spawn(async move {
            for round in 0..ROUNDS {
                let (began, key) = (Instant::now(), format!("{producer}-{round}"));
                match route(&hook, [&*key]).await.remove(0) {
                    Ruling::Unrouted => {}
                    Ruling::Routed(decision) => assert_eq!(decision.label, key, "somebody else's answer"),
                    Ruling::Refused(why) => panic!("the policy is to pass: {why}"),
                }
                // Machines can be slow; a brain without end would be slower.
                assert!(began.elapsed() < PATIENT);
            }
        });
    }
    while let Some(ended) = producers.join_next().await {
        ended.expect("no producer panics");
    }
    let counts = hook.counts();
    let ended = counts.answered + counts.failed + counts.timed_out + counts.nonsense + counts.abandoned;
    assert_eq!((counts.asked, counts.in_flight), (ended, 0));
    let routed: u64 = counts.routed.iter().map(|(_, count)| count).sum();
    assert_eq!(routed + counts.passed, (PRODUCERS * ROUNDS) as u64);
    assert!(routed > 0 && counts.failed > 0 && counts.nonsense > 0 && counts.timed_out > 0, "{counts:?}");
    assert!(counts.routed.len() <= 101, "labels are counted up to a bound");
}

#[test]
fn what_is_no_place_to_ask_is_refused_in_plain_words() {
    let Err(why) = HttpRouter::new("ftp://brain/route", 1, 1) else { panic!("accepted") };
    assert!(why.contains("http://"), "{why}");
    let url = Some("ftp://brain/route".to_owned());
    let Err(error) = build(&RouterConfig { url, ..RouterConfig::default() }) else { panic!("built") };
    assert_eq!(error.knob(), "router_url");
    assert!(check_url("ftp://brain/route").is_err() && check_url("https://brain/route").is_ok());
}

#[test]
fn knobs_read_what_they_show() {
    for text in ["all", "a,b.*", "*"] {
        assert_eq!(show_topics(&parse_topics(text).unwrap()), text);
    }
    for text in ["", "a,", "a*b"] {
        assert!(parse_topics(text).is_err(), "{text}");
    }
    for text in ["pass", "reject"] {
        assert_eq!(show_on_error(parse_on_error(text).unwrap()), text);
    }
    assert!(parse_on_error("ignore").is_err());
}
