//! Trace contexts, as W3C's `traceparent` writes them.

use crate::context::Context;
use crate::error::Error;
use crate::random;

/// The label that carries it.
pub(crate) const LABEL: &str = "traceparent";

/// Where a handler stands in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// 32 hexadecimal digits.
    pub trace_id: String,
    /// The sender's span, if the message came with a trace.
    pub parent_span_id: Option<String>,
    /// The handler's own span: 16 hexadecimal digits.
    pub span_id: String,
    /// As they came; `00` for a trace that begins here, because nothing has asked for its spans.
    pub flags: String,
}

impl Trace {
    /// Goes on with the trace of a message, or begins one.
    pub(crate) fn of(traceparent: Option<&str>) -> Result<Self, Error> {
        let span_id = random::name(8)?;
        Ok(match traceparent.and_then(parse) {
            Some((trace_id, parent, flags)) => Self {
                trace_id: trace_id.to_owned(),
                parent_span_id: Some(parent.to_owned()),
                span_id,
                flags: flags.to_owned(),
            },
            None => {
                Self { trace_id: random::name(16)?, parent_span_id: None, span_id, flags: "00".to_owned() }
            }
        })
    }

    /// For what the handler sends: its own span is the sender's.
    #[must_use]
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-{}", self.trace_id, self.span_id, self.flags)
    }
}

/// The span of a handler that is called for these deliveries, in the words of OpenTelemetry. Whoever turns it into one
/// links it to `producer`, makes it a child of `delivery`, the server's span, if there is one, and gives it `span_id`,
/// which what the handler sends names as its producer.
pub(crate) fn handler_span(topic: &str, called: &[Context]) -> tracing::Span {
    let alone = if let [context] = called { Some(context) } else { None };
    let producer = alone.and_then(|context| context.labels().find(|(name, _)| *name == LABEL));
    tracing::info_span!(
        "process",
        otel.name = format!("process {topic}"),
        otel.kind = "consumer",
        messaging.system = "driftq",
        messaging.operation.name = "process",
        messaging.destination.name = topic,
        messaging.batch.message_count = called.len(),
        driftq.attempt = alone.map(Context::attempt),
        trace_id = alone.map(|context| &*context.trace().trace_id),
        span_id = alone.map(|context| &*context.trace().span_id),
        producer = producer.map(|(_, traceparent)| traceparent),
        delivery = alone.and_then(|context| context.message().lease.as_ref()?.traceparent.as_deref()),
    )
}

/// The span of an effect's function.
pub(crate) fn effect_span(scope: &str, attempt: u32) -> tracing::Span {
    tracing::info_span!(
        "effect",
        otel.name = format!("effect {scope}"),
        driftq.effect.scope = scope,
        driftq.attempt = attempt,
    )
}

/// Trace, span and flags of a `traceparent`; `None` if it is not a valid one.
fn parse(text: &str) -> Option<(&str, &str, &str)> {
    let mut parts = text.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |part: &str, digits: usize| {
        part.len() == digits && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_zero = |part: &str| part.bytes().all(|byte| byte == b'0');
    let fits = is_hex(version, 2) && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2);
    // A newer version may say more after the flags; this one may not.
    let ends = parts.next().is_none() || version != "00";
    (fits && ends && version != "ff" && !is_zero(trace) && !is_zero(span)).then_some((trace, span, flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_trace_goes_on_with_a_span_of_its_own() {
        let trace = Trace::of(Some(GIVEN)).unwrap();
        assert_eq!(trace.parent_span_id.as_deref(), Some("b7ad6b7169203331"));
        let next = trace.traceparent();
        assert!(next.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && next.ends_with("-01"), "{next}");
        assert_ne!(next, GIVEN);
        assert_eq!(Trace::of(Some(&next)).unwrap().parent_span_id, Some(trace.span_id));
    }

    #[test]
    fn what_is_no_trace_begins_one() {
        let long = format!("{GIVEN}-more");
        let zero = GIVEN.replace("b7ad6b7169203331", "0000000000000000");
        for text in
            [None, Some(""), Some("00-xyz"), Some(&*long), Some(&*zero), Some(&GIVEN.to_uppercase()[..])]
        {
            let trace = Trace::of(text).unwrap();
            assert!(trace.parent_span_id.is_none() && parse(&trace.traceparent()).is_some(), "{text:?}");
        }
    }
}
