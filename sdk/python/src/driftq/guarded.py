"""The decorator: a function becomes an effect that is keyed by its arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, Unpack, cast

from ._current import current
from ._functions import bound_arguments, is_async, without_self
from ._guards import AsyncEffects, Effects
from ._options import EffectOptions, GuardOptions, check_known
from .errors import NoContext

Function = TypeVar("Function", bound=Callable[..., Any])


def guarded(
    scope: str, *, key: str | Callable[..., str] | None = None, **options: Unpack[GuardOptions]
) -> Callable[[Function], Function]:
    """Turns a function into an effect, within the handler or the run that it is called in.

    Without a `key` the arguments are the key, by name; a callable `key` gets the arguments of the call. Called outside
    of a handler and of a run it raises `NoContext`: it never runs unguarded.
    """

    check_known(options)

    def decorate(function: Function) -> Function:
        is_task = is_async(function)

        def prepared(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, EffectOptions]:
            context = _context(scope, function, AsyncEffects if is_task else Effects)
            given = cast("EffectOptions", dict(options))
            if "arguments" not in given:
                given["arguments"] = without_self(bound_arguments(function, args, kwargs), function)
            if key is not None:
                given["key"] = key(*args, **kwargs) if callable(key) else key
            return context, given

        if is_task:

            @functools.wraps(function)
            async def call_async(*args: Any, **kwargs: Any) -> Any:
                context, given = prepared(args, kwargs)
                return await context.effect(scope, functools.partial(function, *args, **kwargs), **given)

            return call_async  # type: ignore[return-value]

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            context, given = prepared(args, kwargs)
            return context.effect(scope, functools.partial(function, *args, **kwargs), **given)

        return call  # type: ignore[return-value]

    return decorate


def _context(scope: str, function: Callable[..., Any], kind: type[Any]) -> Any:
    context = current()
    name = getattr(function, "__qualname__", repr(function))
    if context is None:
        raise NoContext(
            f"{name} is guarded as {scope!r} and was called outside of a handler and of a run: "
            "call it in a handler, or within `with client.run(run_id, step=…)`"
        )
    if not isinstance(context, kind):
        how = "a coroutine function, and this is a handler in a thread" if kind is AsyncEffects else (
            "a plain function, and this is a task: it would block the event loop"
        )
        raise NoContext(f"{name} is {how}: make both of the same kind")
    return context
