//! One batch, one transaction: rows and progress, both or none.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join3;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::fault::Fault;
use super::message::{Message, Place};
use super::progress::{self, Offsets, Ranges};
use super::rows::{Array, Rows, Shape};
use super::statement::{BEGIN, Statements};
use crate::database;

/// How often a batch is tried again because other transactions were in its way.
const BUSY_MAX: u32 = 10;
/// Topics that are known to have a row of progress; more are asked about again.
const KNOWN_MAX: usize = 100_000;

/// Writes batches into the table of one sink.
pub(super) struct Writer {
    pub(super) database: database::Place,
    pub(super) sink: String,
    pub(super) shape: Shape,
    pub(super) statements: Statements,
    client: Option<Client>,
    /// Topics that have a row of progress.
    known: BTreeSet<Place>,
}

/// What became of a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    /// Rows that were sent to the table.
    pub(super) rows: usize,
    /// Messages that had become rows before.
    pub(super) repeated: usize,
    /// How many of those were delivered for the first time.
    pub(super) surprising: usize,
    /// Messages that are no rows of the table, and why.
    pub(super) refused: BTreeMap<usize, String>,
}

/// The topics of a batch, as parameters of statements.
struct Topics {
    names: Vec<String>,
    incarnations: Vec<i64>,
    offsets: Vec<String>,
}

impl Topics {
    fn new<'a>(places: impl IntoIterator<Item = (&'a Place, &'a Offsets)>) -> Self {
        let mut topics = Self { names: vec![], incarnations: vec![], offsets: vec![] };
        for (place, offsets) in places {
            topics.names.push(place.topic.clone());
            topics.incarnations.push(place.incarnation.into());
            topics.offsets.push(progress::multirange(offsets));
        }
        topics
    }

    fn parameters<'a>(&'a self, sink: &'a String) -> [(&'a (dyn ToSql + Sync), Type); 4] {
        [
            (sink, Type::TEXT),
            (&self.names, Type::TEXT_ARRAY),
            (&self.incarnations, Type::INT8_ARRAY),
            (&self.offsets, Type::TEXT_ARRAY),
        ]
    }
}

impl Writer {
    pub(super) const fn new(
        database: database::Place,
        sink: String,
        shape: Shape,
        statements: Statements,
    ) -> Self {
        Self { database, sink, shape, statements, client: None, known: BTreeSet::new() }
    }

    /// Connects, if it is not connected.
    pub(super) async fn connect(&mut self) -> Result<(), Fault> {
        let client = self.taken().await?;
        let asked = client.batch_execute("SELECT 1").await;
        asked.map_err(|error| Fault::of(&error))?;
        self.client = Some(client);
        Ok(())
    }

    /// The connection, taken out: if its user is dropped in the middle of a transaction, so is the connection.
    async fn taken(&mut self) -> Result<Client, Fault> {
        match self.client.take().filter(|client| !client.is_closed()) {
            Some(client) => Ok(client),
            None => self.database.connect().await.map_err(Fault::from),
        }
    }

    /// Writes what of a batch is not written yet, and remembers it, in one transaction.
    pub(super) async fn write(&mut self, messages: &[Message]) -> Result<Written, Fault> {
        let mut rows = self.shape.rows();
        let mut refused = BTreeMap::new();
        // The message of each row.
        let mut sources = Vec::with_capacity(messages.len());
        for (index, message) in messages.iter().enumerate() {
            match self.shape.add(message, &mut rows) {
                Ok(()) => sources.push(index),
                Err(why) => drop(refused.insert(index, why)),
            }
        }
        let batch = Batch { messages, rows, sources };
        let mut is_careful = false;
        let mut busy = 0;
        while !batch.sources.is_empty() {
            let client = self.taken().await?;
            let fault = match self.attempt(&client, &batch, is_careful).await {
                Ok(mut written) => {
                    self.client = Some(client);
                    written.refused.extend(refused);
                    return Ok(written);
                }
                Err(fault) => fault,
            };
            // A connection that cannot even do this is of no use any more.
            if client.batch_execute("ROLLBACK").await.is_ok() {
                self.client = Some(client);
            }
            match fault {
                Fault::Row(_) if !is_careful => is_careful = true,
                Fault::Busy(_) if busy < BUSY_MAX => busy += 1,
                Fault::Busy(why) => return Err(Fault::Away(why)),
                // Its own statements are refused as only rows should be.
                Fault::Row(why) => return Err(Fault::Table(why)),
                fault => return Err(fault),
            }
        }
        Ok(Written { refused, ..Written::default() })
    }

    async fn attempt(
        &mut self,
        client: &Client,
        batch: &Batch<'_>,
        is_careful: bool,
    ) -> Result<Written, Fault> {
        let places = progress::by_place(batch.sources.iter().map(|index| &batch.messages[*index]));
        self.know(client, &places).await?;
        let mut chosen = self.undone(client, batch, &places).await?;
        let repeated = batch.sources.len() - chosen.len();
        let firsts = |index: &usize| usize::from(batch.messages[*index].is_first_delivery());
        let (all, new) = (batch.sources.iter(), chosen.iter().map(|row| &batch.sources[*row]));
        let surprising = all.map(firsts).sum::<usize>() - new.map(firsts).sum::<usize>();
        self.shape.sort(&batch.rows, &mut chosen);
        if is_careful {
            let refused = self.bisect(client, &batch.rows, &mut chosen).await?;
            self.finish(client, batch, &chosen, None).await?;
            let refused = refused.into_iter().map(|(row, why)| (batch.sources[row], why)).collect();
            return Ok(Written { rows: chosen.len(), repeated, surprising, refused });
        }
        let arrays = (!chosen.is_empty()).then(|| self.shape.arrays(&batch.rows, &chosen));
        self.finish(client, batch, &chosen, arrays).await?;
        Ok(Written { rows: chosen.len(), repeated, surprising, refused: BTreeMap::new() })
    }

    /// Makes rows of progress for topics that have none, in a transaction of its own: the order in which they are
    /// locked later is then the same for all.
    async fn know(&mut self, client: &Client, places: &BTreeMap<Place, Offsets>) -> Result<(), Fault> {
        let unknown: Vec<_> = places.iter().filter(|(place, _)| !self.known.contains(place)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let topics = Topics::new(unknown.iter().copied());
        let made = client.execute_typed(&self.statements.know, &topics.parameters(&self.sink)[..3]).await;
        made.map_err(|error| Fault::of(&error))?;
        if self.known.len() > KNOWN_MAX {
            self.known.clear();
        }
        self.known.extend(unknown.into_iter().map(|(place, _)| place.clone()));
        Ok(())
    }

    /// Begins the transaction, locks the progress, and tells which rows are not done yet.
    async fn undone(
        &mut self,
        client: &Client,
        batch: &Batch<'_>,
        places: &BTreeMap<Place, Offsets>,
    ) -> Result<Vec<usize>, Fault> {
        let topics = Topics::new(places);
        let parameters = topics.parameters(&self.sink);
        // All three go out at once. What is read is read after the lock was got, by a statement of its own.
        let (begun, locked, read) = join3(
            client.batch_execute(BEGIN),
            client.query_typed(&self.statements.lock, &parameters[..3]),
            client.query_typed(&self.statements.read, &parameters),
        )
        .await;
        begun.map_err(|error| Fault::of(&error))?;
        let locked = locked.map_err(|error| Fault::of(&error))?;
        let read = read.map_err(|error| Fault::of(&error))?;
        if locked.len() != places.len() || read.len() != places.len() {
            self.known.clear();
            return Err(Fault::Busy("rows of progress were deleted meanwhile".to_owned()));
        }
        let mut topics: BTreeMap<Place, (Ranges, Offsets)> = BTreeMap::new();
        for row in read {
            let (topic, incarnation, done): (String, i64, String) = (row.get(0), row.get(1), row.get(2));
            let incarnation = u32::try_from(incarnation).ok();
            let Some((incarnation, ranges)) = incarnation.zip(progress::ranges(&done)) else {
                return Err(Fault::Table(format!("the progress {done} of {topic} cannot be read")));
            };
            topics.insert(Place { topic, incarnation }, (ranges, Offsets::new()));
        }
        let mut chosen = Vec::with_capacity(batch.sources.len());
        for (row, index) in batch.sources.iter().enumerate() {
            let Message { place, offset, .. } = &batch.messages[*index];
            let is_new = topics.get_mut(place).is_some_and(|(done, seen)| {
                // A message that came twice in one batch is one row.
                !progress::contains(done, *offset) && seen.insert(*offset)
            });
            if is_new {
                chosen.push(row);
            }
        }
        Ok(chosen)
    }

    /// Writes rows, if they are not written yet, and their progress, and commits: all of it goes out at once.
    async fn finish(
        &self,
        client: &Client,
        batch: &Batch<'_>,
        chosen: &[usize],
        arrays: Option<Vec<Array>>,
    ) -> Result<(), Fault> {
        let messages = chosen.iter().map(|row| &batch.messages[batch.sources[*row]]);
        let places = progress::by_place(messages);
        let topics = Topics::new(&places);
        let parameters = topics.parameters(&self.sink);
        let insert = async {
            match &arrays {
                Some(arrays) => self.insert(client, arrays).await,
                None => Ok(()),
            }
        };
        let done = client.execute_typed(&self.statements.done, &parameters);
        let (inserted, noted, committed) = join3(insert, done, client.batch_execute("COMMIT")).await;
        // If one fails, the database refuses the rest, and takes the commit for a rollback.
        inserted?;
        noted.map_err(|error| Fault::of(&error))?;
        committed.map_err(|error| Fault::of(&error))
    }

    async fn insert(&self, client: &Client, arrays: &[Array]) -> Result<(), Fault> {
        let parameters: Vec<(&(dyn ToSql + Sync), Type)> = arrays
            .iter()
            .zip(self.shape.kinds())
            .map(|(array, kind)| (array as &(dyn ToSql + Sync), kind.wire().1))
            .collect();
        let inserted = client.execute_typed(&self.statements.insert, &parameters).await;
        inserted.map(drop).map_err(|error| Fault::of(&error))
    }

    /// Writes all rows that the table takes, and finds those that it does not: a part that is refused is halved until
    /// it is one row. That takes at most twice as many statements as there are rows. Leaves in `chosen` what was
    /// written.
    async fn bisect(
        &self,
        client: &Client,
        rows: &Rows,
        chosen: &mut Vec<usize>,
    ) -> Result<BTreeMap<usize, String>, Fault> {
        let run =
            async |statement: &str| client.batch_execute(statement).await.map_err(|error| Fault::of(&error));
        // A constraint that is checked at the commit would refuse all of it.
        run("SET CONSTRAINTS ALL IMMEDIATE").await?;
        let mut refused = BTreeMap::new();
        let mut parts = Vec::new();
        parts.push(0..chosen.len());
        while let Some(part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            run("SAVEPOINT part").await?;
            let arrays = self.shape.arrays(rows, &chosen[part.clone()]);
            match self.insert(client, &arrays).await {
                Ok(()) => run("RELEASE SAVEPOINT part").await?,
                Err(Fault::Row(why)) => {
                    run("ROLLBACK TO SAVEPOINT part; RELEASE SAVEPOINT part").await?;
                    if part.len() == 1 {
                        refused.insert(chosen[part.start], Fault::Row(why).to_string());
                    } else {
                        let middle = part.start + part.len() / 2;
                        // The first half is written first: of equals, the first counts.
                        parts.push(middle..part.end);
                        parts.push(part.start..middle);
                    }
                }
                Err(fault) => return Err(fault),
            }
        }
        chosen.retain(|row| !refused.contains_key(row));
        Ok(refused)
    }
}

/// The messages of a batch, and the rows that they became.
struct Batch<'a> {
    messages: &'a [Message],
    rows: Rows,
    /// The message of each row.
    sources: Vec<usize>,
}
