//! What a statement answers, by whatever library it was sent.

use std::error::Error;
use std::fmt;

use bytes::Bytes;
use tokio_postgres::types::{FromSql, Type};

use super::super::fault::spelled;

/// A row that a statement answers.
pub struct Row(Form);

enum Form {
    Native(tokio_postgres::Row),
    Plain(Vec<Column>),
}

/// A column of a row, as PostgreSQL has it on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The number of its type, as in `pg_type`. Of no meaning if there is no value.
    pub type_oid: u32,
    /// In binary format; `None` for `NULL`.
    pub value: Option<Bytes>,
}

impl Row {
    /// From its columns, in order.
    #[must_use]
    pub const fn new(columns: Vec<Column>) -> Self {
        Self(Form::Plain(columns))
    }

    /// Whether it has a column of this name.
    pub(in super::super) fn has(&self, name: &str) -> bool {
        match &self.0 {
            Form::Native(row) => row.columns().iter().any(|column| column.name() == name),
            Form::Plain(columns) => columns.iter().any(|column| column.name == name),
        }
    }
}

impl From<tokio_postgres::Row> for Row {
    fn from(row: tokio_postgres::Row) -> Self {
        Self(Form::Native(row))
    }
}

/// Which column of a row.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Place<'a> {
    Named(&'a str),
    At(usize),
}

/// A column that is not there, or not what it should be.
#[derive(Debug)]
pub(in super::super) struct Misfit(String);

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Misfit {}

/// What has columns.
pub(in super::super) trait Cells {
    /// The value of one of them.
    fn cell<'a, T: FromSql<'a>>(&'a self, place: Place<'_>) -> Result<T, Misfit>;
}

impl Cells for tokio_postgres::Row {
    fn cell<'a, T: FromSql<'a>>(&'a self, place: Place<'_>) -> Result<T, Misfit> {
        let found = match place {
            Place::Named(name) => self.try_get(name),
            Place::At(at) => self.try_get(at),
        };
        found.map_err(|error| Misfit(spelled(&error)))
    }
}

impl Cells for Row {
    fn cell<'a, T: FromSql<'a>>(&'a self, place: Place<'_>) -> Result<T, Misfit> {
        match &self.0 {
            Form::Native(row) => row.cell(place),
            Form::Plain(columns) => {
                let column = match place {
                    Place::Named(name) => columns.iter().find(|column| column.name == name),
                    Place::At(at) => columns.get(at),
                };
                let column = column.ok_or_else(|| Misfit(format!("there is no column {place:?}")))?;
                column.read().map_err(|error| Misfit(format!("the column {}: {error}", column.name)))
            }
        }
    }
}

impl Column {
    fn read<'a, T: FromSql<'a>>(&'a self) -> Result<T, Box<dyn Error + Sync + Send>> {
        let Some(value) = &self.value else { return T::from_sql_null(&Type::UNKNOWN) };
        let kind = Type::from_oid(self.type_oid).filter(T::accepts);
        let kind = kind.ok_or_else(|| format!("its type has the number {}", self.type_oid))?;
        T::from_sql(&kind, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_columns_are_read_by_name_and_place_and_type() {
        let column = |name: &str, kind: Type, value: Option<&'static [u8]>| Column {
            name: name.to_owned(),
            type_oid: kind.oid(),
            value: value.map(Bytes::from_static),
        };
        let row = Row::new(vec![
            column("word", Type::TEXT, Some(b"paid")),
            column("number", Type::INT4, Some(&[0, 0, 0, 7])),
            column("nothing", Type::UNKNOWN, None),
        ]);
        assert_eq!(row.cell::<&str>(Place::Named("word")).unwrap(), "paid");
        assert_eq!(row.cell::<i32>(Place::At(1)).unwrap(), 7);
        assert_eq!(row.cell::<Option<i32>>(Place::Named("number")).unwrap(), Some(7));
        assert_eq!(row.cell::<Option<&str>>(Place::Named("nothing")).unwrap(), None);
        assert!(row.has("nothing") && !row.has("paid"));
        for (misfit, why) in [
            (row.cell::<&str>(Place::Named("number")).map(drop), "its type has the number 23"),
            (row.cell::<i32>(Place::Named("nothing")).map(drop), "NULL"),
            (row.cell::<i32>(Place::Named("paid")).map(drop), "no column"),
            (row.cell::<i32>(Place::At(3)).map(drop), "no column"),
        ] {
            let said = misfit.unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    }
}
