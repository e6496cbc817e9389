//! Workers that hold tokens: by long poll or by a stream with credit; in time, late, twice, or never.

use driftq_core::{
    Answer, Delivery, Identity, Input, LeaseRequest, Outcome, Receipt, Settlement, Ticket, TopicId, Verdict,
};

use crate::asked::Asked;
use crate::clients::{GROUPS, OWNERS, Request, TOPICS, Work};
use crate::oracle::{Asker, CheckResult, Receiver, Said, Way, Word};
use crate::world::World;

/// Old tokens that are kept to be tried again at the wrong time.
const KEEPSAKES_MAX: usize = 40;

/// A delivery in the hands of a holder that knows its token.
#[derive(Clone, Debug)]
pub(crate) struct Loan {
    pub(crate) receipt: Receipt,
    pub(crate) group: String,
    pub(crate) owner: String,
}

/// A request for messages.
#[derive(Clone, Debug)]
pub(crate) struct LeaseCall {
    pub(crate) topic: TopicId,
    pub(crate) group: String,
    pub(crate) owner: String,
    pub(crate) max: u32,
    pub(crate) lease_ms: u64,
    pub(crate) wait_ms: u64,
    /// Its name, if it can be asked again.
    pub(crate) request: Option<u64>,
}

impl LeaseCall {
    pub(crate) fn receiver(&self) -> Receiver {
        Receiver { group: self.group.clone(), owner: self.owner.clone(), way: Way::Leased }
    }

    pub(crate) fn asker(&self) -> Option<Asker> {
        self.request.map(|request| (self.topic, self.group.clone(), self.owner.clone(), request))
    }
}

impl World {
    /// An asker asks for messages.
    pub(crate) fn ask_lease(&mut self) -> CheckResult {
        let (name, _) = *self.rng.pick(&TOPICS);
        let Some(topic) = self.topics.get(name).map(|topic| topic.id) else { return Ok(()) };
        let call = LeaseCall {
            topic,
            group: (*self.rng.pick(&GROUPS)).into(),
            owner: (*self.rng.pick(&OWNERS)).into(),
            max: 1 + u32::try_from(self.rng.below(4)).expect("small"),
            lease_ms: *self.rng.pick(&[20, 100, 400, 2000]),
            wait_ms: *self.rng.pick(&[0, 0, 50, 500]),
            request: self.rng.chance(1, 2).then(|| self.rng.below(4)),
        };
        self.hand_lease(call)
    }

    /// An asker whose answer was lost asks again.
    pub(crate) fn repeat_lease(&mut self) -> CheckResult {
        match self.rng.take(&mut self.lost_calls) {
            Some(call) => self.hand_lease(call),
            None => Ok(()),
        }
    }

    pub(crate) fn hand_lease(&mut self, call: LeaseCall) -> CheckResult {
        if self.server.is_none() {
            return Ok(());
        }
        self.oracle.meet(call.topic, &call.group);
        let request = LeaseRequest {
            topic: call.topic,
            group: call.group.clone(),
            owner: call.owner.clone(),
            max: call.max,
            lease_ms: Some(call.lease_ms),
            wait_ms: call.wait_ms,
            request: call.request.map(|name| Identity::of("", "request", &name.to_string())),
        };
        let ticket = self.ticket(Asked::Lease(call));
        self.hand(Input::Lease { ticket, request })
    }

    /// An asker no longer waits.
    pub(crate) fn forsake(&mut self) -> CheckResult {
        let waiting: Vec<Ticket> = self.waiting_leases();
        if waiting.is_empty() {
            return Ok(());
        }
        let ticket = *self.rng.pick(&waiting);
        if let Some(Asked::Lease(call)) = self.asked.remove(&ticket) {
            self.forsaken.insert(ticket, call);
        }
        self.hand(Input::Forsake { ticket })
    }

    /// The answer to a request for messages.
    pub(crate) fn lease_answered(&mut self, call: &LeaseCall, answer: &Answer) -> CheckResult {
        let Answer::Leased(deliveries) = answer else { return Ok(()) };
        if deliveries.len() > call.max as usize && call.request.is_none() {
            return Err(format!("lease: {} messages for {call:?}", deliveries.len()));
        }
        if let Some(asker) = call.asker() {
            self.oracle.check_request(&asker, deliveries, self.now)?;
            if !deliveries.is_empty() {
                self.oracle.note_request(asker, deliveries);
            }
        }
        let to = call.receiver();
        for delivery in deliveries {
            self.foretold.remove(&delivery.receipt.token);
            if !self.oracle.was_handed_out(delivery.receipt.token) && !self.receive(&to, delivery)? {
                return Ok(());
            }
        }
        for delivery in deliveries {
            self.oracle.seen(&delivery.receipt, &call.group);
        }
        // An answer that is lost loses nothing if the request has a name: it is asked again.
        if !self.calm && self.rng.chance(1, 4) {
            if call.request.is_some() {
                self.lost_calls.push(call.clone());
            }
        } else {
            self.loans.extend(deliveries.iter().map(|delivery| loan(&to, delivery)));
        }
        Ok(())
    }

    /// Holders of tokens say how it went, several in one request.
    pub(crate) fn settle_some(&mut self) {
        let mut items = Vec::new();
        for _ in 0..=self.rng.below(3) {
            let Some(loan) = self.rng.take(&mut self.loans) else { break };
            let word = if self.calm { Word::Ack } else { self.choose_word() };
            if matches!(word, Word::Extend { .. }) {
                self.loans.push(loan.clone());
            }
            if self.rng.chance(1, 3) && !self.calm {
                self.keepsakes.push(loan.clone());
            }
            // A holder of a token has a name as well.
            if self.rng.chance(1, 8) && word == Word::Ack {
                let Loan { receipt, group, owner } = loan;
                let (topic, partition, offset) = (receipt.topic, receipt.partition, receipt.offset);
                self.network.push(Request::Ack(Work { topic, group, owner, partition, offset, receipt }));
                continue;
            }
            items.push((loan, word));
        }
        if self.keepsakes.len() > KEEPSAKES_MAX {
            self.keepsakes.remove(0);
        }
        if !items.is_empty() {
            self.network.push(Request::Settle(items));
        }
    }

    /// A holder tries a token that it had long ago.
    pub(crate) fn settle_stale(&mut self) {
        let Some(loan) = self.rng.take(&mut self.keepsakes) else { return };
        if self.rng.chance(2, 3) {
            self.keepsakes.push(loan.clone());
        }
        let word = self.choose_word();
        self.network.push(Request::Settle(vec![(loan, word)]));
    }

    fn choose_word(&mut self) -> Word {
        match self.rng.below(12) {
            0..6 => Word::Ack,
            6..9 => {
                let delay_ms = self.rng.chance(1, 2).then(|| self.rng.below(300));
                Word::Nack { delay_ms, dead: self.rng.chance(1, 8) }
            }
            9..11 => Word::Extend { lease_ms: *self.rng.pick(&[20, 200, 1000]) },
            _ => Word::Release { delay_ms: *self.rng.pick(&[0, 0, 50, 300]) },
        }
    }

    pub(crate) fn hand_settle(&mut self, items: &[(Loan, Word)]) -> CheckResult {
        if self.server.is_none() {
            return Ok(());
        }
        let mut said: Vec<Said> = Vec::new();
        for (loan, word) in items {
            said.push(self.oracle.say(loan.receipt, &loan.group, *word, self.now));
        }
        let items = items.iter().map(|(loan, word)| settlement(loan.receipt, *word)).collect();
        let joined = self.messages + 1;
        let ticket = self.ticket(Asked::Settle { said, joined });
        self.hand(Input::Settle { ticket, items })
    }

    pub(crate) fn settle_answered(&mut self, said: &[Said], joined: u64, answer: &Answer) -> CheckResult {
        let Answer::Settlements(outcomes) = answer else {
            return Err(format!("answers: {said:?} was answered with {answer:?}"));
        };
        if outcomes.len() != said.len() {
            return Err(format!("answers: {said:?} was answered with {outcomes:?}"));
        }
        for (said, outcome) in said.iter().zip(outcomes) {
            self.oracle.said(said, *outcome)?;
            if said.word == Word::Ack && *outcome == Outcome::Ok {
                self.counts.acked += 1;
                // What is acked for certain was acked in a group that is there for certain.
                if let Some(since) = said.current_since() {
                    self.oracle.join(said.receipt.topic, &said.group, joined, since);
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn loan(to: &Receiver, delivery: &Delivery) -> Loan {
    Loan { receipt: delivery.receipt, group: to.group.clone(), owner: to.owner.clone() }
}

fn settlement(receipt: Receipt, word: Word) -> Settlement {
    let verdict = match word {
        Word::Ack => Verdict::Ack,
        Word::Nack { delay_ms, dead } => Verdict::Nack { delay_ms, dead, error: "no luck".into() },
        Word::Extend { lease_ms } => Verdict::Extend { lease_ms: Some(lease_ms), begun: true },
        Word::Release { delay_ms } => Verdict::Release { delay_ms },
    };
    Settlement { receipt, verdict }
}
