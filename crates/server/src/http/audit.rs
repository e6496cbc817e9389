//! What the audit is told: who asked for what, from where, and what came of it.
//!
//! A call that manages something has its entry before its caller has an answer. It runs apart from its connection: a
//! caller that hangs up leaves no deed without an entry. A refusal for want of a key has an entry, too, but not more of
//! them in a second than a log can bear: the others are counted in the next entry.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use driftq_api::v2::path_name;
use driftq_api::{Code, Fault};
use driftq_engine::core::{AUDIT_DONE, AuditEntry};
use driftq_engine::key_text::{self, ShownId};
use hyper::Method;
use hyper::header::HeaderValue;
use hyper::http::HeaderMap;
use hyper::http::request::Parts;

use super::answer::Answer;
use super::app::App;
use super::endpoint::{Endpoint, Target};
use super::guard::{Caller, shown_key};
use super::peer::Peer;

/// Refusals of one kind that have entries of their own within one second.
const REFUSALS_PER_SECOND_MAX: u32 = 10;
/// What a proxy adds: the address that it was called from comes last.
const FORWARDED_FOR: &str = "x-forwarded-for";
/// Said of callers who showed no key that is good for anything.
const UNKNOWN: &str = "unknown";

/// A request, as the audit tells of it.
pub(crate) struct Asked<'a> {
    pub(crate) head: &'a Parts,
    pub(crate) id: &'a HeaderValue,
    pub(crate) peer: &'a Peer,
    /// Who it comes from, as soon as that is known.
    pub(crate) caller: OnceLock<Caller>,
}

/// What a handler has to say about what it did, put beside its answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noted {
    /// What it was about, if the path does not say.
    target: Option<String>,
    detail: String,
}

/// An answer with what the audit is to know beside the path.
pub(crate) fn noted(mut answer: Answer, detail: impl Into<String>) -> Answer {
    let noted = answer.extensions_mut().get_or_insert_default::<Noted>();
    noted.detail = detail.into();
    answer
}

/// An answer with what it was about, where the path does not say.
pub(crate) fn about(mut answer: Answer, names: &[&str]) -> Answer {
    let noted = answer.extensions_mut().get_or_insert_default::<Noted>();
    noted.target = Some(joined(names));
    answer
}

/// Says of which tenant something was, if it was of one.
pub(crate) fn of_tenant(tenant: &str, detail: &str) -> String {
    if tenant.is_empty() { detail.to_owned() } else { format!("tenant {tenant}: {detail}") }
}

/// How often something may be written down.
struct Pace {
    second: Mutex<(u64, u32)>,
}

impl Pace {
    const fn new() -> Self {
        Self { second: Mutex::new((0, 0)) }
    }

    fn admits(&self, now_s: u64) -> bool {
        let mut second = self.second.lock().unwrap_or_else(PoisonError::into_inner);
        if second.0 != now_s {
            *second = (now_s, 0);
        }
        second.1 = second.1.saturating_add(1);
        second.1 <= REFUSALS_PER_SECOND_MAX
    }
}

/// What is remembered between entries.
pub(crate) struct Auditor {
    started: Instant,
    /// Of callers who are not known, and of those who are: strangers cannot drown what a known key tried.
    strangers: Pace,
    known: Pace,
    /// Refusals since the last entry that have none.
    suppressed: AtomicU32,
}

impl Auditor {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            strangers: Pace::new(),
            known: Pace::new(),
            suppressed: AtomicU32::new(0),
        }
    }

    fn admits(&self, is_known: bool) -> bool {
        let pace = if is_known { &self.known } else { &self.strangers };
        pace.admits(self.started.elapsed().as_secs())
    }

    fn suppress(&self, count: u32) {
        // One that counts further than this has told enough.
        let _ = self.suppressed.fetch_update(Relaxed, Relaxed, |sum| Some(sum.saturating_add(count)));
    }
}

impl Endpoint {
    /// Whether its outcome is written down, whatever it is.
    pub(crate) fn is_audited(self, method: &Method) -> bool {
        match self {
            Self::V2(operation) => operation.is_audited(),
            Self::Topics => method == Method::POST,
            Self::Healthz
            | Self::Version
            | Self::Produce
            | Self::Consume
            | Self::Ack
            | Self::Nack
            | Self::UnknownV1
            | Self::UnknownV2
            | Self::Metrics
            | Self::Ui
            | Self::Unversioned => false,
        }
    }

    fn action(self, method: &Method) -> &'static str {
        match self {
            Self::V2(operation) => operation.id(),
            Self::Topics if method == Method::POST => "v1_create_topic",
            Self::Topics => "v1_list_topics",
            Self::Produce => "v1_produce",
            Self::Consume => "v1_consume",
            Self::Ack => "v1_ack",
            Self::Nack => "v1_nack",
            Self::Healthz => "v1_healthz",
            Self::Version => "v1_version",
            Self::Metrics => "metrics",
            Self::Ui => "ui",
            Self::UnknownV1 | Self::UnknownV2 | Self::Unversioned => "unknown",
        }
    }
}

impl App {
    /// Writes down what came of a request, if that is to be written down; returns when it is.
    pub(super) async fn audit(
        &self,
        asked: &Asked<'_>,
        target: &Target<'_>,
        outcome: Result<&mut Answer, &Fault>,
    ) {
        let is_turned_away = match &outcome {
            Ok(_) => false,
            Err(fault) => matches!(fault.entry().status, 401 | 403),
        };
        if !is_turned_away && !target.endpoint.is_audited(&asked.head.method) {
            return;
        }
        let caller = asked.caller.get();
        if is_turned_away && !self.auditor.admits(caller.is_some()) {
            self.auditor.suppress(1);
            self.metrics.on_audit_suppressed();
            return;
        }
        let mut entry = AuditEntry {
            action: target.endpoint.action(&asked.head.method).to_owned(),
            target: target.about(),
            from: self.origin(asked),
            request_id: asked.id.to_str().unwrap_or_default().to_owned(),
            suppressed: self.auditor.suppressed.swap(0, Relaxed),
            ..AuditEntry::default()
        };
        (entry.actor, entry.note) = self.actor(caller);
        match outcome {
            Ok(answer) => {
                AUDIT_DONE.clone_into(&mut entry.outcome);
                let noted = answer.extensions_mut().remove::<Noted>().unwrap_or_default();
                entry.target = noted.target.unwrap_or(entry.target);
                entry.detail = noted.detail;
            }
            Err(fault) => {
                fault.entry().code.clone_into(&mut entry.outcome);
                // Other refusals repeat parts of what was sent, which is nobody's business.
                if is_turned_away {
                    entry.detail = told_away(fault, &asked.head.headers);
                }
            }
        }
        self.record(entry, is_turned_away).await;
    }

    async fn record(&self, entry: AuditEntry, is_dispensable: bool) {
        let (suppressed, actor) = (entry.suppressed, entry.actor.clone());
        let (action, target, outcome) = (entry.action.clone(), entry.target.clone(), entry.outcome.clone());
        match self.broker.record(entry, is_dispensable).await {
            Ok(_) => self.metrics.on_audit_recorded(),
            Err(failure) => {
                self.metrics.on_audit_lost();
                self.auditor.suppress(suppressed.saturating_add(u32::from(is_dispensable)));
                tracing::warn!(actor, action, target, outcome, %failure, "an entry of the audit was not written");
            }
        }
    }

    fn actor(&self, caller: Option<&Caller>) -> (String, String) {
        match caller {
            None => (UNKNOWN.to_owned(), String::new()),
            Some(Caller::Anybody) => ("anybody".to_owned(), String::new()),
            Some(Caller::Root) => ("root".to_owned(), String::new()),
            Some(Caller::Key { id, .. }) => {
                (format!("key:{}", key_text::written_id(*id)), self.guard.note(*id))
            }
        }
    }

    /// Where a request came from. What a header says about that counts only if a proxy is known to have written it.
    fn origin(&self, asked: &Asked<'_>) -> String {
        let forwarded = if self.options.behind_proxy { forwarded_for(&asked.head.headers) } else { None };
        forwarded.map_or_else(|| asked.peer.address.to_string(), |address| address.to_string())
    }
}

/// The address that the nearest proxy was called from. Those before it are what others claim.
fn forwarded_for(headers: &HeaderMap) -> Option<IpAddr> {
    let last = headers.get_all(FORWARDED_FOR).iter().next_back()?.to_str().ok()?;
    let last = last.rsplit(',').next()?.trim();
    let with_port = || last.parse::<SocketAddr>().ok().map(|address| address.ip());
    last.parse().ok().or_else(with_port)
}

/// Why a caller was turned away, and which key it claimed to have.
fn told_away(fault: &Fault, headers: &HeaderMap) -> String {
    let shown = shown_key(headers).ok().flatten().and_then(key_text::shown_id);
    match shown.filter(|_| fault.code == Code::Unauthenticated) {
        None => fault.message.to_string(),
        Some(ShownId::Root) => format!("{}; it names the root key", fault.message),
        Some(ShownId::Key(id)) => format!("{}; it names key {}", fault.message, key_text::written_id(id)),
    }
}

impl Target<'_> {
    /// What the path is about: its pieces up to the last name, without the verb that follows.
    fn about(&self) -> String {
        let Endpoint::V2(operation) = self.endpoint else { return String::new() };
        let pieces = operation.path().trim_start_matches("/v2/").split('/');
        let is_name = |piece: &str| piece.starts_with('{');
        let count = pieces.clone().collect::<Vec<_>>().iter().rposition(|piece| is_name(piece));
        let mut names = self.names.iter();
        let told = pieces.take(count.map_or(1, |last| last + 1)).map(|piece| {
            let name =
                if is_name(piece) { names.next().copied().unwrap_or_default() } else { return piece.into() };
            // A name that cannot be decoded is refused, and told as it came.
            path_name("name", name).unwrap_or_else(|_| name.into())
        });
        let told: Vec<std::borrow::Cow<'_, str>> = told.collect();
        joined(&told.iter().map(|piece| &**piece).collect::<Vec<_>>())
    }
}

/// Names as a path; a slash within one of them is written as in a URL.
fn joined(names: &[&str]) -> String {
    names.iter().map(|name| name.replace('%', "%25").replace('/', "%2F")).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_paths_without_verbs() {
        for (method, path, expected) in [
            ("DELETE", "/v2/topics/orders", "topics/orders"),
            ("POST", "/v2/topics/a%2Fb/groups/g/seek", "topics/a%2Fb/groups/g"),
            ("DELETE", "/v2/topics/%6frders/messages/0/7", "topics/orders/messages/0/7"),
            ("POST", "/v2/dlq/orders/purge", "dlq/orders"),
            ("POST", "/v2/keys", "keys"),
            ("POST", "/v2/effects/resolve", "effects"),
            ("POST", "/v2/outputs/d/cutover", "outputs/d"),
            ("DELETE", "/v2/outputs/d/%zz", "outputs/d/%25zz"),
            ("POST", "/v1/topics", ""),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(Target::find(&method, path).about(), expected, "{path}");
        }
    }

    #[test]
    fn only_the_nearest_proxy_is_believed() {
        for (values, expected) in [
            (&["10.0.0.1"][..], Some("10.0.0.1")),
            (&["6.6.6.6, 10.0.0.2"], Some("10.0.0.2")),
            (&["6.6.6.6", "10.0.0.3:80"], Some("10.0.0.3")),
            (&["2001:db8::1"], Some("2001:db8::1")),
            (&["[2001:db8::2]:443"], Some("2001:db8::2")),
            (&["10.0.0.1, a name"], None),
            (&[], None),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(FORWARDED_FOR, HeaderValue::from_static(value));
            }
            assert_eq!(forwarded_for(&headers).map(|ip| ip.to_string()).as_deref(), expected, "{values:?}");
        }
    }

    #[test]
    fn a_pace_admits_so_many_in_a_second() {
        let pace = Pace::new();
        let admitted = |second| (0..100).filter(|_| pace.admits(second)).count();
        assert_eq!((admitted(0), admitted(0), admitted(1)), (10, 0, 10));
    }
}
