"""Spans of handlers and effects, made by the real OpenTelemetry."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import driftq
from driftq import _spans
from driftq.testing import Server, run_until_idle

pytest.importorskip("opentelemetry.sdk")
from opentelemetry import trace  # noqa: E402
from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402

EXPORTER = InMemorySpanExporter()


@pytest.fixture
def client(shared: Server) -> Iterator[driftq.Client]:
    with shared.client() as client:
        yield client


@pytest.fixture
def topic(client: driftq.Client, request: pytest.FixtureRequest) -> str:
    client.create_topic(request.node.name)
    return str(request.node.name)


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
        trace.set_tracer_provider(provider)
    EXPORTER.clear()
    yield EXPORTER


def _named(spans: InMemorySpanExporter, name: str) -> Any:
    (found,) = [span for span in spans.get_finished_spans() if span.name == name]
    return found


def test_a_handler_is_linked_to_its_producer_and_an_effect_is_part_of_it(
    client: driftq.Client, topic: str, spans: InMemorySpanExporter
) -> None:
    client.create_topic(f"{topic}-out")
    worker = driftq.Worker(client, "g")

    @worker.handler(topic)
    def handle(payload: Any, context: driftq.Context) -> None:
        context.effect("mail", lambda: 1, key="k")
        context.send(f"{topic}-out", payload)

    with trace.get_tracer("test").start_as_current_span("checkout") as checkout:
        client.send(topic, {"n": 1})
    run_until_idle(worker)
    (stored,) = client.messages(f"{topic}-out")
    producer = checkout.get_span_context()
    handler, effect = _named(spans, f"process {topic}"), _named(spans, "effect mail")
    assert handler.kind is trace.SpanKind.CONSUMER
    assert handler.parent is None
    (link,) = handler.links
    assert (link.context.trace_id, link.context.span_id) == (producer.trace_id, producer.span_id)
    assert effect.parent.span_id == handler.context.span_id
    assert effect.context.trace_id == handler.context.trace_id
    own = handler.context
    inherited = f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}"
    assert stored["envelope"]["labels"]["traceparent"] == inherited
    assert handler.attributes["messaging.destination.name"] == topic


def test_a_handler_is_part_of_the_delivery_that_the_server_traces(spans: InMemorySpanExporter) -> None:
    item = {
        "topic": "t",
        "partition": 0,
        "offset": 7,
        "envelope": {"labels": {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}},
        "lease": {"attempt": 1, "traceparent": f"00-{'a' * 32}-{'c' * 16}-01"},
    }
    span = _spans.handling([item], "g")
    assert span is not None
    span.end()
    handler = _named(spans, "process t")
    assert f"{handler.parent.span_id:016x}" == "c" * 16
    assert [f"{link.context.span_id:016x}" for link in handler.links] == ["b" * 16]
    assert f"{handler.context.trace_id:032x}" == "a" * 32


def test_an_error_is_the_span_s_too(client: driftq.Client, topic: str, spans: InMemorySpanExporter) -> None:
    worker = driftq.Worker(client, "g")

    @worker.handler(topic)
    def handle(payload: Any, context: driftq.Context) -> None:
        raise driftq.Dead("no use")

    client.send(topic, 1)
    run_until_idle(worker)
    handler = _named(spans, f"process {topic}")
    assert handler.status.status_code is trace.StatusCode.ERROR
    assert handler.attributes["error.type"] == "Dead"
    assert handler.links == ()


def test_without_opentelemetry_nothing_is_missing() -> None:
    """In a process that cannot import it."""
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from driftq import _spans\n"
        "body = {}\n"
        "_spans.inject(body)\n"
        "item = {'topic': 't', 'partition': 0, 'offset': 0, 'lease': {'attempt': 1}}\n"
        "assert _spans.handling([item], 'g') is None and _spans.carrying_out('s', 1) is None and body == {}\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_worker_may_be_at_work_before_opentelemetry_is_set_up() -> None:
    """In a process that has not set it up yet."""
    program = (
        "from opentelemetry import trace\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "from driftq import _spans\n"
        "before = _spans.carrying_out('s', 1)\n"
        "assert before.trace() is None\n"
        "before.end()\n"
        "trace.set_tracer_provider(TracerProvider())\n"
        "assert _spans.carrying_out('s', 1).trace() is not None\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
