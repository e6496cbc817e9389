//! Reading a selection, page by page, through the public API.

use driftq_api::v2::{Browsed, EffectState, Effects, Item, LIMIT_MAX, Letters, Run, VersionOutputs};
use driftq_api::{Code, Moment};
use driftq_client::{Client, escape};
use serde::de::DeserializeOwned;

use super::column::Row;
use super::error::ExportError;
use super::rows::{effect, letter, message, output, steps};
use super::selection::Selection;

/// Reads a selection whose bounds are all there.
pub(super) struct Pages<'a> {
    client: &'a Client,
    tenant_id: &'a str,
    /// What is still to be read, the last one first.
    left: Vec<Query<'a>>,
    cursor: Option<String>,
}

/// One list of the API, and where it ends.
#[derive(Clone, Copy, Debug)]
enum Query<'a> {
    Messages { topic: &'a str, partition: u32, from: u64, to: u64 },
    Letters { topic: &'a str, to: u64 },
    Run { run_id: &'a str },
    Effects { state: Option<EffectState>, scope: Option<&'a str>, before: Option<Moment> },
    Outputs { dataset: &'a str, version: &'a str },
}

/// What one page gave.
struct Page {
    rows: Vec<Row>,
    cursor: Option<String>,
}

impl<'a> Pages<'a> {
    /// Begins at the beginning.
    pub(super) async fn open(
        client: &'a Client,
        selection: &'a Selection,
        tenant_id: &'a str,
    ) -> Result<Self, ExportError> {
        let left = match selection {
            Selection::Topic { topic, partition, from, to } => {
                let query = |partition| Query::Messages {
                    topic,
                    partition,
                    from: from.unwrap_or(0),
                    to: to.unwrap_or(0),
                };
                match partition {
                    Some(partition) => vec![query(*partition)],
                    None => {
                        let count = client.topic(topic).await?.partitions.len();
                        (0..u32::try_from(count).unwrap_or(u32::MAX)).rev().map(query).collect()
                    }
                }
            }
            Selection::Run { run_id } => vec![Query::Run { run_id }],
            // A topic that never had any is told apart from one that is not there, and has no list of them.
            Selection::DeadLetters { to: None | Some(0), .. } => Vec::new(),
            Selection::DeadLetters { topic, to: Some(to) } => vec![Query::Letters { topic, to: *to }],
            Selection::Effects { state, scope, before } => {
                vec![Query::Effects { state: *state, scope: scope.as_deref(), before: *before }]
            }
            Selection::Query { .. } => Vec::new(),
            Selection::Dataset { dataset, version } => {
                vec![Query::Outputs { dataset, version: version.as_deref().unwrap_or_default() }]
            }
        };
        Ok(Self { client, tenant_id, left, cursor: None })
    }

    /// The next rows, which may be none; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Row>>, ExportError> {
        let Some(query) = self.left.last().copied() else { return Ok(None) };
        let page = self.page(query).await?;
        self.cursor = page.cursor;
        if self.cursor.is_none() {
            self.left.pop();
        }
        Ok(Some(page.rows))
    }

    async fn page(&self, query: Query<'_>) -> Result<Page, ExportError> {
        match query {
            Query::Messages { topic, partition, from, to } => {
                let path = format!("/v2/topics/{}/messages?partition={partition}&from={from}", escape(topic));
                let Browsed { messages, cursor, .. } = self.get(path).await?;
                within(messages, cursor, |item| item.offset < to, message)
            }
            Query::Letters { topic, to } => {
                let path = format!("/v2/dlq/{}?", escape(topic));
                let Letters { letters, cursor, .. } = self.get(path).await?;
                // They lie in one row for each partition, so one that is too new says nothing about the next.
                let rows = letters.into_iter().filter(|item| item.offset < to);
                Ok(Page { rows: shown(rows, letter)?, cursor })
            }
            Query::Run { run_id } => {
                let path = format!("/v2/runs/{}?{}", escape(run_id), self.tenant());
                let Run { steps: found, cursor, .. } = self.get(path).await?;
                Ok(Page { rows: steps(run_id, found), cursor })
            }
            Query::Effects { state, scope, before } => self.effects(state, scope, before).await,
            Query::Outputs { dataset, version } => {
                let path = format!("/v2/outputs/{}/{}?{}", escape(dataset), escape(version), self.tenant());
                let VersionOutputs { outputs, cursor, .. } = self.get(path).await?;
                let rows = outputs.into_iter().map(|found| output(dataset, version, found)).collect();
                Ok(Page { rows, cursor })
            }
        }
    }

    async fn effects(
        &self,
        state: Option<EffectState>,
        scope: Option<&str>,
        before: Option<Moment>,
    ) -> Result<Page, ExportError> {
        let mut path = format!("/v2/effects?{}", self.tenant());
        for (name, value) in [("state", state.map(EffectState::name)), ("scope", scope)] {
            if let Some(value) = value {
                path.push_str(&format!("&{name}={}", escape(value)));
            }
        }
        let Effects { effects, cursor, .. } = self.get(path).await?;
        let is_old = |created_at: Moment| before.is_none_or(|before| created_at < before);
        // Oldest first: from a page on that has only newer ones, there are only newer ones.
        let is_over = !effects.is_empty() && !effects.iter().any(|found| is_old(found.created_at));
        let rows = effects.into_iter().filter(|found| is_old(found.created_at)).map(effect).collect();
        Ok(Page { rows, cursor: cursor.filter(|_| !is_over) })
    }

    /// One page of the list at this path, which ends in its first parameters.
    async fn get<T: DeserializeOwned>(&self, mut path: String) -> Result<T, ExportError> {
        path.push_str(&format!("&limit={LIMIT_MAX}"));
        if let Some(cursor) = &self.cursor {
            path.push_str(&format!("&cursor={}", escape(cursor)));
        }
        Ok(self.client.get(&path.replace("?&", "?")).await?)
    }

    fn tenant(&self) -> String {
        if self.tenant_id.is_empty() {
            return String::new();
        }
        format!("tenant_id={}", escape(self.tenant_id))
    }
}

/// Messages of one partition up to the first that is too new: behind it there are only newer ones.
fn within(
    items: Vec<Item<'static>>,
    cursor: Option<String>,
    is_in: impl Fn(&Item<'_>) -> bool,
    row: fn(Item<'_>) -> Row,
) -> Result<Page, ExportError> {
    let is_over = items.last().is_some_and(|last| !is_in(last));
    let rows = shown(items.into_iter().take_while(|item| is_in(item)), row)?;
    Ok(Page { rows, cursor: cursor.filter(|_| !is_over) })
}

/// Rows of messages whose values may be seen.
fn shown(
    items: impl Iterator<Item = Item<'static>>,
    row: fn(Item<'_>) -> Row,
) -> Result<Vec<Row>, ExportError> {
    items.map(|item| if item.payload_hidden { Err(ExportError::Hidden) } else { Ok(row(item)) }).collect()
}

/// A topic's next offset; none if there is no such topic.
pub(super) async fn end_of(client: &Client, topic: &str) -> Result<Option<u64>, ExportError> {
    match client.topic(topic).await {
        Ok(found) => Ok(Some(found.next_offset)),
        Err(error) if error.code() == Some(Code::TopicUnknown) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
