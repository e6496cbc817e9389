//! Whose a topic is, as a snapshot tells it.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::words::codec::{Malformed, Put, Take};

/// The topic's number is part of identities.
const SCOPED: u8 = 1;
/// The tenant that it belongs to follows.
const OWNED: u8 = 2;

pub(crate) fn put_owner(out: &mut Vec<u8>, scoped: bool, tenant: Option<&str>) {
    let owned = if tenant.is_some() { OWNED } else { 0 };
    out.put_u8(owned | if scoped { SCOPED } else { 0 });
    if let Some(tenant) = tenant {
        out.put_text(tenant);
    }
}

/// Whether the number is part of identities, and the tenant; `can_be_owned` says that such a snapshot may tell of tenants.
pub(crate) fn take_owner(
    take: &mut Take<'_>,
    can_be_owned: bool,
) -> Result<(bool, Option<Arc<str>>), Malformed> {
    let told = take.u8()?;
    let scoped = told & SCOPED != 0;
    let tenant = (told & OWNED != 0).then(|| take.shared()).transpose()?;
    if tenant.as_deref().is_some_and(|tenant: &str| tenant.is_empty() || !scoped || !can_be_owned) {
        return Err(take.malformed());
    }
    Ok((scoped, tenant))
}
