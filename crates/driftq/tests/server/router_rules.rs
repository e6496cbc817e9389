//! Rules in a file and the example brain, end to end; and what is said when the configuration is wrong.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::command::{run, run_with};
use crate::compat::Broker;
use crate::router_world::{browse, metric, produce, status, test};
use serde_json::{Value, json};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/router.md");
const BRAIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/brains/rules_brain.py");

/// The first block of TOML in the documentation that has a rule in it.
fn rules_of_the_documentation() -> String {
    let text = fs::read_to_string(DOCS).unwrap();
    let mut blocks = text.split("```toml\n").skip(1).filter_map(|block| block.split("```").next());
    blocks.find(|block| block.contains("[[rule]]")).unwrap().to_owned()
}

/// A configuration with a table for the router, as people write it.
fn configuration(directory: &Path, rules: &str) -> String {
    let (rules_at, file) = (directory.join("rules.toml"), directory.join("driftq.toml"));
    fs::write(&rules_at, rules).unwrap();
    let text = format!(
        "ephemeral = true\n\n[router]\nrules = {:?}\non_error = \"reject\"\ntopics = [\"orders\", \"tasks.*\"]\n\
         timeout_ms = \"15s\"\n\n[router.breaker]\nfailures_max = 3\n",
        rules_at.display().to_string()
    );
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

#[test]
fn the_rules_of_the_documentation_route_messages() {
    let directory = tempfile::tempdir().unwrap();
    let file = configuration(directory.path(), &rules_of_the_documentation());
    let broker = Broker::durable(&["--config", &file]);
    let mut client = broker.client_with_topic("orders", 3);
    client.post("/v1/topics?name=tasks.finance&partitions=1");
    let told = status(&mut client);
    assert_eq!((&told["kind"], &told["on_error"]), (&json!("rules"), &json!("reject")), "{told}");
    assert_eq!(told["topics"], json!(["orders", "tasks.*"]));

    let refund = |amount: u64| {
        json!({"key": "user:1", "value": json!({"kind": "refund", "amount": amount}).to_string(),
            "envelope": {"tenant_id": "acme"}})
    };
    let large = json!({"label": "finance:refund", "meta": {"amount": "2500", "tenant": "acme"}});
    assert_eq!(test(&mut client, "orders", &refund(2500))["topic"], "tasks.finance");
    assert_eq!(produce(&mut client, "orders", &refund(2500))["topic"], "tasks.finance");
    assert_eq!(browse(&mut client, "tasks.finance")[0]["routing"], large);
    assert_eq!(produce(&mut client, "orders", &refund(10))["topic"], "orders");
    let vip = produce(&mut client, "orders", &json!({"key": "vip:7", "value": "hello"}));
    assert_eq!((&vip["topic"], &vip["partition"]), (&json!("orders"), &json!(0)));
    let labels: Vec<Value> =
        browse(&mut client, "orders").iter().map(|item| item["routing"]["label"].clone()).collect();
    assert!(labels.contains(&json!("vip")) && labels.contains(&Value::Null), "{labels:?}");
    assert_eq!(metric(&mut client, "driftq_router_routed_total{label=\"finance:refund\"}"), 1);
    assert_eq!(metric(&mut client, "driftq_router_messages_total{verdict=\"no_opinion\"}"), 1);
}

#[test]
fn a_configuration_is_built_before_it_is_called_good() {
    let directory = tempfile::tempdir().unwrap();
    let file = configuration(directory.path(), "[[rule]]\nthen.label = \"x\"\n");
    let report = run(&["config", "check", "--config", &file, "-o", "json"]).ok().json();
    let value = |name: &str| {
        let values = report["values"].as_array().unwrap();
        values.iter().find(|value| value["name"] == name).unwrap()["value"].clone()
    };
    assert_eq!(value("router_topics"), "orders,tasks.*");
    assert_eq!(
        (value("router_breaker_failures_max"), value("router_timeout_ms")),
        (json!("3"), json!("15s"))
    );

    for (rules, expected) in [
        (
            "[[rule]]\nname = \"a\"\nwhen.key_regex = \"(\"\nthen.label = \"x\"\n",
            "rule 1 `a`: when.key_regex",
        ),
        ("[[rule]]\nthen.label = \"x\"\n[[rule]]\nwhen.tpic = \"t\"\nthen.label = \"x\"\n", "rule 2: "),
        ("[[rule]]\nthen.target_topic = \"x\"\n", "rule 1: then.label: is missing"),
        ("", "there is no rule"),
        ("[[rule]\n", "rules.toml"),
    ] {
        let file = configuration(directory.path(), rules);
        for command in [&["config", "check"][..], &["serve"]] {
            let ran = run(&[command, &["--config", &file]].concat()).code(9);
            assert!(ran.stderr.contains(expected) && ran.stderr.contains("router_rules"), "{}", ran.stderr);
        }
    }
    for (arguments, variables, expected) in [
        (
            &["--router-url", "ftp://brain"][..],
            &[][..],
            "--router-url: `ftp://brain`: it must begin with http://",
        ),
        (&["--router-url", "http://brain", "--router-rules", "r.toml"], &[], "not both"),
        (&["--router-rules", "no/such.toml"], &[], "--router-rules: no/such.toml"),
        (&["--router-on-error", "ignore"], &[], "neither pass nor reject"),
        (&["--router-breaker-failure-percent-max", "101"], &[], "more than all"),
        (&[], &[("DRIFTQ_ROUTER_TOPICS", "a*b")], "DRIFTQ_ROUTER_TOPICS: `a*b`"),
        (&[], &[("DRIFTQ_ROUTER_CONCURRENCY_MAX", "0")], "DRIFTQ_ROUTER_CONCURRENCY_MAX"),
    ] {
        let ran = run_with(variables, &[&["config", "check"], arguments].concat()).code(9);
        assert!(ran.stderr.contains(expected), "no `{expected}` in {}", ran.stderr);
    }
}

/// A brain in Python, ended by the handle that started it.
struct Python {
    child: Child,
    url: String,
}

impl Python {
    /// None if there is no Python on this machine.
    fn start() -> Option<Self> {
        let mut command = Command::new("python3");
        command.args(["-B", BRAIN, "--port", "0"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = match command.spawn() {
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            spawned => spawned.unwrap(),
        };
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").map(str::to_owned);
        Some(Self { child, url: url.unwrap_or_else(|| panic!("it said {line:?}")) })
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_example_brain_routes_messages_of_a_running_server() {
    let Some(brain) = Python::start() else {
        eprintln!("not run: there is no python3 on this machine");
        return;
    };
    let broker = Broker::ephemeral(&["--router-url", &brain.url, "--router-timeout-ms", "15s"]);
    let mut client = broker.client_with_topic("orders", 3);
    client.post("/v1/topics?name=tasks.finance&partitions=1");
    let refund = json!({"key": "user:1", "value": r#"{"kind": "refund", "amount": 2500}"#});
    assert_eq!(produce(&mut client, "orders", &refund)["topic"], "tasks.finance");
    client.produce("orders", "vip:7", "hello");
    client.produce("orders", "vip:7", "hello again");
    let found = browse(&mut client, "tasks.finance").remove(0);
    let routing = json!({"label": "finance:large-refund", "meta": {"amount": "2500", "source": "rules"}});
    assert_eq!(found["routing"], routing);
    let vips = browse(&mut client, "orders");
    assert!(vips.iter().all(|item| item["routing"]["label"] == "vip" && item["partition"] == 0), "{vips:?}");
    let told = status(&mut client);
    assert_eq!((&told["asked"], &told["cached"]), (&json!(2), &json!(1)), "{told}");
}
