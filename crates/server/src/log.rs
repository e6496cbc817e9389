//! The server's log on stderr. A thread of its own writes it: no thread that logs waits for a reader that stalls, or
//! fails because the reader is gone or its disk is full. Lines that could not be written are dropped and counted.

use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::LogFormat;

/// Lines that wait for stderr.
const LINES_MAX: usize = 1_024;
/// A longer line is cut.
const LINE_BYTES_MAX: usize = 16 << 10;
/// How long the end of the process waits for the last lines.
const FLUSH_PATIENCE: Duration = Duration::from_secs(1);
const FLUSH_POLL: Duration = Duration::from_millis(5);

static DROPPED: AtomicU64 = AtomicU64::new(0);
static QUEUE: OnceLock<SyncSender<Entry>> = OnceLock::new();

enum Entry {
    Line(Vec<u8>),
    /// Everything before it is written: the sender waits to hear that.
    Flush(SyncSender<()>),
}

/// Lines that could not be written.
pub(crate) fn dropped() -> u64 {
    DROPPED.load(Relaxed)
}

/// Starts the log; called once.
pub fn start(level: &str, format: LogFormat, is_coloured: bool) -> Result<()> {
    let filter: Targets = level.parse().context("log_level")?;
    let (queue, entries) = sync_channel(LINES_MAX);
    std::thread::Builder::new()
        .name("driftq-log".to_owned())
        .spawn(move || write_all(&entries))
        .context("starting the thread that writes the log")?;
    let queue = QUEUE.get_or_init(|| queue);
    // Its own complaints about a writer go to stderr by a macro that panics if stderr is what fails.
    let log = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(Queue(queue))
        .log_internal_errors(false);
    match format {
        LogFormat::Text => log.with_ansi(is_coloured).finish().with(filter).init(),
        LogFormat::Json => log.json().flatten_event(true).finish().with(filter).init(),
    }
    Ok(())
}

/// Waits until what was logged is written, but not for a reader that stalls.
pub fn flush() {
    let Some(queue) = QUEUE.get() else { return };
    let deadline = Instant::now() + FLUSH_PATIENCE;
    let (done, is_done) = sync_channel(1);
    let mut entry = Entry::Flush(done);
    while let Err(TrySendError::Full(back)) = queue.try_send(entry) {
        if Instant::now() >= deadline {
            return;
        }
        entry = back;
        std::thread::sleep(FLUSH_POLL);
    }
    // Too late, or the thread is gone: there is nothing more to be done about it.
    let _ = is_done.recv_timeout(deadline.saturating_duration_since(Instant::now()));
}

fn write_all(entries: &Receiver<Entry>) {
    let mut told = 0;
    for entry in entries {
        match entry {
            Entry::Line(line) if io::stderr().write_all(&line).is_err() => {
                DROPPED.fetch_add(1, Relaxed);
            }
            Entry::Line(_) => {
                let lost = dropped();
                if lost > told {
                    told = lost;
                    tracing::warn!(lost, "stderr takes lines again; some were lost since the start");
                }
            }
            // The thread that waited may have given up.
            Entry::Flush(done) => drop(done.try_send(())),
        }
    }
}

/// Where the formatter puts its lines.
#[derive(Clone, Copy)]
struct Queue(&'static SyncSender<Entry>);

impl<'a> MakeWriter<'a> for Queue {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        *self
    }
}

impl io::Write for Queue {
    /// The formatter hands over one whole line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut kept = line[..line.len().min(LINE_BYTES_MAX)].to_vec();
        if kept.len() < line.len() {
            kept.extend_from_slice("…\n".as_bytes());
        }
        if self.0.try_send(Entry::Line(kept)).is_err() {
            DROPPED.fetch_add(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
