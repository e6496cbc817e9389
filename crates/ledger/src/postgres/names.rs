//! The names of what the store has in the database.

use super::row::COLUMNS_SMALL;
use crate::LedgerError;

/// The table's name unless another is chosen.
pub const TABLE_DEFAULT: &str = "idempotency_keys";
/// What PostgreSQL allows is 63; the names of functions and of the index are longer than the table's.
const NAME_BYTES_MAX: usize = 48;

/// Goes into what a write returns, so that it is there before the write commits: what is told holds after a crash, also
/// where the server, the database or the user has `synchronous_commit` off. What is stronger stays. Ends with the
/// transaction, and costs no round trip.
const DURABLE: &str = "CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') \
     THEN set_config('synchronous_commit', 'on', true) END AS durable";

/// One moment for all times of a row that is written: when the row is there to be written, also if another transaction
/// had it until then.
const CLOCK: &str = "(SELECT {now} AS moment FROM (SELECT 1 FROM {table} \
     WHERE principal = $1 AND grpc_method = $2 AND idempotency_key = $3 FOR UPDATE) AS held OFFSET 0) AS clock";

/// The record that an entry of the list of what is open is about: one by one, whatever the database thinks of the table.
const LISTED: &str = "LATERAL (SELECT * FROM {table} WHERE record = listed.number OFFSET 0) AS there";

/// The records of a segment, one segment after the other: the database would rather read the whole table for a few.
const DUE: &str = "LATERAL (SELECT * FROM {table} WHERE record BETWEEN due.first AND due.last \
     ORDER BY record OFFSET 0) AS there";

/// The table, and what is named after it. All are quoted where they must be and safe to paste into statements.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) table: String,
    pub(super) begin: String,
    pub(super) finish: String,
    /// As releases before the fourth step call them.
    begin_1: String,
    finish_1: String,
    pub(super) migrations: String,
    /// The table's name alone: an index or a trigger lives where its table does.
    name: String,
    /// What tells the time, each time anew. `{scan_now}` tells it once per statement, so that an index can be used.
    pub(super) now: String,
}

impl Names {
    /// From `name` or `schema.name`.
    pub(super) fn new(table: &str) -> Result<Self, LedgerError> {
        let (schema, name) = match table.split_once('.') {
            Some((schema, name)) => (format!("{}.", checked(schema)?), checked(name)?),
            None => (String::new(), checked(table)?),
        };
        Ok(Self {
            table: format!("{schema}{name}"),
            begin: format!("{schema}{name}_begin_2"),
            finish: format!("{schema}{name}_finish_2"),
            begin_1: format!("{schema}{name}_begin_1"),
            finish_1: format!("{schema}{name}_finish_1"),
            migrations: format!("{schema}{name}_migrations"),
            name: name.to_owned(),
            // When it is asked for: a statement may wait for a lock for longer than a lease lasts.
            now: "clock_timestamp()".to_owned(),
        })
    }

    /// With a function, `name` or `schema.name`, that tells the time instead.
    pub(super) fn with_clock(mut self, function: &str) -> Result<Self, LedgerError> {
        for part in function.splitn(2, '.') {
            checked(part)?;
        }
        self.now = format!("{function}()");
        Ok(self)
    }

    /// A statement with the names filled in.
    pub(super) fn fill(&self, statement: &str) -> String {
        statement
            .replace("{columns}", COLUMNS_SMALL)
            .replace("{durable}", DURABLE)
            .replace("{clock}", CLOCK)
            .replace("{listed}", LISTED)
            .replace("{due}", DUE)
            .replace("{lowest}", "(-9223372036854775808)::bigint")
            .replace("{segment_records_max}", "1000")
            .replace("{table}", &self.table)
            .replace("{begin}", &self.begin)
            .replace("{finish}", &self.finish)
            .replace("{finish_3}", &self.beside("finish_3"))
            .replace("{begin_3}", &self.beside("begin_3"))
            .replace("{finish_4}", &self.beside("finish_4"))
            .replace("{changed}", &self.beside("changed_1"))
            .replace("{begin_1}", &self.begin_1)
            .replace("{finish_1}", &self.finish_1)
            .replace("{migrations}", &self.migrations)
            .replace("{segments}", &self.beside("segments"))
            .replace("{open}", &self.beside("open"))
            .replace("{audit}", &self.beside("audit"))
            .replace("{note}", &self.beside("note_1"))
            .replace("{walk}", &self.beside("walk_1"))
            .replace("{looked}", &self.beside("looked_1"))
            .replace("{visited}", &self.beside("visited_1"))
            .replace("{forget_bodies}", &self.beside("forget_1"))
            .replace("{index_by_status_qualified}", &self.beside("by_status"))
            .replace("{index_by_status}", &self.inside("by_status"))
            .replace("{index_by_record}", &self.inside("by_record"))
            .replace("{index_by_look}", &self.inside("by_look"))
            .replace("{index_by_identity}", &self.inside("by_identity"))
            .replace("{trigger_changed}", &self.inside("changed"))
            .replace("{trigger_removed}", &self.inside("removed"))
            .replace("{scan_now}", &format!("(SELECT {})", self.now))
            .replace("{now}", &self.now)
    }

    /// What stands beside the table, in its schema.
    fn beside(&self, what: &str) -> String {
        format!("{}_{what}", self.table)
    }

    /// What lives where another thing of the table does, so that it is never named with its schema.
    fn inside(&self, what: &str) -> String {
        format!("{}_{what}", self.name)
    }
}

/// Only names that need no quotes: nothing can be smuggled into a statement, and operators need no quotes in psql.
fn checked(name: &str) -> Result<&str, LedgerError> {
    let mut bytes = name.bytes();
    let starts_well = bytes.next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let goes_on_well = bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if starts_well && goes_on_well && name.len() <= NAME_BYTES_MAX {
        return Ok(name);
    }
    Err(LedgerError::Invalid(format!(
        "the table is named `name` or `schema.name`, of lower-case letters, digits and `_`, \
         each at most {NAME_BYTES_MAX} bytes; {name:?} is not"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_table() {
        let names = Names::new("pay.keys").unwrap();
        let statement = "{table} {begin} {finish} {begin_1} {migrations} {segments} {index_by_record}";
        let filled = "pay.keys pay.keys_begin_2 pay.keys_finish_2 pay.keys_begin_1 pay.keys_migrations \
                      pay.keys_segments keys_by_record";
        assert_eq!(names.fill(statement), filled);
        assert_eq!(Names::new(TABLE_DEFAULT).unwrap().table, TABLE_DEFAULT);
    }

    #[test]
    fn what_could_be_more_than_a_name_is_refused() {
        let long = "x".repeat(49);
        for name in ["", ".", "a.", ".a", "a.b.c", "a b", "a;drop table b", "Keys", "1a", "a\"", "ä", &long]
        {
            assert!(Names::new(name).is_err(), "{name}");
        }
    }
}
