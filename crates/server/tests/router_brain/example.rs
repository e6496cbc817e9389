//! The example brain and the broker's side of the conversation understand each other.

use std::io::ErrorKind;
use std::process::Stdio;

use driftq_engine::core::{Envelope, Message};
use driftq_engine::router::{OnError, Ruling};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use driftq_server::router::{RouterConfig, build};

const BRAIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/brains/rules_brain.py");

#[tokio::test]
async fn the_brain_of_rules_routes_messages() {
    let spawned = Command::new("python3")
        .args(["-B", BRAIN, "--port", "0"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let mut brain = match spawned {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("not run: there is no python3 on this machine");
            return;
        }
        spawned => spawned.expect("python3 starts"),
    };
    let output = brain.stdout.take().expect("its output is ours");
    let said = BufReader::new(output).lines().next_line().await.expect("it can be read");
    let url = said.and_then(|line| Some(line.strip_prefix("listening on ")?.to_owned()));
    let config = RouterConfig {
        url: Some(url.expect("it says where it listens")),
        timeout: std::time::Duration::from_secs(20),
        concurrency_max: 1,
        on_error: OnError::Reject,
        ..RouterConfig::default()
    };
    let hook = build(&config).expect("the configuration is good").expect("it names a router");

    let message = |key: &'static str, value: &'static str| Message {
        key: key.as_bytes().into(),
        value: value.as_bytes().into(),
        ..Message::default()
    };
    let tenant = |tenant: &'static str| Envelope { tenant_id: tenant.into(), ..Envelope::default() };
    let messages = [
        message("k", r#"{"kind": "refund", "amount": 2500}"#),
        message("vip:1", "a"),
        message("vip:1", "b"),
        message("", "nothing special"),
        Message { envelope: Some(Box::new(tenant("trial"))), ..message("", "c") },
        Message { key: vec![0xff].into(), value: vec![0xfe].into(), ..Message::default() },
    ];
    let asked: Vec<_> = messages.iter().collect();
    let rulings = hook.route("orders", &asked, &|_| Some(1)).await;
    let labels: Vec<_> = rulings
        .iter()
        .map(|ruling| match ruling {
            Ruling::Routed(decision) => Some((&*decision.label, decision.target_topic.as_deref())),
            Ruling::Unrouted => None,
            Ruling::Refused(why) => panic!("{why}"),
        })
        .collect();
    let expected = [
        Some(("finance:large-refund", Some("tasks.finance"))),
        Some(("vip", None)),
        Some(("vip", None)),
        None,
        Some(("trial", None)),
        None,
    ];
    assert_eq!(labels, expected);
    let counts = hook.counts();
    assert_eq!((counts.asked, counts.answered), (2, 2), "one question, and then all the rest in one");
    // Now that the cache knows about keys, a third message of the same customer needs no question.
    let third = message("vip:1", "d");
    assert!(matches!(&hook.route("orders", &[&third], &|_| Some(1)).await[..], [Ruling::Routed(_)]));
    assert_eq!((hook.counts().asked, hook.counts().cache_hits), (2, 1));
}
