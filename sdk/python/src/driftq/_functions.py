"""What a function says about itself: whether it is to be awaited, and what it answers."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import json
import typing
from collections.abc import Callable
from typing import Any

from ._payloads import Raw, as_type


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine: it was written with `async def`, or is an object whose call was."""
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def refuse_awaitable(value: Any) -> None:
    """What is still to be awaited has not happened."""
    if not inspect.isawaitable(value):
        return
    if inspect.iscoroutine(value):
        value.close()  # Nobody awaits it, and nobody needs to be told so.
    raise TypeError(
        f"an effect answered a {type(value).__name__} that nobody awaits, so that nobody knows whether it happened: "
        "use an AsyncClient, or an `async def` handler, and await the effect"
    )


def result_reader(function: Callable[..., Any] | None) -> Callable[[Raw], Any]:
    """How a stored result becomes what the function is annotated to return; plain JSON where it says nothing."""
    kind = None if function is None else _return_type(function)
    if kind is None:
        return json.loads

    def read(raw: Raw) -> Any:
        value = json.loads(raw)
        try:
            return as_type(kind, value)
        except Exception:
            return value  # The annotation says more than the function keeps.

    return read


def _return_type(function: Callable[..., Any]) -> Any:
    """Only that annotation is looked at: one of the parameters may be for type checkers alone."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = getattr(function, "__call__", function)
    try:
        function = inspect.unwrap(function)
        kind = getattr(function, "__annotations__", {}).get("return")
        if isinstance(kind, str):
            kind = eval(kind, getattr(function, "__globals__", {}))
    except Exception:
        return None
    if typing.get_origin(kind) in (collections.abc.Awaitable, collections.abc.Coroutine):
        kind = typing.get_args(kind)[-1]
    return kind
