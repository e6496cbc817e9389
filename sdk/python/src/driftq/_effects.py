"""The effect, step by step, without any network in it.

The flow is a generator. It yields what it needs, a `Call` or `RUN` or `Reconcile`, and is sent the answer or thrown
the error. The clients for threads and for asyncio drive the same flow, so that each rule stands here once.
"""

from __future__ import annotations

import base64
import inspect
import json
import logging
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Literal

from . import errors
from ._calls import PATIENCE_S, Call, random_id
from ._functions import refuse_awaitable
from ._wire import clipped, text_of
from .canonical import derived_key, request_hash, to_json
from .outcomes import Dead, Final, NotDone, Retry, Snooze

log = logging.getLogger("driftq")

OnLapse = Literal["hold", "retry"]
EFFECT_LEASE_MS = 60_000
WAIT_S = 30.0
# A wait at the server is cut into pieces, so that a handler that is told to stop does not wait on.
WAIT_PIECE_MS = 5_000
ANSWERED_AT_ONCE_S = 0.05
WAIT_HERE_S = 0.25
# Between the lapse of a lease and the next attempt lies a moment; a reconciler's answer can race with others.
RECONCILE_ROUNDS_MAX = 8
OMITTED = "x-driftq-result"
_MISSING: Any = object()


@dataclass(frozen=True, slots=True)
class Succeeded:
    """A reconciler's answer: it happened, and this is its result."""

    value: Any = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A reconciler's answer: it did not happen, and is not to be tried again."""

    reason: str


class _Word:
    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


NOT_DONE = _Word("driftq.NOT_DONE")
UNKNOWN = _Word("driftq.UNKNOWN")
RUN = _Word("run the function")
Reconciled = Succeeded | Failed | _Word


@dataclass(frozen=True, slots=True)
class Reconcile:
    """The driver is to ask the callback about this record."""

    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """The driver is to wait."""

    seconds: float


Step = Call | Reconcile | Pause | _Word


@dataclass(slots=True)
class Anchor:
    """Where an effect runs: for a delivery, in a run, or on its own."""

    anchor: list[Any] | None = None
    lease_token: str | None = None
    run_id: str | None = None
    step_id: str | None = None
    tenant_id: str | None = None
    owner: str = ""
    # Raises if whoever runs the effect is to stop.
    check: Callable[[], None] = lambda: None


@dataclass(slots=True)
class Terms:
    """What was asked for."""

    scope: str
    key: str | None = None
    arguments: Any = field(default=_MISSING)
    on_lapse: OnLapse = "hold"
    lease_ms: int = EFFECT_LEASE_MS
    ttl_ms: int | None = None
    max_attempts: int | None = None
    wait: float = WAIT_S
    tenant_id: str | None = None
    can_reconcile: bool = False
    read_result: Callable[[str | bytes], Any] = json.loads


@dataclass(slots=True)
class Lease:
    """The right to carry the effect out, while it is being carried out."""

    token: str
    epoch: int
    lease_ms: int
    # The lease is over then, by this machine's monotonic clock.
    ends_at: float

    def renewed(self, asked_at: float) -> None:
        self.ends_at = asked_at + self.lease_ms / 1000

    def renew_call(self) -> Call:
        body = {"token": self.token, "lease_ms": self.lease_ms}
        return Call("POST", "/v2/effects/renew", body, patience_s=self.renew_every_s())

    def renew_every_s(self) -> float:
        return self.lease_ms / 3000


def bound_arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The arguments by their names, defaults included; a list where the function has no names to show."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except ValueError:
        if kwargs:
            raise TypeError("the function hides its parameters: give `arguments` for its keywords") from None
        return list(args)
    bound.apply_defaults()
    return dict(bound.arguments)


def without_self(arguments: Any, function: Callable[..., Any]) -> Any:
    """A method's object is not part of what is asked for."""
    if isinstance(arguments, dict):
        first = next(iter(inspect.signature(function).parameters), None)
        if first in ("self", "cls"):
            return {name: value for name, value in arguments.items() if name != first}
    return arguments


class EffectFlow:
    """One effect: `steps()` is the flow; `lease` is set while the function runs."""

    def __init__(self, terms: Terms, anchor: Anchor) -> None:
        self.terms = terms
        self.anchor = anchor
        self.tenant_id = terms.tenant_id if terms.tenant_id is not None else anchor.tenant_id
        self.key = terms.key if terms.key is not None else self._derived()
        self.lease: Lease | None = None
        # Whether the result came out of the ledger.
        self.replayed = False

    def _derived(self) -> str:
        if self.anchor.anchor is None:
            raise errors.NoContext(
                f"the effect {self.terms.scope!r} has no key: give one, or run it in a handler "
                "or within `with client.run(run_id, step=…)`"
            )
        arguments = None if self.terms.arguments is _MISSING else self.terms.arguments
        return derived_key(self.anchor.anchor, arguments)

    def steps(self) -> Generator[Step, Any, Any]:
        """Begins, runs or replays, and answers the result."""
        wait_until = time.monotonic() + self.terms.wait
        rounds = 0
        while True:
            self.anchor.check()
            asked_at = time.monotonic()
            try:
                begun = yield self._begin(wait_until)
            except (errors.StaleLease, errors.LeaseUnknown) as stale:
                raise self._lost("somebody else has the message: the effect was not begun") from stale
            decision = begun["decision"]
            if decision == "execute":
                self.lease = self._lease(begun, asked_at)
                return (yield from self._execute())
            if decision == "replay":
                return self._replay(begun["outcome"])
            if decision == "retryable":
                reason = begun["outcome"].get("error") or "it failed as often as it may"
                raise self._error(errors.EffectExhausted, reason, begun)
            if decision == "in_progress":
                if time.monotonic() >= wait_until:
                    raise self._error(errors.EffectBusy, "somebody else is at it", begun)
                if time.monotonic() - asked_at < ANSWERED_AT_ONCE_S:
                    # Too many wait at the server already; this one waits here.
                    yield Pause(min(WAIT_HERE_S, max(0.0, wait_until - time.monotonic())))
                continue
            rounds += 1
            if not self.terms.can_reconcile or rounds > RECONCILE_ROUNDS_MAX:
                raise self._error(errors.EffectUncertain, "it may have happened: find out, and resolve it", begun)
            yield from self._reconcile(begun)

    def _begin(self, wait_until: float) -> Call:
        terms, anchor = self.terms, self.anchor
        wait_ms = int(max(0.0, wait_until - time.monotonic()) * 1000)
        body: dict[str, Any] = self._identity() | {
            "on_lapse": terms.on_lapse,
            "lease_ms": terms.lease_ms,
            "reacquire": True,
            "wait_ms": min(wait_ms, WAIT_PIECE_MS),
            "request_id": random_id(""),
        }
        optional = {
            "ttl_ms": terms.ttl_ms,
            "max_attempts": terms.max_attempts,
            "lease_token": anchor.lease_token,
            "owner": anchor.owner or None,
            "run_id": anchor.run_id if anchor.lease_token is None else None,
            "step_id": anchor.step_id if anchor.lease_token is None else None,
            "request_hash": None if terms.arguments is _MISSING else request_hash(terms.arguments),
        }
        body |= {name: value for name, value in optional.items() if value is not None}
        return Call("POST", "/v2/effects/begin", body, expects=("decision",), wait_ms=body["wait_ms"])

    def _identity(self) -> dict[str, Any]:
        identity = {"scope": self.terms.scope, "key": self.key}
        return identity | {"tenant_id": self.tenant_id} if self.tenant_id else identity

    def _lease(self, begun: dict[str, Any], asked_at: float) -> Lease:
        lease = begun["lease"]
        ends_at = asked_at + self.terms.lease_ms / 1000
        return Lease(lease["token"], lease["epoch"], self.terms.lease_ms, ends_at)

    def _execute(self) -> Generator[Step, Any, Any]:
        try:
            value = yield RUN
            refuse_awaitable(value)
        except BaseException as error:
            yield from self._failed(error)
            raise
        ending = _success(value)
        yield from self._finish(ending)
        return self._read(ending) if "body" in ending else value

    def _failed(self, error: BaseException) -> Generator[Step, Any, None]:
        """Records what is known about an error of the function."""
        text = clipped(text_of(error) or type(error).__name__)
        if isinstance(error, (Final, Dead)):
            yield from self._finish({"status": "failed_final", "error": text})
            if isinstance(error, Final):
                raise self._error(errors.EffectFailed, error.reason, None) from error
        elif isinstance(error, (Retry, Snooze, NotDone)) or (self.terms.on_lapse == "retry" and isinstance(error, Exception)):
            yield from self._finish({"status": "failed_retryable", "error": text})

    def _finish(self, ending: dict[str, Any]) -> Generator[Step, Any, None]:
        """Repeated until it is heard, or the effect's lease is over."""
        lease = self._held()
        left_s = max(PATIENCE_S, lease.ends_at - time.monotonic())
        call = Call("POST", "/v2/effects/finish", {"token": lease.token, **ending}, patience_s=left_s)
        try:
            yield call
        except (errors.ResultTooLarge, errors.BodyTooLarge):
            omitted = {"status": ending["status"], "headers": {OMITTED: "omitted"}}
            if "code" in ending:
                omitted["code"] = ending["code"]
            yield Call("POST", "/v2/effects/finish", {"token": lease.token, **omitted}, patience_s=left_s)
        except (errors.StaleLease, errors.LeaseUnknown) as stale:
            yield from self._resolve_late(ending, lease)
            raise self._lost(
                f"{self.terms.scope}/{self.key}: the effect was overtaken before its outcome could be written down"
            ) from stale

    def _resolve_late(self, ending: dict[str, Any], lease: Lease) -> Generator[Step, Any, None]:
        """An overtaken worker cannot finish, but it knows how it went: it says so if nobody else has begun."""
        said = {"by": self.anchor.owner or "sdk", "why": "said by its holder, which had been overtaken"}
        body = self._identity() | ending | said | {"epoch": lease.epoch}
        try:
            yield Call("POST", "/v2/effects/resolve", body, patience_s=0.0)
        except errors.DriftQError as error:
            log.info("%s/%s: not resolved: %s", self.terms.scope, self.key, error)

    def _reconcile(self, begun: dict[str, Any]) -> Generator[Step, Any, None]:
        """Asks the callback, and writes its answer down."""
        record = yield Call("POST", "/v2/effects/get", self._identity(), expects=("epoch",))
        if record["epoch"] != begun["epoch"] or record["state"] not in ("unknown", "in_progress"):
            return  # Somebody was quicker: begin tells.
        found = yield Reconcile(record)
        if isinstance(found, Succeeded):
            refuse_awaitable(found.value)
            ending = _success(found.value)
        elif isinstance(found, Failed):
            ending = {"status": "failed_final", "error": clipped(text_of(found.reason))}
        elif found is NOT_DONE:
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
        except (errors.StaleLease, errors.EffectRunning, errors.EffectFinished):
            return  # Somebody was quicker: begin tells.

    def _replay(self, outcome: dict[str, Any]) -> Any:
        self.replayed = True
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
        return kind(self.terms.scope, self.key, reason, record)


def _success(value: Any) -> dict[str, Any]:
    """What is stored. A result that is not JSON must not make the effect run again: it is left out, like one that is
    too large."""
    ending: dict[str, Any] = {"status": "succeeded", "code": 200}
    try:
        body = to_json(value)
        body.encode()
    except (TypeError, ValueError, RecursionError) as error:
        log.warning("the result of an effect is not kept: %s", error)
        return ending | {"headers": {OMITTED: "omitted"}}
    return ending | {"body": body, "headers": {"content-type": "application/json"}}
