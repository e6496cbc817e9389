//! Did you mean …? For names that do not exist.

use driftq_api::{
    v1::Topics,
    v2::{Dataset, Datasets, Groups, LIMIT_MAX},
};

use super::{exit::Fault, output::printable};
use crate::client::{CallError, Path, Session};

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

/// The same for a call about a group of a topic: either name may be the wrong one.
pub(super) async fn or_explain_group<T>(
    session: &mut Session,
    topic: &str,
    group: &str,
    answer: Result<T, CallError>,
) -> anyhow::Result<T> {
    match answer {
        Err(error) if error.code() == "GROUP_UNKNOWN" => {
            let names = groups(session, topic).await.unwrap_or_default();
            let near = nearest(group, names.iter().map(String::as_str)).map(str::to_owned);
            let fault = Fault::from(error);
            Err(match near {
                Some(name) => fault
                    .help(format!("did you mean `{name}`? All names: `driftq group list {topic}`"))
                    .into(),
                None => fault.into(),
            })
        }
        other => or_explain(session, topic, other).await,
    }
}

/// The same for a call about a dataset, or about one of its versions.
pub(super) async fn or_explain_output<T>(
    session: &mut Session,
    dataset: &str,
    version: Option<&str>,
    answer: Result<T, CallError>,
) -> anyhow::Result<T> {
    let error = match answer {
        Ok(answer) => return Ok(answer),
        Err(error) => error,
    };
    let is_unknown = error.code() == "OUTPUT_UNKNOWN";
    let fault = Fault::from(error);
    if !is_unknown {
        return Err(fault.into());
    }
    let limit = Some(LIMIT_MAX as u64);
    let whole: Option<Dataset<'static>> =
        session.get(Path::of("/v2/outputs").part(dataset).with_number("limit", limit).as_str()).await.ok();
    let near = match (&whole, version) {
        (Some(known), Some(version)) => {
            let near = nearest(version, known.versions.iter().map(|known| &*known.version));
            near.map(|near| {
                format!("did you mean version `{near}`? All of them: `driftq output list {dataset}`")
            })
        }
        (Some(_), None) => None,
        (None, _) => {
            let path = Path::of("/v2/outputs").with_number("limit", limit);
            let page: Option<Datasets<'static>> = session.get(path.as_str()).await.ok();
            let names = page.iter().flat_map(|page| &page.datasets).map(|known| &*known.dataset);
            nearest(dataset, names)
                .map(|near| format!("did you mean `{near}`? All names: `driftq output list`"))
        }
    };
    Err(match near {
        Some(near) => fault.help(near).into(),
        None => fault.into(),
    })
}

/// The error of a call about this topic.
pub(super) async fn explained(session: &mut Session, topic: &str, error: CallError) -> Fault {
    let is_unknown = error.code() == "TOPIC_UNKNOWN" || error.is_topic_unknown_in_v1();
    let fault = Fault::from(error);
    if is_unknown { named(session, topic, fault).await } else { fault }
}

/// The error of a topic that is not there, with its name, and with the one that was meant.
pub(super) async fn named(session: &mut Session, topic: &str, mut fault: Fault) -> Fault {
    let name = format!("topic `{}` does not exist", printable(topic));
    fault.message = fault.message.replacen("topic does not exist", &name, 1);
    match closest(session, topic).await {
        Some(near) => fault.help(format!("did you mean `{near}`? All names: `driftq topic list`")),
        None => fault,
    }
}

/// Help for one error is not worth a second one: if the names cannot be read, there is no suggestion.
async fn closest(session: &mut Session, topic: &str) -> Option<String> {
    let topics: Topics = session.get("/v1/topics").await.ok()?;
    nearest(topic, topics.topics.iter().map(String::as_str)).map(str::to_owned)
}

/// The names of the groups on the first page, which is more than enough for a guess.
async fn groups(session: &mut Session, topic: &str) -> Option<Vec<String>> {
    let path = Path::topic(topic).word("groups").with_number("limit", Some(LIMIT_MAX as u64));
    let page: Groups = session.get(path.as_str()).await.ok()?;
    Some(page.groups.into_iter().map(|group| group.name).collect())
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
