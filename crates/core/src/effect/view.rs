//! Effects as operators and callers see them.

use alloc::sync::Arc;

use crate::effect::desk::EffectDesk;
use crate::ledger::Status;
use crate::state::effect::record::Effect;
use crate::turn::Turn;
use crate::words::effect::{EffectList, EffectPage, EffectTally, EffectView};
use crate::words::id::{Identity, Time};

/// Records that one list looks at: what it costs at most.
const SCAN_MAX: usize = 2_000;

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
