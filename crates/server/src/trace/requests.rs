//! Spans of requests, and the context that a request gives the messages in it.

use std::borrow::Cow;

use driftq_api::v2::LABELS_MAX;
use driftq_engine::core::Message;
use hyper::http::request::Parts;
use hyper::{HeaderMap, StatusCode};

use super::context::{TRACEPARENT, TraceContext};
use super::span::{Kind, Span, Value};
use super::{Tracer, wall};

/// A request that is traced. Kept in the extensions of its head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestTrace {
    /// The request's own span.
    pub(crate) context: TraceContext,
    parent: Option<[u8; 8]>,
    /// Nanoseconds since 1970.
    pub(crate) begin: u64,
}

impl RequestTrace {
    /// The trace of a request, if it is traced.
    pub(crate) fn of(head: &Parts) -> Option<&Self> {
        head.extensions.get()
    }
}

impl Tracer {
    /// Whether a request is traced: if its client wants so, or if it may produce and begins a trace.
    pub(crate) fn asked(&self, headers: &HeaderMap, is_producer: bool) -> Option<RequestTrace> {
        let (trace, parent) = match TraceContext::of(headers) {
            Some(given) if given.sampled => (given.trace, Some(given.span)),
            Some(_) => return None,
            None if is_producer && self.draws() => (self.ids.trace(), None),
            None => return None,
        };
        let context = TraceContext { trace, span: self.ids.span(), sampled: true };
        Some(RequestTrace { context, parent, begin: wall() })
    }

    /// A request was answered.
    pub(crate) fn answered(&self, trace: &RequestTrace, head: &Parts, route: String, status: StatusCode) {
        let mut attributes = vec![
            ("http.request.method", Value::from(head.method.as_str())),
            ("http.response.status_code", Value::from(u32::from(status.as_u16()))),
            ("http.route", Value::from(route.split_once(' ').map_or(&*route, |(_, path)| path))),
        ];
        let failed = status.is_server_error();
        if failed {
            attributes.push(("error.type", Value::from(status.as_str())));
        }
        let name = if route.contains(' ') { route } else { format!("{} {route}", head.method) };
        self.tell(Span {
            context: trace.context,
            parent: trace.parent,
            link: None,
            name,
            kind: Kind::Server,
            begin: trace.begin,
            end: wall(),
            attributes,
            error: failed.then(|| status.to_string()),
        });
    }
}

/// The trace that a request gives the messages in it: the span of the client if it sent one, or else that of the
/// request, if that is traced.
pub(crate) fn context_of(head: &Parts) -> Option<TraceContext> {
    let given = TraceContext::of(&head.headers);
    given.or_else(|| RequestTrace::of(head).map(|trace| trace.context))
}

/// Gives a message the trace of the request that produces it, unless it has one of its own.
pub(crate) fn label(context: Option<TraceContext>, message: &mut Message<'_>) {
    let Some(context) = context else { return };
    let labels = &mut message.envelope.get_or_insert_default().labels;
    let has_own = labels.iter().any(|(name, _)| name == TRACEPARENT);
    if !has_own && labels.len() < LABELS_MAX {
        labels.push((Cow::Borrowed(TRACEPARENT), Cow::Owned(context.to_string())));
        // Labels are kept in the order of their names.
        labels.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    }
}
