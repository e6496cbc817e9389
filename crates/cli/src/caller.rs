//! What most commands are: calls about one thing, and the answer as a table, facts or a sentence.

use anyhow::Result;
use driftq_http::Method;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Amount, CallError, Columns, Common, Format, Pages, Path, Rows, Session, Subject, output, suggest,
};

/// Makes calls about one thing. A refusal because it is not there names what may have been meant.
pub(crate) struct Caller<'a> {
    pub(crate) session: Session,
    subject: Subject<'a>,
}

impl Common {
    pub(crate) fn about<'a>(&self, subject: Subject<'a>) -> Result<Caller<'a>> {
        Ok(Caller { session: self.client()?.session(), subject })
    }

    /// Calls about what has no name that could be guessed.
    pub(crate) fn caller(&self) -> Result<Caller<'static>> {
        self.about(Subject::Unnamed)
    }

    /// Prints one thing: in words, or as JSON.
    pub(crate) fn show<T: Serialize>(&self, item: &T, text: impl FnOnce(&T) -> String) -> Result<()> {
        output::print_one(self.output, item, || text(item))
    }

    /// Prints all of a list that fits into the memory; a table without rows is the sentence instead.
    pub(crate) fn show_all<T: Serialize>(
        &self,
        rows: &[T],
        columns: Columns<T>,
        nothing: &str,
    ) -> Result<()> {
        output::print_many(self.output, rows, || {
            if rows.is_empty() { format!("{nothing}\n") } else { output::table(columns, rows) }
        })
    }
}

impl Caller<'_> {
    pub(crate) async fn get<T: DeserializeOwned>(&mut self, path: impl AsRef<str>) -> Result<T> {
        let answer = self.session.get(path).await;
        self.explain(answer).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &mut self,
        path: impl AsRef<str>,
        body: &impl Serialize,
    ) -> Result<T> {
        let answer = self.session.post(path, body).await;
        self.explain(answer).await
    }

    pub(crate) async fn put<T: DeserializeOwned>(
        &mut self,
        path: impl AsRef<str>,
        body: &impl Serialize,
    ) -> Result<T> {
        let answer = self.session.send(Method::PUT, path, body).await;
        self.explain(answer).await
    }

    /// A post whose path says it all.
    pub(crate) async fn order<T: DeserializeOwned>(&mut self, path: impl AsRef<str>) -> Result<T> {
        let answer = self.session.order(path).await;
        self.explain(answer).await
    }

    pub(crate) async fn delete<T: DeserializeOwned>(&mut self, path: impl AsRef<str>) -> Result<T> {
        let answer = self.session.delete(path).await;
        self.explain(answer).await
    }

    /// A post that is safe to repeat, again and again while the server is away or overloaded.
    pub(crate) async fn patiently<T: DeserializeOwned>(
        &mut self,
        path: impl AsRef<str>,
        body: &impl Serialize,
    ) -> Result<T> {
        let answer = self.session.patiently(path, body, 0).await;
        self.explain(answer).await
    }

    /// The answer, or an error of the command.
    pub(crate) async fn explain<T>(&mut self, answer: Result<T, CallError>) -> Result<T> {
        match answer {
            Ok(answer) => Ok(answer),
            Err(error) => Err(suggest::explained(&mut self.session, self.subject, error).await.into()),
        }
    }

    /// Prints a list page by page. `part` takes a page apart: what it lists, and the cursor of the next.
    pub(crate) async fn list<P: DeserializeOwned, T: Serialize>(
        &mut self,
        common: &Common,
        (first, amount): (Path, &Amount),
        (columns, nothing): (Columns<T>, &str),
        part: impl Fn(P) -> (Vec<T>, Option<String>),
    ) -> Result<()> {
        let mut rows = Rows::new(common.output.unwrap_or(Format::Table), columns);
        let mut pages = Pages::new(first, amount);
        while let Some(path) = pages.next(rows.printed()) {
            let (items, cursor) = part(self.get(path).await?);
            for item in &items {
                rows.row(item, item)?;
            }
            pages.turn(cursor);
        }
        rows.end(nothing)?;
        pages.hint(common);
        Ok(())
    }

    /// All pages of a list.
    pub(crate) async fn collect<P: DeserializeOwned, T>(
        &mut self,
        first: Path,
        part: impl Fn(P) -> (Vec<T>, Option<String>),
    ) -> Result<Vec<T>> {
        let mut all = Vec::new();
        let mut pages = Pages::new(first, &Amount::ALL);
        while let Some(path) = pages.next(0) {
            let (items, cursor) = part(self.get(path).await?);
            all.extend(items);
            pages.turn(cursor);
        }
        Ok(all)
    }
}
