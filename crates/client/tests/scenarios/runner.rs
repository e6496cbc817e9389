//! Runs one scenario against a server of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use driftq_client::testkit::run_until_idle;
use driftq_client::wire::{Message, Produced, TopicSpec};
use driftq_client::{Client, Context, Error, Failure, Worker};
use serde::Deserialize;
use serde_json::Value;

use crate::action::{Stage, act};
use crate::front::Front;
use crate::place::{Mode, Place};
use crate::shape::differs;

/// What happened in the handlers.
#[derive(Default)]
pub(crate) struct Notes {
    attempts: Mutex<Vec<u64>>,
    executions: Mutex<BTreeMap<String, u64>>,
    /// How often reconcilers were asked, by scope.
    reconciled: Mutex<BTreeMap<String, u64>>,
    /// How often each message was handled.
    calls: Mutex<BTreeMap<u64, u64>>,
    complaints: Mutex<Vec<String>>,
}

impl Notes {
    pub(crate) fn complain(&self, complaint: String) {
        self.complaints.lock().unwrap().push(complaint);
    }

    pub(crate) fn executed(&self, scope: &str) {
        *self.executions.lock().unwrap().entry(scope.to_owned()).or_default() += 1;
    }

    pub(crate) fn reconciled(&self, scope: &str) {
        *self.reconciled.lock().unwrap().entry(scope.to_owned()).or_default() += 1;
    }

    pub(crate) fn compare_names(&self, expected: Option<&str>, found: &str) {
        if expected != Some(found) {
            self.complain(format!("{found} instead of {expected:?}"));
        }
    }

    /// Counts the call, and says which one of this message it is.
    fn called(&self, context: &Context) -> u64 {
        self.attempts.lock().unwrap().push(u64::from(context.attempt()));
        let mut calls = self.calls.lock().unwrap();
        let count = calls.entry(context.offset()).or_default();
        *count += 1;
        *count
    }
}

/// A payload with the member that scenarios require.
#[derive(Deserialize)]
struct Required {
    #[serde(rename = "order")]
    _order: Value,
}

pub(crate) async fn run(path: &Path, mode: Mode) -> Result<(), Failure> {
    let scenario: Value = serde_json::from_slice(&std::fs::read(path)?)?;
    let place = Place::start(mode).await?;
    let client = place.client(&place.url())?;
    prepare(&client, &scenario).await?;
    let notes = Arc::new(Notes::default());
    // What the runner asks and checks goes to the server itself; the worker may have a front before it.
    let front = match scenario.get("front") {
        Some(rules) => Some(Front::before(&place, rules).await?),
        None => None,
    };
    let own = match &front {
        Some(front) => place.client(&front.url)?,
        None => client.clone(),
    };
    run_until_idle(worker(&own, &client, &scenario, &notes)).await?;
    let expect = &scenario["expect"];
    assert_eq!(*notes.complaints.lock().unwrap(), [""; 0], "what the handlers saw");
    let attempts = serde_json::to_value(&*notes.attempts.lock().unwrap())?;
    assert_eq!(attempts, expect["attempts"], "attempts");
    let executions = serde_json::to_value(&*notes.executions.lock().unwrap())?;
    assert_eq!(executions, expect["executions"], "executions");
    if let Some(expected) = expect.get("reconciled") {
        assert_eq!(serde_json::to_value(&*notes.reconciled.lock().unwrap())?, *expected, "reconciled");
    }
    for count in expect["requests"].as_array().into_iter().flatten() {
        let text = |name: &str| count[name].as_str().unwrap_or_default();
        let found = front.as_ref().map_or(0, |front| front.posts(text("post"), text("body_has")));
        let bounds = count["at_least"].as_u64().unwrap()..=count["at_most"].as_u64().unwrap();
        assert!(bounds.contains(&found), "{found} calls of {}", count["post"]);
    }
    for question in expect["server"].as_array().into_iter().flatten() {
        ask(&client, question).await?;
    }
    Ok(())
}

async fn prepare(client: &Client, scenario: &Value) -> Result<(), Failure> {
    for (topic, settings) in scenario["topics"].as_object().into_iter().flatten() {
        let spec: TopicSpec = serde_json::from_str(&settings.to_string())?;
        client.create_topic(topic, &spec).await?;
    }
    for produce in scenario["produce"].as_array().into_iter().flatten() {
        let text = produce["message"].to_string();
        let message =
            Message::from_json(text.as_bytes()).map_err(|fault| Failure::new(fault.message.into_owned()))?;
        let topic = produce["topic"].as_str().unwrap_or_default();
        let _: Produced<'_> = client.post(&format!("/v2/topics/{topic}/messages"), &message).await?;
    }
    Ok(())
}

fn worker(client: &Client, others: &Client, scenario: &Value, notes: &Arc<Notes>) -> Worker {
    let settings = &scenario["worker"];
    let text = |name: &str| settings[name].as_str().unwrap_or_default().to_owned();
    let lease = Duration::from_millis(settings["lease_ms"].as_u64().unwrap());
    let concurrency = usize::try_from(settings["concurrency"].as_u64().unwrap_or(1)).unwrap();
    let mut worker = Worker::new(client, text("group"))
        .lease(lease)
        .concurrency(concurrency)
        .heartbeat(settings["heartbeat"].as_bool().unwrap_or(true));
    if let Some(limit) = settings["timeout_ms"].as_u64() {
        worker = worker.timeout(Duration::from_millis(limit));
    }
    let stage = Arc::new(Stage { notes: Arc::clone(notes), others: others.clone(), lease });
    let actions = Arc::new(scenario["handler"].clone());
    let handler = move |context: Context| {
        let (stage, actions) = (Arc::clone(&stage), Arc::clone(&actions));
        async move {
            let call = stage.notes.called(&context);
            let list = actions.get(call.to_string()).unwrap_or_else(|| &actions["*"]);
            for action in list.as_array().into_iter().flatten() {
                act(action, &context, &stage).await?;
            }
            Ok(())
        }
    };
    match settings["required"].as_array() {
        Some(required) => {
            assert_eq!(*required, ["order"], "the runner knows one type with required members");
            worker.handle(text("topic"), move |_: Required, context| handler(context))
        }
        None => worker.handle_raw(text("topic"), move |_, context| handler(context)),
    }
}

async fn ask(client: &Client, question: &Value) -> Result<(), Failure> {
    if let Some(difference) = difference(client, question).await? {
        panic!("{}: {difference}", question["get"]);
    }
    Ok(())
}

async fn difference(client: &Client, question: &Value) -> Result<Option<String>, Failure> {
    let path = question["get"].as_str().unwrap_or_default();
    let expected = question["status"].as_u64().unwrap_or(200);
    let (status, found) = match client.get::<Value>(path).await {
        Ok(found) => (200, found),
        Err(Error::Refused(refusal)) => (u64::from(refusal.status), Value::Null),
        Err(error) => return Err(error.into()),
    };
    if status != expected {
        return Ok(Some(format!("HTTP status {status}, not {expected}")));
    }
    Ok(question.get("has").and_then(|shape| differs(&found, shape, "")))
}
