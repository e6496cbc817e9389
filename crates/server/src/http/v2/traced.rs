//! Calls with which a trace goes on: what they are told about once the broker has answered.

use driftq_api::Fault;
use driftq_engine::core::{EffectReceipt, Outcome, Receipt, Settlement, Time, Verdict};
use driftq_engine::{Begun, CommitCall, EffectCall};

use super::Request;
use super::effects::status_name;
use crate::trace::{CommitParts, Ending, RequestTrace, TraceContext, Tracer, wall};

/// What the call is part of, if it is traced, and when it came.
pub(super) type TracedCall<'a> = (&'a Tracer, TraceContext, u64);

pub(super) fn cause<'a>(request: &Request<'a>, call: &EffectCall<'_>) -> Option<TracedCall<'a>> {
    let tracer = request.app.tracer.as_deref()?;
    let cause = tracer.cause(call.delivery.as_ref(), RequestTrace::of(request.head))?;
    Some((tracer, cause, wall()))
}

pub(super) fn tell(
    (tracer, cause, begin): TracedCall<'_>,
    call: &EffectCall<'_>,
    begun: Result<&Begun, &Fault>,
) {
    tracer.decided(cause, &call.about.scope, begun.map_err(|fault| &*fault.message), begin);
}

/// A commit with which a trace goes on.
pub(super) struct TracedCommit<'a> {
    request: &'a Request<'a>,
    tracer: &'a Tracer,
    cause: TraceContext,
    parts: CommitParts,
    acks: Vec<Receipt>,
    effects: Vec<(EffectReceipt, &'static str)>,
    begin: u64,
}

impl<'a> TracedCommit<'a> {
    /// `None` if neither the request nor a delivery that it is about is traced.
    pub(super) fn of(request: &'a Request<'a>, call: &CommitCall<'_>) -> Option<Self> {
        let tracer = request.app.tracer.as_deref()?;
        let mut about = call.acks.iter().chain(&call.fences);
        let cause = about.find_map(|receipt| tracer.delivery(receipt));
        let cause = cause.or_else(|| tracer.cause(None, RequestTrace::of(request.head)))?;
        let parts = CommitParts {
            acks: call.acks.len(),
            effects: call.effects.len(),
            messages: call.messages.len(),
            outputs: call.outputs.len(),
        };
        let effects = call.effects.iter().map(|(receipt, end)| (*receipt, status_name(end.status)));
        let (acks, effects) = (call.acks.clone(), effects.collect());
        Some(Self { request, tracer, cause, parts, acks, effects, begin: wall() })
    }

    pub(super) fn tell(self, refused: Option<&Fault>) {
        self.tracer.committed(self.cause, self.parts, self.begin, refused.map(|fault| &*fault.message));
        if refused.is_some() {
            return;
        }
        self.effects.iter().for_each(|(receipt, how)| self.tracer.effect_ended(receipt, how));
        let now = self.request.app.broker.now();
        self.acks.iter().for_each(|receipt| self.tracer.settled(receipt, Ending::Commit, now));
    }
}

/// Settlements of deliveries some of which may be traced.
pub(super) struct TracedSettlements<'a> {
    tracer: &'a Tracer,
    said: Vec<(Receipt, Option<Ending>)>,
}

impl<'a> TracedSettlements<'a> {
    /// `None` if nothing is traced.
    pub(super) fn of(tracer: Option<&'a Tracer>, items: &[Settlement]) -> Option<Self> {
        let tracer = tracer.filter(|tracer| tracer.has_open())?;
        let said = items.iter().map(|item| {
            let ending = match &item.verdict {
                Verdict::Ack => Some(Ending::Ack),
                Verdict::Nack { .. } => Some(Ending::Nack),
                Verdict::Release { .. } | Verdict::Await { .. } => Some(Ending::Release),
                Verdict::Extend { .. } => None,
            };
            (item.receipt, ending)
        });
        Some(Self { tracer, said: said.collect() })
    }

    pub(super) fn tell(self, outcomes: &[Outcome], now: Time) {
        for ((receipt, ending), outcome) in self.said.iter().zip(outcomes) {
            match (outcome, ending) {
                (Outcome::Ok | Outcome::Buried, Some(ending)) => self.tracer.settled(receipt, *ending, now),
                (Outcome::Extended { expires, .. }, _) => self.tracer.extended(receipt, *expires),
                _ => {}
            }
        }
    }
}
