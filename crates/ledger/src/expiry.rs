//! How long outcomes are remembered, by method.

use std::time::Duration;

use crate::{Identity, Terms};

/// How long outcomes are remembered, by method: the first rule that fits counts.
///
/// ```
/// use std::time::Duration;
/// use driftq_ledger::Expiry;
///
/// let expiry = Expiry::default()
///     .method("POST /payouts", Duration::from_secs(30 * 24 * 3600))
///     .method("POST /reports/*", Duration::from_secs(3600));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Expiry {
    rules: Vec<(String, Duration)>,
}

impl Expiry {
    /// Remembers the outcomes of a method for this long. A `*` at the end stands for anything.
    #[must_use]
    pub fn method(mut self, pattern: impl Into<String>, ttl: Duration) -> Self {
        self.rules.push((pattern.into(), ttl));
        self
    }

    /// How long outcomes of this method are remembered, if a rule says so.
    #[must_use]
    pub fn of(&self, method: &str) -> Option<Duration> {
        let fits = |pattern: &str| match pattern.strip_suffix('*') {
            Some(start) => method.starts_with(start),
            None => method == pattern,
        };
        self.rules.iter().find(|(pattern, _)| fits(pattern)).map(|(_, ttl)| *ttl)
    }

    pub(crate) fn apply(&self, identity: &Identity, terms: &mut Terms) {
        if let Some(ttl) = self.of(identity.method()) {
            terms.ttl = ttl;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_counts() {
        let [hour, day, week] = [3600, 86_400, 604_800].map(Duration::from_secs);
        let expiry = Expiry::default().method("pay", week).method("report/*", hour).method("*", day);
        for (method, expected) in
            [("pay", week), ("payout", day), ("report/", hour), ("report/a/b", hour), ("report", day)]
        {
            assert_eq!(expiry.of(method), Some(expected), "{method}");
        }
        assert_eq!(Expiry::default().method("pay", week).of("Pay"), None);
        assert_eq!(Expiry::default().of("pay"), None);
    }
}
