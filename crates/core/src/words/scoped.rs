//! Values by tenant and name: what belongs to one tenant never meets what belongs to another.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use core::ops::Bound;

/// A name that belongs to a tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Named {
    /// Whose it is; empty if it belongs to no tenant in particular.
    pub tenant: String,
    /// The name.
    pub name: String,
}

impl Named {
    /// A name of a tenant.
    #[must_use]
    pub fn of(tenant: impl Into<String>, name: impl Into<String>) -> Self {
        Self { tenant: tenant.into(), name: name.into() }
    }
}

impl From<&str> for Named {
    fn from(name: &str) -> Self {
        Self::of("", name)
    }
}

impl From<String> for Named {
    fn from(name: String) -> Self {
        Self::of("", name)
    }
}

/// Values by tenant and name. The tenant without a name is one like any other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scoped<V> {
    /// No tenant is empty.
    tenants: BTreeMap<Arc<str>, BTreeMap<Arc<str>, V>>,
    len: usize,
}

impl<V> Default for Scoped<V> {
    fn default() -> Self {
        Self { tenants: BTreeMap::new(), len: 0 }
    }
}

impl<V> Scoped<V> {
    /// How many there are, of all tenants.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, tenant: &str, name: &str) -> Option<&V> {
        self.tenants.get(tenant)?.get(name)
    }

    pub(crate) fn get_mut(&mut self, tenant: &str, name: &str) -> Option<&mut V> {
        self.tenants.get_mut(tenant)?.get_mut(name)
    }

    /// The value of that name, made if it is new, without copying names that are not.
    pub(crate) fn enter(&mut self, tenant: &str, name: &str, new: impl FnOnce() -> V) -> &mut V {
        if !self.tenants.contains_key(tenant) {
            self.tenants.insert(tenant.into(), BTreeMap::new());
        }
        let values = self.tenants.get_mut(tenant).expect("it was just put there");
        if !values.contains_key(name) {
            values.insert(name.into(), new());
            self.len += 1;
        }
        values.get_mut(name).expect("it was just put there")
    }

    pub(crate) fn remove(&mut self, tenant: &str, name: &str) -> Option<V> {
        let values = self.tenants.get_mut(tenant)?;
        let gone = values.remove(name)?;
        if values.is_empty() {
            self.tenants.remove(tenant);
        }
        self.len -= 1;
        Some(gone)
    }

    /// All of them, by tenant and name.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &V)> {
        let tenants = self.tenants.iter();
        tenants.flat_map(|(tenant, values)| values.iter().map(move |(name, value)| (tenant, name, value)))
    }

    /// Those of one tenant by name, beginning after a name.
    pub(crate) fn after<'s>(
        &'s self,
        tenant: &str,
        name: Option<&str>,
    ) -> impl Iterator<Item = (&'s Arc<str>, &'s V)> + use<'s, V> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        let values = self.tenants.get(tenant).map(|values| values.range::<str, _>((from, Bound::Unbounded)));
        values.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn tenants_do_not_meet() {
        let mut kept = Scoped::default();
        *kept.enter("", "a", || 0) += 1;
        *kept.enter("t", "a", || 0) += 2;
        *kept.enter("t", "b", || 5) += 3;
        *kept.enter("t", "b", || 5) += 1;
        assert_eq!((kept.len(), kept.get("", "a"), kept.get("t", "a")), (3, Some(&1), Some(&2)));
        assert_eq!((kept.get("", "b"), kept.get("t", "b"), kept.get("ta", "")), (None, Some(&9), None));
        assert_eq!(kept.get_mut("t", "b"), Some(&mut 9));
        assert_eq!(kept.get_mut("u", "b"), None);
        let after = |tenant, name| kept.after(tenant, name).map(|(name, value)| (&**name, *value)).collect();
        let (all, rest): (Vec<_>, Vec<_>) = (after("t", None), after("t", Some("a")));
        assert_eq!((all, rest), (Vec::from([("a", 2), ("b", 9)]), Vec::from([("b", 9)])));
        assert_eq!((kept.remove("t", "a"), kept.remove("t", "a"), kept.len()), (Some(2), None, 2));
        assert_eq!(kept.remove("", "a"), Some(1));
        assert_eq!(
            kept.each().map(|(tenant, name, _)| (&**tenant, &**name)).collect::<Vec<_>>(),
            [("t", "b")]
        );
    }
}
