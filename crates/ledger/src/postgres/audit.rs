//! What became of records, as the database itself has written it down.

use tokio_postgres::types::Type;

use super::PostgresStore;
use super::joined::Row;
use super::link::Link;
use super::row::{Stamp, get};
use crate::{AuditFilter, AuditPage, Event, Identity, LedgerError, Note, words};

const COLUMNS: &str = "number, at, principal, grpc_method, idempotency_key, event, from_status, to_status, epoch, \
     attempt, by_whom, why";

impl PostgresStore {
    pub(super) async fn audit_on(
        &self,
        link: &mut Link<'_>,
        filter: &AuditFilter,
    ) -> Result<AuditPage, LedgerError> {
        let after: i64 = match &filter.cursor {
            None => i64::MIN,
            Some(cursor) => cursor
                .parse()
                .map_err(|_| LedgerError::Invalid("this cursor was not given by this list".to_owned()))?,
        };
        let limit = i64::from(filter.limit);
        let rows = match &filter.identity {
            None => {
                let statement =
                    format!("SELECT {COLUMNS} FROM {{audit}} WHERE number > $1 ORDER BY number LIMIT $2");
                let parameters = [(&after as _, Type::INT8), (&limit as _, Type::INT8)];
                link.query(&self.inner.names.fill(&statement), &parameters).await?
            }
            Some(identity) => {
                let statement = format!(
                    "SELECT {COLUMNS} FROM {{audit}} WHERE principal = $3 AND grpc_method = $4 \
                     AND idempotency_key = $5 AND number > $1 ORDER BY number LIMIT $2"
                );
                let parameters = [
                    (&after as _, Type::INT8),
                    (&limit as _, Type::INT8),
                    (&identity.principal() as _, Type::TEXT),
                    (&identity.method() as _, Type::TEXT),
                    (&identity.key() as _, Type::TEXT),
                ];
                link.query(&self.inner.names.fill(&statement), &parameters).await?
            }
        };
        let mut page = AuditPage::default();
        for row in &rows {
            match note(row)? {
                Some(note) => page.notes.push(note),
                None => page.unreadable += 1,
            }
        }
        if let Some(last) = rows.last().filter(|_| rows.len() == filter.limit as usize) {
            page.cursor = Some(get::<i64>(last, "number")?.to_string());
        }
        Ok(page)
    }
}

/// `None` if this release does not understand it: it is about a row that no identity can name, or a newer one wrote it.
fn note(row: &Row) -> Result<Option<Note>, LedgerError> {
    let identity: [&str; 3] =
        [get(row, "principal")?, get(row, "grpc_method")?, get(row, "idempotency_key")?];
    let [principal, method, key] = identity;
    let to: Option<&str> = get(row, "to_status")?;
    let (Ok(identity), Some(event), Some(from), Ok(epoch), Ok(attempt)) = (
        Identity::new(principal, method, key),
        Event::of(get(row, "event")?),
        words::status(get(row, "from_status")?),
        u32::try_from(get::<i32>(row, "epoch")?),
        u32::try_from(get::<i32>(row, "attempt")?),
    ) else {
        return Ok(None);
    };
    let known = to.map(words::status);
    if known == Some(None) {
        return Ok(None);
    }
    Ok(Some(Note {
        at: get::<Stamp>(row, "at")?.0,
        identity,
        event,
        from,
        to: known.flatten(),
        epoch,
        attempt,
        by: get(row, "by_whom")?,
        why: get(row, "why")?,
    }))
}
