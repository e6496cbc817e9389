//! What a handler of a scenario does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use driftq_client::wire::CommitOutput;
use driftq_client::{Client, Context, Dead, Failure, Final, Found, NotDone, NotSent, Retry, Snooze, json};
use serde_json::Value;

use crate::runner::Notes;

/// How long a signal is waited for.
const SIGNAL_WITHIN: Duration = Duration::from_secs(30);

/// How long what was left may take to become unknown.
const UNKNOWN_WITHIN: Duration = Duration::from_secs(30);
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What all handlers of a scenario share.
pub(crate) struct Stage {
    pub(crate) notes: Arc<Notes>,
    /// The server itself, for what others do.
    pub(crate) others: Client,
    pub(crate) lease: Duration,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn millis(value: &Value) -> Option<Duration> {
    value.as_u64().map(Duration::from_millis)
}

/// One action. Its error is the handler's.
pub(crate) async fn act(action: &Value, context: &Context, stage: &Arc<Stage>) -> Result<(), Failure> {
    let notes = &*stage.notes;
    let (name, given) = action.as_object().and_then(|members| members.iter().next()).expect("one member");
    match name.as_str() {
        "effect" => return effect(given, context, stage).await,
        "leave" => leave(given, &stage.others).await?,
        "retry" => {
            return Err(Retry { after: millis(&given["after_ms"]), reason: text(&given["reason"]) }.into());
        }
        "dead" => return Err(Dead::new(text(given)).into()),
        "snooze" => return Err(Snooze::lasting(millis(&given["for_ms"]).unwrap_or_default()).into()),
        "raise" => return Err(Failure::new(text(given))),
        "send" => {
            let mut message = json(&given["payload"]);
            if let Some(step_id) = given["step_id"].as_str() {
                message = message.step_id(step_id);
            }
            context.send(text(&given["topic"]), message)?;
        }
        "output" => {
            let text = given.to_string();
            let output: CommitOutput<'_> = serde_json::from_str(&text)?;
            context.output(owned(output))?;
        }
        "commit" => match (context.commit().await, given["raises"].as_str()) {
            (Ok(_), None) => {}
            (Ok(_), Some(name)) => notes.complain(format!("the commit did not raise {name}")),
            (Err(error), raises) => {
                notes.compare_names(raises, &error.name());
                return Err(error.into());
            }
        },
        "outlive" => stage.outlive(given).await,
        "cancel_message" => {
            let (topic, partition, offset) = (context.topic(), context.partition(), context.offset());
            let path = format!("/v2/topics/{topic}/messages/{partition}/{offset}");
            let _: Value = context.client().delete(&path).await?;
        }
        "await_signal" => {
            let fired = tokio::time::timeout(SIGNAL_WITHIN, context.signal().fired()).await;
            match fired {
                Ok(reason) => notes.compare_names(given["reason"].as_str(), reason.name()),
                Err(_) => notes.complain("the signal did not fire".to_owned()),
            }
        }
        other => notes.complain(format!("the runner does not know the action {other}")),
    }
    Ok(())
}

fn owned(output: CommitOutput<'_>) -> CommitOutput<'static> {
    CommitOutput {
        dataset: output.dataset.into_owned().into(),
        version: output.version.into_owned().into(),
        partition_key: output.partition_key.into_owned().into(),
        mode: output.mode,
        dedupe_key: output.dedupe_key.map(|key| key.into_owned().into()),
        location: output.location.into_owned().into(),
        digest: output.digest.into_owned().into(),
    }
}

impl Stage {
    async fn outlive(&self, given: &Value) {
        let leases = u32::try_from(given["leases"].as_u64().unwrap()).unwrap();
        tokio::time::sleep(self.lease * leases).await;
    }

    /// What a reconciler answers.
    async fn reconciled(&self, given: &Value) -> Result<Found, Failure> {
        self.notes.reconciled(given["scope"].as_str().unwrap_or_default());
        let answer = &given["reconcile"];
        if answer != "taken" {
            return found(answer);
        }
        let said = serde_json::json!({
            "scope": given["scope"], "key": given["key"],
            "status": "failed_retryable", "by": "somebody", "why": "a scenario",
        });
        let _: Value = self.others.post("/v2/effects/resolve", &said).await?;
        leave(given, &self.others).await?;
        Ok(Found::NotDone)
    }
}

/// Somebody else begins the effect, and is not heard of again.
async fn leave(given: &Value, others: &Client) -> Result<(), Failure> {
    let name = serde_json::json!({"scope": given["scope"], "key": given["key"]});
    let lease_ms = given["lease_ms"].as_u64();
    let mut begin = name.clone();
    begin["lease_ms"] = lease_ms.unwrap_or(1).into();
    begin["reacquire"] = true.into();
    let begun: Value = others.post("/v2/effects/begin", &begin).await?;
    if begun["decision"] != "execute" {
        return Err(Failure::new(format!("somebody else was told {begun}")));
    }
    let until = Instant::now() + UNKNOWN_WITHIN;
    while lease_ms.is_none() && others.post::<Value>("/v2/effects/get", &name).await?["state"] != "unknown" {
        if Instant::now() > until {
            return Err(Failure::new("what was left does not become unknown"));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

async fn effect(given: &Value, context: &Context, stage: &Arc<Stage>) -> Result<(), Failure> {
    let (scope, notes) = (text(&given["scope"]), &*stage.notes);
    let is_outside = given["outside"] == true;
    let mut effect = if is_outside { context.client().effect(&scope) } else { context.effect(&scope) };
    if let Some(key) = given["key"].as_str() {
        effect = effect.key(key);
    }
    if let Some(args) = given.get("args") {
        effect = effect.args(args);
    }
    effect = match given["on_lapse"].as_str() {
        Some("retry") => effect.retry(),
        _ => effect.hold(),
    };
    if let Some(attempts) = given["max_attempts"].as_u64() {
        effect = effect.max_attempts(u32::try_from(attempts)?);
    }
    if let Some(wait) = millis(&given["wait_ms"]) {
        effect = effect.wait(wait);
    }
    if let Some(lease) = millis(&given["lease_ms"]) {
        effect = effect.lease(lease);
    }
    if given.get("reconcile").is_some() {
        let (stage, given) = (Arc::clone(stage), given.clone());
        effect = effect.reconcile(move |_| {
            let (stage, given) = (Arc::clone(&stage), given.clone());
            async move { stage.reconciled(&given).await }
        });
    }
    let function = || async {
        notes.executed(&scope);
        if let Some(outlives) = given.get("outlives") {
            stage.outlive(outlives).await;
        }
        match given["fail"].as_str() {
            None => Ok(given["result"].clone()),
            Some("not_done") => Err(NotDone::new(text(&given["error"])).into()),
            Some("not_sent") => Err(NotSent::new(text(&given["error"])).into()),
            Some("final") => Err(Final::new(text(&given["error"])).into()),
            Some(_) => Err(Failure::new(text(&given["error"]))),
        }
    };
    match effect.run(function).await {
        Ok(value) => {
            if let Some(expected) = given.get("value").filter(|expected| **expected != value) {
                notes.complain(format!("effect {scope} gave {value}, not {expected}"));
            }
            if let Some(name) = given["raises"].as_str() {
                notes.complain(format!("effect {scope} gave {value} and did not raise {name}"));
            }
            Ok(())
        }
        Err(failure) => {
            let name = match failure.error() {
                Some(error) => error.name().into_owned(),
                None if failure.find::<NotDone>().is_some() => "NotDone".to_owned(),
                None if failure.find::<NotSent>().is_some() => "NotSent".to_owned(),
                None => "Error".to_owned(),
            };
            notes.compare_names(given["raises"].as_str(), &name);
            if given["caught"] == true { Ok(()) } else { Err(failure) }
        }
    }
}

fn found(answer: &Value) -> Result<Found, Failure> {
    match answer {
        Value::Object(members) if members.contains_key("succeeded") => {
            Found::succeeded(&members["succeeded"])
        }
        Value::Object(members) => Ok(Found::Failed(text(&members["failed"]))),
        Value::String(word) if word == "not_done" => Ok(Found::NotDone),
        _ => Ok(Found::Unknown),
    }
}
