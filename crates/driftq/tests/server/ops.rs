//! The dashboard and the alert rules in `ops/` ask for metrics that the server really has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::compat::Broker;

/// Names of the first broker, which have no prefix.
const FROZEN: [&str; 4] =
    ["inflight_messages", "consumer_lag", "dlq_messages_total", "produce_rejected_total"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops")
}

/// The metrics that a text asks for.
fn asked(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let metrics = words.filter(|word| word.starts_with("driftq_") || FROZEN.contains(word));
    metrics.map(str::to_owned).collect()
}

/// Every text in a document that is an expression.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                match value {
                    Value::String(text) if name == "expr" || name == "query" => found.push(text.clone()),
                    _ => expressions(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}

#[test]
fn what_is_watched_is_what_the_server_says() {
    let broker = Broker::ephemeral(&[]);
    let mut client = broker.client_with_topic("t", 1);
    client.produce("t", "k", "v");
    let scraped = String::from_utf8(client.get("/metrics").body).unwrap();
    let mut known = BTreeSet::new();
    for line in scraped.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        known.insert(name.to_owned());
        if kind == "histogram" {
            known.extend(["bucket", "sum", "count"].map(|part| format!("{name}_{part}")));
        }
    }
    let rules = std::fs::read_to_string(folder().join("alerts.yml")).unwrap();
    let dashboard = std::fs::read_to_string(folder().join("grafana-dashboard.json")).unwrap();
    let mut found = Vec::new();
    expressions(&serde_json::from_str(&dashboard).unwrap(), &mut found);
    assert!(found.len() > 20, "{found:?}");
    found.extend(rules.lines().filter_map(|line| line.trim().strip_prefix("expr: ").map(str::to_owned)));
    for expression in &found {
        let names = asked(expression);
        assert!(!names.is_empty() || expression == "prometheus", "{expression} asks for nothing");
        for name in names {
            assert!(known.contains(&name), "the server has no {name}, for which {expression} asks");
        }
    }
}

#[test]
fn prometheus_understands_the_rules_where_it_is_installed() {
    let checked =
        Command::new("promtool").arg("check").arg("rules").arg(folder().join("alerts.yml")).output();
    match checked {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
    }
}
