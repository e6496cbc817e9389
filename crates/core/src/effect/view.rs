//! Effects as people and callers see them.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::effect::EffectDesk;
use crate::effect::blob::Blob;
use crate::effect::record::Effect;
use crate::effect::rules::{OnLapse, Status};
use crate::turn::Turn;
use crate::words::id::{Identity, Time};

/// Records that one list looks at: what it costs at the most.
const SCAN_MAX: usize = 2_000;

/// One effect, described. Who it is and how it ended lie in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectView {
    /// Its number.
    pub number: u64,
    /// How it stands.
    pub status: Status,
    /// The newest lease.
    pub epoch: u32,
    /// Leases given so far.
    pub attempts: u32,
    /// The most there may be.
    pub attempts_max: Option<u32>,
    /// What a lapse means.
    pub on_lapse: OnLapse,
    /// When it was begun first.
    pub created: Time,
    /// When the newest lease was given.
    pub begun: Time,
    /// When the newest lease lapses or lapsed.
    pub until: Time,
    /// Whether somebody may be running it right now.
    pub live: bool,
    /// When it ended, or was found to have lapsed.
    pub ended: Option<Time>,
    /// Until when the record counts.
    pub expires: Option<Time>,
    /// The message on whose behalf it was begun: topic, partition and offset.
    pub message: Option<(Arc<str>, u32, u64)>,
    /// Which delivery of that message its newest lease was begun for, counted from 1; zero if that is not known.
    pub delivery: u32,
    /// Whether the holder of its newest lease gave it up before anything was sent.
    pub released: bool,
    /// Who has or had the newest lease; may be empty.
    pub owner: Arc<str>,
    /// The run that it belongs to.
    pub run: Option<Arc<str>>,
    /// The step of the message on whose behalf it was begun.
    pub step: Option<Arc<str>>,
    /// Who it is.
    pub about: Blob,
    /// How it ended.
    pub ending: Option<Blob>,
}

/// Which effects are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EffectList {
    /// Only those with a greater number.
    pub after: u64,
    /// How many at the most.
    pub limit: u32,
    /// Only those that stand like this.
    pub status: Option<Status>,
    /// Only those whose tenant has this hash.
    pub tenant: Option<u32>,
    /// Only those whose scope has this hash.
    pub scope: Option<u32>,
}

/// Some effects, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EffectPage {
    /// The effects.
    pub effects: Vec<EffectView>,
    /// How many were looked at.
    pub scanned: u64,
    /// Where to go on; `None` at the end.
    pub next: Option<u64>,
}

/// Numbers about effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EffectTally {
    /// Records kept.
    pub records: u64,
    /// Those that somebody runs, or ran when its lease lapsed.
    pub in_progress: u64,
    /// Those that failed and may be tried again.
    pub failed_retryable: u64,
    /// Those of which it is not known whether they happened.
    pub unknown: u64,
    /// Askers that wait for somebody else.
    pub waiting: u64,
}

impl Turn {
    pub(crate) fn view_effect(&self, number: u64, effect: &Effect) -> EffectView {
        let state = &self.journal.state;
        let live_until = self.live_until(effect);
        let step = effect.message.and_then(|message| state.runs.steps.get(&(message.topic, message.offset)));
        let message = effect.message.and_then(|message| {
            let topic = state.topic(message.topic)?;
            Some((Arc::clone(&topic.name), message.partition, message.offset))
        });
        EffectView {
            number,
            status: effect.status,
            epoch: effect.epoch,
            attempts: effect.attempts,
            attempts_max: effect.attempts_max,
            on_lapse: effect.on_lapse,
            created: effect.created,
            begun: effect.begun,
            until: live_until.unwrap_or(effect.until),
            live: live_until.is_some(),
            ended: Some(effect.ended).filter(|ended| *ended > Time(0)),
            expires: Some(effect.expires()).filter(|expires| *expires < Time::NEVER),
            message,
            delivery: effect.delivery,
            released: effect.released,
            owner: Arc::clone(&effect.owner),
            run: state.runs.runs.get(&effect.run).map(|run| Arc::clone(&run.id)),
            step: step.map(|step| Arc::from(&*step.step)),
            about: effect.about,
            ending: effect.ending,
        }
    }

    pub(crate) fn find_effect(&self, identity: &Identity) -> Option<EffectView> {
        let (number, effect) = self.journal.state.effects.find(identity)?;
        (!self.effect_standing(&effect).is_over()).then(|| self.view_effect(number, &effect))
    }

    pub(crate) fn list_effects(&self, list: &EffectList) -> EffectPage {
        let effects = &self.journal.state.effects;
        let mut page = EffectPage::default();
        let wanted = |effect: &Effect| {
            list.status.is_none_or(|status| effect.status == status)
                && list.tenant.is_none_or(|tenant| effect.tenant == tenant)
                && list.scope.is_none_or(|scope| effect.scope == scope)
        };
        let mut look = |number: u64, effect: &Effect| {
            // The page is full only when another one is there: else its end would be a page of its own.
            if page.effects.len() >= list.limit as usize || page.scanned as usize >= SCAN_MAX {
                page.next = page.next.or(Some(number - 1));
                return false;
            }
            page.scanned += 1;
            if wanted(effect) && !self.effect_standing(effect).is_over() {
                page.effects.push(self.view_effect(number, effect));
            }
            true
        };
        match list.status.filter(|status| !status.is_final()) {
            // Those that are not over have lists of their own: few among a million are found at once.
            Some(status) => {
                for number in effects.open_after(status, list.after) {
                    if !effects.get(number).is_some_and(|effect| look(number, &effect)) {
                        break;
                    }
                }
            }
            None => {
                for (number, effect) in effects.after(list.after) {
                    if !look(number, &effect) {
                        break;
                    }
                }
            }
        }
        page
    }
}

impl EffectDesk {
    pub(crate) fn tally_effects(&self, turn: &Turn) -> EffectTally {
        let effects = &turn.journal.state.effects;
        let open = |status| effects.open_count(status) as u64;
        EffectTally {
            records: effects.len() as u64,
            in_progress: open(Status::InProgress),
            failed_retryable: open(Status::FailedRetryable),
            unknown: open(Status::Unknown),
            waiting: self.waiting.len() as u64,
        }
    }
}
