//! Keys.

use std::borrow::Cow;
use std::time::Duration;

use driftq_api::v2::{Key, KeyAction, KeyMade, KeyRotate, KeySpec, Keys, Limits, Page};
use driftq_api::{Code, Fault};
use driftq_engine::core::{KeyId, KeyLimits, KeyScope, KeyView, NewKey, Permissions, Time};
use driftq_engine::key_text::{self, DrawnKey};
use hyper::StatusCode;

use super::words::{moment, time};
use super::{Request, fault};
use crate::http::answer::json;
use crate::http::audit::{about, noted};
use crate::http::guard::{Caller, permission};
use crate::http::v1::Handled;

pub(super) async fn create(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let spec = KeySpec::from_json(request.json()?)?;
    check_asks_for_keys(request)?;
    let drawn = drawn()?;
    let permissions =
        spec.actions.iter().fold(Permissions::default(), |all, action| all.with(permission(*action)));
    let owned = |names: Vec<Cow<'_, str>>| names.into_iter().map(Cow::into_owned).collect();
    let (topics, tenants) = (spec.topics.map(owned), spec.tenants.map(owned));
    // A key that is told no end ends with the one that it hangs on.
    let until = spec.expires_at.map_or_else(|| request.caller.until(), time);
    let key = NewKey {
        id: drawn.id,
        digest: drawn.digest,
        scope: KeyScope { permissions, topics, tenants, limits: spec.limits.map_or(KeyLimits::NONE, limits) },
        until,
        parent: request.caller.key(),
        note: spec.note.into_owned(),
    };
    let key = request.app.broker.create_key(key).await.map_err(|failure| fault(&failure))?;
    let (answer, id) = (made(request, &drawn, &key), key_text::written_id(key.id));
    Ok(noted(about(answer, &["keys", &id]), told(&shown(request, &key))))
}

pub(super) async fn list(request: &Request<'_>) -> Handled {
    let page = Page::from_query(&request.query()?)?;
    let all = request.app.broker.keys().await.map_err(|failure| fault(&failure))?;
    let seen = all.iter().filter(|key| hangs_on(&all, key, request.caller.key()));
    let named = seen.map(|key| (key_text::written_id(key.id), key)).collect();
    let (keys, cursor) = page.cut(named, |(id, _)| id);
    let keys = keys.iter().map(|(_, key)| shown(request, key)).collect();
    Ok(json(StatusCode::OK, &Keys { keys, cursor }))
}

pub(super) async fn get(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let key = named(request).await?;
    Ok(json(StatusCode::OK, &shown(request, &key)))
}

pub(super) async fn rotate(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let overlap = Duration::from_millis(KeyRotate::from_json(request.json()?)?.overlap_ms);
    check_asks_for_keys(request)?;
    let (old, drawn) = (named(request).await?, drawn()?);
    let new = request.app.broker.replace_key(old.id, (drawn.id, drawn.digest), overlap).await;
    let answer = made(request, &drawn, &new.map_err(|failure| fault(&failure))?);
    let (new, overlap_ms) = (key_text::written_id(drawn.id), overlap.as_millis());
    Ok(noted(answer, format!("key {new} comes in its place, which ends in {overlap_ms} ms")))
}

pub(super) async fn revoke(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let key = named(request).await?;
    let ended = request.app.broker.end_key(key.id).await.map_err(|failure| fault(&failure))?;
    Ok(json(StatusCode::OK, &shown(request, &ended)))
}

/// What a key allows, for the audit.
fn told(key: &Key<'_>) -> String {
    let actions: Vec<&str> = key.actions.iter().map(|action| action.name()).collect();
    let or_all = |names: &Option<Vec<Cow<'_, str>>>| match names {
        None => "all".to_owned(),
        Some(names) => names.join(","),
    };
    let (topics, tenants) = (or_all(&key.topics), or_all(&key.tenants));
    let limits = key.limits.map(told_limits).unwrap_or_default();
    let until = key.expires_at.map_or_else(|| "ever".to_owned(), |until| until.to_string());
    let note = if key.note.is_empty() { String::new() } else { format!(", note {:?}", key.note) };
    format!("actions {}, topics {topics}, tenants {tenants}, until {until}{limits}{note}", actions.join(","))
}

fn told_limits(limits: Limits) -> String {
    let Limits { requests_per_second, bytes_per_second, waits } = limits;
    let told = [
        ("requests_per_second", requests_per_second),
        ("bytes_per_second", bytes_per_second),
        ("waits", waits),
    ];
    told.iter().filter_map(|(name, limit)| Some(format!(", {name} {}", (*limit)?))).collect()
}

/// On a server that is open to anybody, anybody could make a key for the day on which it no longer is.
fn check_asks_for_keys(request: &Request<'_>) -> Result<(), Fault> {
    if matches!(request.caller, Caller::Anybody) {
        let text = "this server asks for no keys, and makes none: start it with --keys required";
        return Err(Fault::new(Code::Forbidden, text));
    }
    Ok(())
}

fn drawn() -> Result<DrawnKey, Fault> {
    key_text::draw().map_err(|_| Fault::new(Code::Unavailable, "the system gives no random numbers now"))
}

fn made(request: &Request<'_>, drawn: &DrawnKey, key: &KeyView) -> crate::http::answer::Answer {
    json(StatusCode::CREATED, &KeyMade { secret: Cow::Borrowed(&drawn.text), key: shown(request, key) })
}

/// The key that the path names, if the caller may know of it: one that hangs on the caller's, or is the caller's.
async fn named(request: &Request<'_>) -> Result<KeyView, Fault> {
    let unknown = || Fault::new(Code::AccessKeyUnknown, "there is no such key");
    let id = key_text::parsed_id(&request.name(0, "id")?).ok_or_else(unknown)?;
    let all = request.app.broker.keys().await.map_err(|failure| fault(&failure))?;
    let known = all.iter().find(|key| key.id == id && hangs_on(&all, key, request.caller.key()));
    known.cloned().ok_or_else(unknown)
}

/// Whether a key is this one or hangs on it; all keys hang on the root key.
fn hangs_on(all: &[KeyView], key: &KeyView, above: Option<KeyId>) -> bool {
    let Some(above) = above else { return true };
    let parent = |key: &&KeyView| {
        let parent = key.parent?;
        all.binary_search_by_key(&parent, |key| key.id).ok().and_then(|place| all.get(place))
    };
    // As many steps as keys can hang on each other.
    std::iter::successors(Some(key), parent)
        .take(driftq_engine::core::KEY_DEPTH_MAX + 1)
        .any(|key| key.id == above)
}

fn names(names: &[String]) -> Vec<Cow<'_, str>> {
    names.iter().map(|name| Cow::Borrowed(name.as_str())).collect()
}

fn shown<'a>(request: &Request<'_>, key: &'a KeyView) -> Key<'a> {
    let allowed = |action: &KeyAction| key.scope.permissions.has(permission(*action));
    Key {
        id: Cow::Owned(key_text::written_id(key.id)),
        actions: KeyAction::WORDS.iter().map(|(_, action)| *action).filter(allowed).collect(),
        topics: key.scope.topics.as_deref().map(names),
        tenants: key.scope.tenants.as_deref().map(names),
        limits: key.scope.limits.any().then(|| shown_limits(key.scope.limits)),
        created_at: moment(key.created),
        expires_at: (key.until != Time::NEVER).then(|| moment(key.until)),
        live: key.until > request.app.broker.now(),
        parent: key.parent.map(|parent| Cow::Owned(key_text::written_id(parent))),
        note: Cow::Borrowed(&key.note),
    }
}

fn limits(asked: Limits) -> KeyLimits {
    KeyLimits {
        requests_per_second: asked.requests_per_second.unwrap_or(0),
        bytes_per_second: asked.bytes_per_second.unwrap_or(0),
        waits: asked.waits.unwrap_or(0),
    }
}

fn shown_limits(limits: KeyLimits) -> Limits {
    let given = |limit: u32| (limit > 0).then_some(limit);
    Limits {
        requests_per_second: given(limits.requests_per_second),
        bytes_per_second: given(limits.bytes_per_second),
        waits: given(limits.waits),
    }
}
