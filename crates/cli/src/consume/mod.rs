//! `driftq consume`: receive messages and print them, or run a command for each.

mod delivery;
mod exec;
mod poll;
mod print;
mod run;
mod settle;
mod window;

use driftq_api::units;

use crate::{ack::OWNER, parse::span_ms};
pub(super) use run::run;

/// More commands at once than this would first run out of processes.
const CONCURRENCY_MAX: u16 = 1024;

#[derive(clap::Args)]
#[command(after_help = "Without --ack or --exec the messages are only on loan: ack them with `driftq ack` \
before the lease ends, or they come back. Without --max, such a reader has at most 100 messages on loan at a time, and \
then waits until some are acked or come back.

--exec runs CMD with `sh -c` for each message: the value on stdin, the rest in DRIFTQ_TOPIC, DRIFTQ_GROUP, \
DRIFTQ_PARTITION, DRIFTQ_OFFSET, DRIFTQ_ORIGIN_TOPIC, DRIFTQ_ORIGIN_INCARNATION, DRIFTQ_ORIGIN_PARTITION, \
DRIFTQ_ORIGIN_OFFSET (where it was born), DRIFTQ_ATTEMPT, DRIFTQ_MESSAGE_KEY, DRIFTQ_LAST_ERROR, DRIFTQ_RUN_ID, DRIFTQ_STEP_ID, \
DRIFTQ_PARENT_STEP_ID, DRIFTQ_TENANT_ID, DRIFTQ_IDEMPOTENCY_KEY, DRIFTQ_DEADLINE. Its exit code decides:
    0   done: ack
   75   try again later: nack
   65   never try again: a nack whose reason says so. The message goes to dlq.TOPIC
        when its retry policy's attempts are used up; without a policy it comes
        back. (`driftq work` makes it a dead letter at once.)
  else  failed: nack with the exit code and the last line of stderr as the reason
The lease must be longer than the command runs: it is not extended here, but in `driftq work`.

When the server restarts, messages are asked for again. Ctrl-C lets running commands end, a second one kills them. \
No more is borrowed than is printed or worked on, and what is not wanted any more at the end is given back, which uses \
up no attempt.

Examples:
  driftq consume orders --group billing --ack
  driftq consume orders --group billing --max 1 -o json
  driftq consume orders --group mail --exec 'xargs -0 ./send-mail' --lease-ms 60s
  driftq consume dlq.orders --group look --timeout 1s | jq .envelope.dlq")]
pub(crate) struct Args {
    /// The topic
    topic: String,
    /// The consumer group; a new one starts at the oldest message kept
    #[arg(short, long)]
    group: String,
    /// Your name: a client with the same name may ack for you
    #[arg(long, env = "DRIFTQ_OWNER", hide_env_values = true, default_value = OWNER)]
    owner: String,
    /// How long a message is yours before it is given to the next reader
    #[arg(long, default_value = "30s", value_name = "MS", value_parser = span_ms)]
    lease_ms: u64,
    /// End after this many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// Ack each message once it is printed
    #[arg(long, conflicts_with = "exec")]
    ack: bool,
    /// End when no message came for this long
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    timeout: Option<u64>,
    /// Run this command for each message
    #[arg(long, value_name = "CMD")]
    exec: Option<String>,
    /// Commands at once
    #[arg(long, default_value_t = 1, value_name = "N", requires = "exec", value_parser = clap::value_parser!(u16).range(1..=i64::from(CONCURRENCY_MAX)))]
    concurrency: u16,
}
