//! `driftq topic set`.

use anyhow::Result;
use driftq_api::units::{bytes, count, duration, millis};
use driftq_api::v2::{Jitter, RetryPolicy, Topic, TopicChanged, TopicPatch};

use super::settings::{JITTERS, ORDERINGS, change_words};
use crate::{Choice, Choices, Common, Exit, Fault, Listing, args::TopicName, parse, printable, suggest};

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

/// What can be set, by the names that help lists.
const SETTINGS: [&str; 15] = [
    "retention",
    "retention_bytes",
    "partition_messages_max",
    "partition_bytes_max",
    "lease",
    "max_in_flight",
    "ordering",
    "retry_share",
    "keep",
    "keep_bytes",
    "retry_max_attempts",
    "retry_backoff",
    "retry_max_backoff",
    "retry_jitter",
    "retry_policy",
];

/// The parts of a retry policy that were named.
#[derive(Debug, Default, PartialEq, Eq)]
struct PolicyChange {
    max_attempts: Option<Option<u32>>,
    backoff_ms: Option<u64>,
    max_backoff_ms: Option<u64>,
    jitter: Option<Jitter>,
}

impl PolicyChange {
    fn apply(&self, now: RetryPolicy) -> RetryPolicy {
        RetryPolicy {
            max_attempts: self.max_attempts.unwrap_or(now.max_attempts),
            backoff_ms: self.backoff_ms.or(now.backoff_ms),
            max_backoff_ms: self.max_backoff_ms.or(now.max_backoff_ms),
            jitter: self.jitter.unwrap_or(now.jitter),
        }
    }
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let (mut patch, policy) = changes(&args.settings)?;
    let mut caller = common.about(args.name.subject())?;
    if policy != PolicyChange::default() {
        let topic: Topic = caller.get(args.name.path()).await?;
        patch.retry_policy = Some(Some(policy.apply(topic.settings.retry_policy)));
    }
    common.show(&caller.patch(args.name.path(), &patch).await?, text)
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

fn changes(settings: &[(String, String)]) -> Result<(TopicPatch, PolicyChange), Fault> {
    let (mut patch, mut policy) = (TopicPatch::default(), PolicyChange::default());
    let mut names = Vec::new();
    for (name, value) in settings {
        let name = name.to_ascii_lowercase().replace(['-', '.'], "_");
        let fault = |why: String| Fault::new(Exit::Usage, format!("{name}: {why}"));
        change(&mut patch, &mut policy, &name, value)
            .map_err(fault)
            .map_err(|fault| fault.help("`driftq topic set --help` lists settings and values"))?;
        if names.contains(&name) {
            return Err(Fault::new(Exit::Usage, format!("{name} is given twice")));
        }
        names.push(name);
    }
    if patch.retry_policy.is_some() && policy != PolicyChange::default() {
        let what = "retry_policy=default resets all of the policy, so no part of it can be set with it";
        return Err(Fault::new(Exit::Usage, what));
    }
    Ok((patch, policy))
}

fn change(patch: &mut TopicPatch, policy: &mut PolicyChange, name: &str, value: &str) -> Result<(), String> {
    match name {
        "retention" => patch.retention_ms = Some(or_default(value, duration)?),
        "retention_ms" => patch.retention_ms = Some(or_default(value, millis)?),
        "retention_bytes" => patch.retention_bytes = Some(or_default(value, bytes)?),
        "partition_messages_max" => patch.partition_messages_max = Some(or_default(value, count)?),
        "partition_bytes_max" => patch.partition_bytes_max = Some(or_default(value, bytes)?),
        "lease" => patch.lease_ms = Some(or_default(value, duration)?),
        "lease_ms" => patch.lease_ms = Some(or_default(value, millis)?),
        "max_in_flight" => patch.max_in_flight = Some(or_default(value, number)?),
        "ordering" => patch.ordering = Some(or_default(value, |text| one_of(ORDERINGS, text))?),
        "retry_share" | "retry_share_percent" => patch.retry_share_percent = Some(or_default(value, number)?),
        "keep" => patch.keep_ms = Some(or_default(value, duration)?),
        "keep_ms" => patch.keep_ms = Some(or_default(value, millis)?),
        "keep_bytes" => patch.keep_bytes = Some(or_default(value, bytes)?),
        "retry_policy" if value == "default" => patch.retry_policy = Some(None),
        "retry_policy" => return Err("only `default`; set its parts, such as retry_backoff=1s".to_owned()),
        _ if name.starts_with("retry_") && value == "default" => {
            return Err("a part of the policy has no default of its own; use retry_policy=default".to_owned());
        }
        "retry_max_attempts" if value == "none" => policy.max_attempts = Some(None),
        "retry_max_attempts" => policy.max_attempts = Some(Some(number(value)?)),
        "retry_backoff" => policy.backoff_ms = Some(duration(value)?),
        "retry_backoff_ms" => policy.backoff_ms = Some(millis(value)?),
        "retry_max_backoff" => policy.max_backoff_ms = Some(duration(value)?),
        "retry_max_backoff_ms" => policy.max_backoff_ms = Some(millis(value)?),
        "retry_jitter" => policy.jitter = Some(one_of(JITTERS, value)?),
        "partitions" => return Err("the number of partitions cannot be changed".to_owned()),
        _ => {
            let near = suggest::nearest(name, SETTINGS).map(|near| format!("; did you mean `{near}`?"));
            return Err(format!("no such setting{}", near.unwrap_or_default()));
        }
    }
    Ok(())
}

fn or_default<T>(value: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    if value == "default" { Ok(None) } else { read(value).map(Some) }
}

fn number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    count(text)?.try_into().map_err(|_| format!("`{text}` is too large"))
}

fn one_of<T: Copy>(choices: Choices<T>, text: &str) -> Result<T, String> {
    Choice(choices).find(text, true).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, ..)| *name).collect();
        format!("`{text}` is none of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use driftq_api::v2::Ordering;

    use super::*;

    fn read(settings: &[&str]) -> Result<(TopicPatch, PolicyChange), String> {
        let pairs: Vec<_> = settings.iter().map(|text| parse::pair(text).unwrap()).collect();
        changes(&pairs).map_err(|fault| fault.message)
    }

    #[test]
    fn settings_have_short_names_and_wire_names() {
        let (patch, policy) = read(&[
            "retention=1d",
            "lease_ms=5",
            "ordering=KEY",
            "retry-share=30",
            "max_in_flight=default",
            "keep=1h",
            "keep_bytes=default",
        ])
        .unwrap();
        let expected = TopicPatch {
            retention_ms: Some(Some(86_400_000)),
            lease_ms: Some(Some(5)),
            ordering: Some(Some(Ordering::Key)),
            retry_share_percent: Some(Some(30)),
            max_in_flight: Some(None),
            keep_ms: Some(Some(3_600_000)),
            keep_bytes: Some(None),
            ..TopicPatch::default()
        };
        assert_eq!((patch, policy), (expected, PolicyChange::default()));
    }

    #[test]
    fn parts_of_the_policy_that_are_not_named_stay() {
        let (_, change) = read(&["retry.max.attempts=none", "retry_backoff=2s"]).unwrap();
        let now = RetryPolicy {
            max_attempts: Some(5),
            backoff_ms: Some(1),
            max_backoff_ms: Some(9),
            jitter: Jitter::None,
        };
        let then = RetryPolicy { max_attempts: None, backoff_ms: Some(2_000), ..now };
        assert_eq!(change.apply(now), then);
    }

    #[test]
    fn every_setting_that_is_suggested_is_one() {
        for name in SETTINGS {
            let unknown = read(&[&format!("{name}=?")]).unwrap_err();
            assert!(!unknown.contains("no such setting"), "{unknown}");
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
