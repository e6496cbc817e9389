//! Sessions of people in front of browsers.

use std::borrow::Cow;
use std::time::Instant;

use driftq_api::v2::{KeyAction, Session, SessionSpec};
use driftq_api::{Code, Fault};
use driftq_engine::core::Time;
use driftq_engine::key_text;
use hyper::StatusCode;
use hyper::header::{HeaderValue, ORIGIN, SET_COOKIE};

use super::Request;
use super::words::moment;
use crate::http::answer::{json, no_content, put};
use crate::http::door::Schemes;
use crate::http::guard::Caller;
use crate::http::v1::Handled;

pub(super) fn sign_in(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let spec = SessionSpec::from_json(request.json()?)?;
    let guard = &request.app.guard;
    if !guard.asks_for_keys() {
        let text = "this server asks for no keys, so there is nothing to sign in to";
        return Err(Fault::new(Code::Forbidden, text));
    }
    let (id, caller) = guard.recognise(spec.key.trim(), &request.app.broker)?;
    let set = guard.sessions.begin(id, is_secure(request), Instant::now())?;
    let mut answer = json(StatusCode::CREATED, &told(request, &caller));
    put(&mut answer, SET_COOKIE, header(&set)?);
    Ok(answer)
}

pub(super) fn get(request: &Request<'_>) -> Handled {
    request.no_query()?;
    Ok(json(StatusCode::OK, &told(request, request.caller)))
}

pub(super) fn sign_out(request: &Request<'_>) -> Handled {
    request.no_query()?;
    let set = request.app.guard.sessions.end(&request.head.headers, is_secure(request));
    let mut answer = no_content();
    put(&mut answer, SET_COOKIE, header(&set)?);
    Ok(answer)
}

fn header(text: &str) -> Result<HeaderValue, Fault> {
    HeaderValue::from_str(text).map_err(|_| Fault::new(Code::Internal, "the cookie cannot be written"))
}

/// Whether the browser speaks TLS, with this server or with the proxy before it.
fn is_secure(request: &Request<'_>) -> bool {
    let origin = request.head.headers.get(ORIGIN);
    let is_https = origin.is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
    is_https || request.app.options.door.schemes == Schemes::Https
}

fn told(request: &Request<'_>, caller: &Caller) -> Session<'static> {
    let all = KeyAction::WORDS.iter().map(|(_, action)| *action);
    let scope = caller.scope();
    let (actor, note) = match caller {
        Caller::Anybody => (Cow::Borrowed("anybody"), None),
        Caller::Root => (Cow::Borrowed("root"), None),
        Caller::Key { id, .. } => {
            (format!("key:{}", key_text::written_id(*id)).into(), Some(request.app.guard.note(*id)))
        }
    };
    Session {
        keys_required: request.app.guard.asks_for_keys(),
        actor,
        note: note.filter(|note| !note.is_empty()),
        actions: all.filter(|action| caller.may(*action).is_ok()).collect(),
        topics: scope.and_then(|scope| scope.topics.clone()),
        tenants: scope.and_then(|scope| scope.tenants.clone()),
        expires_at: Some(caller.until()).filter(|until| *until != Time::NEVER).map(moment),
    }
}
