//! `driftq router test`.

use std::borrow::Cow;

use anyhow::Result;
use driftq_api::v2::{Envelope, Message, RouterOutcome, RouterTest, RouterTested};

use crate::{
    Common,
    message::words::aligned,
    output::{self, printable},
    parse, suggest,
};

#[derive(clap::Args)]
#[command(after_help = "Nothing is stored. The topic must exist, as for a producer.

Examples:
  driftq router test orders --key user:1 --value '{\"amount\": 9000}'
  driftq router test orders --value 'refund please' --label team=risk -o json | jq .decision")]
pub(crate) struct Args {
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
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let labels = parse::labels(&args.label)?;
    let envelope = (!labels.is_empty()).then(|| Box::new(Envelope { labels, ..Envelope::default() }));
    let message = Message {
        key: Cow::Borrowed(args.key.as_bytes()),
        value: Cow::Borrowed(args.value.as_bytes()),
        envelope,
        ..Message::default()
    };
    let request = RouterTest { topic: Cow::Borrowed(&args.topic), message };
    let mut session = common.client()?.session();
    let answer = session.post("/v2/router/test", &request).await;
    let tested: RouterTested<'static> = suggest::or_explain(&mut session, &args.topic, answer).await?;
    output::print_one(common.output, &tested, || text(&tested))
}

fn text(tested: &RouterTested<'_>) -> String {
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
        let meta = decision.meta.pairs().iter().map(|(name, value)| format!("{name}={value}"));
        facts.push(("meta", printable(&meta.collect::<Vec<_>>().join(", "))));
    }
    facts.push(("would go to", format!("{} partition {}", printable(&tested.topic), tested.partition)));
    facts.retain(|(_, value)| !value.is_empty());
    aligned(&facts)
}
