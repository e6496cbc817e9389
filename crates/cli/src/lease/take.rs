//! `driftq lease take`.

use std::{borrow::Cow, time::Duration};

use anyhow::Result;
use driftq_api::v2::{Item, LEASE_MESSAGES_MAX, LeaseRequest, Leased, WAIT_MS_MAX};

use crate::{
    Common,
    ack::OWNER,
    call::{fresh_id, patiently},
    client::{CallError, Path, Session},
    items::{Columns, Printer},
    output::Format,
    parse::span,
    suggest,
};
use driftq_api::units::duration;

#[derive(clap::Args)]
#[command(
    after_help = "Each message comes with a lease: a token, which names this delivery and is the authority to settle it, and \
the time at which the loan ends. Settle it before with `driftq lease ack`, `nack` or `release`, or keep it longer with \
`extend`. The same --request-id again prints the same messages, so that a lost answer loses nothing; without one, the \
command makes up its own and asks again by itself when the connection breaks.

Nothing to borrow is no error: the output is empty.

Examples:
  driftq lease take orders billing --max 10 --wait 30s --lease 1m
  driftq lease take orders billing --max 10 | driftq lease ack -
  token=$(driftq lease take orders billing -o ndjson | jq -r .lease.token)"
)]
pub(crate) struct Args {
    /// The topic
    topic: String,
    /// The consumer group; a new one starts at the oldest message kept
    group: String,
    /// At most this many messages
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=LEASE_MESSAGES_MAX as i64))]
    max: u32,
    /// How long to wait while there are none
    #[arg(long, default_value = "0", value_name = "DURATION", value_parser = duration)]
    wait: u64,
    /// How long each message is on loan; what the topic says if not given
    #[arg(long, value_name = "DURATION", value_parser = span)]
    lease: Option<u64>,
    /// Your name
    #[arg(long, env = "DRIFTQ_OWNER", hide_env_values = true, default_value = OWNER)]
    owner: String,
    /// Names this call: the same name again prints the same messages
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let mut session = common.client()?.session().waiting(Duration::from_millis(WAIT_MS_MAX));
    let answer = take(&mut session, args).await;
    let items = suggest::or_explain(&mut session, &args.topic, answer).await?;
    let mut printer = Printer::new(Format::for_stream(common.output), Columns::Leased);
    for item in &items {
        printer.item(item)?;
    }
    printer.end("nothing to borrow")
}

/// Asks until there is something or the wait is over: a single call of the server waits for a minute at most.
async fn take(session: &mut Session, args: &Args) -> Result<Vec<Item<'static>>, CallError> {
    let path = Path::group(&args.topic, &args.group).word("lease");
    let mut left = args.wait;
    loop {
        let request = LeaseRequest {
            owner: Cow::Borrowed(&args.owner),
            max: args.max,
            wait_ms: left.min(WAIT_MS_MAX),
            lease_ms: args.lease,
            request_id: Some(request_id(args)),
        };
        let answer: Leased<'static> = patiently(session, path.as_str(), &request, request.wait_ms).await?;
        let messages = answer.messages;
        left -= request.wait_ms;
        if !messages.is_empty() || left == 0 {
            return Ok(messages);
        }
    }
}

/// The user's name for the call, or one that nobody else has.
fn request_id(args: &Args) -> Cow<'_, str> {
    args.request_id.as_deref().map_or_else(|| Cow::Owned(fresh_id()), Cow::Borrowed)
}
