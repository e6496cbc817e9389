"""What becomes of a message when its handler has ended: the one place for that rule."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Literal

from . import errors
from ._payloads import BadPayload
from ._wire import clipped, described, milliseconds, text_of
from .outcomes import Dead, Outcome, Retry, Snooze

Verb = Literal["ack", "nack", "release", "commit", "drop"]
# A message that waits for an effect comes when the effect has ended or is free; and after this time in any case.
BUSY_DELAY_MS = 30_000
UNCERTAIN_DELAY_MS = 300_000


@dataclass(frozen=True, slots=True)
class Settlement:
    """A verb, and what it says beside the token. `drop` says nothing: the message is not this worker's any more."""

    verb: Verb
    fields: dict[str, Any]


ACK = Settlement("ack", {})
RELEASE = Settlement("release", {})
DROP = Settlement("drop", {})
COMMIT = Settlement("commit", {})


def nack(error: str, delay_ms: int | None = None) -> Settlement:
    fields: dict[str, Any] = {"error": clipped(error)}
    if delay_ms is not None:
        fields["delay_ms"] = delay_ms
    return Settlement("nack", fields)


def dead(reason: str) -> Settlement:
    return Settlement("nack", {"error": clipped(reason), "dead": True})


def wait_for(error: errors.EffectError, delay_ms: int) -> Settlement:
    """Waiting is not failing: the attempt does not count."""
    effect = {"scope": error.scope, "key": error.key}
    if error.tenant_id:
        effect["tenant_id"] = error.tenant_id
    return Settlement("release", {"delay_ms": delay_ms, "effect": effect})


def settlement_of(error: BaseException, *, retry_bad_payload: bool = False, is_own: bool = True) -> Settlement:
    """What an error of a handler means for its message. In a batch it may be about another message: `is_own=False`."""
    if not is_own:
        return nack(described(error))
    match error:
        case Retry():
            return nack(error.reason, None if error.after is None else milliseconds(error.after))
        case Dead():
            return dead(error.reason)
        case Snooze():
            return Settlement("release", {"delay_ms": milliseconds(error.seconds)})
        case errors.EffectBusy():
            return wait_for(error, BUSY_DELAY_MS if error.retry_after_ms is None else error.retry_after_ms)
        case errors.EffectUncertain():
            return wait_for(error, UNCERTAIN_DELAY_MS)
        case errors.EffectFailed() | errors.EffectExhausted() | errors.KeyReused():
            return dead(described(error))
        case BadPayload():
            return nack(text_of(error)) if retry_bad_payload else dead(text_of(error))
        case errors.LeaseLost():
            return DROP
        case errors.Cancelled():
            # Cancelled, it comes to no worker again; if the worker stops, it does. Either way giving it back ends the
            # loan at once.
            return RELEASE
        case errors.DeadlinePassed():
            return dead(described(error))
        case _:
            return nack(described(error))


def level_of(error: BaseException, settlement: Settlement) -> int:
    """A warning is what an operator should look at: a dead letter, and an error that the handler did not mean."""
    is_meant = isinstance(error, (Outcome, errors.LeaseLost, errors.Cancelled, errors.EffectBusy))
    return logging.INFO if is_meant and not settlement.fields.get("dead") else logging.WARNING
