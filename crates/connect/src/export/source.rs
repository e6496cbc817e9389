//! Where the rows of an export come from: lists of the API, or a query.

use driftq_client::Client;

use super::column::{Columns, Row};
use super::error::ExportError;
use super::pages::Pages;
use super::query::Query;
use super::request::Export;
use super::selection::Selection;

/// Reads a selection whose bounds are all there.
pub(super) enum Source<'a> {
    Pages { pages: Pages<'a>, columns: Columns },
    Query(Box<Query>),
}

impl<'a> Source<'a> {
    /// Begins at the beginning.
    pub(super) async fn open(
        client: &'a Client,
        export: &'a Export,
        selection: &'a Selection,
    ) -> Result<Self, ExportError> {
        if let (Selection::Query { statement, parameters, .. }, Some(database)) =
            (selection, &export.database)
        {
            return Ok(Self::Query(Box::new(Query::open(database, statement, parameters).await?)));
        }
        let pages = Pages::open(client, selection, &export.tenant_id).await?;
        Ok(Self::Pages { pages, columns: selection.columns() })
    }

    pub(super) fn columns(&self) -> Columns {
        match self {
            Self::Pages { columns, .. } => columns.clone(),
            Self::Query(query) => query.columns(),
        }
    }

    /// The next rows, which may be none; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Row>>, ExportError> {
        match self {
            Self::Pages { pages, .. } => pages.next().await,
            Self::Query(query) => query.next().await,
        }
    }
}
