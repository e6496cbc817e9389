//! Whether entities have the versions that an asker expects, and what follows if they do.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::log::entity::{EntityFact, put_raised};
use crate::log::fact::Fact;
use crate::turn::Turn;
use crate::turn::journal::Haste;
use crate::words::action::Output;
use crate::words::effect::{Abroad, BeginEffect};
use crate::words::entity::{EXPECTED_MAX, Expected};
use crate::words::reject::Reject;
use crate::words::route::validate_name;

/// The longest tenant, as messages name theirs.
pub(crate) const TENANT_BYTES_MAX: usize = 4096;

impl Turn {
    /// Whether something may be expected like this at all, whatever the versions are.
    pub(crate) fn may_expect(tenant: &str, expect: &[Expected]) -> Result<(), Reject> {
        if expect.len() > EXPECTED_MAX {
            return Err(Reject::Invalid("expect takes at most 100 entities"));
        }
        if tenant.len() > TENANT_BYTES_MAX {
            return Err(Reject::Invalid("tenants have at most 4096 bytes"));
        }
        let mut known = BTreeSet::new();
        for Expected { entity, .. } in expect {
            validate_name(entity, "entity names have 1 to 255 bytes")?;
            if !known.insert(entity) {
                return Err(Reject::Invalid("an entity is there twice in expect"));
            }
        }
        Ok(())
    }

    /// Whether every entity has the version that is expected of it, and there is room for those that are new.
    pub(crate) fn check_expected(&self, tenant: &str, expect: &[Expected]) -> Result<(), Reject> {
        if expect.is_empty() {
            return Ok(());
        }
        let entities = &self.journal.state.entities;
        let mut new = 0;
        for (place, expected) in expect.iter().enumerate() {
            let version = entities.version(tenant, &expected.entity);
            if version != expected.version {
                let place = u8::try_from(place).unwrap_or(u8::MAX);
                return Err(Reject::EntityDiffers { place, version });
            }
            new += u64::from(version == 0);
        }
        if !self.roomy {
            return Err(Reject::DiskFull);
        }
        if new > 0 && entities.len() as u64 + new > self.settings.entities_max {
            return Err(Reject::Limit("entities: there are as many as are allowed"));
        }
        Ok(())
    }

    /// Notes that what an effect expected was met, and raises those of the entities that are here.
    pub(crate) fn raise_for_effect(&mut self, ask: &BeginEffect, effect: u64, out: &mut Output) {
        if ask.abroad == Abroad::Raised || !ask.expect.is_empty() {
            self.raise(&ask.whose, &ask.expect, effect, out);
        }
    }

    /// Raises entities that have the versions that a commit expects.
    pub(crate) fn raise_expected(&mut self, tenant: &str, expect: &[Expected], out: &mut Output) {
        if !expect.is_empty() {
            self.raise(tenant, expect, 0, out);
        }
    }

    /// `effect` is the record that was begun on that condition, zero for a commit.
    fn raise(&mut self, tenant: &str, expect: &[Expected], effect: u64, out: &mut Output) {
        let mut raised = Vec::new();
        for Expected { entity, version } in expect {
            put_raised(&mut raised, entity, version.saturating_add(1));
        }
        let fact = EntityFact::Raised { tenant, at: self.now, effect, raised: &raised };
        self.journal.emit(Haste::Urgent, out, &Fact::Entity(fact));
    }
}
