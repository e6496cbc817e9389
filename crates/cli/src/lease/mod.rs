//! `driftq lease …`: messages on loan, one call at a time.

mod tokens;

use std::{borrow::Cow, time::Duration};

use anyhow::Result;
use driftq_api::units::duration;
use driftq_api::v2::{
    Credential, CredentialRequest, ExtendLease, Introspect, Introspected, Item, LEASE_MESSAGES_MAX,
    LeaseRequest, Leased, NackLease, ReleaseLease, SETTLEMENTS_MAX, Settled, SettledStatus, Settlements,
    Token, WAIT_MS_MAX,
};
use serde::Serialize;

use crate::{
    CallError, Columns, Common, Exit, Fault, Format, Path, Rows, Session, Subject, ack::OWNER,
    client::fresh_id, message::tables, parse::span, printable, suggest,
};
use tokens::Tokens;
pub use tokens::with_tokens_last;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Borrow messages, waiting for them if there are none
    Take(TakeArgs),
    /// Say that the work is done
    #[command(after_help = "The same token again is no error: the work is done.

Examples:
  driftq lease ack \"$token\"
  driftq lease take orders billing --max 100 | tee work.ndjson | driftq lease ack -")]
    Ack(Tokens),
    /// Say that the work failed
    #[command(after_help = "The message comes back after its backoff, or becomes a dead letter if its \
attempts are used up.

Examples:
  driftq lease nack \"$token\" --error 'card service timed out'
  driftq lease nack \"$token\" --delay 10m --error 'rate limit'
  driftq lease nack \"$token\" --dead --error 'no such account'")]
    Nack {
        #[command(flatten)]
        tokens: Tokens,
        /// Try again after this, whatever the retry policy says
        #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "dead")]
        delay: Option<u64>,
        /// Never try again: make it a dead letter now
        #[arg(long)]
        dead: bool,
        /// Why it failed; the next reader and the dead letter show it
        #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
        error: String,
    },
    /// Say that the work goes on, and learn whether it still should
    #[command(after_help = "A heartbeat: call it well before the loan ends. The answer says when it ends \
now, whether the message was cancelled, and whether the server is about to stop.

Examples:
  driftq lease extend \"$token\" --lease 5m
  driftq lease extend \"$token\" -o json | jq '.[0].cancelled'")]
    Extend {
        #[command(flatten)]
        tokens: Tokens,
        /// For how long from now; as long as it was lent for if not given
        #[arg(long, value_name = "DURATION", value_parser = span)]
        lease: Option<u64>,
    },
    /// Give messages back that were not begun; no attempt is used up
    #[command(after_help = "The next reader gets the messages, at once or when --delay is over, and the \
attempt does not count.

Examples:
  driftq lease release \"$token\"
  driftq lease release \"$token\" --delay 10m                  # not now; no attempt is used
  driftq lease release - < unfinished.ndjson")]
    Release {
        #[command(flatten)]
        tokens: Tokens,
        /// Not to be handed out again before this has passed
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        delay: Option<u64>,
    },
    /// Get a credential for a message on loan: a JSON Web Token that ends with the lease
    #[command(
        after_help = "The token says which message, which attempt and for whom. Services check it with \
the keys at /.well-known/jwks.json, and may ask `driftq lease introspect` whether the attempt is still the newest.

Examples:
  driftq lease credential \"$token\" --audience sts.amazonaws.com
  driftq lease credential \"$token\" --audience vault --ttl 5m -o json | jq -r .credential"
    )]
    Credential {
        /// The token of the lease
        token: String,
        /// The service that will be shown it
        #[arg(long, value_name = "NAME")]
        audience: String,
        /// How long it is good for; as long as the lease, and at most an hour, if not given
        #[arg(long, value_name = "DURATION", value_parser = span)]
        ttl: Option<u64>,
    },
    /// See whether a credential is still good
    #[command(
        after_help = "It is as long as its delivery is the newest of its message and the lease is live. \
The exit code is 0 if it is, and 5 if it is not.

Examples:
  driftq lease introspect \"$credential\" -o json | jq .attempt"
    )]
    Introspect {
        /// The credential
        credential: String,
    },
}

#[derive(clap::Args)]
#[command(after_help = "Each message comes with a lease: a token, which names this delivery and is the \
authority to settle it, and the time at which the loan ends. Settle it before with `driftq lease ack`, `nack` or \
`release`, or keep it longer with `extend`. The same --request-id again prints the same messages, so that a lost \
answer loses nothing; without one, the command makes up its own and asks again by itself when the connection breaks.

Nothing to borrow is no error: the output is empty.

Examples:
  driftq lease take orders billing --max 10 --wait 30s --lease 1m
  driftq lease take orders billing --max 10 | driftq lease ack -
  token=$(driftq lease take orders billing -o ndjson | jq -r .lease.token)")]
pub(crate) struct TakeArgs {
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

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::Take(args) => take(common, args).await,
        Command::Ack(tokens) => settle(common, "/v2/leases/ack", tokens, |token| Token { token }).await,
        Command::Nack { tokens, delay, dead, error } => {
            let error = || Cow::Borrowed(&**error);
            let nack = |token| NackLease { token, delay_ms: *delay, dead: *dead, error: error() };
            settle(common, "/v2/leases/nack", tokens, nack).await
        }
        Command::Extend { tokens, lease } => {
            let extend = |token| ExtendLease { token, lease_ms: *lease, started: None };
            settle(common, "/v2/leases/extend", tokens, extend).await
        }
        Command::Release { tokens, delay } => {
            let release = |token| ReleaseLease { token, delay_ms: *delay, effect: None };
            settle(common, "/v2/leases/release", tokens, release).await
        }
        Command::Credential { token, audience, ttl } => {
            let (token, audience) = (Cow::Borrowed(&**token), Cow::Borrowed(&**audience));
            let asked = CredentialRequest { token, audience, ttl_ms: *ttl };
            let made: Credential<'static> = common.caller()?.post("/v2/leases/credential", &asked).await?;
            common.show(&made, |made| format!("{}\n", made.credential))
        }
        Command::Introspect { credential } => introspect(common, credential).await,
    }
}

async fn introspect(common: &Common, credential: &str) -> Result<()> {
    let asked = Introspect { token: Cow::Borrowed(credential) };
    let said: Introspected = common.caller()?.post("/v2/introspect", &asked).await?;
    common.show(&said, |said| match (&said.sub, &said.aud) {
        (Some(subject), Some(audience)) => {
            format!("active: {}, for {}\n", printable(subject), printable(audience))
        }
        _ => String::new(),
    })?;
    if said.active {
        return Ok(());
    }
    let help = "its time or its lease is over, another attempt has begun, or another server signed it";
    Err(Fault::new(Exit::Conflict, "the credential is not active").help(help).into())
}

async fn take(common: &Common, args: &TakeArgs) -> Result<()> {
    let mut session = common.client()?.session().waiting(Duration::from_millis(WAIT_MS_MAX));
    let items = match borrow(&mut session, args).await {
        Ok(items) => items,
        Err(error) => {
            return Err(suggest::explained(&mut session, Subject::Topic(&args.topic), error).await.into());
        }
    };
    let mut rows = Rows::new(Format::for_stream(common.output), tables::LEASED);
    for item in &items {
        rows.row(item, item)?;
    }
    rows.end("nothing to borrow")
}

/// Asks until there is something or the wait is over: a single call of the server waits for a minute at most.
async fn borrow(session: &mut Session, args: &TakeArgs) -> Result<Vec<Item<'static>>, CallError> {
    let path = Path::group(&args.topic, &args.group).word("lease");
    let mut left = args.wait;
    loop {
        let request = LeaseRequest {
            owner: Cow::Borrowed(&args.owner),
            max: args.max,
            wait_ms: left.min(WAIT_MS_MAX),
            lease_ms: args.lease,
            // The user's name for the call, or one that no other call has.
            request_id: Some(args.request_id.as_deref().map_or_else(|| fresh_id().into(), Cow::Borrowed)),
        };
        let answer: Leased<'static> = session.patiently(&path, &request, request.wait_ms).await?;
        left -= request.wait_ms;
        if !answer.messages.is_empty() || left == 0 {
            return Ok(answer.messages);
        }
    }
}

/// One result, as it is printed.
#[derive(Serialize)]
struct Row {
    token: String,
    #[serde(flatten)]
    settled: Settled,
}

const RESULTS: Columns<Row> =
    &[("TOKEN", |row, _| printable(&row.token)), ("RESULT", |row, _| sentence(&row.settled))];

/// Sends the tokens in calls of at most [`SETTLEMENTS_MAX`] and prints a result for each. `lease` says of one token what
/// is asked for. Fails if one token was not accepted.
async fn settle<T: Serialize>(
    common: &Common,
    path: &'static str,
    tokens: &Tokens,
    lease: impl Fn(Cow<'static, str>) -> T,
) -> Result<()> {
    #[derive(Serialize)]
    struct Body<T> {
        leases: Vec<T>,
    }
    let tokens = tokens.read()?;
    let mut session = common.client()?.session();
    let mut rows = Vec::with_capacity(tokens.len());
    for chunk in tokens.chunks(SETTLEMENTS_MAX) {
        let body = Body { leases: chunk.iter().map(|token| lease(token.clone().into())).collect() };
        let results = match session.post::<Settlements>(path, &body).await {
            Ok(answer) => answer.results,
            // A single lease that is refused is an error of the call; beside others it is one result of many.
            Err(error) if tokens.len() > 1 => vec![refused(error)?],
            Err(error) => return Err(error.into_error()),
        };
        rows.extend(chunk.iter().cloned().zip(results).map(|(token, settled)| Row { token, settled }));
    }
    common.show_all(&rows, RESULTS, "no tokens, nothing done")?;
    verdict(&rows)
}

/// What the refusal of a call says about its only lease.
pub(crate) fn refused(error: CallError) -> Result<Settled> {
    let status = match error.code() {
        "STALE_LEASE" => SettledStatus::Stale,
        "LEASE_UNKNOWN" => SettledStatus::Unknown,
        _ => return Err(error.into_error()),
    };
    let attempt = if let CallError::Refused(refusal) = &error { refusal.attempt } else { None };
    Ok(Settled { attempt, ..Settled::new(status) })
}

fn sentence(settled: &Settled) -> String {
    let mut words = match (settled.status, settled.attempt) {
        (SettledStatus::Ok, _) => "ok".to_owned(),
        (SettledStatus::Stale, Some(attempt)) => format!("stale: attempt {attempt} is current"),
        (SettledStatus::Stale, None) => "stale: the message is settled".to_owned(),
        (SettledStatus::Unknown, _) => "unknown: no lease has that token".to_owned(),
    };
    if let Some(at) = settled.expires_at {
        words.push_str(&format!(", on loan until {at}"));
    }
    if settled.cancelled {
        words.push_str("; the message was cancelled: the work may stop");
    }
    if settled.dead {
        words.push_str("; it was the last attempt: the message becomes a dead letter");
    }
    if settled.draining {
        words.push_str("; the server is about to stop: finish soon");
    }
    words
}

fn verdict(rows: &[Row]) -> Result<()> {
    let count = |status| rows.iter().filter(|row| row.settled.status == status).count();
    let (stale, unknown) = (count(SettledStatus::Stale), count(SettledStatus::Unknown));
    let bad = stale + unknown;
    if bad == 0 {
        return Ok(());
    }
    let message =
        format!("{bad} of {} leases were not accepted: {stale} stale, {unknown} unknown", rows.len());
    let help = "a stale lease has lapsed or its message is settled; the others were done as asked";
    Err(Fault::new(Exit::Conflict, message).help(help).into())
}
