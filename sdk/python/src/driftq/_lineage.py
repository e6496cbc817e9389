"""Which run, step and trace a message belongs to, and what its follow-ups inherit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ._calls import random_hex
from ._json import quoted

if TYPE_CHECKING:
    from ._wire import MessageOptions

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
TRACEPARENT = "traceparent"


def read_traceparent(text: str) -> tuple[str, str, str] | None:
    """Trace, span and flags; None if it is not a valid one."""
    found = _TRACEPARENT.fullmatch(text)
    return (found[1], found[2], found[3]) if found and found[1].strip("0") and found[2].strip("0") else None


class Trace(NamedTuple):
    """The trace of a message: its id, the sender's span (none if it begins here), and the handler's own."""

    trace_id: str
    parent_span_id: str | None
    span_id: str
    # Whether spans of it are wanted. Where no OpenTelemetry says so, none are.
    flags: str = "00"

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> Trace:
        """From the label of the message; a message without a trace begins one."""
        given = labels.get(TRACEPARENT)
        found = None if given is None else read_traceparent(given)
        if found is not None:
            trace_id, parent_span_id, flags = found
            return cls(trace_id, parent_span_id, random_hex(8), flags)
        both = random_hex(24)
        return cls(both[:32], None, both[32:])

    @property
    def traceparent(self) -> str:
        """The label that a message caused by this handler carries."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"


def follow_up(
    envelope: Mapping[str, Any], trace: Trace, topic: str, options: MessageOptions
) -> MessageOptions:
    """The options of a message that this one causes: its own where given, else the causing one's."""
    inherited: dict[str, Any] = {
        "run_id": envelope.get("run_id"),
        "tenant_id": envelope.get("tenant_id"),
        "parent_step_id": envelope.get("step_id"),
        "step_id": topic,
    }
    labels = {TRACEPARENT: trace.traceparent}
    for name, value in options.items():
        if value is not None:
            inherited[name] = value
    if own := options.get("labels"):
        labels |= own
    inherited["labels"] = labels
    return cast("MessageOptions", inherited)


def plain_follow_up(envelope: Mapping[str, Any], trace: Trace, topic: str, payload: str) -> str:
    """The message of a follow-up without options, as JSON: most are so, and a worker writes one or more per message. It
    is what `follow_up` leads to."""
    inherited = ""
    if (run_id := envelope.get("run_id")) is not None:
        inherited = f'"run_id":{quoted(run_id)},'
    if (tenant_id := envelope.get("tenant_id")) is not None:
        inherited += f'"tenant_id":{quoted(tenant_id)},'
    if (step_id := envelope.get("step_id")) is not None:
        inherited += f'"parent_step_id":{quoted(step_id)},'
    return (
        f'{{"value":{quoted(payload)},"envelope":{{{inherited}"step_id":{quoted(topic)},'
        f'"labels":{{"{TRACEPARENT}":"{trace.traceparent}"}}}}}}'
    )


def anchor(item: Mapping[str, Any]) -> list[Any]:
    """What a derived key of an effect depends on. A message is known by where it was born: redriven or rerouted it has
    another place, and a topic that was made anew has the places of the old one again."""
    envelope = item.get("envelope") or {}
    if envelope.get("run_id"):
        return run_anchor(envelope["run_id"], envelope.get("step_id"))
    # A server that does not say is too old to know where a message was born.
    origin = item.get("origin") or {**item, "incarnation": 0}
    home = ["message", origin["topic"], origin["incarnation"]]
    if envelope.get("idempotency_key"):
        return [*home, envelope["idempotency_key"]]
    return [*home, origin["partition"], origin["offset"]]


def run_anchor(run_id: str, step_id: str | None) -> list[Any]:
    return ["run", run_id, step_id or ""]
