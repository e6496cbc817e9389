"""A worker whose spans go where its application wants them: here, a line of JSON for each on standard output."""

import json
import sys
import time
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

import driftq


def line(span: ReadableSpan) -> str:
    parent = span.parent and f"{span.parent.span_id:016x}"
    own = span.get_span_context()
    assert own is not None
    ids = {"trace": f"{own.trace_id:032x}", "id": f"{own.span_id:016x}", "parent": parent}
    return json.dumps({"name": span.name, "begin": span.start_time, "end": span.end_time, **ids}) + "\n"


provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=sys.stdout, formatter=line)))
trace.set_tracer_provider(provider)

worker = driftq.Worker(driftq.Client(), "post")


def mail() -> str:
    time.sleep(0.04)
    return "sent"


@worker.handler("mails")
def handle(order: Any, ctx: driftq.Context) -> None:
    ctx.effect("mail", mail)


if __name__ == "__main__":
    worker.run()
