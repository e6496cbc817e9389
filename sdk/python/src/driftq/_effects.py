"""The effect, step by step, without any network in it.

Nearly every effect asks one question, runs, and leaves its ending to the commit: for that there are plain methods,
`opening`, `begun` and `end`. Whatever else is to be done is a generator. It yields what it needs, a question, a `Call`
or `Reconcile`, and is sent the answer or thrown the error. The clients for threads and for asyncio drive the same flow,
so that each rule stands here once.
"""

from __future__ import annotations

import base64
import json
import logging
import random
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from . import errors
from ._calls import Call, random_hex
from ._endings import OMITTED, PROMPT_S, RIDES_BYTES_MAX, Ending, Endings, Name, success
from ._findings import NOT_DONE, UNKNOWN, Failed, Succeeded
from ._functions import is_awaitable, not_awaited
from ._json import expected, quoted
from ._lineage import anchor as message_anchor, run_anchor
from ._signal import Signal
from ._wire import clipped, text_of
from .canonical import SCALARS, derived_key, request_hash
from .outcomes import Dead, Final, NotDone, NotSent, Retry, Snooze

log = logging.getLogger("driftq")

OnLapse = Literal["hold", "retry"]
EFFECT_LEASE_MS = 60_000
WAIT_S = 30.0
# A wait at the server is cut into pieces, so that a handler that is told to stop does not go on waiting.
WAIT_PIECE_MS = 5_000
# A server that does not wait as long as it was asked to is asked again after this, or sooner if it says so.
PAUSE_MAX_MS = 1_000
PAUSE_MIN_MS = 10
# A server that does not hear by then that a lease is given up sees it lapse.
GIVEN_UP_WITHIN_S = 5.0
# A reconciler's answer can race with other callers: how often it is asked in one call.
RECONCILE_ROUNDS_MAX = 3
# The server's answers to a caller that is not the newest holder.
STALE = (errors.StaleLease, errors.LeaseUnknown)
_MISSING: Any = object()


@dataclass(frozen=True, slots=True)
class Reconcile:
    """The driver is to ask the callback about this record."""

    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """The driver is to wait."""

    seconds: float


# Bytes are the question who carries the effect out. The driver sends it together with others that are asked now.
Step = Call | bytes | Reconcile | Pause
Steps = Generator[Step, Any, None]


@dataclass(slots=True)
class Anchor:
    """Where an effect runs: for a delivery, in a run, or on its own."""

    owner: str
    tenant_id: str | None = None
    run_id: str | None = None
    step_id: str | None = None
    # The delivery, and the lease that it is known by.
    item: Mapping[str, Any] | None = None
    lease_token: str | None = None
    # Fires if the handler that runs the effect is to stop.
    cancelled: Signal | None = None
    # Where endings go that need not be sent at once.
    endings: Endings | None = None

    def key_parts(self) -> list[Any] | None:
        """What derived keys depend on; None if there is nothing."""
        if self.item is not None:
            return message_anchor(self.item)
        return None if self.run_id is None else run_anchor(self.run_id, self.step_id)


class Terms:
    """What was asked for. What most effects never set is not stored for each of them."""

    key: str | None = None
    arguments: Any = _MISSING
    on_lapse: OnLapse = "hold"
    lease_ms: int = EFFECT_LEASE_MS
    ttl_ms: int | None = None
    max_attempts: int | None = None
    wait: float = WAIT_S
    tenant_id: str | None = None
    can_reconcile: bool = False
    durable: bool = False
    expect: Mapping[str, int] | None = None

    def __init__(self, scope: str, read_result: Callable[[str | bytes], Any] = json.loads) -> None:
        self.scope = scope
        self.read_result = read_result


@dataclass(slots=True)
class Lease:
    """The right to carry the effect out, while it is being carried out."""

    token: str
    epoch: int
    attempt: int
    lease_ms: int
    # Until when the lease is sure to last, by this machine's monotonic clock.
    ends_at: float
    begun_at: float

    def renewed(self, asked_at: float) -> None:
        self.ends_at = asked_at + self.lease_ms / 1000

    def renew_call(self) -> Call:
        body = {"token": self.token, "lease_ms": self.lease_ms}
        return Call("POST", "/v2/effects/renew", body, patience_s=self.renew_every_s())

    def renew_every_s(self) -> float:
        return self.lease_ms / 3000


class EffectFlow:
    """One effect. `lease` is set if the function is to run; else, and when how it ended is known, `value` is the
    result."""

    __slots__ = ("_asked_at", "_name", "_wait_until", "anchor", "key", "lease", "tenant_id", "terms", "value")

    def __init__(self, terms: Terms, anchor: Anchor) -> None:
        self.terms = terms
        self.anchor = anchor
        self.tenant_id = terms.tenant_id if terms.tenant_id is not None else anchor.tenant_id
        self.key = terms.key if terms.key is not None else self._derived()
        self._name: Name = (self.tenant_id or "", terms.scope, self.key)
        self._asked_at = self._wait_until = 0.0
        self.lease: Lease | None = None
        self.value: Any = None

    def _derived(self) -> str:
        parts = self.anchor.key_parts()
        if parts is None:
            raise errors.NoContext(
                f"the effect {self.terms.scope!r} has no key: give one, or run it in a handler "
                "or within `with client.run(run_id, step=…)`"
            )
        arguments = None if self.terms.arguments is _MISSING else self.terms.arguments
        return derived_key(parts, arguments)

    def opening(self) -> bytes | None:
        """The first question; None if something else is to be done before: then `steps` begins."""
        self._wait_until = time.monotonic() + self.terms.wait
        endings = self.anchor.endings
        if endings is not None and endings._unheard_ending(self._name) is not None:
            return None
        return self._asked()

    def begun(self, answer: dict[str, Any]) -> bool:
        """Whether the function is to run, or has run: if neither, `steps` goes on with the answer."""
        decision = answer["decision"]
        if decision == "execute":
            self.lease = self._lease(answer)
            return True
        if decision == "replay":
            self.value = self._replay(answer["outcome"])
            return True
        return False

    def steps(self, answer: dict[str, Any] | None = None) -> Steps:
        """Asks until the function is to run, or there is a result. `answer`: what `opening` was answered."""
        if answer is None:
            endings = self.anchor.endings
            unheard = None if endings is None else endings._unheard_ending(self._name)
            if unheard is not None:
                # This very effect has ended in this delivery, and the server has not heard of it.
                yield from self._say(unheard)
            answer = yield from self._ask()
        wait_ms = rounds = 0
        while not self.begun(answer):
            decision = answer["decision"]
            if decision == "retryable":
                reason = answer["outcome"].get("error") or "it failed as often as it may"
                raise self._error(errors.EffectExhausted, reason, answer)
            if decision == "in_progress":
                pause_s = self._pause_s(answer, self._asked_at + wait_ms / 1000)
                if pause_s > 0:
                    yield Pause(pause_s)
                wait_ms = max(1, int(min((self._wait_until - time.monotonic()) * 1000, WAIT_PIECE_MS)))
            else:
                rounds += 1
                if not self.terms.can_reconcile or rounds > RECONCILE_ROUNDS_MAX:
                    raise self._error(errors.EffectUncertain, "it may have happened: find out, and resolve it", answer)
                yield from self._reconcile(answer)
            answer = yield from self._ask(wait_ms)

    def _ask(self, wait_ms: int = 0) -> Generator[Step, Any, dict[str, Any]]:
        """Only questions that do not wait go together: no caller is to wait for another caller's effect."""
        question = self._asked(wait_ms)
        try:
            answer: dict[str, Any] = yield question if wait_ms == 0 else _begin_waiting(question, wait_ms)
        except errors.Refused as refused:
            raise self.refused(refused)
        return answer

    def _asked(self, wait_ms: int = 0) -> bytes:
        cancelled = self.anchor.cancelled
        if cancelled is not None:
            cancelled.check()
        self._asked_at = time.monotonic()
        return self._question(wait_ms)

    def refused(self, error: errors.Refused) -> Exception:
        """What it means for the caller that the effect was not begun."""
        meaning: Exception
        if isinstance(error, STALE):
            meaning = self._lost("somebody else has the message: the effect was not begun")
        elif isinstance(error, errors.AttemptsExhausted):
            meaning = self._error(errors.EffectExhausted, text_of(error), None)
        else:
            return error
        meaning.__cause__ = error
        return meaning

    def _pause_s(self, begun: dict[str, Any], asked_until: float) -> float:
        """How long to wait here before the server is asked again: not at all if it has waited as long as it was asked
        to. Raises if the whole wait is over."""
        now = time.monotonic()
        left_s = self._wait_until - now
        if left_s <= 0.0:
            raise self._error(errors.EffectBusy, "somebody else is at it", begun)
        if now >= asked_until:
            return 0.0
        hint_ms = min(max(begun.get("retry_after_ms") or PAUSE_MAX_MS, PAUSE_MIN_MS), PAUSE_MAX_MS)
        return min(hint_ms / 1000 * random.uniform(0.5, 1.0), left_s)

    def _question(self, wait_ms: int) -> bytes:
        terms, anchor = self.terms, self.anchor
        text = (
            f'{{"scope":{quoted(terms.scope)},"key":{quoted(self.key)},"on_lapse":"{terms.on_lapse}",'
            f'"lease_ms":{terms.lease_ms:d},"reacquire":true,"request_id":"{random_hex(16)}"'
        )
        if self.tenant_id:
            text += f',"tenant_id":{quoted(self.tenant_id)}'
        if anchor.owner:
            text += f',"owner":{quoted(anchor.owner)}'
        if terms.ttl_ms is not None:
            text += f',"ttl_ms":{terms.ttl_ms:d}'
        if terms.max_attempts is not None:
            text += f',"max_attempts":{terms.max_attempts:d}'
        if terms.arguments is not _MISSING:
            text += f',"request_hash":"{request_hash(terms.arguments)}"'
        if anchor.lease_token is not None:
            text += f',"lease_token":{quoted(anchor.lease_token)}'
        else:
            if anchor.run_id is not None:
                text += f',"run_id":{quoted(anchor.run_id)}'
            if anchor.step_id is not None:
                text += f',"step_id":{quoted(anchor.step_id)}'
        if terms.expect:
            text += f',"expect":{expected(terms.expect)}'
        if wait_ms:
            text += f',"wait_ms":{wait_ms}'
        return (text + "}").encode()

    def _identity(self) -> dict[str, Any]:
        identity = {"scope": self.terms.scope, "key": self.key}
        if self.tenant_id:
            identity["tenant_id"] = self.tenant_id
        return identity

    def _lease(self, begun: dict[str, Any]) -> Lease:
        lease, lease_ms = begun["lease"], self.terms.lease_ms
        ends_at = self._asked_at + lease_ms / 1000
        return Lease(lease["token"], lease["epoch"], lease["attempt"], lease_ms, ends_at, time.monotonic())

    def end(self, value: Any = None, error: BaseException | None = None) -> Steps | None:
        """The function has ended. What is to be done to write it down; None if the commit does so: then `value` is set
        already."""
        if error is None and is_awaitable(value):
            error = not_awaited(value)
        if error is not None:
            return self._end_failed(error)
        fields = success(value)
        ending = self._ending(fields)
        endings = self.anchor.endings
        if endings is None or not self._may_ride(ending) or not endings._take_ending(ending):
            return self._end_said(value, fields, ending)
        self.value = self._read_back(value, fields)
        return None

    def _end_said(self, value: Any, fields: dict[str, Any], ending: Ending) -> Steps:
        yield from self._say(ending)
        self.value = self._read_back(value, fields)

    def _end_failed(self, error: BaseException) -> Steps:
        try:
            raise error
        except BaseException:
            yield from self._failed(error)
            raise

    def _read_back(self, value: Any, fields: dict[str, Any]) -> Any:
        if "body" not in fields or (self.terms.read_result is json.loads and type(value) in SCALARS):
            return value  # Reading it back would give the same.
        return self._read(fields)

    def _may_ride(self, ending: Ending) -> bool:
        is_prompt = time.monotonic() - self._held().begun_at <= PROMPT_S
        return is_prompt and not self.terms.durable and ending.size() <= RIDES_BYTES_MAX

    def _failed(self, error: BaseException) -> Generator[Step, Any, None]:
        """Records what is known about an error of the function."""
        text = clipped(text_of(error) or type(error).__name__)
        if isinstance(error, (Final, Dead)):
            yield from self._say_failure({"status": "failed_final", "error": text})
            if isinstance(error, Final):
                raise self._error(errors.EffectFailed, error.reason, None) from error
        elif isinstance(error, NotSent):
            yield from self._give_up({})
        elif isinstance(error, (Retry, Snooze, NotDone)) or (self.terms.on_lapse == "retry" and isinstance(error, Exception)):
            yield from self._say_failure({"status": "failed_retryable", "error": text})
        elif isinstance(error, Exception):
            # It may have happened: the next caller is told so at once, and not only when the lease is over.
            yield from self._give_up({"uncertain": True})

    def _say_failure(self, fields: dict[str, Any]) -> Generator[Step, Any, None]:
        """What cannot be recorded is found out by the next caller; what the function said matters more."""
        try:
            yield self._ending(fields).finish_call()
        except errors.DriftQError as unheard:
            log.warning("%s/%s: how it failed could not be written down: %s", self.terms.scope, self.key, unheard)

    def _give_up(self, fields: dict[str, Any]) -> Generator[Step, Any, None]:
        """Gives up the lease, so that the next caller need not wait for its end."""
        body = {"token": self._held().token, **fields}
        try:
            yield Call("POST", "/v2/effects/release", body, patience_s=0.0, answer_timeout_s=GIVEN_UP_WITHIN_S)
        except errors.DriftQError as unheard:
            log.info("%s/%s: its lease was not given up, and lapses: %s", self.terms.scope, self.key, unheard)

    def _ending(self, fields: dict[str, Any]) -> Ending:
        lease = self._held()
        return Ending(self._name, lease.token, fields, lease.ends_at)

    def _say(self, ending: Ending) -> Generator[Step, Any, None]:
        """Repeated until the server has heard it, or the effect's lease is over: then it is not known here whether it
        has."""
        try:
            try:
                yield ending.finish_call()
            except (errors.ResultTooLarge, errors.BodyTooLarge):
                if not ending.omit():
                    raise
                yield ending.finish_call()
            ending.is_heard = True
        except STALE as stale:
            ending.is_heard = True  # It is of no use to say it again.
            # Only the newest holder may say how it went: what an overtaken one knows is for people to find out.
            why = "the effect was overtaken before its outcome could be written down"
            if self.anchor.lease_token is None:
                raise self._error(errors.EffectUncertain, why, None) from stale
            raise self._lost(f"{self.terms.scope}/{self.key}: {why}") from stale
        except errors.DriftQError as unheard:
            if not isinstance(unheard, errors.NotDriftQ) and not unheard.retryable:
                raise
            why = "it happened here, and the server did not hear of it in time"
            raise self._error(errors.EffectUncertain, why, None) from unheard

    def _reconcile(self, begun: dict[str, Any]) -> Generator[Step, Any, None]:
        """Asks the callback, and writes its answer down."""
        record = yield Call("POST", "/v2/effects/get", self._identity(), expects=("epoch",))
        if record["epoch"] != begun["epoch"] or record["state"] not in ("unknown", "in_progress"):
            return  # Another caller was quicker: the next begin says what came of it.
        found = yield Reconcile(record)
        if isinstance(found, Succeeded):
            if is_awaitable(found.value):
                raise not_awaited(found.value)
            ending = success(found.value)
        elif isinstance(found, Failed):
            ending = {"status": "failed_final", "error": clipped(text_of(found.reason))}
        elif found is NOT_DONE:
            self._check_attempts(record)
            ending = {"status": "failed_retryable"}
        elif found is UNKNOWN:
            raise self._error(errors.EffectUncertain, "it may have happened, and the reconciler cannot tell", begun)
        else:
            raise TypeError(
                f"reconcile answered {found!r}: it must be driftq.Succeeded(value), driftq.Failed(reason), "
                "driftq.NOT_DONE or driftq.UNKNOWN"
            )
        said = {"by": self.anchor.owner or "sdk", "why": "said by the reconcile callback", "epoch": record["epoch"]}
        try:
            yield Call("POST", "/v2/effects/resolve", self._identity() | ending | said)
        except (errors.StaleLease, errors.EffectRunning, errors.EffectFinished, errors.EffectUnknown):
            return  # Another caller was quicker: the next begin says what came of it.

    def _check_attempts(self, record: dict[str, Any]) -> None:
        """Written down, "it did not happen" would grant one more attempt beyond the cap. That is for people to grant."""
        caps = [cap for cap in (record.get("max_attempts"), self.terms.max_attempts) if cap is not None]
        if caps and record["attempt"] >= max(caps):
            reason = "it did not happen, and was tried as often as it may: resolve it to grant another attempt"
            raise self._error(errors.EffectExhausted, reason, record)

    def _replay(self, outcome: dict[str, Any]) -> Any:
        if outcome["status"] != "succeeded":
            raise self._error(errors.EffectFailed, outcome.get("error") or "it failed for good", outcome)
        if (outcome.get("headers") or {}).get(OMITTED) == "omitted":
            raise self._error(errors.ResultNotKept, "it happened, and its result was not kept", outcome)
        if outcome.get("body_b64") is not None:
            return base64.b64decode(outcome["body_b64"])
        return None if outcome.get("body") is None else self._read(outcome)

    def _read(self, outcome: dict[str, Any]) -> Any:
        try:
            return self.terms.read_result(outcome["body"])
        except Exception as error:
            reason = f"it happened, and its result is not what was expected ({error})"
            raise self._error(errors.ResultNotKept, reason, outcome) from error

    def _lost(self, text: str) -> errors.LeaseLost:
        lost = errors.LeaseLost(text)
        lost.lease_token = self.anchor.lease_token
        return lost

    def _held(self) -> Lease:
        assert self.lease is not None, "only a lease runs an effect"
        return self.lease

    def _error(self, kind: type[errors.EffectError], reason: str, record: dict[str, Any] | None) -> errors.EffectError:
        return kind(self.terms.scope, self.key, reason, record, tenant_id=self.tenant_id)


def _begin_waiting(question: bytes, wait_ms: int) -> Call:
    return Call("POST", "/v2/effects/begin", question, expects=("decision",), wait_ms=wait_ms)
