//! Where the records are, and what could not be done there.

use std::time::Duration;

use driftq_api::v2::Status;
use driftq_ledger::postgres::{PostgresStore, TABLE_DEFAULT};
use driftq_ledger::remote::{Key, RemoteStore};
use driftq_ledger::{Ledger, LedgerError, Settings, Silent};

use crate::context::{self, Chosen};
use crate::{CallError, Client, Common, Exit, Fault};

/// A call about many records may take this long; an operator who has less time ends it with Ctrl-C.
const CALL_TIMEOUT_LONG: Duration = Duration::from_secs(600);

#[derive(clap::Args)]
pub(super) struct StoreArgs {
    /// Where the records are: postgres://USER@HOST/DATABASE, or http://HOST:PORT of a server; --server if not given
    #[arg(long, global = true, env = "DRIFTQ_LEDGER_STORE", hide_env_values = true, value_name = "URL")]
    store: Option<String>,
    /// The table in PostgreSQL, as NAME or SCHEMA.NAME
    #[arg(long, global = true, default_value = TABLE_DEFAULT, value_name = "NAME")]
    table: String,
}

/// A store that can be asked. Nothing is connected before the first call.
pub(super) enum Store {
    Postgres(PostgresStore),
    Server(RemoteStore),
}

impl StoreArgs {
    /// Finds out what the URL names.
    pub(super) fn open(&self, common: &Common) -> Result<Store, Fault> {
        let chosen = self.chosen(common)?;
        let (flag, url) = match (&chosen, &self.store) {
            (Some(chosen), _) => ("--server", &*chosen.server),
            (None, url) => ("--store", url.as_deref().unwrap_or_default()),
        };
        // What was given is not repeated: it may hold a password.
        let invalid = |why: String| {
            Fault::new(Exit::Usage, format!("{flag}: {why}")).help(
                "write it as postgres://USER@HOST/DATABASE or http://127.0.0.1:8080, or set DRIFTQ_LEDGER_STORE",
            )
        };
        match url.split_once("://").map(|(scheme, _)| scheme) {
            Some("postgres" | "postgresql") => {
                let store = PostgresStore::connect(url).map_err(|error| invalid(error.to_string()))?;
                let table = store.connection_patience(Duration::ZERO).table(&self.table);
                let refused = |error| Fault::new(Exit::Usage, format!("--table: {error}"));
                Ok(Store::Postgres(table.map_err(refused)?))
            }
            Some("http" | "https") => {
                let store = match &chosen {
                    None => RemoteStore::new(url),
                    Some(chosen) => {
                        let key = chosen.key()?.map(|key| Key::new(&key)).transpose();
                        let key = key.map_err(|why| Fault::new(Exit::Usage, why.to_string()))?;
                        RemoteStore::trusting(url, key, chosen.ca_file.clone())
                    }
                };
                store.map(Store::Server).map_err(|error| invalid(error.to_string()))
            }
            _ => Err(invalid("it must begin with postgres:// or http://".to_owned())),
        }
    }

    /// The server that the records are on, unless `--store` says where they are.
    fn chosen(&self, common: &Common) -> Result<Option<Chosen>, Fault> {
        if self.store.is_some() { Ok(None) } else { context::choose(common).map(Some) }
    }

    /// The ledger there.
    pub(super) fn ledger(&self, common: &Common) -> Result<Ledger, Fault> {
        Ok(self.open(common)?.ledger(Settings::default()))
    }

    /// The ledger there, for calls about many records.
    pub(super) fn patient_ledger(&self, common: &Common) -> Result<Ledger, Fault> {
        let settings = Settings { call_timeout: CALL_TIMEOUT_LONG, ..Settings::default() };
        Ok(self.open(common)?.ledger(settings))
    }

    /// The error with what is known about who answers there: that it is no DriftQ server, or which context named it.
    pub(super) async fn explain(&self, common: &Common, error: anyhow::Error) -> anyhow::Error {
        let mut fault = match error.downcast::<Fault>() {
            Ok(fault) => fault,
            Err(other) => return other,
        };
        let chosen = self.chosen(common).ok().flatten();
        // What the server itself refuses says by that whose answer it is.
        let may_be_foreign = matches!(fault.exit, Exit::ServerFault | Exit::Unreachable | Exit::Failure);
        let client = match &self.store {
            Some(url) => Client::new(url).ok(),
            None => common.client().ok(),
        };
        if may_be_foreign && let Some(client) = client {
            let answer = client.session().get::<Status<'static>>("/v2/status").await;
            if let Err(foreign @ (CallError::NotDriftQ { .. } | CallError::Untrusted { .. })) = answer {
                fault = foreign.into();
            }
        }
        if fault.exit == Exit::Unreachable
            && let Some(note) = chosen.and_then(|chosen| chosen.note())
        {
            fault.message.push_str(&format!("; that is {note}"));
        }
        fault.into()
    }

    /// The table in PostgreSQL.
    pub(super) fn table(&self) -> &str {
        &self.table
    }
}

impl Store {
    pub(super) fn ledger(self, mut settings: Settings) -> Ledger {
        // The store has a limit of its own where it needs one.
        settings.payload_bytes_max = usize::MAX;
        match self {
            Self::Postgres(store) => Ledger::with(store, settings, Silent),
            Self::Server(store) => Ledger::with(store, settings, Silent),
        }
    }
}

/// A failure of a call as this command line tells it.
pub(super) fn fault(error: &LedgerError) -> Fault {
    let fault = Fault::new(exit(error), error.to_string());
    match help(error) {
        Some(help) => fault.help(help),
        None => fault,
    }
}

const fn exit(error: &LedgerError) -> Exit {
    match error {
        LedgerError::Unavailable(_) | LedgerError::TimedOut(_) => Exit::Unreachable,
        LedgerError::Identity(_)
        | LedgerError::Invalid(_)
        | LedgerError::NotFound
        | LedgerError::TooLarge { .. }
        | LedgerError::Unsupported(_)
        | LedgerError::Denied(_) => Exit::Invalid,
        LedgerError::Conflict(_)
        | LedgerError::Stale(_)
        | LedgerError::Exhausted { .. }
        | LedgerError::Running
        | LedgerError::Final => Exit::Conflict,
        LedgerError::Busy(_) => Exit::Overloaded,
        LedgerError::Full(_) | LedgerError::Corrupt(_) => Exit::ServerFault,
        _ => Exit::Failure,
    }
}

const fn help(error: &LedgerError) -> Option<&'static str> {
    Some(match error {
        LedgerError::Unavailable(_) | LedgerError::TimedOut(_) => {
            "check --store (or DRIFTQ_LEDGER_STORE) and whether the server or the database there is up"
        }
        LedgerError::NotFound => {
            "see `driftq ledger list`; what has ended is forgotten when its time is over, and may be swept"
        }
        LedgerError::Stale(_) => "look at it again with `driftq ledger show`, and decide anew",
        LedgerError::Running => {
            "`driftq ledger show` says when its lease ends; wait until it is finished or has lapsed"
        }
        LedgerError::Final => "that is final; see it with `driftq ledger show`",
        LedgerError::NotMigrated(_) => {
            "`driftq ledger migrate` makes the table; --table names it if it is not idempotency_keys"
        }
        LedgerError::ReadOnly(_) => "name the primary in --store; lists and counts work on a replica",
        LedgerError::Denied(_) => {
            "the user in --store needs rights on the table: SELECT, INSERT, UPDATE, DELETE, and CREATE to migrate"
        }
        LedgerError::Corrupt(_) => {
            "a newer version may have written it, or a hand; the row is left as it is, and other records work"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(store: &str, table: &str) -> Fault {
        let common = Common { server: Some("http://127.0.0.1:1".to_owned()), ..Common::default() };
        let store_args = StoreArgs { store: Some(store.to_owned()), table: table.to_owned() };
        match store_args.open(&common) {
            Ok(_) => panic!("{store} was taken"),
            Err(fault) => fault,
        }
    }

    #[test]
    fn what_is_no_store_is_refused_and_not_repeated() {
        for store in [
            "",
            "secret",
            "host=db password=secret",
            "mysql://me:secret@db/pay",
            "https://me:secret@broker",
            "http://me:secret@broker",
            "postgres://me:secret@db:secret/pay",
            "postgres://me:secret@db/pay?unheard_of=secret",
            "postgres://me:secret@db/pay?sslmode=secret",
        ] {
            let fault = refusal(store, TABLE_DEFAULT);
            assert_eq!(fault.exit, Exit::Usage, "{store}");
            let text = format!("{fault} {:?}", fault.help);
            assert!(!text.contains("secret") && text.contains("--store"), "{text}");
        }
        let fault = refusal("postgres://me:secret@db/pay", "keys; drop table users");
        assert!(fault.message.starts_with("--table: ") && fault.exit == Exit::Usage, "{fault}");
    }
}
