"""Which run, step and trace a message belongs to, and what its follow-ups inherit."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ._wire import MessageOptions

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
TRACEPARENT = "traceparent"


@dataclass(frozen=True, slots=True)
class Trace:
    """The trace of a message: its id, the sender's span (none if it begins here), and the handler's own."""

    trace_id: str
    parent_span_id: str | None
    span_id: str
    flags: str = "01"

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> Trace:
        """From the label of the message; a message without a trace begins one."""
        found = _TRACEPARENT.fullmatch(labels.get(TRACEPARENT, ""))
        span_id = secrets.token_hex(8)
        if found and found[1].strip("0") and found[2].strip("0"):
            return cls(found[1], found[2], span_id, found[3])
        return cls(secrets.token_hex(16), None, span_id)

    @property
    def traceparent(self) -> str:
        """The label that a message caused by this handler carries."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"


def follow_up(
    envelope: Mapping[str, Any], trace: Trace, topic: str, options: MessageOptions
) -> MessageOptions:
    """The options of a message that this one causes: its own where given, else the causing one's."""
    inherited = {
        "run_id": envelope.get("run_id"),
        "tenant_id": envelope.get("tenant_id"),
        "parent_step_id": envelope.get("step_id"),
        "step_id": topic,
    }
    given = {name: value for name, value in options.items() if value is not None}
    labels = {TRACEPARENT: trace.traceparent, **(options.get("labels") or {})}
    return cast("MessageOptions", inherited | given | {"labels": labels})


def anchor(item: Mapping[str, Any]) -> list[Any]:
    """Where a derived key of an effect is at home."""
    envelope = item.get("envelope") or {}
    if envelope.get("run_id"):
        return run_anchor(envelope["run_id"], envelope.get("step_id"))
    if envelope.get("idempotency_key"):
        return ["message", item["topic"], envelope["idempotency_key"]]
    return ["message", item["topic"], item["partition"], item["offset"]]


def run_anchor(run_id: str, step_id: str | None) -> list[Any]:
    return ["run", run_id, step_id or ""]
