"""The calls of a client, as data. The clients for threads and for asyncio only send them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from . import errors
from ._calls import Call, segment
from ._seconds import Seconds, in_seconds
from ._wire import MessageOptions, Produced, keyed_message, produce_call


def create_topic(topic: str, settings: Mapping[str, Any]) -> Call:
    return Call("PUT", f"/v2/topics/{segment(topic)}", dict(settings), expects=("name",))


def topic(name: str) -> Call:
    return Call("GET", f"/v2/topics/{segment(name)}", expects=("name",))


def delete_topic(name: str) -> Call:
    return Call("DELETE", f"/v2/topics/{segment(name)}?{urlencode({'confirm': name})}")


def group(topic: str, name: str) -> Call:
    return Call("GET", f"/v2/topics/{segment(topic)}/groups/{segment(name)}", expects=("lag",))


def cancel(topic: str, partition: int, offset: int) -> Call:
    return Call("DELETE", f"/v2/topics/{segment(topic)}/messages/{partition}/{offset}", expects=("cancelled",))


def credential(token: str, audience: str, ttl: Seconds | None) -> Call:
    body: dict[str, Any] = {"token": token, "audience": audience}
    if ttl is not None:
        body["ttl_ms"] = round(in_seconds(ttl, "ttl") * 1000)
    return Call("POST", "/v2/leases/credential", body, expects=("credential", "expires_at"))


def introspect(credential: str) -> Call:
    return Call("POST", "/v2/introspect", {"token": credential}, expects=("active",))


def effects(scope: str | None, state: str | None, tenant_id: str | None, cursor: str | None) -> Call:
    wanted = {"scope": scope, "state": state, "tenant_id": tenant_id, "cursor": cursor}
    return Call("GET", f"/v2/effects{_query(wanted)}", expects=("effects",))


def messages(topic: str, cursor: str | None, filters: Mapping[str, Any]) -> Call:
    query = _query({**filters, "cursor": cursor})
    return Call("GET", f"/v2/topics/{segment(topic)}/messages{query}", expects=("messages",))


def dead_letters(topic: str, cursor: str | None) -> Call:
    return Call("GET", f"/v2/dlq/{segment(topic)}{_query({'cursor': cursor})}", expects=("letters",))


def send(topic: str, payload: Any, options: MessageOptions) -> Call:
    call = produce_call(topic, keyed_message(payload, options))
    call.expects = ("offset",)
    return call


def send_many(topic: str, payloads: Iterable[Any], options: MessageOptions) -> Call:
    return produce_call(topic, [keyed_message(payload, options) for payload in payloads])


def produced(answers: Sequence[Mapping[str, Any]]) -> list[Produced | errors.Refused]:
    """One result per message."""
    return [
        errors.refusal(answer["error"]) if "error" in answer else Produced.read(answer) for answer in answers
    ]


def _query(wanted: Mapping[str, Any]) -> str:
    given = {name: value for name, value in wanted.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""
