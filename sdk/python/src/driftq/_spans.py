"""Spans of handlers and effects, where the application has OpenTelemetry set up; nothing where it has not.

`opentelemetry-api` is not needed: it is used if it can be imported. What is made here follows the semantic conventions
for messaging: a handler's span has a link to the span of the producer, and is not its child. It is a child of the span of
the delivery, if the server traces the message.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from ._lineage import TRACEPARENT, Trace, read_traceparent

try:
    import opentelemetry.context as _context
    import opentelemetry.trace as _otel
except ImportError:
    _otel = None  # type: ignore[assignment]

Labels = Mapping[str, str]


class OpenSpan:
    """A span that is current until it is ended."""

    __slots__ = ("_mark", "_span")

    def __init__(self, span: Any) -> None:
        self._span = span
        self._mark = _context.attach(_otel.set_span_in_context(span))

    def trace(self) -> Trace | None:
        """What a message carries that is sent from here; None if nothing is recorded."""
        own = self._span.get_span_context()
        if not self._span.is_recording() or not own.is_valid:
            return None
        return Trace(f"{own.trace_id:032x}", None, f"{own.span_id:016x}", f"{own.trace_flags:02x}")

    def end(self, error: BaseException | None = None) -> None:
        if error is not None:
            self._span.set_attribute("error.type", type(error).__qualname__)
            self._span.set_status(_otel.Status(_otel.StatusCode.ERROR, type(error).__name__))
        _context.detach(self._mark)
        self._span.end()


def inject(body: dict[str, Any]) -> None:
    """Gives a message that is produced the current span, unless it has a trace already."""
    if _otel is None:
        return
    current = _otel.get_current_span().get_span_context()
    if not current.is_valid:
        return
    labels = body.setdefault("envelope", {}).setdefault("labels", {})
    labels.setdefault(TRACEPARENT, f"00-{current.trace_id:032x}-{current.span_id:016x}-{current.trace_flags:02x}")


def handling(items: Sequence[Mapping[str, Any]], group: str) -> OpenSpan | None:
    """The span of a handler that is called for these deliveries; None without OpenTelemetry."""
    if _otel is None:
        return None
    # Nothing that an item lacks is worth a handler that is not called.
    topic = str(items[0].get("topic", ""))
    attributes: dict[str, Any] = {
        "messaging.system": "driftq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": topic,
        "messaging.consumer.group.name": group,
    }
    if len(items) == 1:
        item, lease = items[0], items[0].get("lease") or {}
        attributes["messaging.destination.partition.id"] = str(item.get("partition", ""))
        attributes["messaging.message.id"] = f"{item.get('partition', '')}/{item.get('offset', '')}"
        attributes["driftq.attempt"] = lease.get("attempt", 1)
        parent = _remote(lease.get(TRACEPARENT))
    else:
        attributes["messaging.batch.message_count"] = len(items)
        parent = None
    producers = [_remote(((item.get("envelope") or {}).get("labels") or {}).get(TRACEPARENT)) for item in items]
    # A context of its own: what is current where the worker was started is not what caused this.
    around = _context.Context()
    if parent is not None:
        around = _otel.set_span_in_context(_otel.NonRecordingSpan(parent), around)
    span = _tracer().start_span(
        f"process {topic}",
        context=around,
        kind=_otel.SpanKind.CONSUMER,
        attributes=attributes,
        links=[_otel.Link(producer) for producer in producers if producer is not None],
    )
    return OpenSpan(span)


def carrying_out(scope: str, attempt: int) -> OpenSpan | None:
    """The span of an effect's function; None without OpenTelemetry."""
    if _otel is None:
        return None
    attributes = {"driftq.effect.scope": scope, "driftq.attempt": attempt}
    return OpenSpan(_tracer().start_span(f"effect {scope}", attributes=attributes))


@functools.cache
def _tracer() -> Any:
    """One that was made before the application has set OpenTelemetry up goes over to what is set up then."""
    return _otel.get_tracer("driftq")


def _remote(text: str | None) -> Any:
    """The span that a `traceparent` names."""
    found = None if text is None else read_traceparent(text)
    if found is None:
        return None
    trace_id, span_id, flags = found
    return _otel.SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=_otel.TraceFlags(int(flags, 16) & 1)
    )
