//! `driftq entity …`: names with a version, so that something is done only if nobody was there before.

mod list;
mod remove;
mod show;

use anyhow::Result;
use driftq_api::v2::{self, COUNT_MAX};

use super::{Common, tenant::Tenant};
use crate::client::Path;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// List entities and their versions
    List(list::Args),
    /// Print the version of an entity: what to expect next
    Show(show::Args),
    /// Forget an entity: its version is 0 again
    Remove(remove::Args),
}

pub(super) async fn run(common: &Common, command: &Command) -> Result<()> {
    match command {
        Command::List(args) => list::run(common, args).await,
        Command::Show(args) => show::run(common, args).await,
        Command::Remove(args) => remove::run(common, args).await,
    }
}

/// `/v2/entities/{entity}`.
fn entity_of(entity: &str, tenant: &Tenant) -> Path {
    tenant.of(Path::of("/v2/entities").part(entity))
}

/// `ENTITY=VERSION`. The version follows the last mark: a name may hold some.
pub(super) fn expected(text: &str) -> Result<v2::Expected<'static>, String> {
    let parts = text.rsplit_once('=').filter(|(entity, _)| !entity.is_empty());
    let version = |digits: &str| digits.parse::<u64>().ok().filter(|version| *version <= COUNT_MAX);
    let parsed = parts.and_then(|(entity, digits)| {
        Some(v2::Expected { entity: entity.to_owned().into(), version: version(digits)? })
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
