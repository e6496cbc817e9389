//! Work that ends by token: a token has a say until a newer one is handed out, and never again.

use driftq_core::{Delivery, Outcome, Receipt, Time, Token};

use super::view::{Acked, Group, Released, ensure};
use super::{Asker, CheckResult, Oracle};

/// What the holder of a token says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Ack,
    Nack { delay_ms: Option<u64>, dead: bool },
    Extend { lease_ms: u64 },
    Release { delay_ms: u64 },
}

/// What a token is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worth {
    /// It is the newest, and the message is not settled: its word counts.
    Everything,
    /// No client can know.
    Unknown,
    /// A newer one was handed out, or the message is settled without it.
    Nothing,
}

/// A word that was handed over, and what was known at that time.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) receipt: Receipt,
    pub(crate) group: String,
    pub(crate) word: Word,
    worth: Worth,
    /// An ack by this token may have been taken before.
    acking: bool,
    /// An ack by this token was answered before.
    acked: bool,
    /// It is the last one that was handed out for its message, dead or alive.
    last: bool,
    handouts: u64,
    since: u64,
}

impl Oracle {
    pub(super) fn worth(&self, receipt: &Receipt, group: &str, word: Word, now: Time) -> Worth {
        let Receipt { topic, offset, token, .. } = *receipt;
        // Readers of dead letters are not followed.
        let Some(view) = self.groups.get(&(topic, group.into())) else { return Worth::Unknown };
        let Some(hold) = view.holds.get(&offset) else {
            return if view.undone { Worth::Unknown } else { Worth::Nothing };
        };
        // One that was decided and never handed out may be lost: then the one before it counts.
        if hold.crashed && !hold.seen && hold.token > token {
            return Worth::Unknown;
        }
        if hold.token != token || view.acked.contains_key(&offset) || view.closed.contains(&offset) {
            return Worth::Nothing;
        }
        // That it failed is its holder's last word; it may only be repeated.
        let repeats = matches!(word, Word::Nack { .. });
        if hold.nacked && !repeats {
            return Worth::Nothing;
        }
        if hold.crashed {
            return Worth::Unknown;
        }
        if hold.released == Released::Yes || (hold.failed_at.is_some() && !repeats) {
            return Worth::Nothing;
        }
        let hidden = !self.is_alive(topic)
            || self.cancelled.contains_key(&(topic, offset))
            || view.uncertain.contains(&offset)
            || view.dying.contains(&offset)
            || view.letters.contains_key(&offset)
            || (hold.failed_late && !repeats);
        if hidden || hold.unsure || hold.may_be_skipped(now) || hold.released == Released::Perhaps {
            Worth::Unknown
        } else {
            Worth::Everything
        }
    }

    /// A holder's word is handed over.
    pub(crate) fn say(&mut self, receipt: Receipt, group: &str, word: Word, now: Time) -> Said {
        let worth = self.worth(&receipt, group, word, now);
        let view = self.groups.get(&(receipt.topic, group.into()));
        let said = Said {
            receipt,
            group: group.into(),
            word,
            worth,
            acking: self.acking.contains(&receipt.token),
            acked: self.acked.contains(&receipt.token),
            last: view
                .and_then(|view| view.holds.get(&receipt.offset))
                .is_some_and(|hold| hold.token == receipt.token),
            handouts: view.and_then(|view| view.handouts.get(&receipt.offset)).copied().unwrap_or(0),
            since: view.map_or(0, |view| view.since),
        };
        if word == Word::Ack && worth != Worth::Nothing {
            self.acking.insert(receipt.token);
        }
        match worth {
            Worth::Everything => self.take_effect(&said, now),
            Worth::Unknown => {
                if let Some(view) = self.groups.get_mut(&(receipt.topic, group.into())) {
                    view.doubt(receipt.offset);
                }
                if let Word::Nack { dead, .. } = word {
                    self.may_die((receipt.topic, group, receipt.offset), dead);
                }
            }
            Worth::Nothing => {}
        }
        let dies = |view: &Group| view.dying.contains(&receipt.offset);
        let view = self.groups.get(&(receipt.topic, group.into()));
        if matches!(word, Word::Nack { .. }) && worth != Worth::Nothing && view.is_some_and(dies) {
            // It led its message to its dead letter, and may say so again.
            self.buried.insert(receipt.token);
        }
        said
    }

    /// The word counts: the message stands as it says.
    fn take_effect(&mut self, said: &Said, now: Time) {
        let (topic, offset) = (said.receipt.topic, said.receipt.offset);
        let key = self.stored.get(&(topic, offset)).and_then(|id| self.sent[id].key);
        if let Word::Nack { delay_ms, .. } = said.word {
            self.failed((topic, &said.group, offset), delay_ms, now);
        }
        let Some(view) = self.groups.get_mut(&(topic, said.group.clone())) else { return };
        let Some(hold) = view.holds.get_mut(&offset) else { return };
        match said.word {
            Word::Ack => {
                view.acked.insert(offset, Acked { answered: false });
                if let Some(key) = key {
                    view.done.insert(key, (now, offset, false));
                }
            }
            Word::Nack { dead, .. } => {
                if dead {
                    view.dying.insert(offset);
                }
            }
            Word::Extend { lease_ms } => {
                hold.revived |= hold.expires <= now;
                hold.expires = now.after_ms(lease_ms);
                hold.extending += 1;
            }
            Word::Release { delay_ms } => {
                hold.released = Released::Yes;
                hold.not_before = now.after_ms(delay_ms);
            }
        }
    }

    /// The answer to a holder's word came.
    pub(crate) fn said(&mut self, said: &Said, outcome: Outcome) -> CheckResult {
        let Said { receipt, word, worth, .. } = said;
        let name = format!("{word:?} by {:?} for {} of {:?}", receipt.token, receipt.offset, receipt.topic);
        let taken = matches!(outcome, Outcome::Ok | Outcome::Buried | Outcome::Extended { .. });
        let repeated = match word {
            Word::Ack => said.acking,
            // A nack repeated by the token that led to the dead letter.
            Word::Nack { .. } => said.last || self.buried.contains(&receipt.token),
            Word::Extend { .. } | Word::Release { .. } => false,
        };
        ensure(!taken || *worth != Worth::Nothing || repeated, || {
            let view = self.groups.get(&(receipt.topic, said.group.clone()));
            let hold = view.map(|view| (view.holds.get(&receipt.offset), view.acked.get(&receipt.offset)));
            format!("stale: {name} was taken: {outcome:?}; {hold:?}")
        })?;
        ensure(taken || *worth != Worth::Everything, || format!("fencing: {name} was refused: {outcome:?}"))?;
        if taken && *worth == Worth::Everything {
            self.is_durable(said);
        }
        if *word != Word::Ack {
            return Ok(());
        }
        ensure(taken || !said.acked, || format!("fencing: {name} is repeated and was refused: {outcome:?}"))?;
        if taken {
            self.acked.insert(receipt.token);
            self.ack_counts(said, &name)?;
        }
        Ok(())
    }

    /// The answer to a word that counted came: what it said is in the log, and so is the delivery.
    fn is_durable(&mut self, said: &Said) {
        let Receipt { topic, offset, token, .. } = said.receipt;
        let view = self.groups.get_mut(&(topic, said.group.clone()));
        let hold = view.and_then(|view| view.holds.get_mut(&offset)).filter(|hold| hold.token == token);
        let Some(hold) = hold else { return };
        match said.word {
            Word::Extend { .. } => {
                hold.extending = hold.extending.saturating_sub(1);
                hold.sure = true;
            }
            Word::Nack { .. } => hold.nacked |= hold.failed_at.is_some(),
            Word::Ack | Word::Release { .. } => {}
        }
    }

    /// An ack is final from the moment at which it was handed over.
    fn ack_counts(&mut self, said: &Said, name: &str) -> CheckResult {
        let (topic, offset) = (said.receipt.topic, said.receipt.offset);
        let Some(view) = self.groups.get(&(topic, said.group.clone())) else { return Ok(()) };
        // Perhaps only the ack of long ago is repeated, and the message was made to come again since.
        let repeated = said.worth == Worth::Unknown && said.acking && !said.last;
        if view.since != said.since || said.worth == Worth::Nothing || repeated {
            return Ok(());
        }
        let handouts = view.handouts.get(&offset).copied().unwrap_or(0);
        ensure(handouts == said.handouts, || format!("acked: {name}: handed out again after the ack"))?;
        self.ack_answered((topic, &said.group, offset));
        Ok(())
    }

    /// A named request was answered with messages: the same as before, as long as any of them are on loan.
    pub(crate) fn check_request(&self, asker: &Asker, answer: &[Delivery], now: Time) -> CheckResult {
        let Some(before) = self.requests.get(asker) else { return Ok(()) };
        // An answer that waited for the disk may come after a later one.
        let newest = answer.iter().map(|delivery| delivery.receipt.token).max();
        if newest < before.iter().map(|(_, token)| *token).max() {
            return Ok(());
        }
        let fresh = answer.iter().find(|delivery| !self.told.contains(&delivery.receipt.token));
        let Some(fresh) = fresh else {
            let strange = answer
                .iter()
                .find(|delivery| before.iter().all(|(_, token)| *token != delivery.receipt.token));
            return ensure(strange.is_none(), || {
                format!("request: {asker:?} got {strange:?} of another one")
            });
        };
        let view = self.groups.get(&(asker.0, asker.1.clone()));
        let on_loan = |&(offset, token): &(u64, Token)| {
            let live = view.into_iter().flat_map(|view| view.live(self.life, now));
            // One that was extended late may have been over when this answer was decided.
            live.into_iter().any(|(at, hold)| *at == offset && hold.token == token && !hold.revived)
        };
        let held = before.iter().find(|loan| on_loan(loan));
        ensure(held.is_none(), || format!("request: {asker:?} holds {held:?} and got {fresh:?}"))
    }

    /// Remembers what a named request was answered with.
    pub(crate) fn note_request(&mut self, asker: Asker, answer: &[Delivery]) {
        let loans: Vec<(u64, Token)> =
            answer.iter().map(|delivery| (delivery.receipt.offset, delivery.receipt.token)).collect();
        let known = self.requests.entry(asker).or_default();
        // An answer that waited for the disk may come after a later one, which is the one that is remembered.
        let newest = |loans: &[(u64, Token)]| loans.iter().map(|(_, token)| *token).max();
        if !loans.iter().all(|loan| known.contains(loan)) && newest(known) < newest(&loans) {
            *known = loans;
        }
    }

    /// Whether a delivery is one that was handed out before.
    pub(crate) fn was_handed_out(&self, token: Token) -> bool {
        self.tokens.contains(&token)
    }
}

impl Said {
    /// Whether an ack by this token may have been taken before.
    pub(crate) const fn was_acking(&self) -> bool {
        self.acking
    }

    /// If the token was the newest when it was used: since when its group stood as it did.
    pub(crate) fn current_since(&self) -> Option<u64> {
        (self.worth == Worth::Everything).then_some(self.since)
    }
}
