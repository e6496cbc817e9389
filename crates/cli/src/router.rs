//! `driftq router …`: the brain that producers do not see.

use std::borrow::Cow;

use anyhow::Result;
use driftq_api::v2::{
    Breaker, Envelope, Message, OnError, RouterKind, RouterOutcome, RouterStatus, RouterTest, RouterTested,
};

use crate::{Columns, Common, Subject, aligned, description, grouped, output::pairs, parse, printable};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Show what kind of router is asked, and how it does
    #[command(after_help = "Examples:
  driftq router status
  driftq router status -o json | jq .breaker")]
    Status,
    /// Ask the router about a message without storing it
    #[command(after_help = "Nothing is stored. The topic must exist, as for a producer.

Examples:
  driftq router test orders --key user:1 --value '{\"amount\": 9000}'
  driftq router test orders --value 'refund please' --label team=risk -o json | jq .decision")]
    Test {
        /// The topic that a producer would ask for
        topic: String,
        /// The message's value
        #[arg(long, default_value = "test")]
        value: String,
        /// The message's key
        #[arg(short, long, default_value = "", hide_default_value = true)]
        key: String,
        /// A label of the message; can be given several times
        #[arg(long, value_name = "NAME=VALUE", value_parser = parse::pair)]
        label: Vec<(String, String)>,
    },
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::Status => common.show(&common.caller()?.get("/v2/router").await?, status),
        Command::Test { topic, value, key, label } => {
            let labels = parse::labels(label)?;
            let envelope = (!labels.is_empty()).then(|| Box::new(Envelope { labels, ..Envelope::default() }));
            let message = Message {
                key: Cow::Borrowed(key.as_bytes()),
                value: Cow::Borrowed(value.as_bytes()),
                envelope,
                ..Message::default()
            };
            let request = RouterTest { topic: Cow::Borrowed(topic), message };
            let mut caller = common.about(Subject::Topic(topic))?;
            common.show(&caller.post("/v2/router/test", &request).await?, tested)
        }
    }
}

const STATUS: Columns<RouterStatus> = &[
    ("router", |status, _| {
        let is_http = status.kind == RouterKind::Http;
        if is_http { "a service over HTTP" } else { "the server's own rules" }.to_owned()
    }),
    ("breaker", |status, _| match status.breaker {
        Breaker::Closed => "closed: the router is asked".to_owned(),
        Breaker::Open => "open: it failed too often and is left alone for a while".to_owned(),
        Breaker::HalfOpen => "half open: it is asked once, to see whether it is back".to_owned(),
    }),
    ("on error", |status, _| match status.on_error {
        OnError::Pass => "messages without a good answer go on without routing".to_owned(),
        OnError::Reject => "messages without a good answer are refused".to_owned(),
    }),
    ("topics", |status, _| match &*status.topics {
        [] => "all".to_owned(),
        topics => printable(&topics.join(", ")),
    }),
    ("asked", |status, _| grouped(status.asked)),
    ("answered", |status, _| grouped(status.answered)),
    ("cached", |status, _| grouped(status.cached)),
    ("failed", |status, _| grouped(status.failed)),
    ("timed out", |status, _| grouped(status.timed_out)),
    ("not asked", |status, _| grouped(status.refused)),
];

fn status(status: &RouterStatus) -> String {
    match status.kind {
        RouterKind::None => {
            "no router is configured: messages go where their producers send them\n".to_owned()
        }
        RouterKind::Http | RouterKind::Rules => description(STATUS, status),
    }
}

fn tested(tested: &RouterTested<'_>) -> String {
    let outcome = match tested.outcome {
        RouterOutcome::NotAsked => "not asked: there is no router for this topic".to_owned(),
        RouterOutcome::Answered => format!("answered in {} ms", tested.took_ms),
        RouterOutcome::Cached => "answered from the cache".to_owned(),
        RouterOutcome::Failed => format!("failed after {} ms, or answered nonsense", tested.took_ms),
        RouterOutcome::TimedOut => format!("no answer within {} ms", tested.took_ms),
        RouterOutcome::Refused => {
            "not asked: the breaker is open, or too many questions are under way".to_owned()
        }
    };
    let mut facts = vec![("router", outcome)];
    facts.extend(tested.why.as_deref().map(|why| ("why", printable(why))));
    if let Some(decision) = &tested.decision {
        facts.push(("label", printable(&decision.label)));
        facts.extend(decision.target_topic.as_ref().map(|topic| ("target topic", printable(topic))));
        facts.extend(decision.partition_override.map(|partition| ("partition", partition.to_string())));
        facts.push(("meta", pairs(&decision.meta)));
    }
    facts.push(("would go to", format!("{} partition {}", printable(&tested.topic), tested.partition)));
    facts.retain(|(_, value)| !value.is_empty());
    aligned(&facts)
}
