//! What was sent, by endpoint: for whoever watches the connector.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::attempt::Ending;
use super::breaker::Position;
use super::endpoint::Endpoint;

/// The sends to one endpoint since the connector began, and how it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounts {
    /// Sends that the receiver took.
    pub delivered: u64,
    /// Sends that it did not get, or did not take.
    pub failed: u64,
    /// Sends that it may have got, with those of connectors that died before they knew.
    pub unknown: u64,
    /// Where its breaker stands in this connector.
    pub breaker: Position,
    /// Whether its deliveries wait until an operator enables it.
    pub is_disabled: bool,
}

/// The counts of all endpoints that a connector serves now. Cheap to clone: all clones are one.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Mutex<BTreeMap<String, EndpointCounts>>>);

impl Counts {
    /// By the endpoint's name.
    #[must_use]
    pub fn read(&self) -> BTreeMap<String, EndpointCounts> {
        self.by_name().clone()
    }

    fn by_name(&self) -> MutexGuard<'_, BTreeMap<String, EndpointCounts>> {
        // It is consistent at every point, so a panic elsewhere does not invalidate it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are served from now on. What is known of others is forgotten, so that they are never more than these.
    pub(super) fn serve(&self, endpoints: &[Endpoint]) {
        let mut by_name = self.by_name();
        let mut before = std::mem::take(&mut *by_name);
        by_name.extend(endpoints.iter().map(|endpoint| {
            let counts = before.remove(&endpoint.name).unwrap_or_default();
            (endpoint.name.clone(), EndpointCounts { is_disabled: !endpoint.is_enabled(), ..counts })
        }));
    }

    /// A send has ended.
    pub(super) fn sent(&self, endpoint: &str, ending: Ending) {
        self.change(endpoint, |counts| match ending {
            Ending::Delivered => counts.delivered += 1,
            Ending::Failed => counts.failed += 1,
            Ending::Unknown => counts.unknown += 1,
        });
    }

    /// A breaker stands there now.
    pub(super) fn stands(&self, endpoint: &str, breaker: Position) {
        self.change(endpoint, |counts| counts.breaker = breaker);
    }

    /// An endpoint was disabled here.
    pub(super) fn disabled(&self, endpoint: &str) {
        self.change(endpoint, |counts| counts.is_disabled = true);
    }

    /// One that is no longer served does not come back.
    fn change(&self, endpoint: &str, change: impl FnOnce(&mut EndpointCounts)) {
        if let Some(counts) = self.by_name().get_mut(endpoint) {
            change(counts);
        }
    }
}
