//! `driftq topic set`.

use anyhow::Result;
use driftq_api::units::{bytes, count, duration, millis};
use driftq_api::v2::{RetryPolicy, Topic, TopicChanged};
use driftq_http::Method;
use serde_json::{Map, Value};

use super::settings::{JITTERS, ORDERINGS, change_words};
use crate::{Choices, Common, Exit, Fault, Listing, args::TopicName, parse, printable, suggest};

#[derive(clap::Args)]
#[command(after_help = "Settings:
    retention               drop messages that are older: 7d
    retention_bytes         drop the oldest when the topic keeps more: 10GiB
    partition_messages_max  most messages that wait in a partition
    partition_bytes_max     most bytes that wait in a partition: 1GiB
    lease                   how long a message is on loan to readers that do not say: 30s
    max_in_flight           most messages on loan to one group
    ordering                fifo, priority or key
    retry_share             percent of deliveries that due retries get while fresh messages wait
    keep                    keep what every group is done with until it is older: 7d
    keep_bytes              keep what every group is done with, up to so much per partition: 1GiB
    retry_max_attempts      deliveries before a message becomes a dead letter; `none` for no limit
    retry_backoff           wait before the first retry: 250ms
    retry_max_backoff       longest wait between two tries: 1m
    retry_jitter            full, half or none
    retry_policy            only `default`, which resets the four before it
`default` instead of a value goes back to what the server has for all topics. The wire names (retention_ms, lease_ms, \
retry_share_percent) are taken too. The four parts of the retry policy change together: a part that is not named keeps \
the value it has now.

Examples:
  driftq topic set orders retention=7d max_in_flight=500
  driftq topic set orders retry_max_attempts=5 retry_backoff=1s
  driftq topic set orders retention=default")]
pub(crate) struct Args {
    #[command(flatten)]
    name: TopicName,
    /// What to change, as SETTING=VALUE
    #[arg(required = true, value_name = "SETTING=VALUE", value_parser = parse::pair)]
    settings: Vec<(String, String)>,
}

/// What can be set: its name, the field of the request, and how a value is read.
type Setting = (&'static str, &'static str, fn(&str) -> Result<Value, String>);

const SETTINGS: [Setting; 14] = [
    ("retention", "retention_ms", |text| value(duration(text))),
    ("retention_ms", "retention_ms", |text| value(millis(text))),
    ("retention_bytes", "retention_bytes", |text| value(bytes(text))),
    ("partition_messages_max", "partition_messages_max", |text| value(count(text))),
    ("partition_bytes_max", "partition_bytes_max", |text| value(bytes(text))),
    ("lease", "lease_ms", |text| value(duration(text))),
    ("lease_ms", "lease_ms", |text| value(millis(text))),
    ("max_in_flight", "max_in_flight", |text| value(number::<u32>(text))),
    ("ordering", "ordering", |text| one_of(ORDERINGS, text)),
    ("retry_share", "retry_share_percent", |text| value(number::<u8>(text))),
    ("retry_share_percent", "retry_share_percent", |text| value(number::<u8>(text))),
    ("keep", "keep_ms", |text| value(duration(text))),
    ("keep_ms", "keep_ms", |text| value(millis(text))),
    ("keep_bytes", "keep_bytes", |text| value(bytes(text))),
];

/// The parts of the retry policy, which is replaced as a whole.
const POLICY: [Setting; 6] = [
    ("retry_max_attempts", "max_attempts", |text| match text {
        "none" => Ok(Value::Null),
        _ => value(number::<u32>(text)),
    }),
    ("retry_backoff", "backoff_ms", |text| value(duration(text))),
    ("retry_backoff_ms", "backoff_ms", |text| value(millis(text))),
    ("retry_max_backoff", "max_backoff_ms", |text| value(duration(text))),
    ("retry_max_backoff_ms", "max_backoff_ms", |text| value(millis(text))),
    ("retry_jitter", "jitter", |text| one_of(JITTERS, text)),
];

/// Fields of a request.
type Fields = Map<String, Value>;

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let (mut patch, policy) = changes(&args.settings)?;
    let mut caller = common.about(args.name.subject())?;
    if !policy.is_empty() {
        let topic: Topic = caller.get(args.name.path()).await?;
        patch.insert("retry_policy".to_owned(), changed_policy(&topic.settings.retry_policy, policy)?);
    }
    let answer = caller.session.send(Method::PATCH, args.name.path(), &patch).await;
    common.show(&caller.explain(answer).await?, text)
}

/// The policy with these parts changed; what is null has no limit from now on.
fn changed_policy(now: &RetryPolicy, parts: Fields) -> Result<Value> {
    let mut policy: Fields = serde_json::from_value(serde_json::to_value(now)?)?;
    policy.extend(parts);
    policy.retain(|_, value| !value.is_null());
    Ok(policy.into())
}

fn text(changed: &TopicChanged) -> String {
    if changed.changed.is_empty() {
        return format!("topic {}: nothing changed, it was so already\n", printable(&changed.topic));
    }
    let mut listing = Listing::new(&["SETTING", "BEFORE", "NOW"]);
    for change in &changed.changed {
        let words = |value| printable(&change_words(&change.setting, value));
        listing.row([printable(&change.setting), words(&change.before), words(&change.after)]);
    }
    listing.text()
}

/// What was asked for: settings, and parts of the retry policy.
fn changes(settings: &[(String, String)]) -> Result<(Fields, Fields), Fault> {
    let (mut patch, mut policy) = (Fields::new(), Fields::new());
    let mut names = Vec::new();
    for (name, value) in settings {
        let name = name.to_ascii_lowercase().replace(['-', '.'], "_");
        change(&mut patch, &mut policy, &name, value).map_err(|why| {
            Fault::new(Exit::Usage, format!("{name}: {why}"))
                .help("`driftq topic set --help` lists settings and values")
        })?;
        if names.contains(&name) {
            return Err(Fault::new(Exit::Usage, format!("{name} is given twice")));
        }
        names.push(name);
    }
    if patch.contains_key("retry_policy") && !policy.is_empty() {
        let what = "retry_policy=default resets all of the policy, so no part of it can be set with it";
        return Err(Fault::new(Exit::Usage, what));
    }
    Ok((patch, policy))
}

fn change(patch: &mut Fields, policy: &mut Fields, name: &str, text: &str) -> Result<(), String> {
    let is_it = |(known, ..): &&Setting| *known == name;
    if let Some((_, field, read)) = SETTINGS.iter().find(is_it) {
        let value = if text == "default" { Value::Null } else { read(text)? };
        patch.insert((*field).to_owned(), value);
        return Ok(());
    }
    match (name, POLICY.iter().find(is_it)) {
        ("retry_policy", _) if text == "default" => drop(patch.insert(name.to_owned(), Value::Null)),
        ("retry_policy", _) => {
            return Err("only `default`; set its parts, such as retry_backoff=1s".to_owned());
        }
        _ if name.starts_with("retry_") && text == "default" => {
            return Err("a part of the policy has no default of its own; use retry_policy=default".to_owned());
        }
        (_, Some((_, field, read))) => drop(policy.insert((*field).to_owned(), read(text)?)),
        ("partitions", _) => return Err("the number of partitions cannot be changed".to_owned()),
        _ => {
            let names = SETTINGS.iter().chain(&POLICY).map(|(name, ..)| *name).chain(["retry_policy"]);
            let near = suggest::nearest(name, names).map(|near| format!("; did you mean `{near}`?"));
            return Err(format!("no such setting{}", near.unwrap_or_default()));
        }
    }
    Ok(())
}

fn value<T: Into<Value>>(read: Result<T, String>) -> Result<Value, String> {
    read.map(Into::into)
}

fn number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    count(text)?.try_into().map_err(|_| format!("`{text}` is too large"))
}

/// The word that the wire has for it is the flag's.
fn one_of<T: Copy>(choices: Choices<T>, text: &str) -> Result<Value, String> {
    let names = || choices.iter().map(|(name, ..)| *name);
    let found = names().find(|name| name.eq_ignore_ascii_case(text));
    let refused = || format!("`{text}` is none of {}", names().collect::<Vec<_>>().join(", "));
    found.map(Value::from).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use driftq_api::v2::{Jitter, TopicPatch};
    use serde_json::json;

    use super::*;

    fn read(settings: &[&str]) -> Result<(Fields, Fields), String> {
        let pairs: Vec<_> = settings.iter().map(|text| parse::pair(text).unwrap()).collect();
        changes(&pairs).map_err(|fault| fault.message)
    }

    #[test]
    fn settings_have_short_names_and_wire_names() {
        let given = ["retention=1d", "lease_ms=5", "ordering=KEY", "retry-share=30", "max_in_flight=default"];
        let (patch, policy) = read(&given).unwrap();
        let expected = json!({"retention_ms": 86_400_000, "lease_ms": 5, "ordering": "key",
            "retry_share_percent": 30, "max_in_flight": null});
        assert_eq!((Value::from(patch.clone()), policy.is_empty()), (expected, true));
        assert!(serde_json::from_value::<TopicPatch>(patch.into()).is_ok(), "the server takes it");
    }

    #[test]
    fn parts_of_the_policy_that_are_not_named_stay() {
        let (_, parts) = read(&["retry.max.attempts=none", "retry_backoff=2s"]).unwrap();
        let now = RetryPolicy { max_attempts: Some(5), backoff_ms: Some(1), ..RetryPolicy::default() };
        let now = RetryPolicy { max_backoff_ms: Some(9), jitter: Jitter::None, ..now };
        let then = RetryPolicy { max_attempts: None, backoff_ms: Some(2_000), ..now };
        assert_eq!(changed_policy(&now, parts).unwrap(), serde_json::to_value(then).unwrap());
    }

    #[test]
    fn every_setting_is_a_field_of_the_request() {
        for (name, field, read) in SETTINGS {
            let value = read("7s").or_else(|_| read("7")).or_else(|_| read("fifo")).unwrap();
            let patch = json!({field: value});
            assert!(serde_json::from_value::<TopicPatch>(patch).is_ok(), "{name}");
        }
    }

    #[test]
    fn nonsense_is_named() {
        for (settings, text) in [
            (&["colour=red"][..], "colour: no such setting"),
            (&["retenton=7d"], "did you mean `retention`?"),
            (&["retry_backof=1s"], "did you mean `retry_backoff`?"),
            (&["partitions=2"], "cannot be changed"),
            (&["retry_share=300"], "too large"),
            (&["ordering=random"], "none of fifo, priority, key"),
            (&["retry_backoff=default"], "retry_policy=default"),
            (&["retry_policy=default", "retry_backoff=1s"], "no part of it"),
            (&["lease=1s", "lease=2s"], "twice"),
        ] {
            let message = read(settings).unwrap_err();
            assert!(message.contains(text), "{message}");
        }
    }
}
