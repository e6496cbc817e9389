//! Did you mean …? For topics that do not exist.

use driftq_api::v1::Topics;

use super::exit::Fault;
use crate::client::{CallError, Session};

/// The answer, or an error of the command. If the topic is not there and another has almost its name, that one is
/// named.
pub(super) async fn or_explain<T>(
    session: &mut Session,
    topic: &str,
    answer: Result<T, CallError>,
) -> anyhow::Result<T> {
    match answer {
        Ok(answer) => Ok(answer),
        Err(error) => Err(explained(session, topic, error).await.into()),
    }
}

/// The error of a call about this topic.
pub(super) async fn explained(session: &mut Session, topic: &str, error: CallError) -> Fault {
    let is_unknown = error.code() == "TOPIC_UNKNOWN";
    let mut fault = Fault::from(error);
    if is_unknown && let Some(name) = closest(session, topic).await {
        fault = fault.help(format!("did you mean `{name}`? All names: `driftq topic list`"));
    }
    fault
}

/// Help for one error is not worth a second one: if the names cannot be read, there is no suggestion.
async fn closest(session: &mut Session, topic: &str) -> Option<String> {
    let topics: Topics = session.get("/v1/topics").await.ok()?;
    let near =
        topics.topics.into_iter().filter(|name| name != topic).map(|name| (distance(topic, &name), name));
    let (distance, name) = near.min_by(|one, other| one.0.cmp(&other.0))?;
    // A third of the letters may be wrong; more than that is another name.
    (distance <= (topic.chars().count() / 3).max(1)).then_some(name)
}

/// How many letters must be added, removed or replaced.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (number, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], number + 1);
        for (index, candidate) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *candidate);
            diagonal = row[index + 1];
            row[index + 1] = replaced.min(diagonal + 1).min(row[index] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_letters() {
        for (one, other, expected) in
            [("orders", "orders", 0), ("order", "orders", 1), ("ordres", "orders", 2), ("", "abc", 3)]
        {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }
}
