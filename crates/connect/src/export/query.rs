//! The rows of a query on PostgreSQL: one snapshot, read by a cursor, so that memory is flat.

use std::borrow::Cow;
use std::collections::BTreeSet;

use driftq_api::Moment;
use tokio_postgres::types::{Kind as Sort, ToSql, Type};
use tokio_postgres::{Client, Error, Row as Found, Statement};

use super::column::{Cell, Column, Columns, Kind, Row};
use super::error::ExportError;
use crate::database::{Database, Place, Unconnected, spelled};

/// Rows that are asked for at a time.
const STRIDE: &str = "FETCH FORWARD 500 FROM driftq_export";
/// One snapshot for all rows, no way to write, and texts that do not depend on who asks.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
     SET LOCAL datestyle = 'ISO'; SET LOCAL intervalstyle = 'iso_8601'; SET LOCAL timezone = 'UTC'; \
     SET LOCAL extra_float_digits = 1; SET LOCAL bytea_output = 'hex'";
/// Most columns of a row: as many as PostgreSQL has in one.
const COLUMNS_MAX: usize = 1_664;
const MICROS_PER_SECOND: i64 = 1_000_000;

/// A query that is being read.
pub(super) struct Query {
    client: Client,
    fetch: Statement,
    columns: Columns,
    is_over: bool,
}

impl Query {
    /// Begins at the beginning.
    pub(super) async fn open(
        database: &Database,
        statement: &str,
        parameters: &[String],
    ) -> Result<Self, ExportError> {
        let place = database.url().and_then(|url| Place::new(&url)).map_err(ExportError::Invalid)?;
        let client = place.connect().await.map_err(|error| match error {
            Unconnected::Refused(error) if error.as_db_error().is_none() => {
                ExportError::Database(spelled(&error))
            }
            Unconnected::Refused(error) => refused(&error),
            Unconnected::Other(why) => ExportError::Database(why),
        })?;
        client.batch_execute(BEGIN).await.map_err(|error| refused(&error))?;
        let statement = statement.trim().trim_end_matches(';');
        let (columns, picks) = columns(&client, statement, parameters).await?;
        // The line ends before the bracket: a comment at the end of a query ends with the query.
        let declare = format!(
            "DECLARE driftq_export NO SCROLL CURSOR FOR SELECT {picks} FROM ({statement}\n) AS \"row\""
        );
        let types = vec![Type::TEXT; parameters.len()];
        let declare = client.prepare_typed(&declare, &types).await.map_err(|error| refused(&error))?;
        let given: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|text| text as _).collect();
        client.execute(&declare, &given).await.map_err(|error| refused(&error))?;
        let fetch = client.prepare(STRIDE).await.map_err(|error| refused(&error))?;
        Ok(Self { client, fetch, columns, is_over: false })
    }

    pub(super) fn columns(&self) -> Columns {
        self.columns.clone()
    }

    /// The next rows; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Row>>, ExportError> {
        if self.is_over {
            return Ok(None);
        }
        let found = self.client.query(&self.fetch, &[]).await.map_err(|error| refused(&error))?;
        self.is_over = found.is_empty();
        found.iter().map(|found| self.row(found)).collect::<Result<_, _>>().map(Some)
    }

    fn row(&self, found: &Found) -> Result<Row, ExportError> {
        let cells = self.columns.iter().enumerate().map(|(index, column)| {
            let cell = match column.kind {
                Kind::Text => found.try_get::<_, Option<String>>(index)?.map(Cell::Text),
                Kind::Json => found.try_get::<_, Option<String>>(index)?.map(Cell::Json),
                Kind::Number => found.try_get::<_, Option<i64>>(index)?.map(Cell::Number),
                Kind::Time => found.try_get::<_, Option<i64>>(index)?.map(|micros| Cell::Time(time(micros))),
            };
            Ok(cell.unwrap_or(Cell::Empty))
        });
        cells.collect::<Result<_, _>>().map_err(|error: Error| refused(&error))
    }
}

fn time(micros: i64) -> Moment {
    let nanos = micros.rem_euclid(MICROS_PER_SECOND) * 1_000;
    let nanos = u32::try_from(nanos).unwrap_or_default();
    Moment::saturating_from_parts(micros.div_euclid(MICROS_PER_SECOND), nanos)
}

/// What the rows of a statement have, and how each of it is picked.
async fn columns(
    client: &Client,
    statement: &str,
    parameters: &[String],
) -> Result<(Columns, String), ExportError> {
    let types = vec![Type::TEXT; parameters.len()];
    let prepared = client.prepare_typed(statement, &types).await.map_err(|error| refused(&error))?;
    let invalid = |why: String| Err(ExportError::Query(why));
    if prepared.params().len() != parameters.len() {
        let (has, given) = (prepared.params().len(), parameters.len());
        return invalid(format!("it has {has} parameters, and {given} are given"));
    }
    let found = prepared.columns();
    if found.is_empty() || found.len() > COLUMNS_MAX {
        return invalid("it has no columns; write a SELECT".to_owned());
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = found.iter().find(|column| !names.insert(column.name())) {
        return invalid(format!("two columns are called {:?}; name them apart with AS", twice.name()));
    }
    let mut picks = Vec::with_capacity(found.len());
    let columns = found.iter().map(|column| {
        let name = format!("\"row\".\"{}\"", column.name().replace('"', "\"\""));
        let (kind, pick) = picked(column.type_(), &name);
        picks.push(pick);
        Column { name: Cow::Owned(column.name().to_owned()), kind }
    });
    let columns = columns.collect();
    Ok((columns, picks.join(", ")))
}

/// What values of a type become: whole numbers, moments and texts; anything else is a document.
fn picked(sort: &Type, name: &str) -> (Kind, String) {
    let texts = [
        Type::TEXT,
        Type::VARCHAR,
        Type::BPCHAR,
        Type::NAME,
        Type::UUID,
        Type::DATE,
        Type::TIME,
        Type::TIMESTAMP,
        Type::INTERVAL,
        Type::INET,
        Type::CIDR,
        Type::BYTEA,
    ];
    if [Type::INT2, Type::INT4, Type::INT8].contains(sort) {
        (Kind::Number, format!("{name}::int8"))
    } else if *sort == Type::TIMESTAMPTZ {
        (Kind::Time, format!("(extract(epoch FROM {name}) * {MICROS_PER_SECOND})::int8"))
    } else if texts.contains(sort) || matches!(sort.kind(), Sort::Enum(_)) {
        (Kind::Text, format!("{name}::text"))
    } else {
        (Kind::Json, format!("to_json({name})::text"))
    }
}

/// What a refusal means: the query cannot be, or its database is away for now.
fn refused(error: &Error) -> ExportError {
    let Some(said) = error.as_db_error() else { return ExportError::Database(spelled(error)) };
    let text = format!("{} ({})", said.message(), said.code().code());
    // The first two characters are the class of a state: connections, resources, operators and conflicts pass.
    match said.code().code().get(..2) {
        Some("08" | "40" | "53" | "55" | "57" | "58" | "XX") => ExportError::Database(text),
        _ => ExportError::Query(text),
    }
}
