//! `driftq effect list`.

use anyhow::Result;
use clap::ValueEnum;
use driftq_api::v2::{Effect, EffectState, Effects};

use super::words;
use crate::{
    Common,
    client::Path,
    output::{Format, printable},
    rows::{Amount, Pages, Rows},
    when::Now,
};

/// Where an effect stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum State {
    #[value(alias = "in_progress")]
    InProgress,
    Succeeded,
    #[value(alias = "failed_final")]
    FailedFinal,
    #[value(alias = "failed_retryable")]
    FailedRetryable,
    Unknown,
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            Self::InProgress => EffectState::InProgress.name(),
            Self::Succeeded => EffectState::Succeeded.name(),
            Self::FailedFinal => EffectState::FailedFinal.name(),
            Self::FailedRetryable => EffectState::FailedRetryable.name(),
            Self::Unknown => EffectState::Unknown.name(),
        }
    }
}

#[derive(clap::Args)]
#[command(after_help = "The oldest first. Bodies and headers of outcomes are shown by `driftq effect get`.

Examples:
  driftq effect list --state unknown           # what somebody must look into
  driftq effect list --scope charge --tenant acme --limit 20
  driftq effect list --all -o ndjson | jq -r .state | sort | uniq -c")]
pub(crate) struct Args {
    /// Only in this state
    #[arg(long, value_enum)]
    state: Option<State>,
    /// Only of this scope
    #[arg(long)]
    scope: Option<String>,
    /// Only of this tenant; '' for those that are nobody's
    #[arg(long, visible_alias = "tenant-id", value_name = "ID")]
    tenant: Option<String>,
    #[command(flatten)]
    amount: Amount,
}

pub(super) async fn run(common: &Common, args: &Args) -> Result<()> {
    let first = Path::of("/v2/effects")
        .with_some("state", args.state.map(State::name))
        .with_some("scope", args.scope.as_deref())
        .with_some("tenant_id", args.tenant.as_deref());
    let mut session = common.client()?.session();
    let now = Now::read();
    let headings = ["SCOPE", "KEY", "TENANT", "STATE", "ATTEMPT", "OWNER", "BEGUN", "NOTE"];
    let mut rows = Rows::new(common.output.unwrap_or(Format::Table), &headings);
    let mut pages = Pages::new(first, &args.amount);
    while let Some(path) = pages.next(rows.printed()) {
        let page: Effects<'static> = session.get(path.as_str()).await.map_err(|error| error.into_error())?;
        for effect in &page.effects {
            rows.row(effect, || cells(effect, now))?;
        }
        pages.turn(page.cursor);
    }
    rows.end("no effect fits")?;
    pages.hint(common);
    Ok(())
}

fn cells(effect: &Effect<'_>, now: Now) -> Vec<String> {
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { printable(text) };
    vec![
        printable(&effect.scope),
        printable(&effect.key),
        or_dash(&effect.tenant_id),
        effect.state.name().to_owned(),
        effect.attempt.to_string(),
        or_dash(&effect.owner),
        now.tell(effect.begun_at),
        words::note(effect, now),
    ]
}
