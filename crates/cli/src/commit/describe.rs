//! What a commit did, in words.

use driftq_api::v2::{CommitResult, Committed, OutputResult, Produced};
use serde_json::Value;

use crate::{Columns, Listing, grouped, printable, section};

/// The item of the commit that a part such as `produce[1]` names.
pub(super) fn item<'a>(asked: &'a Value, part: &str) -> Option<&'a Value> {
    let (list, rest) = part.split_once('[')?;
    let (index, _) = rest.split_once(']')?;
    asked.get(list)?.get(index.parse::<usize>().ok()?)
}

pub(super) fn text(asked: &Value, committed: &Committed<'static>) -> String {
    let count = |list: &str| asked[list].as_array().map_or(0, Vec::len) as u64;
    let parts: Vec<String> = [
        ("ack", "acked"),
        ("fence", "checked"),
        ("effects", "finished"),
        ("produce", "stored"),
        ("outputs", "registered"),
        ("expect", "raised"),
    ]
    .into_iter()
    .filter(|(list, _)| count(list) > 0)
    .map(|(list, verb)| format!("{} {verb}", grouped(count(list))))
    .collect();
    let mut text = match committed.result {
        CommitResult::Committed => format!("committed: {}\n", parts.join(", ")),
        CommitResult::AlreadyCommitted => {
            format!("committed before, exactly so, and nothing was changed: {}\n", parts.join(", "))
        }
    };
    text.push_str(&section(PRODUCED, &committed.produced));
    if !committed.outputs.is_empty() {
        text.push_str(&format!("\n{}", outputs(asked, committed)));
    }
    text
}

const PRODUCED: Columns<Produced<'static>> = &[
    ("TOPIC", |stored, _| printable(&stored.topic)),
    ("PARTITION", |stored, _| stored.partition.to_string()),
    ("OFFSET", |stored, _| stored.offset.to_string()),
    ("RESULT", |stored, _| {
        if stored.duplicate { "known already, not stored again" } else { "stored" }.to_owned()
    }),
];

fn outputs(asked: &Value, committed: &Committed<'_>) -> String {
    let mut listing = Listing::new(&["DATASET", "VERSION", "PARTITION KEY", "RESULT", "LOCATION"]);
    for (index, output) in committed.outputs.iter().enumerate() {
        let named = |name: &str| printable(asked["outputs"][index][name].as_str().unwrap_or("-"));
        let result = match output.result {
            OutputResult::Replaced => "replaced",
            OutputResult::Appended => "appended",
            OutputResult::Duplicate => "duplicate: the first one stays",
        };
        listing.row([
            named("dataset"),
            named("version"),
            named("partition_key"),
            result.to_owned(),
            printable(&output.location),
        ]);
    }
    listing.text()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_name_items() {
        let asked = json!({"ack": ["a"], "produce": [{"topic": "x"}, {"topic": "y"}]});
        assert_eq!(item(&asked, "produce[1]").unwrap()["topic"], "y");
        assert_eq!(item(&asked, "ack[0]"), Some(&json!("a")));
        for part in ["produce[2]", "produce", "outputs[0]", "[", "ack[x]"] {
            assert_eq!(item(&asked, part), None, "{part}");
        }
    }

    #[test]
    fn what_was_done_is_counted() {
        let asked =
            json!({"ack": ["a"], "outputs": [{"dataset": "d", "version": "v", "partition_key": "p"}]});
        let answer = json!({"result": "committed", "produced": [], "outputs": [{"result": "replaced", "location": "l"}]});
        let committed: Committed<'static> = serde_json::from_value(answer).unwrap();
        let text = text(&asked, &committed);
        assert!(text.starts_with("committed: 1 acked, 1 registered\n\nDATASET"), "{text}");
        assert!(text.contains("d        v        p              replaced  l"), "{text}");
    }
}
