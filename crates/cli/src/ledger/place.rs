//! Where the records are.

use std::time::Duration;

use driftq_ledger::{
    Ledger, Settings, Silent,
    postgres::{PostgresStore, TABLE_DEFAULT},
    remote::RemoteStore,
};

use driftq_api::v2::Status;

use crate::{
    Common,
    client::{CallError, Client},
    context,
    exit::{Exit, Fault},
};

/// A call about many records may take this long; whoever has less time ends it with Ctrl-C.
const CALL_TIMEOUT_LONG: Duration = Duration::from_secs(600);

#[derive(clap::Args)]
pub(super) struct Place {
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

impl Place {
    /// Finds out what the URL names.
    pub(super) fn open(&self, common: &Common) -> Result<Store, Fault> {
        let (flag, url) = match &self.store {
            Some(url) => ("--store", url),
            None => ("--server", &context::choose(common)?.server),
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
                let table = store.table(&self.table);
                let refused = |error| Fault::new(Exit::Usage, format!("--table: {error}"));
                Ok(Store::Postgres(table.map_err(refused)?))
            }
            Some("http" | "https") => {
                RemoteStore::new(url).map(Store::Server).map_err(|error| invalid(error.to_string()))
            }
            _ => Err(invalid("it must begin with postgres:// or http://".to_owned())),
        }
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

    /// The error, or who it is that answers there, if that is no DriftQ server.
    pub(super) async fn who(&self, common: &Common, error: anyhow::Error) -> anyhow::Error {
        let url = match (&self.store, context::choose(common)) {
            (Some(url), _) => url.clone(),
            (None, Ok(chosen)) => chosen.server,
            (None, Err(_)) => return error,
        };
        let Ok(client) = Client::new(&url) else { return error };
        // What the server itself refuses says by that whose answer it is.
        let may_be_foreign = [Exit::ServerFault, Exit::Unreachable, Exit::Failure];
        if !error.downcast_ref::<Fault>().is_some_and(|fault| may_be_foreign.contains(&fault.exit)) {
            return error;
        }
        match client.session().get::<Status<'static>>("/v2/status").await {
            Err(foreign @ (CallError::NotDriftQ { .. } | CallError::Untrusted { .. })) => {
                foreign.into_error()
            }
            _ => error,
        }
    }

    /// The error with the context that named the server, if it was one and the server is not there.
    pub(super) fn told(&self, common: &Common, error: anyhow::Error) -> anyhow::Error {
        let context = || context::choose(common).ok().and_then(|chosen| chosen.note());
        match error.downcast::<Fault>() {
            Ok(mut fault) => {
                if fault.exit == Exit::Unreachable
                    && self.store.is_none()
                    && let Some(note) = context()
                {
                    fault.message.push_str(&format!("; that is {note}"));
                }
                fault.into()
            }
            Err(other) => other,
        }
    }

    /// The table in PostgreSQL.
    pub(super) fn table(&self) -> &str {
        &self.table
    }
}

impl Store {
    fn ledger(self, mut settings: Settings) -> Ledger {
        // The store has a limit of its own where it needs one.
        settings.payload_bytes_max = usize::MAX;
        match self {
            Self::Postgres(store) => Ledger::with(store, settings, Silent),
            Self::Server(store) => Ledger::with(store, settings, Silent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(store: &str, table: &str) -> Fault {
        let common = Common { server: Some("http://127.0.0.1:1".to_owned()), ..Common::default() };
        let place = Place { store: Some(store.to_owned()), table: table.to_owned() };
        match place.open(&common) {
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
            "postgres://me:secret@db/pay?sslmode=require",
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
