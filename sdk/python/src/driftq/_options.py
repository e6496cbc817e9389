"""The options of an effect, as effect, guard and decorator take them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypedDict

from ._effects import EFFECT_LEASE_MS, WAIT_S, OnLapse, Reconciled, Terms
from ._functions import result_reader
from ._payloads import parser
from ._seconds import Seconds, in_seconds

Reconciler = Callable[[dict[str, Any]], Reconciled | Awaitable[Reconciled]]


class GuardOptions(TypedDict, total=False):
    """`arguments`: what is asked for, where it is not what the function is called with. `on_lapse`: `hold` or `retry`.
    `reconcile`: asked when nobody knows whether it happened. `result`: the type of the result, if it is not what the
    function is annotated to return. `wait`: seconds to wait for somebody else who is at it."""

    arguments: Any
    on_lapse: OnLapse
    lease_ms: int
    ttl_ms: int | None
    max_attempts: int | None
    wait: Seconds
    reconcile: Reconciler | None
    result: Any
    tenant_id: str | None


class EffectOptions(GuardOptions, total=False):
    """`key`: what names the effect; derived from the arguments if not given."""

    key: str | None


class Unset:
    """Stands for arguments that were not given; None is an argument."""


def terms_of(
    scope: str, options: EffectOptions, arguments: Any, function: Callable[..., Any] | None = None
) -> Terms:
    """Checks the options, and turns them into terms."""
    unknown = options.keys() - (EffectOptions.__required_keys__ | EffectOptions.__optional_keys__)
    if unknown:
        raise TypeError(f"an effect has no option {', '.join(sorted(unknown))}")
    on_lapse = options.get("on_lapse", "hold")
    if on_lapse not in ("hold", "retry"):
        raise ValueError(f"on_lapse is {on_lapse!r}: it must be 'hold' or 'retry'")
    result = options.get("result")
    terms = Terms(
        scope=scope,
        key=options.get("key"),
        on_lapse=on_lapse,
        lease_ms=options.get("lease_ms", EFFECT_LEASE_MS),
        ttl_ms=options.get("ttl_ms"),
        max_attempts=options.get("max_attempts"),
        wait=in_seconds(options.get("wait", WAIT_S), "wait", may_be_endless=True),
        tenant_id=options.get("tenant_id"),
        can_reconcile=options.get("reconcile") is not None,
        read_result=result_reader(function) if result is None else parser(result),
    )
    if "arguments" in options:
        terms.arguments = options["arguments"]
    elif arguments is not Unset:
        terms.arguments = arguments
    return terms
