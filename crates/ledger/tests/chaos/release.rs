//! Two releases of a service, the older of which knows one migration step less and an older recipe for hashes.
//!
//! The older one is not an old build of this crate: it is this one, held to what a release that knows the fourth step does
//! in the places where the two differ. It migrates to that step, it writes endings by that step's function, and it sweeps
//! by status, without the books that the fifth step keeps. It begins by that step's function, too. Renew and resolve send the
//! same statements in both.

use std::time::Duration;

use driftq_ledger::{
    Begin, Decision, Ending, Filter, Finished, Identity, Lease, LedgerError, Moment, Page, Pending, Proof,
    Reacquire, Record, RequestHash, Resolve, Stats, Store, Sweep, Swept,
    postgres::{PostgresStore, deadpool_postgres, refused, tokio_postgres},
    words,
};
use tokio::time::sleep;

use super::{
    history::Journal,
    worker::{Worker, patient},
};

/// The newest step that the older release knows.
const OLD_STEP: i32 = 4;
/// Before a start that failed is tried again.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    Old,
    New,
}

impl Release {
    pub(crate) const ALL: [Self; 2] = [Self::Old, Self::New];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::New => "new",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|release| release.name() == name)
    }

    /// The hash of the request that a key is for. The old release hashes the bytes. The new one goes by the JSON, and is
    /// the first of the deployments that go over to another recipe: the old release must recognise what it begins.
    pub(crate) fn hash(self, key: &str) -> RequestHash {
        let request = format!(r#"{{"pay":5,"for":"{key}"}}"#);
        let bytes = RequestHash::of_bytes(request.as_bytes());
        match self {
            Self::Old => bytes,
            Self::New => RequestHash::of_json(request.as_bytes()).expect("it is JSON").beside(bytes),
        }
    }

    /// With the steps that it knows, not yet taken.
    pub(crate) fn store(self, url: &str, table: &str) -> PostgresStore {
        let store = PostgresStore::connect(url).expect("it is a URL").table(table).expect("it is a name");
        match self {
            Self::Old => store.migrating_to(OLD_STEP),
            Self::New => store,
        }
    }

    /// A worker that has not migrated.
    pub(crate) fn worker(self, name: &str, url: &str, table: &str, journal: Journal) -> Worker {
        let store = self.store(url, table);
        let ledger = match self {
            Self::Old => patient(OldStore { store, table: table.to_owned() }),
            Self::New => patient(store),
        };
        Worker::new(name, ledger, journal).of(self)
    }

    /// As every start of the service: it migrates first, while other processes are at work.
    pub(crate) async fn start(self, name: &str, url: &str, table: &str, journal: Journal) -> Worker {
        let store = self.store(url, table);
        loop {
            match store.migrate().await {
                Ok(_) => break,
                Err(error) if error.is_transient() => sleep(PAUSE).await,
                Err(error) => panic!("{name} cannot start: {error}"),
            }
        }
        self.worker(name, url, table, journal)
    }
}

/// The store as the older release has it.
struct OldStore {
    store: PostgresStore,
    table: String,
}

fn failed(error: &tokio_postgres::Error) -> LedgerError {
    match error.as_db_error() {
        Some(said) => refused(said.code().code(), said.message()),
        None => LedgerError::Unavailable(error.to_string()),
    }
}

impl OldStore {
    async fn client(&self) -> Result<deadpool_postgres::Object, LedgerError> {
        self.store.pool().get().await.map_err(|error| LedgerError::Unavailable(error.to_string()))
    }

    async fn finish_by_the_fourth_step(
        &self,
        lease: &Lease,
        ending: &Ending,
    ) -> Result<Finished, LedgerError> {
        let Proof::Record(record) = lease.proof else { panic!("PostgreSQL numbers its records") };
        let (principal, method, key) =
            (lease.identity.principal(), lease.identity.method(), lease.identity.key());
        let epoch = i32::try_from(lease.epoch).expect("a few leases");
        let (end, digest) = (words::of_end(ending.end), ending.digest());
        let payload = (!ending.response.payload.is_empty()).then_some(&ending.response.payload[..]);
        let error = (!ending.error.is_empty()).then_some(&ending.error);
        let statement = format!(
            "SELECT * FROM {}_finish_2($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
            self.table
        );
        let client = self.client().await?;
        // What was written off as unknown ends all the same, if its holder speaks up.
        for expected in ["IN_PROGRESS", "UNKNOWN"] {
            let row = client
                .query_one(
                    &statement,
                    &[
                        &principal,
                        &method,
                        &key,
                        &record,
                        &epoch,
                        &expected,
                        &end,
                        &ending.response.code,
                        &None::<String>,
                        &payload,
                        &error,
                        &&digest[..],
                    ],
                )
                .await
                .map_err(|error| failed(&error))?;
            if row.get("done") {
                return Ok(Finished::Committed);
            }
            let is_held = row.get::<_, Option<i64>>("there_record") == Some(record)
                && row.get::<_, Option<i32>>("there_epoch") == Some(epoch);
            let status: Option<String> = row.get("there_status");
            let there: Option<Vec<u8>> = row.get("there_digest");
            if is_held && status.as_deref() == Some(end) && there.as_deref() == Some(&digest[..]) {
                return Ok(Finished::AlreadyCommitted);
            }
            if !is_held || status.as_deref() != Some("UNKNOWN") {
                return Err(LedgerError::Stale(format!("{status:?} is there")));
            }
        }
        Err(LedgerError::Busy("it became unknown and came back".to_owned()))
    }

    /// Writes down what has become unknown. No record's time is over in the drill.
    async fn sweep_by_status(&self) -> Result<Swept, LedgerError> {
        let statement = format!(
            "UPDATE {} SET status = 'UNKNOWN', updated_at = clock_timestamp() \
             WHERE status = 'IN_PROGRESS' AND lease_expires_at <= clock_timestamp() AND on_lapse = 'hold'",
            self.table
        );
        let held = self.client().await?.execute(&statement, &[]).await.map_err(|error| failed(&error))?;
        Ok(Swept { held, ..Swept::default() })
    }
}

impl Store for OldStore {
    fn name(&self) -> &'static str {
        "old"
    }
    fn begin<'a>(&'a self, asked: &'a Begin) -> Pending<'a, Decision> {
        self.store.begin(asked)
    }
    fn reacquire<'a>(&'a self, asked: &'a Reacquire) -> Pending<'a, Decision> {
        self.store.reacquire(asked)
    }
    fn finish<'a>(&'a self, lease: &'a Lease, ending: &'a Ending) -> Pending<'a, Finished> {
        Box::pin(self.finish_by_the_fourth_step(lease, ending))
    }
    fn renew<'a>(&'a self, lease: &'a Lease, lasts: Duration) -> Pending<'a, Moment> {
        self.store.renew(lease, lasts)
    }
    fn resolve<'a>(&'a self, found: &'a Resolve) -> Pending<'a, Finished> {
        self.store.resolve(found)
    }
    fn get<'a>(&'a self, identity: &'a Identity) -> Pending<'a, Option<Record>> {
        self.store.get(identity)
    }
    fn list<'a>(&'a self, filter: &'a Filter) -> Pending<'a, Page> {
        self.store.list(filter)
    }
    fn sweep(&self, _: Sweep) -> Pending<'_, Swept> {
        Box::pin(self.sweep_by_status())
    }
    fn stats(&self) -> Pending<'_, Stats> {
        self.store.stats()
    }
}
