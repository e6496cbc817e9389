//! Did you mean …? For names that do not exist.

use driftq_api::v1::Topics;
use driftq_api::v2::{Dataset, Datasets, DeadTopics, Groups, LIMIT_MAX, Topic};

use crate::{CallError, Exit, Fault, Path, Session, printable};

/// What a call is about, by the names that the user gave: each of them may be the wrong one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    /// Nothing whose name could be guessed.
    Unnamed,
    Topic(&'a str),
    /// A group of a topic: topic and group.
    Group(&'a str, &'a str),
    /// A dataset, or one of its versions.
    Output(&'a str, Option<&'a str>),
    /// The dead letters of a topic.
    Letters(&'a str),
}

/// The error of a call about this. If it is not there and something else has almost its name, that one is named. Help
/// for one error is not worth a second one: if the names cannot be read, there is no suggestion.
pub(crate) async fn explained(session: &mut Session, subject: Subject<'_>, error: CallError) -> Fault {
    let is_topic = error.code() == "TOPIC_UNKNOWN";
    let (is_group, is_output) = (error.code() == "GROUP_UNKNOWN", error.code() == "OUTPUT_UNKNOWN");
    let fault = Fault::from(error);
    let guess = match subject {
        Subject::Topic(topic) | Subject::Group(topic, _) if is_topic => {
            return unknown_topic(session, topic, fault).await;
        }
        Subject::Letters(topic) if is_topic => return no_letters(session, topic).await,
        Subject::Group(topic, group) if is_group => near_group(session, topic, group).await,
        Subject::Output(dataset, version) if is_output => near_output(session, dataset, version).await,
        _ => None,
    };
    match guess {
        Some(guess) => fault.help(guess),
        None => fault,
    }
}

/// The error of a topic that is not there, with its name, and with the one that was meant.
pub(crate) async fn unknown_topic(session: &mut Session, topic: &str, mut fault: Fault) -> Fault {
    let name = format!("topic `{}` does not exist", printable(topic));
    fault.message = fault.message.replacen("topic does not exist", &name, 1);
    let topics = session.get::<Topics>("/v1/topics").await.map(|all| all.topics).unwrap_or_default();
    match nearest(topic, topics.iter().map(String::as_str)) {
        Some(near) => fault.help(format!("did you mean `{near}`? All names: `driftq topic list`")),
        None => fault,
    }
}

async fn near_group(session: &mut Session, topic: &str, group: &str) -> Option<String> {
    let page: Groups = session.get(first_page(Path::topic(topic).word("groups"))).await.ok()?;
    let near = nearest(group, page.groups.iter().map(|group| &*group.name))?;
    Some(format!("did you mean `{near}`? All names: `driftq group list {topic}`"))
}

async fn near_output(session: &mut Session, dataset: &str, version: Option<&str>) -> Option<String> {
    let all = Path::of("/v2/outputs");
    if let Ok(known) = session.get::<Dataset<'static>>(first_page(all.clone().part(dataset))).await {
        let near = nearest(version?, known.versions.iter().map(|known| &*known.version))?;
        return Some(format!("did you mean version `{near}`? All of them: `driftq output list {dataset}`"));
    }
    let page: Datasets<'static> = session.get(first_page(all)).await.ok()?;
    let near = nearest(dataset, page.datasets.iter().map(|known| &*known.dataset))?;
    Some(format!("did you mean `{near}`? All names: `driftq output list`"))
}

/// The first page is more than enough for a guess.
fn first_page(path: Path) -> Path {
    path.with_number("limit", Some(LIMIT_MAX as u64))
}

/// The server knows no dead letters of the topic: it is not there, or it never had any.
async fn no_letters(session: &mut Session, topic: &str) -> Fault {
    if let Err(error) = session.get::<Topic>(Path::topic(topic)).await {
        let is_unknown = error.code() == "TOPIC_UNKNOWN";
        let fault = Fault::from(error);
        return if is_unknown { unknown_topic(session, topic, fault).await } else { fault };
    }
    let fault = Fault::new(Exit::Invalid, format!("topic {topic} has no dead letters"));
    let all = "`driftq dlq list` shows the topics that have some";
    let page: Option<DeadTopics> = session.get("/v2/dlq").await.ok();
    let names = page.iter().flat_map(|page| &page.topics).map(|topic| &*topic.name);
    let near = match topic.strip_prefix("dlq.") {
        Some(source) => names.clone().find(|name| *name == source).or_else(|| nearest(source, names)),
        None => nearest(topic, names),
    };
    fault.help(near.map_or_else(|| all.to_owned(), |near| format!("did you mean `{near}`? {all}")))
}

/// The name that was meant, if one is near enough: a third of the letters may be wrong; more than that is another name.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let others = known.into_iter().filter(|other| *other != name);
    let (distance, near) =
        others.map(|other| (strsim::osa_distance(name, other), other)).min_by_key(|(far, _)| *far)?;
    (distance <= (name.chars().count() / 3).max(1)).then_some(near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_meant() {
        let known = ["orders", "mails", "payments"];
        assert_eq!(nearest("ordres", known), Some("orders"));
        assert_eq!(nearest("pst", ["spt"]), Some("spt"), "letters that changed places are one mistake");
        assert_eq!(nearest("mail", known), Some("mails"));
        assert_eq!(nearest("clicks", known), None);
        assert_eq!(nearest("orders", ["orders"]), None, "it is there");
        assert_eq!(nearest("", known), None);
    }
}
