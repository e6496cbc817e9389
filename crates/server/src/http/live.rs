//! How the server does, looked at every so often: for pages that watch, and for the last hour.
//!
//! The numbers are those that metrics are made of. The shard is asked once in a second while somebody watches, however
//! many they are, and once in ten when nobody does. The last hour is a ring of fixed size.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use driftq_api::v2::{Event, History, Sample, TopicRow};
use driftq_api::{Code, Fault, Moment};
use driftq_engine::Counters;
use driftq_engine::core::{Tally, Time, TopicDescription};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::app::App;

/// How often watchers are told, if anything has changed.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// How often a moment is remembered, counted in the above.
const REMEMBER_EVERY: u64 = 10;
/// How much is remembered: an hour.
const REMEMBERED_MAX: usize = 360;
/// Pages that watch at a time.
const WATCHERS_MAX: usize = 64;
/// What the topics of dead letters begin with.
const LETTERS_PREFIX: &str = "dlq.";

/// What was seen at a moment. The shard lists so many partitions and no more, which bounds this and every event.
pub(crate) struct Seen {
    sample: Sample,
    rows: BTreeMap<String, TopicRow>,
    left_out: u64,
}

/// What all watchers share.
#[derive(Default)]
pub(crate) struct Live {
    newest: Mutex<Option<watch::Sender<Arc<Seen>>>>,
    past: Mutex<VecDeque<Sample>>,
}

impl Live {
    /// Ends the streams of all watchers, and lets nobody watch any more.
    pub(crate) fn end(&self) {
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn is_watched(&self) -> bool {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.as_ref().is_some_and(|newest| newest.receiver_count() > 0)
    }

    fn tell(&self, seen: Seen, is_remembered: bool) {
        if is_remembered {
            let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
            if past.len() >= REMEMBERED_MAX {
                past.pop_front();
            }
            past.push_back(seen.sample);
        }
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        match &*newest {
            Some(newest) => drop(newest.send_replace(Arc::new(seen))),
            None => *newest = Some(watch::channel(Arc::new(seen)).0),
        }
    }

    fn history(&self) -> History {
        let past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let every = TELL_EVERY.as_millis() as u64 * REMEMBER_EVERY;
        History { every_ms: every, samples: past.iter().copied().collect() }
    }
}

/// Looks for ever.
pub(crate) async fn keep(app: &App) {
    let mut clock = interval(TELL_EVERY);
    clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
    for tick in 0_u64.. {
        clock.tick().await;
        let is_remembered = tick % REMEMBER_EVERY == 0;
        if !is_remembered && !app.live.is_watched() {
            continue;
        }
        // Asked of the shard itself: what is kept for scrapers must not grow old by our looking. A shard that is being
        // rebuilt has nothing to say; watchers hear of it again when it has.
        if let Ok(tally) = app.broker.tally().await {
            app.live.tell(seen(app.broker.now(), app.broker.counters(), &tally), is_remembered);
        }
    }
}

/// A watcher, and what it is told first.
pub(crate) struct Watching {
    newest: watch::Receiver<Arc<Seen>>,
    told: Arc<Seen>,
    first: Option<Event>,
}

/// Begins to watch.
pub(crate) async fn watch(app: &App) -> Result<Watching, Fault> {
    let unavailable = || Fault::new(Code::Unavailable, "the broker is not ready, or is about to stop");
    let tally = app.broker.scraped().await.map_err(|_| unavailable())?;
    let told = Arc::new(seen(app.broker.now(), app.broker.counters(), &tally));
    let newest = app.live.newest.lock().unwrap_or_else(PoisonError::into_inner);
    let newest = newest.as_ref().ok_or_else(unavailable)?;
    if newest.receiver_count() >= WATCHERS_MAX {
        let text = format!("{WATCHERS_MAX} pages watch already; close one of them");
        return Err(Fault::new(Code::LimitReached, text));
    }
    let mut first = change(None, &told);
    first.history = Some(app.live.history());
    Ok(Watching { newest: newest.subscribe(), told, first: Some(first) })
}

impl Watching {
    /// The next event; `None` when there will be no more.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            self.newest.changed().await.ok()?;
            let seen = Arc::clone(&self.newest.borrow_and_update());
            let told = std::mem::replace(&mut self.told, seen);
            let is_same = told.rows == self.told.rows
                && Sample { at: told.sample.at, ..self.told.sample } == told.sample;
            if !is_same {
                return Some(change(Some(&told), &self.told));
            }
        }
    }
}

/// What has changed since `before`.
fn change(before: Option<&Seen>, now: &Seen) -> Event {
    let old = |name: &str| before.and_then(|before| before.rows.get(name));
    let changed = now.rows.values().filter(|row| old(&row.name) != Some(*row));
    let was = before.map(|before| before.rows.keys());
    let gone = was.into_iter().flatten().filter(|name| !now.rows.contains_key(*name));
    Event {
        sample: now.sample,
        history: None,
        topics: changed.cloned().collect(),
        gone: gone.cloned().collect(),
        left_out: now.left_out,
    }
}

fn moment(time: Time) -> Moment {
    Moment::saturating_from_epoch_ms(time.0)
}

fn seen(now: Time, counters: Counters, tally: &Tally) -> Seen {
    let mut rows: BTreeMap<String, TopicRow> =
        tally.topics.iter().map(|topic| (topic.name.to_string(), row(topic))).collect();
    for group in &tally.groups {
        let Some(row) = rows.get_mut(&*group.topic) else { continue };
        row.groups += 1;
        row.consumers += u64::from(group.consumers);
        for lane in &group.partitions {
            row.lag += lane.lag;
            row.in_flight += u64::from(lane.in_flight);
            row.retrying += u64::from(lane.retrying);
        }
    }
    let sample = sample(now, counters, tally, &rows);
    Seen { sample, rows, left_out: tally.left_out }
}

fn row(topic: &TopicDescription) -> TopicRow {
    let partitions = &topic.partitions;
    TopicRow {
        name: topic.name.to_string(),
        messages: partitions.iter().map(|lane| lane.messages).sum(),
        bytes: partitions.iter().map(|lane| lane.bytes).sum(),
        next_offset: topic.next_offset,
        lag: 0,
        in_flight: 0,
        retrying: 0,
        scheduled: topic.scheduled,
        consumers: 0,
        groups: 0,
        paused: topic.paused.is_some(),
        oldest_at: partitions.iter().filter_map(|lane| lane.oldest_at).min().map(moment),
    }
}

fn sample(now: Time, counters: Counters, tally: &Tally, rows: &BTreeMap<String, TopicRow>) -> Sample {
    let (letters, live): (Vec<&TopicRow>, Vec<&TopicRow>) =
        rows.values().partition(|row| row.name.starts_with(LETTERS_PREFIX));
    let sum = |of: fn(&TopicRow) -> u64| -> u64 { live.iter().map(|row| of(row)).sum() };
    Sample {
        at: moment(now),
        epoch: tally.epoch,
        produced: counters.produced,
        delivered: counters.delivered,
        redelivered: counters.redelivered,
        acked: counters.acked,
        nacked: counters.nacked,
        buried: counters.buried,
        effects_executed: counters.effects_executed,
        effects_replayed: counters.effects_replayed,
        commits: counters.commits,
        written_bytes: counters.written_bytes,
        topics: tally.topic_count,
        messages: sum(|row| row.messages),
        bytes: sum(|row| row.bytes),
        lag: sum(|row| row.lag),
        in_flight: sum(|row| row.in_flight),
        retrying: sum(|row| row.retrying),
        scheduled: sum(|row| row.scheduled),
        dead_letters: letters.iter().map(|row| row.messages).sum(),
        oldest_at: live.iter().filter_map(|row| row.oldest_at).min(),
        effects_in_progress: tally.effects.in_progress,
        effects_retryable: tally.effects.failed_retryable,
        effects_unknown: tally.effects.unknown,
        streams: counters.streams,
        segments: counters.segments,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str, messages: u64) -> TopicDescription {
        let lane = driftq_engine::core::PartitionDescription { messages, ..Default::default() };
        TopicDescription {
            name: name.into(),
            tenant: None,
            created: Time(0),
            next_offset: messages,
            settings: Default::default(),
            paused: None,
            scheduled: 0,
            dead_letters: 0,
            partitions: vec![lane],
            groups: Vec::new(),
        }
    }

    fn at(now: u64, topics: Vec<TopicDescription>) -> Seen {
        seen(Time(now), Counters::default(), &Tally { topics, ..Tally::default() })
    }

    #[test]
    fn an_event_tells_what_is_new_changed_and_gone() {
        let before = at(1, vec![topic("a", 1), topic("b", 1), topic("c", 1)]);
        let now = at(2, vec![topic("a", 1), topic("b", 2), topic("d", 0)]);
        let event = change(Some(&before), &now);
        let names: Vec<&str> = event.topics.iter().map(|row| &*row.name).collect();
        assert_eq!((names, event.gone), (vec!["b", "d"], vec!["c".to_owned()]));
        assert_eq!(change(None, &now).topics.len(), 3);
    }

    #[test]
    fn dead_letters_are_counted_apart() {
        let sample = at(1, vec![topic("orders", 5), topic("dlq.orders", 2)]).sample;
        assert_eq!((sample.messages, sample.dead_letters), (5, 2));
    }

    #[test]
    fn an_hour_is_kept_and_no_more() {
        let live = Live::default();
        for now in 0..REMEMBERED_MAX as u64 + 3 {
            live.tell(at(now, Vec::new()), true);
        }
        let samples = live.history().samples;
        assert_eq!(samples.len(), REMEMBERED_MAX);
        assert_eq!(samples[0].at, moment(Time(3)));
    }

    #[tokio::test]
    async fn a_watcher_hears_of_changes_only_and_of_the_end() {
        let live = Live::default();
        live.tell(at(1, vec![topic("a", 1)]), false);
        let newest = live.newest.lock().unwrap().as_ref().unwrap().subscribe();
        let told = Arc::new(at(1, vec![topic("a", 1)]));
        let mut watching = Watching { newest, told, first: None };
        live.tell(at(2, vec![topic("a", 1)]), false);
        let nothing = tokio::time::timeout(Duration::from_millis(20), watching.next()).await;
        assert!(nothing.is_err(), "only the time has changed");
        live.tell(at(3, vec![topic("a", 2)]), false);
        assert_eq!(watching.next().await.unwrap().topics[0].messages, 2);
        live.end();
        assert_eq!(watching.next().await, None);
    }
}
