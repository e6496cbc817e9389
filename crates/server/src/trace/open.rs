//! Spans whose end is still to come.

use std::collections::HashMap;

use driftq_engine::core::{EffectReceipt, GroupId, Receipt, Time, Token, TopicId};

use super::context::TraceContext;
use super::span::Attributes;

/// Deliveries whose spans are open; those beyond it are not traced.
const DELIVERIES_OPEN_MAX: usize = 16_384;
/// Effects whose spans are open; those beyond it are not traced.
const EFFECTS_OPEN_MAX: usize = 16_384;
/// What was to end this long ago and was not heard of again is over.
const OVERDUE_MS: u64 = 60_000;

/// A message as one group sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    topic: TopicId,
    group: GroupId,
    partition: u32,
    offset: u64,
}

impl Place {
    pub(super) const fn of(receipt: &Receipt) -> Self {
        let Receipt { topic, group, partition, offset, .. } = *receipt;
        Self { topic, group, partition, offset }
    }
}

/// A delivery under way.
#[derive(Debug)]
pub(super) struct OpenDelivery {
    pub(super) context: TraceContext,
    pub(super) producer: TraceContext,
    pub(super) token: Token,
    pub(super) begin: Time,
    pub(super) expires: Time,
    pub(super) name: String,
    pub(super) attributes: Attributes,
}

/// An effect that a worker runs.
#[derive(Debug)]
pub(super) struct OpenEffect {
    pub(super) context: TraceContext,
    pub(super) parent: [u8; 8],
    /// Nanoseconds since 1970.
    pub(super) begin: u64,
    pub(super) expires: Time,
    pub(super) name: String,
    pub(super) attributes: Attributes,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct OpenSpans {
    deliveries: HashMap<Place, OpenDelivery>,
    effects: HashMap<EffectReceipt, OpenEffect>,
}

/// There are as many as there may be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl OpenSpans {
    pub(super) fn delivery(&self, place: &Place) -> Option<&OpenDelivery> {
        self.deliveries.get(place)
    }

    /// The delivery that this one supersedes, if its end was not heard of.
    pub(super) fn begin_delivery(
        &mut self,
        place: Place,
        delivery: OpenDelivery,
    ) -> Result<Option<OpenDelivery>, Full> {
        if self.deliveries.len() >= DELIVERIES_OPEN_MAX && !self.deliveries.contains_key(&place) {
            return Err(Full);
        }
        Ok(self.deliveries.insert(place, delivery))
    }

    pub(super) fn end_delivery(&mut self, receipt: &Receipt) -> Option<OpenDelivery> {
        let place = Place::of(receipt);
        let is_current = self.deliveries.get(&place).is_some_and(|held| held.token == receipt.token);
        if is_current { self.deliveries.remove(&place) } else { None }
    }

    pub(super) fn extend_delivery(&mut self, receipt: &Receipt, expires: Time) {
        if let Some(held) = self.deliveries.get_mut(&Place::of(receipt))
            && held.token == receipt.token
        {
            held.expires = expires;
        }
    }

    pub(super) fn begin_effect(&mut self, receipt: EffectReceipt, effect: OpenEffect) -> Result<bool, Full> {
        if self.effects.len() >= EFFECTS_OPEN_MAX && !self.effects.contains_key(&receipt) {
            return Err(Full);
        }
        Ok(self.effects.insert(receipt, effect).is_none())
    }

    pub(super) fn end_effect(&mut self, receipt: &EffectReceipt) -> Option<OpenEffect> {
        self.effects.remove(receipt)
    }

    pub(super) fn extend_effect(&mut self, receipt: &EffectReceipt, expires: Time) {
        if let Some(held) = self.effects.get_mut(receipt) {
            held.expires = expires;
        }
    }

    /// What should have ended long ago.
    pub(super) fn take_overdue(&mut self, now: Time) -> (Vec<OpenDelivery>, Vec<OpenEffect>) {
        let is_overdue = |expires: Time| expires.after_ms(OVERDUE_MS) < now;
        let deliveries = self.deliveries.extract_if(|_, held| is_overdue(held.expires)).map(|(_, held)| held);
        let deliveries = deliveries.collect();
        let effects = self.effects.extract_if(|_, held| is_overdue(held.expires)).map(|(_, held)| held);
        (deliveries, effects.collect())
    }
}
