//! Topics and groups as operators see them: settings, pauses, deletions, moves.

use std::collections::BTreeMap;

use driftq_core::{Order, SeekTo, Spotted, Time, TopicId};

use super::view::ensure;
use super::{CheckResult, Oracle, Way};

/// A topic as clients know it.
#[derive(Clone, Debug)]
pub(crate) struct TopicView {
    pub(crate) name: String,
    pub(crate) partitions: u32,
    pub(crate) order: Order,
    /// The order was changed at least once.
    pub(crate) reordered: bool,
    /// Windows that may be in force; more than one while a change is not answered.
    windows: Vec<Option<u32>>,
    pub(crate) gone: Gone,
    /// Pauses of the topic and of its groups.
    pauses: BTreeMap<Option<String>, Pause>,
}

/// How far a deletion has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    No,
    /// Handed over, not answered.
    Asked,
    Yes,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    /// The newest order, as events are counted.
    order: u64,
    /// Nothing may come.
    stopped: bool,
}

impl TopicView {
    pub(crate) fn new(name: &str, partitions: u32, order: Order, window: Option<u32>) -> Self {
        Self {
            name: name.into(),
            partitions,
            order,
            reordered: false,
            windows: vec![window],
            gone: Gone::No,
            pauses: BTreeMap::new(),
        }
    }
}

/// The widest windows that may be in force; one of the two must have room.
pub(crate) struct Room {
    /// For everything on loan.
    all: Option<u32>,
    /// For what was pushed into streams, whatever else is on loan.
    pushed: Option<u32>,
}

impl Room {
    pub(crate) fn allows(&self, all: u32, pushed: u32) -> bool {
        self.all.is_some_and(|most| all <= most) || self.pushed.is_some_and(|most| pushed <= most)
    }
}

impl Oracle {
    /// A topic exists and no operator has asked for its end.
    pub(crate) fn is_alive(&self, topic: TopicId) -> bool {
        self.topics.get(&topic).is_some_and(|view| view.gone == Gone::No)
    }

    /// The widest window that may be in force for a kind of reader.
    pub(crate) fn window(&self, topic: TopicId, way: Way) -> u32 {
        let own = if way == Way::Pushed { self.windows.0 } else { self.windows.1 };
        let windows = self.topics.get(&topic).map(|view| view.windows.iter());
        windows.into_iter().flatten().map(|window| window.unwrap_or(own)).max().unwrap_or(own)
    }

    /// What may be on loan once a kind of reader has got a delivery.
    pub(crate) fn room(&self, topic: TopicId, way: Way) -> Room {
        if way != Way::Pushed {
            return Room { all: Some(self.window(topic, way)), pushed: None };
        }
        let windows = self.topics.get(&topic).map_or(&[None][..], |view| &view.windows);
        let pushed = windows.contains(&None).then_some(self.windows.0);
        Room { all: windows.iter().copied().flatten().max(), pushed }
    }

    /// The window in force, if it is known for certain.
    pub(crate) fn certain_window(&self, topic: TopicId, way: Way) -> Option<u32> {
        let view = self.topics.get(&topic)?;
        let single = view.windows.iter().all(|window| *window == view.windows[0]);
        single.then(|| self.window(topic, way))
    }

    /// A group was asked for and is there; messages from number `owed_from` on are its to settle.
    /// `since` is what [`Oracle::meet`] gave when it was asked for: if it was deleted meanwhile, nothing is certain.
    pub(crate) fn join(&mut self, topic: TopicId, group: &str, owed_from: u64, since: u64) {
        let event = self.event();
        let view = self.groups.entry((topic, group.into())).or_default();
        if !view.present && view.since == since {
            view.present = true;
            view.owed_from = owed_from;
            view.since = event;
        }
    }

    /// A group is about to be asked for, heard of before or not.
    pub(crate) fn meet(&mut self, topic: TopicId, group: &str) -> u64 {
        self.groups.entry((topic, group.into())).or_default().since
    }

    /// When a group was last created or moved, as events are counted.
    pub(crate) fn since(&self, topic: TopicId, group: &str) -> u64 {
        self.groups.get(&(topic, group.into())).map_or(0, |view| view.since)
    }

    pub(crate) fn is_present(&self, topic: TopicId, group: &str) -> bool {
        self.groups.get(&(topic, group.into())).is_some_and(|view| view.present)
    }

    /// Nothing is handed out of what is deleted, stopped or cancelled.
    pub(super) fn check_open(&self, topic: TopicId, group: &str, offset: u64) -> CheckResult {
        let name = format!("{offset} of {topic:?} for {group}");
        ensure(self.cancelled.get(&(topic, offset)) != Some(&true), || {
            format!("cancelled: {name} was handed out after it was cancelled")
        })?;
        let Some(view) = self.topics.get(&topic) else { return Err(format!("topics: {name} is unknown")) };
        ensure(view.gone != Gone::Yes, || format!("deleted: {name} was handed out after the deletion"))?;
        let stopped = |of: &Option<String>| view.pauses.get(of).is_some_and(|pause| pause.stopped);
        ensure(!stopped(&None) && !stopped(&Some(group.into())), || {
            format!("paused: {name} was handed out during a pause")
        })
    }

    /// A stop or a start is handed over; returns the number under which its answer is known.
    pub(crate) fn pausing(&mut self, topic: TopicId, group: Option<&str>) -> u64 {
        let order = self.event();
        if let Some(view) = self.topics.get_mut(&topic) {
            view.pauses.insert(group.map(Into::into), Pause { order, stopped: false });
        }
        order
    }

    /// It was answered.
    pub(crate) fn paused(&mut self, topic: TopicId, group: Option<&str>, order: u64, stopped: bool) {
        let view = self.topics.get_mut(&topic);
        if let Some(pause) = view.and_then(|view| view.pauses.get_mut(&group.map(Into::into)))
            && pause.order == order
        {
            pause.stopped = stopped;
        }
    }

    /// A change of settings was taken.
    pub(crate) fn configuring(&mut self, topic: TopicId, order: Option<Order>, window: Option<Option<u32>>) {
        let Some(view) = self.topics.get_mut(&topic) else { return };
        view.reordered |= order.is_some();
        view.windows.extend(window);
        for ((at, _), group) in &mut self.groups {
            if *at == topic {
                group.first_seen.clear();
            }
        }
    }

    /// The change was answered: this window is in force.
    pub(crate) fn configured(&mut self, topic: TopicId, window: Option<u32>) {
        let Some(view) = self.topics.get_mut(&topic) else { return };
        // What was handed over after it counts as well.
        let later = view.windows.iter().position(|known| *known == window);
        view.windows.drain(..later.unwrap_or(0));
    }

    /// The end of a topic was taken, or has come.
    pub(crate) fn deleting(&mut self, topic: TopicId, gone: Gone) {
        if let Some(view) = self.topics.get_mut(&topic) {
            view.gone = gone;
        }
    }

    /// The end of a group was taken.
    pub(crate) fn deleting_group(&mut self, topic: TopicId, group: &str) {
        let event = self.event();
        self.note_buried(topic, group);
        let before = self.groups.remove(&(topic, group.into())).unwrap_or_default();
        self.groups.insert((topic, group.into()), before.forgotten(event));
        if let Some(view) = self.topics.get_mut(&topic) {
            view.pauses.remove(&Some(group.into()));
        }
    }

    /// A group was moved. `messages` is the number of the newest message.
    pub(crate) fn seeking(
        &mut self,
        topic: TopicId,
        group: &str,
        only: Option<u32>,
        to: SeekTo,
        messages: u64,
    ) {
        let event = self.event();
        let known = self.stored.iter().filter(|((at, _), id)| {
            *at == topic
                && only.is_none_or(|only| self.sent.get(id).is_none_or(|sent| sent.partition == only))
        });
        let again = known.map(|((_, offset), _)| *offset).filter(|offset| match to {
            SeekTo::Earliest | SeekTo::Time(_) => true,
            SeekTo::Latest => false,
            SeekTo::Offset(from) => *offset >= from,
        });
        let again: Vec<u64> = again.collect();
        self.note_buried(topic, group);
        let Some(view) = self.groups.get_mut(&(topic, group.into())) else { return };
        view.moved(only, event, &again);
        if to != SeekTo::Earliest {
            view.owed_from = view.owed_from.max(messages + 1);
        }
    }

    /// A holder that may have led its message to its dead letter may say so again, wherever its group is by then.
    fn note_buried(&mut self, topic: TopicId, group: &str) {
        let Some(view) = self.groups.get(&(topic, group.into())) else { return };
        let dead = |offset: &u64| {
            view.dying.contains(offset)
                || view.letters.contains_key(offset)
                || view.uncertain.contains(offset)
        };
        let tokens = view.holds.iter().filter(|(offset, _)| dead(offset)).map(|(_, hold)| hold.token);
        self.buried.extend(tokens);
    }

    /// A move or a deletion was answered: no crash undoes it.
    pub(crate) fn moved(&mut self, topic: TopicId, group: &str) {
        if let Some(view) = self.groups.get_mut(&(topic, group.into())) {
            view.moving = view.moving.saturating_sub(1);
        }
    }

    /// A cancellation was taken, or answered.
    pub(crate) fn cancelling(&mut self, topic: TopicId, offset: u64, answered: bool) {
        *self.cancelled.entry((topic, offset)).or_default() |= answered;
    }

    /// Messages that wait for their next attempt, as far as their workers know.
    pub(crate) fn waiting_for_retry(&self, now: Time) -> Vec<Spotted> {
        let mut waiting = Vec::new();
        for ((topic, _), view) in &self.groups {
            let holds = view.holds.iter().filter(|(offset, hold)| {
                hold.failed_at.is_some() && !hold.is_live(self.life, now) && !view.acked.contains_key(offset)
            });
            waiting.extend(holds.map(|(&offset, hold)| Spotted {
                topic: *topic,
                partition: hold.partition,
                offset,
            }));
        }
        waiting
    }

    /// An operator wants the next attempt of a message now. What is on loan is left alone.
    pub(crate) fn hurrying(&mut self, message: Spotted, now: Time) {
        let life = self.life;
        for ((topic, _), view) in &mut self.groups {
            if *topic == message.topic
                && let Some(hold) = view.holds.get_mut(&message.offset)
            {
                hold.hurried |= !hold.is_live(life, now);
            }
        }
    }

    /// Dead letters were dropped for certain.
    pub(crate) fn removed(&mut self, topic: TopicId, offset: u64) {
        self.dropped.insert((topic, offset));
    }
}
