//! Trials of effects at the end: a waiter is told, a holder that is overtaken is shut out, and everything that is not
//! over can be brought to an end.

use driftq_core::ledger::{OnLapse, Status};
use driftq_core::{Delivery, Input, RequestHash, TopicId, TopicSettings, Urge};

use crate::clients::{GROUPS, UNDERTAKER};
use crate::commits::LOOKS;
use crate::effects::{Ask, End, KEYS, Lease};
use crate::oracle::{CheckResult, Receiver, Way, Word};
use crate::workers::{Loan, loan};
use crate::world::World;

/// Rounds in which an effect must come to its end: begin, find out, begin again, finish.
const ROUNDS: usize = 6;
/// An identity that no worker has used.
const WAITED_FOR: u64 = KEYS + 1;
const HELD: u64 = KEYS + 2;
const ALONE: u64 = KEYS + 3;
const TIED: u64 = KEYS + 4;
const REDRIVEN: u64 = KEYS + 6;
/// Longer than the record of that effect is kept for its own sake.
const DEAD_MS: u64 = 60_000;

impl World {
    pub(crate) fn try_effects(&mut self) -> CheckResult {
        for key in 0..KEYS {
            self.bring_to_an_end(key)?;
        }
        self.try_waiting()?;
        self.try_holding()?;
        self.try_tied()?;
        self.try_redriven()?;
        self.check_waiting()
    }

    fn plain_ask(&mut self, key: u64) -> Ask {
        self.calls += 1;
        Ask {
            key,
            request: RequestHash::NONE,
            lease_ms: 100,
            ttl_ms: 60_000,
            on_lapse: OnLapse::Retry,
            cap: None,
            urge: Urge::BeginOrReacquire,
            wait_ms: 0,
            caller: self.calls,
            tie: None,
        }
    }

    fn end_as(&mut self, status: Status) -> End {
        End { status, ..self.compose_end() }
    }

    fn begin_now(&mut self, ask: &Ask) -> CheckResult {
        self.hand_begin(ask)?;
        self.flush()
    }

    /// Time passes, and the server notices.
    pub(crate) fn pass(&mut self, ms: u64) -> CheckResult {
        self.now = self.now.after_ms(ms);
        self.oracle.elapsed(self.now);
        self.hand(Input::Tick)?;
        self.flush()
    }

    /// Whatever became of an effect, it can be brought to an end.
    fn bring_to_an_end(&mut self, key: u64) -> CheckResult {
        for _ in 0..ROUNDS {
            let ask = self.plain_ask(key);
            self.begin_now(&ask)?;
            let Some(known) = self.oracle.effect(key).cloned() else {
                return Err(format!("resolvable: no asker was told anything about effect {key}"));
            };
            match known.status {
                Status::Succeeded | Status::FailedFinal => return Ok(()),
                Status::InProgress if known.caller == Some(ask.caller) => {
                    let end = self.end_as(Status::Succeeded);
                    self.hand_finish(&Lease { key, receipt: known.receipt(), tie: None }, &end)?;
                }
                // Another holder runs it, and not for ever.
                Status::InProgress => self.pass(known.until.since_ms(self.now) + 120_000)?,
                Status::Unknown | Status::FailedRetryable => {
                    let end = self.end_as(Status::FailedRetryable);
                    self.hand_resolve(key, Some(known.epoch), &end)?;
                }
            }
            self.flush()?;
        }
        Err(format!("resolvable: effect {key} does not come to an end: {:?}", self.oracle.effect(key)))
    }

    /// Of the waiters, one gets the lease when it lapses, and the others learn how it went.
    fn try_waiting(&mut self) -> CheckResult {
        let first = self.plain_ask(WAITED_FOR);
        self.begin_now(&first)?;
        let waiters: Vec<Ask> =
            (0..3).map(|_| Ask { wait_ms: 5_000, ..self.plain_ask(WAITED_FOR) }).collect();
        for ask in &waiters {
            self.begin_now(ask)?;
        }
        self.expect_waiting(3)?;
        self.pass(150)?;
        self.expect_waiting(2)?;
        self.end_now(WAITED_FOR, Status::FailedRetryable)?;
        self.expect_waiting(1)?;
        self.end_now(WAITED_FOR, Status::Succeeded)?;
        self.expect_waiting(0)
    }

    /// What may have happened is not repeated: the waiters learn that it is not known.
    fn try_holding(&mut self) -> CheckResult {
        let first = Ask { on_lapse: OnLapse::Hold, ..self.plain_ask(HELD) };
        self.begin_now(&first)?;
        for _ in 0..2 {
            let ask = Ask { wait_ms: 5_000, ..self.plain_ask(HELD) };
            self.begin_now(&ask)?;
        }
        self.pass(150)?;
        self.expect_waiting(0)?;
        self.bring_to_an_end(HELD)?;
        // If no asker asks, it is noticed all the same.
        let alone = Ask { on_lapse: OnLapse::Hold, ..self.plain_ask(ALONE) };
        self.begin_now(&alone)?;
        self.pass(150)?;
        self.look_at_effect(ALONE, LOOKS)?;
        self.flush()?;
        let known = self.oracle.effect(ALONE);
        if known.is_none_or(|known| known.status != Status::Unknown) {
            return Err(format!("unknown: it went unnoticed that {known:?} has lapsed"));
        }
        self.bring_to_an_end(ALONE)
    }

    /// An effect is on loan while its delivery is; when a newer attempt has begun its holder has no say.
    fn try_tied(&mut self) -> CheckResult {
        let group = GROUPS[0];
        let topic = self.found("tied", group, TopicSettings::default())?;
        self.store(topic, 0)?;
        self.flush()?;
        let old = self.trial_loan(topic, group)?;
        let mut leases = Vec::new();
        for (key, lease_ms) in [(TIED, 100), (TIED + 1, 30_000)] {
            let ask = Ask { lease_ms, tie: Some(crate::oracle::Oracle::tied(&old.1)), ..self.plain_ask(key) };
            self.begin_now(&ask)?;
            leases.extend(self.leases.pop());
        }
        self.pass(150)?;
        for key in [TIED, TIED + 1] {
            let ask = self.plain_ask(key);
            self.begin_now(&ask)?;
        }
        self.settle_now(group, &old.0, Word::Nack { delay_ms: Some(0), dead: false })?;
        self.pass(1)?;
        let new = self.trial_loan(topic, group)?;
        for (number, lease) in leases.iter().enumerate() {
            let end = self.end_as(Status::Succeeded);
            self.hand_finish(lease, &end)?;
            self.hand_renew(lease, 1000)?;
            let ask = Ask {
                tie: Some(crate::oracle::Oracle::tied(&new.1)),
                ..self.plain_ask(TIED + number as u64)
            };
            self.begin_now(&ask)?;
            let known = self.oracle.effect(ask.key);
            if known.is_none_or(|known| known.caller != Some(ask.caller)) {
                return Err(format!("tied: {lease:?} is fenced off, and {ask:?} does not get it: {known:?}"));
            }
            self.end_now(ask.key, Status::Succeeded)?;
        }
        self.settle_now(group, &new.0, Word::Ack)
    }

    /// A message that was dead for longer than its effect's record is kept for its own sake finds it all the same.
    fn try_redriven(&mut self) -> CheckResult {
        let group = GROUPS[0];
        let topic = self.found("again", group, TopicSettings::default())?;
        self.store(topic, 0)?;
        self.flush()?;
        let first = self.trial_loan(topic, group)?;
        let tie = Some(crate::oracle::Oracle::tied(&first.1));
        let ask = Ask { on_lapse: OnLapse::Hold, ttl_ms: 1_000, tie, ..self.plain_ask(REDRIVEN) };
        self.begin_now(&ask)?;
        self.end_now(REDRIVEN, Status::Succeeded)?;
        let before = self.oracle.effect(REDRIVEN).map(crate::oracle::Known::receipt);
        self.settle_now(group, &first.0, Word::Nack { delay_ms: None, dead: true })?;
        for _ in 0..100 {
            self.undertake()?;
            self.pass(DEAD_MS / 100)?;
        }
        self.letters.clear();
        let Some(grave) = self.topics.get("dlq.again").map(|topic| topic.id) else {
            return Err("letters: the dead letter of the trial was not written".into());
        };
        self.lease_now(grave, UNDERTAKER, 1)?;
        self.redrive()?;
        self.flush()?;
        let again = self.trial_loan(topic, group)?;
        let ask = Ask { tie: Some(crate::oracle::Oracle::tied(&again.1)), ..self.plain_ask(REDRIVEN) };
        self.begin_now(&ask)?;
        let known = self.oracle.effect(REDRIVEN);
        if known.map(|known| (Some(known.receipt()), known.status)) != Some((before, Status::Succeeded)) {
            return Err(format!(
                "redriven: {before:?} is done, and its message is told to do it again: {known:?}"
            ));
        }
        self.settle_now(group, &again.0, Word::Ack)
    }

    /// The one message that is there, on loan.
    fn trial_loan(&mut self, topic: TopicId, group: &str) -> Result<(Delivery, Loan), String> {
        let [delivery] = &self.lease_now(topic, group, 1)?[..] else {
            return Err("trial: a message that is ready does not come".into());
        };
        let to = Receiver { group: group.into(), owner: "trial".into(), way: Way::Leased };
        Ok((delivery.clone(), loan(&to, delivery)))
    }

    /// The holder of the lease says how it ended.
    fn end_now(&mut self, key: u64, status: Status) -> CheckResult {
        let end = self.end_as(status);
        let Some(receipt) = self.oracle.effect(key).map(crate::oracle::Known::receipt) else {
            return Err(format!("waiting: no holder has the lease of effect {key}"));
        };
        self.hand_finish(&Lease { key, receipt, tie: None }, &end)?;
        self.flush()
    }

    fn expect_waiting(&self, count: usize) -> CheckResult {
        let waiting = self.waiting_begins().len();
        if waiting == count {
            return Ok(());
        }
        let known = (self.oracle.effect(WAITED_FOR), self.oracle.effect(HELD));
        Err(format!("waiting: {waiting} wait where {count} should: {known:?}"))
    }
}
