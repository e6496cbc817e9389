//! `driftq entity …`: names with a version, so that something is done only if no other worker was there before.

use anyhow::Result;
use driftq_api::v2::{COUNT_MAX, Entities, Entity, EntityRemoved, Expected};

use crate::{Amount, Columns, Common, Now, Path, args::Tenant, confirm, grouped, or_dash, printable};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List entities and their versions
    #[command(after_help = "Those of one tenant; of no tenant if --tenant is not given. An \
entity that was never raised has version 0 and is not listed.

Examples:
  driftq entity list --limit 20
  driftq entity list --tenant acme --all -o ndjson | jq -r 'select(.version > 9) | .entity'")]
    List {
        #[command(flatten)]
        tenant: Tenant,
        #[command(flatten)]
        amount: Amount,
    },
    /// Print the version of an entity: what to expect next
    #[command(after_help = "An entity that was never raised has version 0.

Examples:
  driftq entity show order-7
  driftq entity show order-7 --tenant acme -o json
  driftq effect begin ship order-7 --expect order-7=3")]
    Show(Name),
    /// Forget an entity: its version is 0 again
    #[command(
        after_help = "Its version is 0 again: a caller that expects that is let through once more. Remove \
what no caller asks for any more.

Examples:
  driftq entity remove order-7          # asks for the name
  driftq entity remove order-7 --yes    # for scripts"
    )]
    Remove {
        #[command(flatten)]
        name: Name,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(clap::Args)]
pub(crate) struct Name {
    /// The entity
    entity: String,
    #[command(flatten)]
    tenant: Tenant,
}

impl Name {
    fn path(&self) -> Path {
        self.tenant.of(Path::of("/v2/entities").part(&self.entity))
    }
}

const COLUMNS: Columns<Entity<'static>> = &[
    ("ENTITY", |entity, _| printable(&entity.entity)),
    ("VERSION", |entity, _| grouped(entity.version)),
    ("RAISED", |entity, now| or_dash(entity.raised_at.map(|at| now.show(at)))),
];

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    let mut caller = common.caller()?;
    match command {
        Command::List { tenant, amount } => {
            let first = tenant.of(Path::of("/v2/entities"));
            let part = |page: Entities<'static>| (page.entities, page.cursor);
            caller.list(common, (first, amount), (COLUMNS, "no entity is known"), part).await
        }
        Command::Show(name) => common.show(&caller.get(name.path()).await?, show),
        Command::Remove { name, yes } => {
            let entity = &name.entity;
            confirm::by_name(*yes, &format!("forget entity {entity} and its version"), entity)?;
            let removed: EntityRemoved = caller.delete(name.path().with("confirm", entity)).await?;
            common.show(&removed, |removed| {
                format!("{} is forgotten: it was at version {}\n", printable(entity), removed.version)
            })
        }
    }
}

fn show(entity: &Entity<'_>) -> String {
    let name = printable(&entity.entity);
    match entity.raised_at {
        Some(at) => format!("{name} is at version {}, raised {}\n", entity.version, Now::read().show(at)),
        None => format!("{name} is at version 0: it was never raised\n"),
    }
}

/// `ENTITY=VERSION`. The version follows the last mark: a name may hold some.
pub(super) fn expected(text: &str) -> Result<Expected<'static>, String> {
    let parts = text.rsplit_once('=').filter(|(entity, _)| !entity.is_empty());
    let version = |digits: &str| digits.parse::<u64>().ok().filter(|version| *version <= COUNT_MAX);
    let parsed = parts.and_then(|(entity, digits)| {
        Some(Expected { entity: entity.to_owned().into(), version: version(digits)? })
    });
    parsed.ok_or_else(|| format!("`{text}` is not ENTITY=VERSION; write for example order-7=3"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_follow_the_last_mark() {
        let parsed = |text| expected(text).map(|expected| (expected.entity.into_owned(), expected.version));
        assert_eq!(parsed("order-7=3"), Ok(("order-7".to_owned(), 3)));
        assert_eq!(parsed("a=b=0"), Ok(("a=b".to_owned(), 0)));
        for text in ["order-7", "=3", "order-7=", "order-7=x", "order-7=-1", "o=9223372036854775808"] {
            assert!(parsed(text).unwrap_err().contains("ENTITY=VERSION"), "{text}");
        }
    }
}
