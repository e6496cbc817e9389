"""How an effect ended, and how the server hears of it: in the commit that acks the message, or in a call of its own."""

from __future__ import annotations

import logging
import time
from typing import Any, Protocol

from ._calls import ANSWER_TIMEOUT_S, Call
from ._json import quoted, written
from .canonical import to_json

log = logging.getLogger("driftq")
OMITTED = "x-driftq-result"
_JSON_HEADERS = {"content-type": "application/json"}
# A larger result is written down at once: the commits of other messages must not wait while it is sent.
RIDES_BYTES_MAX = 64 * 1024
# So is that of a function that took longer: there it costs little, and more would be lost.
PROMPT_S = 1.0
# A finish that comes in the last moment of its lease still has this long for its answer.
ANSWER_MIN_S = 1.0

# Tenant, scope and key.
Name = tuple[str, str, str]


def success(value: Any) -> dict[str, Any]:
    """What is stored. A result that is not JSON must not make the effect run again: it is left out, like one that is
    too large."""
    try:
        body = to_json(value)
        if not body.isascii():
            body.encode()
    except (TypeError, ValueError, RecursionError) as error:
        log.warning("the result of an effect is not kept: %s", error)
        return {"status": "succeeded", "code": 200, "headers": {OMITTED: "omitted"}}
    return {"status": "succeeded", "code": 200, "body": body, "headers": _JSON_HEADERS}


class Ending:
    """One ending, until the server has heard it. It may be sent more than once: the same ending again changes
    nothing."""

    __slots__ = ("_fields", "_lease_ends_at", "_token", "is_heard", "is_riding", "name")

    def __init__(self, name: Name, token: str, fields: dict[str, Any], lease_ends_at: float) -> None:
        self.name = name
        self._token = token
        self._fields = fields
        self._lease_ends_at = lease_ends_at
        self.is_heard = False
        # It is in a commit that is on its way.
        self.is_riding = False

    def omit(self) -> bool:
        """Leaves the result out, which is too large to be kept. False if it has been left out already."""
        if "body" not in self._fields:
            return False
        kept = {name: self._fields[name] for name in ("status", "code")}
        self._fields = kept | {"headers": {OMITTED: "omitted"}}
        return True

    def written(self) -> bytes:
        """As finish and commit take it."""
        if "body" not in self._fields:
            return written({"token": self._token, **self._fields})
        # As `success` has it.
        return (
            f'{{"token":{quoted(self._token)},"status":"succeeded","code":200,"body":{quoted(self._fields["body"])},'
            '"headers":{"content-type":"application/json"}}'
        ).encode()

    def size(self) -> int:
        """About how large its result is."""
        return len(self._fields.get("body", ""))

    def finish_call(self) -> Call:
        """Repeated until it is heard or the effect's lease is over."""
        left_s = max(0.0, self._lease_ends_at - time.monotonic())
        answer_s = min(ANSWER_TIMEOUT_S, max(left_s, ANSWER_MIN_S))
        return Call("POST", "/v2/effects/finish", self.written(), patience_s=left_s, answer_timeout_s=answer_s)


class Endings(Protocol):
    """Where the endings of a delivery's effects go."""

    def _take_ending(self, ending: Ending) -> bool:
        """Takes it over: the message is not acked without it. False if it must be said now."""
        ...

    def _unheard_ending(self, name: Name) -> Ending | None:
        """The ending of this effect, if it was taken over and has not been heard."""
        ...
