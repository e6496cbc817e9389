//! Long work that the server does by itself, with progress for callers that ask.
//!
//! A job is not remembered over a restart, and need not be: every letter is dealt with in one batch, so that what is
//! left is exactly what the same job would find.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use driftq_core::{Message, Reject, Time};
use tokio::time::Instant;

use crate::broker::{Broker, STOPPING};
use crate::dead_letters::Fate;
use crate::failure::Failure;
use crate::locks::lock;
use crate::request::{Job, JobCall, JobKind, JobState, Seen};

/// Jobs that are remembered, running or not.
const JOBS_MAX: usize = 256;
/// Jobs that may run at once.
const RUNNING_MAX: usize = 8;
/// Letters looked at in one go.
const PAGE_LETTERS: u32 = 100;
/// Letters in a row that cannot be dealt with before a job gives up.
const FAILURES_IN_A_ROW_MAX: u64 = 100;
/// How long a job waits after the broker was too busy for it.
const BUSY_WAIT: Duration = Duration::from_millis(100);

/// All jobs of a broker.
#[derive(Default)]
pub(crate) struct Jobs {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next: u64,
    jobs: VecDeque<Arc<Entry>>,
}

struct Entry {
    job: Mutex<Job>,
    call: JobCall,
    cancelled: AtomicBool,
}

impl Jobs {
    /// A new entry, or the one that was asked for under the same name before.
    fn open(
        &self,
        call: JobCall,
        tenant: Option<Arc<str>>,
        now: Time,
    ) -> Result<(Arc<Entry>, bool), Failure> {
        let mut table = lock(&self.table);
        let named = |entry: &&Arc<Entry>| {
            call.request_key.is_some()
                && entry.call.request_key == call.request_key
                && lock(&entry.job).tenant == tenant
        };
        if let Some(known) = table.jobs.iter().find(named) {
            let same = known.call == call;
            return if same {
                Ok((Arc::clone(known), false))
            } else {
                Err(Failure::Reject(Reject::KeyReused))
            };
        }
        let running = table.jobs.iter().filter(|entry| lock(&entry.job).state == JobState::Running).count();
        if running >= RUNNING_MAX {
            return Err(Failure::Reject(Reject::Limit("jobs: as many run as may run at once")));
        }
        if table.jobs.len() >= JOBS_MAX
            && let Some(oldest) = table.jobs.iter().position(|e| lock(&e.job).state != JobState::Running)
        {
            table.jobs.remove(oldest);
        }
        table.next += 1;
        let job = Job {
            id: table.next,
            kind: call.kind,
            topic: call.topic.clone(),
            tenant,
            dry_run: call.dry_run,
            state: JobState::Running,
            started: now,
            ended: None,
            matched: 0,
            done: 0,
            skipped: 0,
            refused: 0,
            failed: 0,
            error: None,
        };
        let entry = Arc::new(Entry { job: Mutex::new(job), call, cancelled: AtomicBool::new(false) });
        table.jobs.push_back(Arc::clone(&entry));
        Ok((entry, true))
    }

    fn find(&self, id: u64) -> Option<Arc<Entry>> {
        lock(&self.table).jobs.iter().find(|entry| lock(&entry.job).id == id).cloned()
    }
}

impl Broker {
    /// Starts a job; the same call under the same name again gives the same job.
    pub async fn start_job(&self, call: JobCall) -> Result<Job, Failure> {
        // Refused here and not by a job that fails at once.
        let letters = Self::dead_letter_topic(&call.topic);
        self.topic(&letters)?;
        let tenant = self.tenant_of_topic(&letters).flatten();
        if let Some(target) = &call.target_topic {
            self.topic(target)?;
        }
        let (entry, is_new) = self.house().jobs.open(call, tenant, self.home().clock.now())?;
        let job = lock(&entry.job).clone();
        if is_new {
            tokio::spawn(run(self.clone(), entry));
        }
        Ok(job)
    }

    /// All jobs that are remembered, the newest first.
    #[must_use]
    pub fn jobs(&self) -> Vec<Job> {
        lock(&self.house().jobs.table).jobs.iter().rev().map(|entry| lock(&entry.job).clone()).collect()
    }

    /// One job.
    pub fn job(&self, id: u64) -> Result<Job, Failure> {
        let entry = self.house().jobs.find(id).ok_or(Failure::JobUnknown)?;
        let job = lock(&entry.job).clone();
        Ok(job)
    }

    /// Stops a job after the letter that it is at.
    pub fn cancel_job(&self, id: u64) -> Result<Job, Failure> {
        let entry = self.house().jobs.find(id).ok_or(Failure::JobUnknown)?;
        entry.cancelled.store(true, Ordering::Relaxed);
        let job = lock(&entry.job).clone();
        Ok(job)
    }
}

async fn run(broker: Broker, entry: Arc<Entry>) {
    let ended = work(&broker, &entry).await;
    let mut job = lock(&entry.job);
    job.ended = Some(broker.home().clock.now());
    match ended {
        Ok(state) => job.state = state,
        Err(failure) => {
            job.state = JobState::Failed;
            job.error = Some(failure.to_string());
        }
    }
    tracing::info!(id = job.id, state = ?job.state, done = job.done, failed = job.failed, "a job ended");
}

async fn work(broker: &Broker, entry: &Entry) -> Result<JobState, Failure> {
    let letters = Broker::dead_letter_topic(&entry.call.topic);
    let mut pace = Pace::new(entry.call.rate_per_second);
    let mut place = Some((0, 0));
    let mut failures = 0;
    while let Some(from) = place {
        let browse = broker.letters_from(&letters, from, PAGE_LETTERS)?;
        let page = match broker.browse(&letters, browse).await {
            Err(Failure::Busy) => {
                tokio::time::sleep(BUSY_WAIT).await;
                continue;
            }
            page => page?,
        };
        place = page.next;
        for seen in page.seen {
            if entry.cancelled.load(Ordering::Relaxed) {
                return Ok(JobState::Cancelled);
            }
            if *broker.house().stopping.borrow() {
                return Err(Failure::Unavailable(STOPPING.into()));
            }
            if !is_wanted(&entry.call, &seen) {
                continue;
            }
            lock(&entry.job).matched += 1;
            if entry.call.dry_run {
                continue;
            }
            pace.wait().await;
            let fate = deal_with(broker, &letters, &seen, &entry.call).await;
            failures = note(entry, fate, failures);
            if failures >= FAILURES_IN_A_ROW_MAX {
                return Ok(JobState::Failed);
            }
        }
    }
    Ok(JobState::Done)
}

/// Deals with one letter; waits while the broker is too busy.
async fn deal_with(broker: &Broker, letters: &str, seen: &Seen, call: &JobCall) -> Fate {
    loop {
        let fate = match call.kind {
            JobKind::Redrive => broker.redrive(letters, seen, call).await,
            JobKind::Purge => broker.purge(letters, seen).await,
        };
        match fate {
            Fate::Failed(Failure::Busy) => tokio::time::sleep(BUSY_WAIT).await,
            fate => return fate,
        }
    }
}

/// Writes down what became of a letter; returns how many in a row failed.
fn note(entry: &Entry, fate: Fate, failures: u64) -> u64 {
    let mut job = lock(&entry.job);
    match fate {
        Fate::Done => job.done += 1,
        Fate::Skipped => job.skipped += 1,
        Fate::Refused(why) => {
            job.refused += 1;
            job.error = Some(why);
        }
        Fate::Failed(failure) => {
            job.failed += 1;
            job.error = Some(failure.to_string());
            return failures + 1;
        }
    }
    0
}

fn is_wanted(call: &JobCall, seen: &Seen) -> bool {
    let place = (seen.found.partition, seen.found.offset);
    if !call.filter.letters.is_empty() && !call.filter.letters.contains(&place) {
        return false;
    }
    let Some(message) = seen.payload.as_deref().and_then(|bytes| Message::decode(bytes).ok()) else {
        // A purge needs nothing of what cannot be read, and a redrive says why it is not done.
        return call.filter.takes_any();
    };
    let letter = message.envelope.as_deref().and_then(|envelope| envelope.dead_letter.as_ref());
    letter.is_some_and(|letter| call.filter.matches(&message, letter))
}

/// Spaces letters evenly, to a given rate.
struct Pace {
    gap: Option<Duration>,
    next: Instant,
}

impl Pace {
    fn new(rate_per_second: Option<u32>) -> Self {
        let gap = rate_per_second.filter(|rate| *rate > 0).map(|rate| Duration::from_secs(1) / rate);
        Self { gap, next: Instant::now() }
    }

    async fn wait(&mut self) {
        let Some(gap) = self.gap else { return };
        tokio::time::sleep_until(self.next).await;
        self.next = self.next.max(Instant::now()) + gap;
    }
}
