//! The life of a shard: open, recover, serve, stop; and again from the disk if it fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle, Scope};
use std::time::{Duration, Instant};

use driftq_core::{Input, Output, Position, Shard, ShardId, State};

use crate::broker::STOPPING;
use crate::dead_letter_writer::{BURIALS_MAX, bury_all};
use crate::decide::{Decide, Ended, Tables};
use crate::failure::StartError;
use crate::forwarder::forward_all;
use crate::house::HOME;
use crate::inbox::{Admission, Broken, LogEvent};
use crate::keeper::{Housekeeper, drop_empty};
use crate::keeper_signal::{KeeperSignal, StopOnDrop};
use crate::log::{Append, AppendError, Archive, KeepError, Log, Lsn, Opened, ReadError, Room, Space};
use crate::log_writer::{BATCHES_UNDER_WAY_MAX, Batch, Body, LogWriter, WriteQueue, write_batches};
use crate::payload_store::{Lost, ReadLog};
use crate::recover::recover;
use crate::request::Recovery;
use crate::shared::Shared;

/// How long to wait before a failed shard is rebuilt; doubles with every failure in a row.
const REBUILD_WAIT_MIN: Duration = Duration::from_millis(50);
/// … up to this.
const REBUILD_WAIT_MAX: Duration = Duration::from_secs(10);
/// A shard that served for this long before it failed is rebuilt without the waits of earlier failures.
const SERVED_WELL: Duration = Duration::from_secs(60);
/// How often a log that others can claim is asked whether one has.
const CLAIM_LOOK: Duration = Duration::from_secs(2);
/// What is said of a panic; its own words have been printed.
const BROKEN: &str = "an internal assertion failed";

/// Where the outcome of the first opening goes.
type Ready = SyncSender<Result<Recovery, StartError>>;

/// A shard whose threads have been started, and which may not serve yet.
pub(crate) struct Starting {
    decide: JoinHandle<()>,
    outcome: Receiver<Result<Recovery, StartError>>,
}

impl Starting {
    /// Starts the threads of a shard.
    pub(crate) fn begin<L: Log>(shared: Arc<Shared>, log: L) -> Result<Self, StartError> {
        let (ready, outcome) = sync_channel(1);
        let decide = thread::Builder::new().name("driftq-decide".into());
        let decide = decide.spawn(move || supervise(&shared, &log, ready))?;
        Ok(Self { decide, outcome })
    }

    /// Waits until the shard serves, or cannot.
    pub(crate) fn wait(self) -> Result<(JoinHandle<()>, Recovery), StartError> {
        match self.outcome.recv() {
            Ok(Ok(recovery)) => Ok((self.decide, recovery)),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(StartError::Log("the decide thread ended before it had begun".into())),
        }
    }
}

/// The decide thread: one epoch of the shard after the other.
fn supervise<L: Log>(shared: &Arc<Shared>, log: &L, ready: Ready) {
    let mut ready = Some(ready);
    let mut wait = REBUILD_WAIT_MIN;
    loop {
        let begun = Instant::now();
        // A panic is a broken assertion: the state in memory is not to be trusted, the one on disk is.
        let ended = catch_unwind(AssertUnwindSafe(|| serve_epoch(shared, log, &mut ready)));
        let broken = match ended {
            Ok(Ok(Ended::Stopped)) => break,
            Ok(Ok(Ended::Broken(broken))) => broken,
            Ok(Err(error)) => {
                if let Some(ready) = ready.take() {
                    // The caller is waiting for exactly this.
                    let _ = ready.send(Err(error));
                    break;
                }
                match error {
                    StartError::Fenced(why) => Broken::Fenced(why),
                    error => Broken::Failed(error.to_string()),
                }
            }
            Err(_) => {
                if let Some(ready) = ready.take() {
                    // What broke at the first opening breaks again: the caller must not wait for ever.
                    let _ = ready.send(Err(StartError::Log(BROKEN.into())));
                    break;
                }
                Broken::Failed(BROKEN.into())
            }
        };
        shared.end_epoch();
        go_down(shared, broken.why());
        let why = match broken {
            Broken::Fenced(why) => {
                tracing::error!(%why, "this server steps down for good; nothing is lost that was acknowledged");
                shared.house.fenced.send_replace(true);
                shared.inbox.wait_for_stop();
                break;
            }
            Broken::Failed(why) => why,
        };
        shared.meters.rebuilds.one();
        if begun.elapsed() >= SERVED_WELL {
            wait = REBUILD_WAIT_MIN;
        }
        tracing::error!(%why, retry_in = ?wait, "the shard failed; it is rebuilt from the log");
        if shared.inbox.wait_stop(wait) {
            break;
        }
        wait = (wait * 2).min(REBUILD_WAIT_MAX);
    }
    go_down(shared, STOPPING);
    shared.ended.send_replace(true);
}

/// Nothing is served from now on, and what belonged to the shard is let go.
fn go_down(shared: &Shared, why: &str) {
    shared.inbox.turn_away(why);
    shared.inbox.close_housekeeping();
    shared.status_board.down(why);
    shared.payload_store.detach();
}

/// One epoch: from opening the log to the end of the shard.
fn serve_epoch<L: Log>(
    shared: &Arc<Shared>,
    log: &L,
    ready: &mut Option<Ready>,
) -> Result<Ended, StartError> {
    let begun = Instant::now();
    let mut opened = log.open()?;
    let (state, recovery) = recover(&mut opened, shared.config.settings.seed, begun)?;
    tell(shared.id, &recovery);
    shared.may_be(&state)?;
    let clock = opened.archive.clock().map_err(|error| StartError::Log(error.to_string()))?;
    clock.iter().for_each(|reading| shared.clock.follow(reading));
    shared.meters.recovery_ms.set(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX));
    let Opened { writer, archive, start, end, .. } = opened;
    let signal = KeeperSignal::new(recovery.replayed_batches);
    let epoch = Epoch { shared, signal, start, end };
    epoch.serve::<L>(writer, &archive, state, || {
        if let Some(ready) = ready.take() {
            // If the starter no longer waits, there is no handle either and the shard will stop.
            let _ = ready.send(Ok(recovery));
        }
    })
}

fn tell(shard: ShardId, recovery: &Recovery) {
    let Recovery { messages, topics, groups, replayed_bytes, duration, epoch, .. } = recovery;
    if let Some(truncated) = &recovery.truncated {
        tracing::warn!(%truncated, "the log had a torn tail; nothing acknowledged was in it");
    }
    let snapshot = recovery.snapshot_at.as_deref().unwrap_or("none");
    let shard = shard.0;
    tracing::info!(shard, messages, topics, groups, replayed_bytes, ?duration, epoch, snapshot, "recovered");
}

/// What all threads of one epoch share.
struct Epoch<'a> {
    shared: &'a Arc<Shared>,
    signal: KeeperSignal,
    start: Lsn,
    end: Lsn,
}

impl Epoch<'_> {
    fn serve<L: Log>(
        &self,
        writer: L::Writer,
        archive: &L::Archive,
        state: State,
        serving: impl FnOnce(),
    ) -> Result<Ended, StartError> {
        let shared = self.shared;
        shared.payload_store.attach(Arc::new(LogReader(archive.clone())), Position(self.end.0));
        shared.inbox.open_housekeeping();
        shared.house.move_in(shared.id, &state);
        let cursor = writer.cursor();
        let log_writer = &LogWriter::<L>::new(writer, archive.clone(), Arc::clone(shared));
        let (jobs, batches) = sync_channel(BATCHES_UNDER_WAY_MAX);
        let (dead_letter_writer, burials) = sync_channel(BURIALS_MAX);
        let (forwarder, parcels) = channel();
        thread::scope(|scope| {
            // Also when this thread panics: the others then end by themselves and the scope can close.
            let _stop = StopOnDrop(&self.signal);
            let writes = WriteQueue {
                log_writer,
                signal: &self.signal,
                jobs,
                mode: shared.config.commit,
                under_way: false,
            };
            let shard = Shard::new(shared.config.settings.clone(), state);
            let now = shared.clock.now();
            let (out, tables) = (Output::default(), Tables::default());
            let mut decide =
                Decide { shared, shard, out, cursor, writes, dead_letter_writer, forwarder, tables, now };
            let mut housekeeper = Housekeeper::new(archive.clone(), shared, &self.signal, self.start);
            make_room(&decide, &mut housekeeper, archive);
            open_epoch(&mut decide)?;
            let threads = [
                spawn(scope, shared, "driftq-log", move || {
                    write_batches(log_writer, &self.signal, shared, &batches)
                })?,
                spawn(scope, shared, "driftq-keeper", move || housekeeper.run())?,
                spawn(scope, shared, "driftq-bury", move || bury_all(shared, &burials))?,
                spawn(scope, shared, "driftq-forward", move || forward_all(shared, &parcels))?,
                spawn(scope, shared, "driftq-claim", move || {
                    watch_claim::<L>(shared, archive, &self.signal)
                })?,
            ];
            shared.status_board.serving(decide.shard.state().epoch());
            shared.inbox.set_admission(Admission::Open);
            serving();
            let ended = decide.run();
            shared.inbox.close_housekeeping();
            self.signal.stop();
            let Decide { shard, writes, dead_letter_writer, forwarder, .. } = decide;
            drop((writes, dead_letter_writer, forwarder));
            for thread in threads {
                // A panic there has been printed; the shard ends anyway.
                let _ = thread.join();
            }
            if matches!(ended, Ended::Stopped) {
                write_snapshot(shared, archive, shard.state());
            }
            Ok(ended)
        })
    }
}

/// Sees to it that there is room for the first batch. A new log does not wait for its spares.
fn make_room<L: Log>(
    decide: &Decide<'_, L>,
    housekeeper: &mut Housekeeper<'_, L::Archive>,
    archive: &L::Archive,
) {
    if decide.shard.state().epoch() > 0 && archive.room() != Room::Plenty {
        // The disk may be full, and what is left then is for acks: known before any producer may produce.
        housekeeper.make_room();
        if decide.cursor.rolls() && !archive.can_roll() {
            // Acks had filled the last segment, and a crash came before the snapshot that frees another.
            write_snapshot(decide.shared, archive, decide.shard.state());
        }
    }
}

/// Notices that another server has claimed the log also when there is nothing to write: readers of a deposed server
/// would otherwise be handed what its successor hands out, too. Looks at the clock that all go by on the way.
fn watch_claim<L: Log>(shared: &Shared, archive: &L::Archive, signal: &KeeperSignal) {
    while L::CAN_BE_DEPOSED && !signal.wait_stop(CLAIM_LOOK) {
        match archive.check_claim() {
            Err(KeepError::Fenced(why)) => {
                return shared.inbox.report(LogEvent::Broken(Broken::Fenced(why)));
            }
            // Whoever has to write something finds out more, and says it.
            Err(error) => tracing::debug!(%error, "the claim could not be looked at"),
            Ok(()) => archive.clock().iter().flatten().for_each(|reading| shared.clock.follow(reading)),
        }
    }
}

fn spawn<'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope Shared,
    name: &'static str,
    body: impl FnOnce() + Send + 'scope,
) -> Result<thread::ScopedJoinHandle<'scope, ()>, StartError> {
    let watched = move || {
        let _alarm = Alarm(shared, name);
        body();
    };
    Ok(thread::Builder::new().name(name.into()).spawn_scoped(scope, watched)?)
}

/// Fails the epoch when its thread panics: a shard without its log or its keeper would only hang.
struct Alarm<'a>(&'a Shared, &'static str);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let why = format!("the thread {} broke an internal assertion", self.1);
            self.0.inbox.report(LogEvent::Broken(Broken::Failed(why)));
        }
    }
}

/// Makes the new epoch durable. Nothing is served before: a crash would hand its tokens out twice.
fn open_epoch<L: Log>(decide: &mut Decide<'_, L>) -> Result<(), StartError> {
    let base = Position(decide.cursor.next_body().0);
    let seal = &decide.shared.house.seal;
    let mut secret = seal.secret();
    if decide.shared.id == HOME {
        // The others, which open after it, seal with the same.
        getrandom::fill(&mut secret).map_err(|error| StartError::Log(format!("no randomness: {error}")))?;
    }
    decide.shard.open(decide.now, base, secret, &mut decide.out);
    if decide.shared.id == HOME {
        seal.set(decide.shard.state().secret());
    }
    if decide.shared.status_board.is_scarce() {
        decide.shard.handle(decide.now, Input::Space { roomy: false }, &mut decide.out);
    }
    let facts = std::mem::take(&mut decide.out.facts);
    decide.out.urgent = false;
    decide.cursor.advance(facts.len());
    decide.shard.begin_batch(Position(decide.cursor.next_body().0));
    let batch = Batch { body: Body::Lent(facts), urgent: true };
    let (log_writer, signal) = (decide.writes.log_writer, decide.writes.signal);
    let synced = log_writer.write(&batch, signal).map_err(|error| match error {
        AppendError::Fenced(why) => StartError::Fenced(why),
        error => StartError::Log(error.to_string()),
    })?;
    // Also does what opening asked for: dead letters that a crash interrupted are fetched again.
    decide.handle(Input::Durable { upto: synced.unwrap_or_default() });
    Ok(())
}

/// The last thing that an epoch does: the next start then has nothing to replay, and segments that became empty do not
/// pile up over many short runs. Also the first, if that is the only way to make room for the log.
fn write_snapshot(shared: &Shared, archive: &impl Archive, state: &State) {
    let upto = archive.durable();
    if upto == archive.snapshot_upto() {
        return;
    }
    let readable = &mut |bytes: &[u8]| State::decode(bytes, shared.config.settings.seed).is_ok();
    let written = archive.put_snapshot(upto, &state.encode(), readable);
    let written = written.and_then(|()| drop_empty(archive, state));
    match written {
        Ok(dropped) => {
            shared.meters.snapshots.one();
            shared.meters.segments_dropped.add(dropped as u64);
            shared.meters.replay_bytes.set(0);
            tracing::info!(%upto, dropped, "a snapshot of everything was written; the next start replays nothing");
        }
        Err(error) => {
            shared.meters.snapshots_failed.one();
            tracing::error!(%error, "no snapshot could be written; the next start replays the log");
        }
    }
}

/// The log as the payload store sees it.
struct LogReader<A: Archive>(A);

impl<A: Archive> ReadLog for LogReader<A> {
    fn read_at(&self, position: Position, length: usize) -> Result<Vec<u8>, Lost> {
        let length = u32::try_from(length).map_err(|_| Lost::Unreadable)?;
        self.0.read_at(Lsn(position.0), length).map_err(|error| match error {
            ReadError::Gone => Lost::Gone,
            ReadError::OutOfRange => Lost::Unreadable,
            ReadError::Failed(error) => {
                tracing::error!(%error, "a payload could not be read");
                Lost::Unreadable
            }
        })
    }
}
