//! Questions to the ledger.

use driftq_api::v2::{Effect, EffectState, Effects};

use crate::client::{Client, escape};
use crate::error::Error;
use crate::outcome::Failure;

/// All effects of a scope, the oldest first.
///
/// # Errors
/// As every call.
pub async fn effects(client: &Client, scope: &str) -> Result<Vec<Effect<'static>>, Error> {
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let after = cursor.as_deref().map(|cursor| format!("&cursor={}", escape(cursor))).unwrap_or_default();
        let page: Effects<'static> =
            client.get(&format!("/v2/effects?scope={}&limit=1000{after}", escape(scope))).await?;
        found.extend(page.effects);
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(found);
        }
    }
}

/// There are so many effects of this scope, and each was carried out once.
///
/// # Errors
/// What differs; and as every call.
pub async fn expect_effects(client: &Client, scope: &str, count: usize) -> Result<(), Failure> {
    let found = effects(client, scope).await?;
    let is_once = |effect: &Effect<'_>| effect.state == EffectState::Succeeded && effect.attempt == 1;
    let odd: Vec<String> = found
        .iter()
        .filter(|effect| !is_once(effect))
        .map(|effect| format!("{} is {} after {} attempts", effect.key, effect.state.name(), effect.attempt))
        .collect();
    if found.len() == count && odd.is_empty() {
        return Ok(());
    }
    let odd = if odd.is_empty() { String::new() } else { format!(": {}", odd.join(", ")) };
    Err(Failure::new(format!("expected {count} effects of scope {scope:?}, found {}{odd}", found.len())))
}
