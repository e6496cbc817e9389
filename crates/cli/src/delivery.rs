//! `driftq delivery …`: what goes out to endpoints, and what came of it.

use anyhow::Result;
use driftq_api::v2::{Deliveries, DeliveryRecord, DeliveryTaken, SendOutcome, SendState};
use serde_json::{Map, Value, json};

use crate::{Amount, Columns, Common, Exit, Fault, Path, or_dash, printable};

mod resend;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Send something to an endpoint
    #[command(after_help = "The same id again is the same delivery: it is sent once. A connector sends it \
(`driftq connect run`).

Examples:
  driftq delivery send shop order-7-paid '{\"type\":\"order.paid\",\"order\":7}'
  driftq delivery send shop report-3 - < report.json")]
    Send(SendArgs),
    /// List the deliveries of an endpoint
    #[command(after_help = "Oldest first. What was delivered is listed for seven days. To send failed ones \
again: `driftq dlq redrive deliveries.ENDPOINT`; delivered ones: `driftq delivery resend`.

Examples:
  driftq delivery list shop
  driftq delivery list shop --state unknown
  driftq delivery list shop --state failed -o ndjson | jq -r .delivery_id")]
    List(List),
    /// Send what was delivered once more
    #[command(after_help = "For a receiver that has lost what it had. It sees the id that it saw before \
(`webhook-id`, `Idempotency-Key` or `Message-ID`), so one that still knows it does nothing. The same --name again \
goes on where it was left: it sends no delivery a second time. Failed ones are dead letters: \
`driftq dlq redrive deliveries.ENDPOINT`.

Examples:
  driftq delivery resend shop --name outage --since 2030-01-31T12:00:00Z --dry-run
  driftq delivery resend shop --name outage --since 2030-01-31T12:00:00Z --rate 20
  driftq delivery resend shop --name lost-order --id order-7-paid")]
    Resend(resend::Args),
    /// Show one delivery with all its sends
    #[command(after_help = "Examples:
  driftq delivery show shop order-7-paid")]
    Show {
        /// The endpoint
        endpoint: String,
        /// Its id
        delivery_id: String,
    },
}

#[derive(clap::Args)]
pub(crate) struct SendArgs {
    /// The endpoint
    endpoint: String,
    /// Names it
    delivery_id: String,
    /// What to send; - reads stdin
    body: String,
    /// What the body is; if not given, application/json, and for e-mails text/plain
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// A header of this one, as name:value; may be given several times
    #[arg(long, value_name = "NAME:VALUE")]
    header: Vec<String>,
    /// Whose it is
    #[arg(long, default_value = "", hide_default_value = true)]
    tenant: String,
}

#[derive(clap::Args)]
pub(crate) struct List {
    /// The endpoint
    endpoint: String,
    /// Only in this state
    #[arg(
        long,
        value_name = "STATE",
        value_parser = ["pending", "sending", "retrying", "unknown", "delivered", "failed"]
    )]
    state: Option<String>,
    /// On this topic, if it is bound to the endpoint; its own if not given
    #[arg(long)]
    topic: Option<String>,
    #[command(flatten)]
    amount: Amount,
}

const COLUMNS: Columns<DeliveryRecord<'static>> = &[
    ("DELIVERY", |record, _| printable(&record.delivery_id)),
    ("STATE", |record, _| record.state.name().to_owned()),
    ("SENDS", |record, _| record.attempts.last().map_or(0, |last| last.attempt).to_string()),
    ("LAST", |record, _| {
        or_dash(record.attempts.last().map(|last| match (last.status, &*last.error) {
            (Some(status), _) => status.to_string(),
            (None, error) => printable(error),
        }))
    }),
    ("NEXT", |record, now| or_dash(record.next_at.map(|at| now.tell(at)))),
    ("TAKEN", |record, now| now.tell(record.created_at)),
];

/// The path that asks for one delivery.
pub(crate) fn by_id(endpoint: &str, id: &str) -> Path {
    Path::of("/v2/deliveries").with("endpoint", endpoint).with("delivery_id", id)
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    let mut caller = common.caller()?;
    match command {
        Command::Send(args) => {
            let taken: DeliveryTaken<'static> = caller.post("/v2/deliveries", &args.body()?).await?;
            common.show(&taken, |taken| {
                let again = if taken.duplicate { ", taken before" } else { "" };
                format!("{} to {}{again}\n", printable(&taken.delivery_id), printable(&taken.endpoint))
            })
        }
        Command::List(list) => {
            let part = |page: Deliveries<'static>| (page.deliveries, page.cursor);
            let first = Path::of("/v2/deliveries")
                .with("endpoint", &list.endpoint)
                .with_some("state", list.state.as_deref())
                .with_some("topic", list.topic.as_deref());
            caller.list(common, (first, &list.amount), (COLUMNS, "no such deliveries"), part).await
        }
        Command::Resend(args) => resend::run(common, &mut caller, args).await,
        Command::Show { endpoint, delivery_id } => {
            let page: Deliveries<'static> = caller.get(by_id(endpoint, delivery_id)).await?;
            match page.deliveries.into_iter().next() {
                Some(record) => common.show(&record, show),
                None => {
                    let said = format!("no delivery `{}` to that endpoint is known", printable(delivery_id));
                    let help =
                        "what was delivered is kept for seven days; `driftq delivery list` shows the ids";
                    Err(Fault::new(Exit::Invalid, said).help(help).into())
                }
            }
        }
    }
}

impl SendArgs {
    fn body(&self) -> Result<Value> {
        let text = match &*self.body {
            "-" => String::from_utf8(crate::file::read("BODY", "-")?).map_err(|_| {
                let said = "the body is not text";
                Fault::new(Exit::Usage, said).help("send bytes by the API, as body_b64")
            })?,
            text => text.to_owned(),
        };
        let mut headers = Map::new();
        for header in &self.header {
            let Some((name, value)) = header.split_once(':') else {
                return Err(Fault::new(Exit::Usage, format!("`{header}` is not name:value")).into());
            };
            headers.insert(name.trim().to_owned(), json!(value.trim()));
        }
        let mut body = json!({
            "delivery_id": self.delivery_id,
            "endpoint": self.endpoint,
            // A text goes out as the text that it is, also if it is JSON.
            "body": text,
            "headers": headers,
            "tenant_id": self.tenant,
        });
        if let Some(content_type) = &self.content_type {
            body["content_type"] = json!(content_type);
        }
        Ok(body)
    }
}

pub(crate) const fn state_in_words(state: SendState) -> &'static str {
    match state {
        SendState::Pending => "it waits for a connector",
        SendState::Sending => "it is being sent",
        SendState::Retrying => "it failed and is sent again later",
        SendState::Unknown => "it is not known whether it arrived",
        SendState::Delivered => "it was delivered",
        SendState::Failed => "it was given up",
    }
}

pub(crate) fn show(record: &DeliveryRecord<'_>) -> String {
    let mut text = format!(
        "delivery  {}\nendpoint  {}\nstate     {}: {}\n",
        printable(&record.delivery_id),
        printable(&record.endpoint),
        record.state.name(),
        state_in_words(record.state),
    );
    if let Some(next) = record.next_at {
        text.push_str(&format!("next      {next}\n"));
    }
    for send in &record.attempts {
        let outcome = match send.outcome {
            SendOutcome::Delivered => "delivered",
            SendOutcome::Failed => "failed",
            SendOutcome::Unknown => "unknown",
        };
        let took = send.took_ms.map_or_else(String::new, |took| format!(" after {took} ms"));
        let status = send.status.map_or_else(String::new, |status| format!(" {status}"));
        let error =
            if send.error.is_empty() { String::new() } else { format!(": {}", printable(&send.error)) };
        text.push_str(&format!("send {:<4} {} {outcome}{status}{took}{error}\n", send.attempt, send.at));
    }
    text
}
