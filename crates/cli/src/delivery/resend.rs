//! Sending what was delivered once more: each delivery as a message of its own, which the receiver knows by its old id.

use std::time::Duration;

use anyhow::Result;
use driftq_api::v2::{
    Deliveries, DeliveryRecord, Item, ItemEnvelope, MessageState, Produced, RESEND_OF_LABEL,
};
use driftq_api::{Code, Moment};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::time::{MissedTickBehavior, interval};

use crate::caller::Caller;
use crate::{CallError, Common, Exit, Fault, Path, parse, progress};

/// What stands between the id of a delivery and the name under which it is sent again.
const BETWEEN: char = '~';

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The endpoint
    endpoint: String,
    /// Names what is done: each delivery is sent again once under it
    #[arg(long)]
    name: String,
    /// Only the one with this id; may be given several times
    #[arg(long, value_name = "ID")]
    id: Vec<String>,
    /// Only those taken at this time or later
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    since: Option<Moment>,
    /// Only those taken before this time
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    until: Option<Moment>,
    /// At most this many per second
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
    /// Only say which
    #[arg(long)]
    dry_run: bool,
}

/// What was done.
#[derive(Default, Serialize)]
struct Summary {
    /// Sent again, or to be sent again.
    resent: Vec<String>,
    /// Sent again under this name before.
    repeated: u64,
    /// Listed, but gone when it was to be read.
    gone: u64,
    dry_run: bool,
}

pub(super) async fn run(common: &Common, caller: &mut Caller<'_>, args: &Args) -> Result<()> {
    let first = Path::of("/v2/deliveries").with("endpoint", &args.endpoint).with("state", "delivered");
    let part = |page: Deliveries<'static>| (page.deliveries, page.cursor);
    let delivered = caller.collect(first, part).await?;
    let chosen: Vec<_> = delivered.into_iter().filter(|record| args.wants(record)).collect();
    let bar = progress::bar("{bar:30} {pos}/{len} sent again ({eta})");
    bar.set_length(chosen.len() as u64);
    let mut pace = interval(Duration::from_secs(1) / args.rate);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut summary = Summary { dry_run: args.dry_run, ..Summary::default() };
    for record in chosen {
        bar.inc(1);
        match read(caller, &record).await? {
            None => summary.gone += 1,
            // What was sent again is the delivery that it was, and that is listed itself.
            Some(item) if label(&item, RESEND_OF_LABEL).is_some() => {}
            Some(_) if args.dry_run => summary.resent.push(record.delivery_id.into_owned()),
            Some(item) => {
                pace.tick().await;
                let path = Path::topic(&record.message.topic).word("messages");
                let stored: Produced<'static> = caller.post(path, &args.again(&record, &item)).await?;
                match stored.duplicate {
                    true => summary.repeated += 1,
                    false => summary.resent.push(record.delivery_id.into_owned()),
                }
            }
        }
    }
    bar.finish_and_clear();
    common.show(&summary, Summary::text)
}

/// The message of a delivery, if it is still there.
async fn read(caller: &mut Caller<'_>, record: &DeliveryRecord<'_>) -> Result<Option<Item<'static>>> {
    let place = &record.message;
    let path = Path::message(&place.topic, place.partition, place.offset);
    let found: Result<MessageState<'static>, CallError> = caller.session.get(path).await;
    let item = match found {
        Err(error) if error.code() == Code::MessageUnknown.entry().code => return Ok(None),
        found => caller.explain(found).await?.message,
    };
    if item.payload_hidden {
        let said = "the key may not see what was delivered, so it cannot send it again";
        return Err(Fault::new(Exit::Invalid, said).help("use one with the right `read_payload`").into());
    }
    Ok(Some(item))
}

fn label<'a>(item: &'a Item<'_>, name: &str) -> Option<&'a str> {
    let labels = &item.envelope.as_ref()?.labels;
    labels.pairs().iter().find(|(given, _)| given == name).map(|(_, value)| &**value)
}

impl Args {
    fn wants(&self, record: &DeliveryRecord<'_>) -> bool {
        (self.id.is_empty() || self.id.iter().any(|id| *id == record.delivery_id))
            && self.since.is_none_or(|since| record.created_at >= since)
            && self.until.is_none_or(|until| record.created_at < until)
    }

    /// The message that sends it again.
    fn again(&self, record: &DeliveryRecord<'_>, item: &Item<'_>) -> Value {
        let none = ItemEnvelope::default();
        let envelope = item.envelope.as_ref().unwrap_or(&none);
        let labels = envelope.labels.pairs().iter().map(|(name, value)| (name.to_string(), json!(value)));
        let mut labels: Map<String, Value> = labels.collect();
        labels.insert(RESEND_OF_LABEL.to_owned(), json!(record.delivery_id));
        let mut message = json!({
            "envelope": {
                "labels": labels,
                "idempotency_key": format!("{}{BETWEEN}{}", record.delivery_id, self.name),
            },
        });
        if !envelope.tenant_id.is_empty() {
            message["envelope"]["tenant_id"] = json!(envelope.tenant_id);
        }
        match &item.key_b64 {
            Some(bytes) => message["key_b64"] = json!(bytes),
            None if item.key.is_empty() => {}
            None => message["key"] = json!(item.key),
        }
        match &item.value_b64 {
            Some(bytes) => message["value_b64"] = json!(bytes),
            None => message["value"] = json!(item.value.as_deref().unwrap_or_default()),
        }
        message
    }
}

impl Summary {
    fn text(&self) -> String {
        let verb = if self.dry_run { "would be sent" } else { "are on their way" };
        let mut text = format!("{} {verb} again\n", self.resent.len());
        if self.repeated > 0 {
            text.push_str(&format!("{} were sent again under this name before\n", self.repeated));
        }
        if self.gone > 0 {
            text.push_str(&format!("{} are gone: they were older than seven days\n", self.gone));
        }
        text
    }
}
