"""Words of the wire: messages, what is settled how, effects."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

from ._calls import Call, random_id, segment
from ._seconds import Seconds, in_seconds
from ._spans import inject
from .canonical import to_json

LEASES_MAX = 1_000
ERROR_BYTES_MAX = 4_096
OWNER_BYTES_MAX = 255
DELAY_MS_MAX = 316_224_000_000


def clipped(text: str, bytes_max: int = ERROR_BYTES_MAX) -> str:
    """As much of the text as the server takes."""
    raw = text.encode("utf-8", "replace")
    return raw.decode() if len(raw) <= bytes_max else raw[:bytes_max].decode("utf-8", "ignore")


def text_of(error: object) -> str:
    """The error's text. Whatever its own code raises, the error must still be reported."""
    try:
        return str(error)
    except BaseException:
        return ""


def described(error: object) -> str:
    """The error's name and text."""
    name, text = type(error).__name__, text_of(error)
    return f"{name}: {text}" if text else name


def milliseconds(seconds: float) -> int:
    return min(max(0, round(seconds * 1000)), DELAY_MS_MAX)


def moment(value: datetime | str) -> str:
    """A time as RFC 3339."""
    if isinstance(value, str):
        return value
    if value.tzinfo is None:
        raise ValueError("a time needs a time zone: use datetime.now(timezone.utc)")
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def read_moment(text: str) -> datetime:
    """A time of the server. Its fraction has up to nine digits, of which Python keeps six."""
    whole, dot, rest = text.partition(".")
    if dot:
        digits = len(rest) - len(rest.lstrip("0123456789"))
        rest = f"{rest[:digits][:6]:0<6}{rest[digits:]}"
    return datetime.fromisoformat(f"{whole}{dot}{rest}".upper().replace("Z", "+00:00"))


def seconds_until(text: str) -> float:
    return (read_moment(text) - datetime.now(UTC)).total_seconds()


class RawText:
    """A text that is sent as it is."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


# Payloads that go as they are.
NOT_JSON = (RawText, bytes, bytearray, memoryview)


def raw(payload: str | bytes) -> RawText | bytes:
    """A payload that is sent as it is, and not as JSON: `client.send("notes", driftq.raw("no quotes around this"))`."""
    if isinstance(payload, str):
        return RawText(payload)
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return bytes(payload)
    raise TypeError(f"raw takes a text or bytes, not {type(payload).__name__}")


class MessageOptions(TypedDict, total=False):
    """What a message may carry beside its payload. `delay` in seconds; `deadline` as a time or from now on."""

    key: str | None
    priority: int | None
    delay: Seconds | None
    deliver_at: datetime | str | None
    idempotency_key: str | None
    request_hash: str | None
    run_id: str | None
    step_id: str | None
    parent_step_id: str | None
    tenant_id: str | None
    labels: Mapping[str, str] | None
    deadline: datetime | timedelta | str | None
    retry_policy: Mapping[str, Any] | None
    target_topic: str | None
    partition: int | None


_PLAIN_ENVELOPE = frozenset(
    {"idempotency_key", "request_hash", "run_id", "step_id", "parent_step_id", "tenant_id", "target_topic"}
)


def wire_message(payload: Any, options: MessageOptions) -> dict[str, Any]:
    """A message as the server takes it. Bytes and `raw` texts go as they are, everything else as JSON."""
    if not options.keys() <= MessageOptions.__optional_keys__:
        unknown = options.keys() - MessageOptions.__optional_keys__
        raise TypeError(f"a message has no option {', '.join(sorted(unknown))}")
    if not isinstance(payload, NOT_JSON):
        body: dict[str, Any] = {"value": to_json(payload)}
    elif isinstance(payload, RawText):
        body = {"value": payload.text}
    else:
        body = {"value_b64": base64.b64encode(payload).decode()}
    if options:
        if options.get("idempotency_key") is not None and options.get("request_hash") is None:
            options = {**options, "request_hash": payload_hash(body)}
        _add_envelope(body, options)
        _add_time(body, options)
        for name in ("key", "priority"):
            if options.get(name) is not None:
                body[name] = options.get(name)
    return body


def payload_hash(body: Mapping[str, Any]) -> str:
    """What is asked for under a key: another payload under the same one is refused, not taken for a repeat."""
    raw = base64.b64decode(body["value_b64"]) if "value_b64" in body else body["value"].encode()
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"


def _add_envelope(body: dict[str, Any], options: MessageOptions) -> None:
    envelope: dict[str, Any] = {}
    for name, value in options.items():
        if value is not None and name in _PLAIN_ENVELOPE:
            envelope[name] = value
    if labels := options.get("labels"):
        envelope["labels"] = dict(labels)
    if retry_policy := options.get("retry_policy"):
        envelope["retry_policy"] = dict(retry_policy)
    deadline = options.get("deadline")
    if deadline is not None:
        envelope["deadline"] = moment(datetime.now(UTC) + deadline if isinstance(deadline, timedelta) else deadline)
    if options.get("partition") is not None:
        envelope["partition_override"] = options["partition"]
    if envelope:
        body["envelope"] = envelope


def _add_time(body: dict[str, Any], options: MessageOptions) -> None:
    delay, deliver_at = options.get("delay"), options.get("deliver_at")
    if delay is not None:
        body["delay_ms"] = milliseconds(in_seconds(delay, "delay"))
    if deliver_at is not None:
        body["deliver_at"] = moment(deliver_at)


def keyed_message(payload: Any, options: MessageOptions) -> dict[str, Any]:
    """A message to produce: with an idempotency key of its own if it was given none, so that a repeat is safe; and with
    the current trace."""
    body = wire_message(payload, options)
    inject(body)
    if options.get("idempotency_key") is not None:
        return body
    body.setdefault("envelope", {})["idempotency_key"] = random_id("sdk-")
    return body


@dataclass(frozen=True, slots=True)
class Produced:
    """Where a message is stored."""

    topic: str
    partition: int
    offset: int
    duplicate: bool = False

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> Produced:
        return cls(answer["topic"], answer["partition"], answer["offset"], answer["duplicate"])


def lease_call(topic: str, group: str, owner: str, count: int, lease_ms: int, wait_ms: int) -> Call:
    body = {
        "owner": owner,
        "max": min(count, LEASES_MAX),
        "lease_ms": lease_ms,
        "wait_ms": wait_ms,
        "request_id": random_id(""),
    }
    path = f"/v2/topics/{segment(topic)}/groups/{segment(group)}/lease"
    return Call("POST", path, body, expects=("messages",), wait_ms=wait_ms)


def settle_call(verb: str, leases: Sequence[dict[str, Any]]) -> Call:
    return Call("POST", f"/v2/leases/{verb}", {"leases": list(leases)}, expects=("results",))


def produce_call(topic: str, messages: Any) -> Call:
    return Call("POST", f"/v2/topics/{segment(topic)}/messages", messages)

