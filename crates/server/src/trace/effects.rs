//! Spans of effects and commits.

use std::sync::atomic::Ordering::Relaxed;

use driftq_engine::Begun;
use driftq_engine::core::{EffectReceipt, Receipt, Time};

use super::context::TraceContext;
use super::open::OpenEffect;
use super::span::{Attributes, Kind, Span, Value};
use super::{RequestTrace, Tracer, wall};

/// How many parts a commit has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommitParts {
    pub(crate) acks: usize,
    pub(crate) effects: usize,
    pub(crate) messages: usize,
    pub(crate) outputs: usize,
}

impl Tracer {
    /// What a call about a delivery is part of: that delivery if it is traced, or else the request.
    pub(crate) fn cause(
        &self,
        receipt: Option<&Receipt>,
        request: Option<&RequestTrace>,
    ) -> Option<TraceContext> {
        let delivery = receipt.and_then(|receipt| self.delivery(receipt));
        delivery.or_else(|| request.map(|request| request.context))
    }

    /// It was decided what an asker that wants an effect may do; `begin` is when it asked.
    pub(crate) fn decided(&self, cause: TraceContext, scope: &str, begun: Result<&Begun, &str>, begin: u64) {
        let decision = match begun {
            Ok(Begun::Execute(_)) => "execute",
            Ok(Begun::Replay(_)) => "replay",
            Ok(Begun::Running { .. }) => "in_progress",
            Ok(Begun::Retryable { .. }) => "retryable",
            Ok(Begun::Unknown(_)) => "unknown",
            Err(_) => "refused",
        };
        let attributes = vec![
            ("driftq.effect.scope", Value::from(scope)),
            ("driftq.effect.decision", Value::from(decision)),
        ];
        let end = wall();
        self.tell(Span {
            context: TraceContext { span: self.ids.span(), ..cause },
            parent: Some(cause.span),
            link: None,
            name: format!("effect begin {scope}"),
            kind: Kind::Internal,
            begin,
            end,
            attributes,
            error: begun.err().map(str::to_owned),
        });
        let Ok(Begun::Execute(lease)) = begun else { return };
        let effect = OpenEffect {
            context: TraceContext { span: self.ids.span(), ..cause },
            parent: cause.span,
            begin: end,
            expires: lease.expires,
            name: format!("effect {scope}"),
            attributes: vec![
                ("driftq.effect.scope", Value::from(scope)),
                ("driftq.attempt", lease.attempt.into()),
            ],
        };
        match self.open().begin_effect(lease.receipt, effect) {
            Ok(true) => {
                self.open_count.fetch_add(1, Relaxed);
            }
            Ok(false) => {}
            Err(_full) => self.counts.on_too_many_open(),
        }
    }

    /// An effect is over, as its holder said.
    pub(crate) fn effect_ended(&self, receipt: &EffectReceipt, how: &'static str) {
        if !self.has_open() {
            return;
        }
        let over = self.open().end_effect(receipt);
        if let Some(over) = over {
            self.open_count.fetch_sub(1, Relaxed);
            self.end_effect(over, how, wall());
        }
    }

    /// The lease of an effect goes on until then.
    pub(crate) fn effect_renewed(&self, receipt: &EffectReceipt, expires: Time) {
        if self.has_open() {
            self.open().extend_effect(receipt, expires);
        }
    }

    pub(super) fn end_effect(&self, over: OpenEffect, how: &'static str, end: u64) {
        let mut attributes = over.attributes;
        attributes.push(("driftq.effect.status", Value::from(how)));
        let failed = !matches!(how, "succeeded" | "released");
        if failed {
            attributes.push(("error.type", Value::from(how)));
        }
        self.tell(Span {
            context: over.context,
            parent: Some(over.parent),
            link: None,
            name: over.name,
            kind: Kind::Internal,
            begin: over.begin,
            end,
            attributes,
            error: failed.then(|| how.to_owned()),
        });
    }

    /// A commit was done, or refused.
    pub(crate) fn committed(&self, cause: TraceContext, parts: CommitParts, begin: u64, why: Option<&str>) {
        let mut attributes: Attributes = vec![
            ("driftq.commit.acks", parts.acks.into()),
            ("driftq.commit.effects", parts.effects.into()),
            ("driftq.commit.messages", parts.messages.into()),
            ("driftq.commit.outputs", parts.outputs.into()),
        ];
        if why.is_some() {
            attributes.push(("error.type", Value::from("refused")));
        }
        self.tell(Span {
            context: TraceContext { span: self.ids.span(), ..cause },
            parent: Some(cause.span),
            link: None,
            name: "commit".to_owned(),
            kind: Kind::Internal,
            begin,
            end: wall(),
            attributes,
            error: why.map(str::to_owned),
        });
    }
}
