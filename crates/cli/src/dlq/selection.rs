//! Which dead letters: by place, by condition, or all of them.

use driftq_api::{
    Moment,
    v2::{LetterFilter, LetterPlace, Selection},
};

use crate::{
    client::Path,
    exit::{Exit, Fault},
    parse::{self, owned},
};

/// Conditions, all of which must hold.
#[derive(clap::Args)]
#[command(next_help_heading = "Conditions")]
pub(super) struct Conditions {
    /// Given up by this group
    #[arg(long)]
    group: Option<String>,
    /// With this key
    #[arg(long)]
    key: Option<String>,
    /// Of this run
    #[arg(long, visible_alias = "run-id", value_name = "ID")]
    run: Option<String>,
    /// Of this tenant
    #[arg(long, visible_alias = "tenant-id", value_name = "ID")]
    tenant: Option<String>,
    /// With this label; can be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse::pair)]
    label: Vec<(String, String)>,
    /// Given up for this reason, as `dlq get` shows it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Died before this time (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    before: Option<Moment>,
    /// Died at this time or later (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    after: Option<Moment>,
}

impl Conditions {
    pub(super) fn filter(&self) -> Result<LetterFilter<'static>, Fault> {
        Ok(LetterFilter {
            group: owned(self.group.as_ref()),
            key: owned(self.key.as_ref()),
            run_id: owned(self.run.as_ref()),
            tenant_id: owned(self.tenant.as_ref()),
            labels: parse::labels(&self.label)?,
            reason: owned(self.reason.as_ref()),
            before: self.before,
            after: self.after,
        })
    }
}

/// The filter as a query.
pub(super) fn with_filter(path: Path, filter: &LetterFilter<'_>) -> Path {
    path.with_some("group", filter.group.as_deref())
        .with_some("key", filter.key.as_deref())
        .with_some("run_id", filter.run_id.as_deref())
        .with_some("tenant_id", filter.tenant_id.as_deref())
        .with_labels(&filter.labels)
        .with_some("reason", filter.reason.as_deref())
        .with_moment("before", filter.before)
        .with_moment("after", filter.after)
}

/// What a job works on.
#[derive(clap::Args)]
pub(super) struct SelectionArgs {
    /// All of them
    #[arg(long)]
    all: bool,
    /// This one, as PARTITION:OFFSET of `dlq list`; can be given several times
    #[arg(long, value_name = "PARTITION:OFFSET", value_parser = parse::place)]
    letter: Vec<LetterPlace>,
    #[command(flatten)]
    conditions: Conditions,
}

impl SelectionArgs {
    /// Exactly one way of choosing: a typing error must not send back everything.
    pub(super) fn selection(&self) -> Result<Selection<'static>, Fault> {
        let filter = self.conditions.filter()?;
        let is_filtered = filter != LetterFilter::default();
        match (self.all, self.letter.is_empty(), is_filtered) {
            (true, true, false) => Ok(Selection::All),
            (false, false, false) => Ok(Selection::Letters(self.letter.clone())),
            (false, true, true) => Ok(Selection::Filter(Box::new(filter))),
            (false, true, false) => Err(Fault::new(Exit::Usage, "which dead letters?")
                .help("give --all, --letter PARTITION:OFFSET, or conditions such as --group and --key")),
            _ => Err(Fault::new(Exit::Usage, "--all, --letter and conditions exclude each other")
                .help("leave out all but one of them")),
        }
    }

    /// In words, for a question.
    pub(super) fn words(&self) -> &'static str {
        match (self.all, self.letter.is_empty()) {
            (true, _) => "all dead letters",
            (false, false) => "the named dead letters",
            (false, true) => "the dead letters that fit",
        }
    }
}
