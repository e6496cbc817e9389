//! Thresholds: how much is too much, for all or for some.

/// A number that must not be exceeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Threshold {
    /// `TOPIC/GROUP` or `TOPIC`; all of them if none.
    pub(super) scope: Option<String>,
    pub(super) most: u64,
}

/// The thresholds of one figure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Levels {
    pub(super) warn: Vec<Threshold>,
    pub(super) crit: Vec<Threshold>,
}

impl Levels {
    pub(super) const fn is_empty(&self) -> bool {
        self.warn.is_empty() && self.crit.is_empty()
    }

    /// What these say to the first of the names that they know, else to all: the closer name wins.
    pub(super) fn of(&self, names: &[&str]) -> (Option<u64>, Option<u64>) {
        let find = |thresholds: &[Threshold]| {
            let named =
                |name: &str| thresholds.iter().rfind(|threshold| threshold.scope.as_deref() == Some(name));
            let general = || thresholds.iter().rfind(|threshold| threshold.scope.is_none());
            names.iter().find_map(|name| named(name)).or_else(general).map(|threshold| threshold.most)
        };
        (find(&self.warn), find(&self.crit))
    }

    /// The names that were given.
    pub(super) fn scopes(&self) -> impl Iterator<Item = &str> {
        self.warn.iter().chain(&self.crit).filter_map(|threshold| threshold.scope.as_deref())
    }
}

/// `N`, or `SCOPE=N`.
pub(super) fn read(text: &str, number: fn(&str) -> Result<u64, String>) -> Result<Threshold, String> {
    match text.rsplit_once('=') {
        None => Ok(Threshold { scope: None, most: number(text)? }),
        Some((scope, most)) if !scope.is_empty() => {
            Ok(Threshold { scope: Some(scope.to_owned()), most: number(most)? })
        }
        Some(_) => Err(format!("`{text}` names nothing before the =")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftq_api::units::{count, millis};

    #[test]
    fn the_closer_name_wins() {
        let read = |text| read(text, count).unwrap();
        let levels = Levels {
            warn: vec![read("10"), read("orders=20"), read("orders/billing=30")],
            crit: vec![read("orders=99")],
        };
        assert_eq!(levels.of(&["orders/billing", "orders"]), (Some(30), Some(99)));
        assert_eq!(levels.of(&["orders/mail", "orders"]), (Some(20), Some(99)));
        assert_eq!(levels.of(&["mails/mail", "mails"]), (Some(10), None));
        assert_eq!(levels.scopes().collect::<Vec<_>>(), ["orders", "orders/billing", "orders"]);
    }

    #[test]
    fn numbers_may_have_units_and_names() {
        assert_eq!(read("orders/billing=5m", millis).unwrap().most, 300_000);
        assert!(read("5 apples", count).is_err());
        assert!(read("=5", count).is_err());
    }
}
