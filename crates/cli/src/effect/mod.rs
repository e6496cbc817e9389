//! `driftq effect …`: what work does to the world outside, remembered so that it is not done twice.

mod begin;
mod decision;
mod ending;
mod finish;
mod get;
mod list;
mod reacquire;
mod release;
mod renew;
mod resolve;
mod run;
mod terms;
pub(super) mod words;

use anyhow::Result;

use super::{Common, exit::Exit};

pub(super) use ending::{Ending, Status};

/// Names one effect.
#[derive(clap::Args)]
struct Identity {
    /// What kind of effect it is; keys are unique within a scope
    scope: String,
    /// Which one it is
    key: String,
    /// Whose it is; nobody's in particular if not given
    #[arg(
        long,
        visible_alias = "tenant-id",
        default_value = "",
        hide_default_value = true,
        value_name = "ID"
    )]
    tenant: String,
}

impl Identity {
    /// For people.
    fn words(&self) -> String {
        words::name(&self.tenant, &self.scope, &self.key)
    }
}

/// Names a lease of an effect.
#[derive(clap::Args)]
struct Holder {
    /// The token that came with `effect begin`
    #[arg(allow_hyphen_values = true)]
    token: String,
}

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Ask whether to carry an effect out, or what came of it
    Begin(begin::Args),
    /// Run a command once: its output and end are stored, and replayed from then on
    Run(run::Args),
    /// Say what came of an effect
    Finish(finish::Args),
    /// Say that the work on an effect goes on
    Renew(renew::Args),
    /// Give an effect's lease up: nothing was sent
    Release(release::Args),
    /// Try an effect again that failed
    Reacquire(reacquire::Args),
    /// Decide by hand what came of an effect
    Resolve(resolve::Args),
    /// Show one effect and its outcome
    Get(get::Args),
    /// List effects, for example those that nobody knows the outcome of
    List(list::Args),
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<Exit> {
    let done = match command {
        Command::Begin(args) => return begin::run(common, args).await,
        Command::Run(args) => return run::run(common, args).await,
        Command::Reacquire(args) => return reacquire::run(common, args).await,
        Command::Finish(args) => finish::run(common, args).await,
        Command::Renew(args) => renew::run(common, args).await,
        Command::Release(args) => release::run(common, args).await,
        Command::Resolve(args) => resolve::run(common, args).await,
        Command::Get(args) => get::run(common, args).await,
        Command::List(args) => list::run(common, args).await,
    };
    done.map(|()| Exit::Success)
}
