//! Effects that are tied to a delivery: how the delivery stands, as far as its holder can know.

use driftq_core::{GroupId, Receipt, Time, Token, TopicId};

use super::Oracle;
use super::fence::{Word, Worth};
use crate::workers::Loan;

/// A delivery on whose behalf an effect is run.
#[derive(Clone, Debug)]
pub(crate) struct Tied {
    pub(crate) loan: Loan,
}

impl Tied {
    /// A delivery of which nothing is known.
    pub(crate) fn unknown() -> Self {
        let (topic, group) = (TopicId(u32::MAX), GroupId(u32::MAX));
        let receipt = Receipt { topic, group, partition: 0, offset: 0, token: Token::default() };
        Self { loan: Loan { receipt, group: String::new(), owner: String::new() } }
    }

    pub(crate) fn is_unknown(&self) -> bool {
        self.loan.receipt.token == Token::default()
    }
}

/// What a delivery says about the effect that is tied to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tie {
    /// Nothing: the effect's own clock decides.
    Loose,
    /// It is on loan, and was all the time: so is the effect.
    OnLoan,
    /// A newer attempt has begun: the effect's holder has no say any more.
    Fenced,
    /// No client can know.
    Unsure,
}

impl Oracle {
    /// Ties a delivery that was just handed out, or was not long ago.
    pub(crate) fn tied(loan: &Loan) -> Tied {
        Tied { loan: loan.clone() }
    }

    pub(crate) fn tie(&self, tied: Option<&Tied>, now: Time) -> Tie {
        let Some(Tied { loan: Loan { receipt, group, .. } }) = tied else { return Tie::Loose };
        if self.acked.contains(&receipt.token) {
            return Tie::Loose;
        }
        if self.acking.contains(&receipt.token) {
            return Tie::Unsure;
        }
        let view = self.groups.get(&(receipt.topic, group.clone()));
        let hold = view.and_then(|view| view.holds.get(&receipt.offset));
        let Some(hold) = hold else { return Tie::Unsure };
        if hold.token != receipt.token {
            // One that was decided and never handed out may be lost.
            let lost = hold.crashed && !hold.seen;
            return if hold.token > receipt.token && !lost { Tie::Fenced } else { Tie::Unsure };
        }
        match self.worth(receipt, group, Word::Extend { lease_ms: 1 }, now) {
            Worth::Everything if hold.expires > now && !hold.revived => Tie::OnLoan,
            Worth::Everything if hold.expires <= now && !hold.revived => Tie::Loose,
            Worth::Everything | Worth::Unknown | Worth::Nothing => Tie::Unsure,
        }
    }

    /// Whether a delivery is its holder's to act for, for certain.
    pub(crate) fn is_current(&self, loan: &Loan, now: Time) -> bool {
        self.worth(&loan.receipt, &loan.group, Word::Ack, now) == Worth::Everything
    }

    /// Whether it is not any more, for certain.
    pub(crate) fn is_stale(&self, loan: &Loan, now: Time) -> bool {
        self.worth(&loan.receipt, &loan.group, Word::Ack, now) == Worth::Nothing
    }
}
