//! Spans on the wire: the messages of OTLP that traces need, by the field numbers of `opentelemetry-proto` 1.x.

use prost::Message;

use super::span::{Span, Value};
use crate::http::VERSION;

/// The version of the semantic conventions whose names are used.
const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.44.0";
/// The code of a status that says that something failed.
const STATUS_ERROR: i32 = 2;
/// The bit of a span's flags that says that it was sampled.
const FLAG_SAMPLED: u32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExportTraceServiceRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_spans: Vec<ScopeSpans>,
    #[prost(string, tag = "3")]
    schema_url: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) spans: Vec<SpanMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SpanMessage {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(super) name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "13")]
    links: Vec<Link>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    flags: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Link {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(fixed32, tag = "6")]
    flags: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AnyValue {
    #[prost(oneof = "OneValue", tags = "1, 3")]
    value: Option<OneValue>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum OneValue {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
}

/// The body that carries spans of a service to a collector.
pub(super) fn body(service: &str, spans: impl Iterator<Item = Span>) -> Vec<u8> {
    let resource = [("service.name", service), ("service.version", VERSION)];
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource {
                attributes: resource.map(|(name, text)| pair(name, Value::from(text))).to_vec(),
            }),
            scope_spans: vec![ScopeSpans {
                scope: Some(Scope { name: "driftq".to_owned(), version: VERSION.to_owned() }),
                spans: spans.map(message).collect(),
            }],
            schema_url: SCHEMA_URL.to_owned(),
        }],
    };
    request.encode_to_vec()
}

fn message(span: Span) -> SpanMessage {
    SpanMessage {
        trace_id: span.context.trace.to_vec(),
        span_id: span.context.span.to_vec(),
        parent_span_id: span.parent.map_or_else(Vec::new, |parent| parent.to_vec()),
        name: span.name,
        kind: span.kind as i32,
        start_time_unix_nano: span.begin,
        end_time_unix_nano: span.end.max(span.begin),
        attributes: span.attributes.into_iter().map(|(name, value)| pair(name, value)).collect(),
        links: span.link.iter().map(link).collect(),
        status: span.error.map(|message| Status { message, code: STATUS_ERROR }),
        flags: FLAG_SAMPLED,
    }
}

fn link(to: &super::context::TraceContext) -> Link {
    Link { trace_id: to.trace.to_vec(), span_id: to.span.to_vec(), flags: u32::from(to.sampled) }
}

fn pair(name: &str, value: Value) -> KeyValue {
    let value = match value {
        Value::Text(text) => OneValue::Text(text),
        Value::Number(number) => OneValue::Number(i64::try_from(number).unwrap_or(i64::MAX)),
    };
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }) }
}
