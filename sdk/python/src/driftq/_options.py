"""The options of an effect, as effect, guard and decorator take them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypedDict

from ._effects import OnLapse, Terms
from ._findings import Reconciled
from ._functions import result_reader
from ._payloads import parser
from ._seconds import Seconds, in_seconds

Reconciler = Callable[[dict[str, Any]], Reconciled | Awaitable[Reconciled]]


class GuardOptions(TypedDict, total=False):
    """`arguments`: what is asked for, where it is not what the function is called with. `on_lapse`: `hold` or `retry`.
    `reconcile`: called when the server does not know whether it happened. `result`: the type of the result, if it is
    not what the function is annotated to return. `wait`: seconds to wait for another holder that is carrying it out.
    `expect`: versions of entities, by name; it is begun only if the entities have them, and each is then raised by one.
    `durable`: in a handler, returns only when the outcome is stored, and does not leave that to the commit."""

    arguments: Any
    on_lapse: OnLapse
    lease_ms: int
    ttl_ms: int | None
    max_attempts: int | None
    wait: Seconds
    reconcile: Reconciler | None
    result: Any
    tenant_id: str | None
    durable: bool
    expect: Mapping[str, int] | None


class EffectOptions(GuardOptions, total=False):
    """`key`: what names the effect; derived from the arguments if not given."""

    key: str | None


_AS_THEY_ARE = frozenset({"key", "on_lapse", "lease_ms", "ttl_ms", "max_attempts", "tenant_id", "durable", "expect"})
_KNOWN = EffectOptions.__required_keys__ | EffectOptions.__optional_keys__


class Unset:
    """Stands for arguments that were not given; None is an argument."""


def check_known(options: Mapping[str, Any]) -> None:
    if not options.keys() <= _KNOWN:
        unknown = options.keys() - _KNOWN
        raise TypeError(f"an effect has no option {', '.join(sorted(unknown))}")


def terms_of(
    scope: str, options: EffectOptions, arguments: Any, function: Callable[..., Any] | None = None
) -> Terms:
    """Checks the options, and turns them into terms."""
    result = options.get("result")
    terms = Terms(scope, result_reader(function) if result is None else parser(result))
    for name, value in options.items():
        if name in _AS_THEY_ARE:
            if value is not None:
                setattr(terms, name, value)
        elif name not in _KNOWN:
            check_known(options)
    if terms.on_lapse not in ("hold", "retry"):
        raise ValueError(f"on_lapse is {terms.on_lapse!r}: it must be 'hold' or 'retry'")
    if "wait" in options:
        terms.wait = in_seconds(options["wait"], "wait", may_be_endless=True)
    if options.get("reconcile") is not None:
        terms.can_reconcile = True
    if "arguments" in options:
        terms.arguments = options["arguments"]
    elif arguments is not Unset:
        terms.arguments = arguments
    return terms
