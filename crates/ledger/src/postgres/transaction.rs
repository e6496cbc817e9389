//! Calls that join a transaction of the caller's: the business write and the outcome are there together or not at all.

use super::PostgresStore;
use super::joined::Transaction;
use super::link::Link;
use crate::lost::own_call;
use crate::{Begin, Decision, Ending, Finished, Lease, LedgerError, Resolve, check};

impl PostgresStore {
    /// Says how an effect ended, in the caller's transaction. Whatever else that transaction writes is there exactly
    /// if the outcome is: exactly once, for effects that are writes in this database.
    ///
    /// On any error roll back; [`LedgerError::Stale`] means that another caller took over, and [`LedgerError::Busy`]
    /// that the database wants the whole transaction run again. Nothing is retried here: a failed statement ends a
    /// transaction.
    ///
    /// `transaction` is one of tokio-postgres or deadpool-postgres (`&transaction`), with the feature `sqlx` one of sqlx
    /// (`&mut transaction`), with the feature `diesel-async` a connection of diesel-async that is in one
    /// (`&mut *connection`).
    ///
    /// The bounds are those of [`settings`](Self::settings). The whole transaction is as durable as an outcome has to
    /// be: from this call on it commits with `synchronous_commit` on, unless it is stronger already.
    pub async fn finish_tx(
        &self,
        mut transaction: impl Transaction,
        lease: &Lease,
        ending: &Ending,
    ) -> Result<Finished, LedgerError> {
        let ending = self.settings.stored(&lease.identity, ending)?;
        check::ending(&ending, &self.settings)?;
        self.finish_on(&mut Link::Joined(&mut transaction), lease, &ending).await
    }

    /// Asks to run an effect, in the caller's transaction: if that is rolled back, the record was never there.
    ///
    /// Until it commits, every other caller that begins the same effect waits for it inside the database. For short
    /// transactions that do nothing outside the database; everything else begins on its own and joins with
    /// [`finish_tx`](Self::finish_tx).
    pub async fn begin_tx(
        &self,
        mut transaction: impl Transaction,
        asked: &Begin,
    ) -> Result<Decision, LedgerError> {
        check::begin(asked)?;
        let asked =
            Begin { call: Some(own_call(asked.call.as_deref(), asked.owner.as_deref())), ..asked.clone() };
        Ok(self.begin_on(&mut Link::Joined(&mut transaction), &asked).await?.0)
    }

    /// Resolves an effect, in the caller's transaction.
    pub async fn resolve_tx(
        &self,
        mut transaction: impl Transaction,
        found: &Resolve,
    ) -> Result<Finished, LedgerError> {
        let ending = self.settings.stored(&found.identity, &found.ending)?.into_owned();
        let found = &Resolve { ending, ..found.clone() };
        check::resolve(found, &self.settings)?;
        self.resolve_on(&mut Link::Joined(&mut transaction), found).await
    }
}
