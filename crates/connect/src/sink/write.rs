//! One batch, one transaction: rows and progress, both or none.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::SinkExt as _;
use futures_util::future::{join, join3, join4};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, CopyInSink, Statement};

use super::fault::Fault;
use super::message::{Message, Place};
use super::progress::{self, Offsets, Ranges};
use super::rows::{Batch, Shape};
use super::statement::{BEGIN, Statements};
use crate::database;

/// How often a batch is tried again because other transactions were in its way.
const BUSY_MAX: u32 = 10;
/// Topics that are known to have a row of progress; more are asked about again.
const KNOWN_MAX: usize = 100_000;

/// Writes batches into the table of one sink.
pub(super) struct Writer {
    database: database::Place,
    sink: String,
    shape: Arc<Shape>,
    statements: Statements,
    /// Whether rows that are not there may be written by `COPY`.
    is_copying: bool,
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

/// What is still to be written of a batch.
#[derive(Default)]
struct Unwritten {
    /// A `COPY` that has got its rows, and not yet the word that these are all.
    copied: Option<Pin<Box<CopyInSink<Bytes>>>>,
    /// Rows to be inserted.
    rest: Vec<usize>,
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
        shape: Arc<Shape>,
        statements: Statements,
        is_copying: bool,
    ) -> Self {
        Self { database, sink, shape, statements, is_copying, client: None, known: BTreeSet::new() }
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
    pub(super) async fn write(&mut self, batch: &Batch) -> Result<Written, Fault> {
        let mut is_careful = false;
        let mut busy = 0;
        while !batch.sources.is_empty() {
            let client = self.taken().await?;
            let fault = match self.attempt(&client, batch, is_careful).await {
                Ok(mut written) => {
                    self.client = Some(client);
                    written.refused.extend(batch.refused.clone());
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
        Ok(Written { refused: batch.refused.clone(), ..Written::default() })
    }

    async fn attempt(&mut self, client: &Client, batch: &Batch, is_careful: bool) -> Result<Written, Fault> {
        let held: Vec<usize> = (0..batch.sources.len()).filter(|row| batch.source(*row).is_held).collect();
        let places = progress::by_place(held.iter().map(|row| batch.source(*row)));
        self.know(client, &places).await?;
        // Made in the transaction, with the rest of what begins it.
        let copy = (self.is_copying && !is_careful).then(|| self.statements.copy.clone());
        let prepare = async {
            match copy {
                Some(copy) => client.prepare(&copy).await.map(Some).map_err(|error| Fault::of(&error)),
                None => Ok(None),
            }
        };
        let (chosen, copy) = join(self.undone(client, batch, &held, &places), prepare).await;
        let (mut chosen, copy) = (chosen?, copy?);
        let repeated = held.len() - chosen.len();
        let firsts = |row: &usize| usize::from(batch.source(*row).is_first_delivery);
        let surprising = held.iter().map(firsts).sum::<usize>() - chosen.iter().map(firsts).sum::<usize>();
        self.shape.sort(&batch.rows, &mut chosen);
        let mut refused = BTreeMap::new();
        if is_careful {
            refused = self.bisect(client, batch, &mut chosen).await?;
            self.finish(client, batch, &chosen, Unwritten::default()).await?;
        } else {
            let unwritten = self.copy(client, batch, &chosen, copy).await?;
            self.finish(client, batch, &chosen, unwritten).await?;
        }
        let refused = refused.into_iter().map(|(row, why)| (batch.sources[row], why)).collect();
        Ok(Written { rows: chosen.len(), repeated, surprising, refused })
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
        batch: &Batch,
        held: &[usize],
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
        let mut topics: BTreeMap<Place, (Ranges, HashSet<i64>)> = BTreeMap::new();
        for row in read {
            let (topic, incarnation, done): (String, i64, String) = (row.get(0), row.get(1), row.get(2));
            let incarnation = u32::try_from(incarnation).ok();
            let Some((incarnation, ranges)) = incarnation.zip(progress::ranges(&done)) else {
                return Err(Fault::Table(format!("the progress {done} of {topic} cannot be read")));
            };
            topics.insert(Place { topic, incarnation }, (ranges, HashSet::new()));
        }
        let is_new = |row: &usize| {
            let Message { place, offset, .. } = batch.source(*row);
            topics.get_mut(place).is_some_and(|(done, seen)| {
                // A message that came twice in one batch is one row.
                !progress::contains(done, *offset) && seen.insert(*offset)
            })
        };
        Ok(held.iter().copied().filter(is_new).collect())
    }

    /// Begins to write rows that are not there by `COPY`. Leaves those that are, in order of their keys. If somebody else
    /// writes one of them meanwhile, the database refuses it, and all is tried again with care.
    async fn copy(
        &self,
        client: &Client,
        batch: &Batch,
        chosen: &[usize],
        statement: Option<Statement>,
    ) -> Result<Unwritten, Fault> {
        let (rows, mut fresh, mut rest) = (&batch.rows, chosen.to_vec(), Vec::new());
        let Some(statement) = statement else { return Ok(Unwritten { copied: None, rest: fresh }) };
        if let Some(present) = &self.statements.present {
            rest = self.shape.take_equals(rows, &mut fresh);
            let keys = self.shape.keys(rows, &fresh);
            let there = client.query_typed(present, &parameters(&keys)).await;
            let there = there.map_err(|error| Fault::of(&error))?;
            let there: HashSet<i64> = there.iter().map(|row| row.get(0)).collect();
            let mut place = 0;
            rest.extend(fresh.extract_if(.., |_| {
                place += 1;
                there.contains(&place)
            }));
            // Of rows with the same key, the first comes first.
            rest.sort_unstable();
            self.shape.sort(rows, &mut rest);
        }
        if fresh.is_empty() {
            return Ok(Unwritten { copied: None, rest });
        }
        let sink = client.copy_in(&statement).await.map_err(|error| Fault::of(&error))?;
        // Its name is given up in the transaction, so that a pooler does that where it was made.
        drop(statement);
        let mut sink = Box::pin(sink);
        sink.send(Bytes::from(rows.copied(&fresh))).await.map_err(|error| Fault::of(&error))?;
        Ok(Unwritten { copied: Some(sink), rest })
    }

    /// Writes what is not written yet of the chosen rows, and the progress of all of them, and commits: all of it goes
    /// out at once.
    async fn finish(
        &self,
        client: &Client,
        batch: &Batch,
        chosen: &[usize],
        unwritten: Unwritten,
    ) -> Result<(), Fault> {
        let places = progress::by_place(chosen.iter().map(|row| batch.source(*row)));
        let topics = Topics::new(&places);
        let parameters = topics.parameters(&self.sink);
        let Unwritten { copied, rest } = unwritten;
        let copy = async {
            match copied {
                Some(mut copied) => copied.as_mut().finish().await.map(drop),
                None => Ok(()),
            }
        };
        let insert = self.insert(client, batch, &rest);
        let done = client.execute_typed(&self.statements.done, &parameters);
        let commit = client.batch_execute("COMMIT");
        let (copied, inserted, noted, committed) = join4(copy, insert, done, commit).await;
        // If one fails, the database refuses the rest, and takes the commit for a rollback.
        copied.map_err(|error| Fault::of(&error))?;
        inserted?;
        noted.map_err(|error| Fault::of(&error))?;
        committed.map_err(|error| Fault::of(&error))
    }

    async fn insert(&self, client: &Client, batch: &Batch, chosen: &[usize]) -> Result<(), Fault> {
        if chosen.is_empty() {
            return Ok(());
        }
        let arrays = self.shape.arrays(&batch.rows, chosen);
        let inserted = client.execute_typed(&self.statements.insert, &parameters(&arrays)).await;
        inserted.map(drop).map_err(|error| Fault::of(&error))
    }

    /// Writes all rows that the table takes, and finds those that it does not: a part that is refused is halved until
    /// it is one row. That takes at most twice as many statements as there are rows. Leaves in `chosen` what was
    /// written.
    async fn bisect(
        &self,
        client: &Client,
        batch: &Batch,
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
            match self.insert(client, batch, &chosen[part.clone()]).await {
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

/// Arrays as parameters of a statement.
fn parameters<'a>(arrays: &'a [Vec<Option<&str>>]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    arrays.iter().map(|array| (array as &(dyn ToSql + Sync), Type::TEXT_ARRAY)).collect()
}
