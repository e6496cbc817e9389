"""What a function says about itself: whether it is to be awaited, and what it answers."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import json
import types
import typing
from collections.abc import Callable
from typing import Any

from ._payloads import Raw, as_type
from .canonical import SCALARS


_NEVER_AWAITABLE = SCALARS | {dict, list, tuple}


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine: it was written with `async def`, or is an object whose call was."""
    if type(function) is types.FunctionType and not function.__dict__:
        return bool(function.__code__.co_flags & inspect.CO_COROUTINE)  # Most are so, and this is asked for each effect.
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def is_awaitable(value: Any) -> bool:
    # Checking all the ways to be awaitable takes a while, and most results are plain data.
    return type(value) not in _NEVER_AWAITABLE and inspect.isawaitable(value)


def not_awaited(value: Any) -> TypeError:
    """The error for an awaitable as a result: what is still to be awaited has not happened."""
    if inspect.iscoroutine(value):
        value.close()  # No code awaits it, and Python is not to warn of that.
    return TypeError(
        f"an effect answered a {type(value).__name__} that nobody awaits, so that nobody knows whether it happened: "
        "use an AsyncClient, or an `async def` handler, and await the effect"
    )


def check_takes(function: Callable[..., Any], what: str, *parameters: str) -> None:
    """Raises if the function cannot be called with these arguments: here, and not with the first message."""
    if not callable(function):
        raise TypeError(f"{what} is a function, not {function!r}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # It hides its parameters.
    try:
        signature.bind(*parameters)
    except TypeError as error:
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(f"{what} is called as {name}({', '.join(parameters)}), which does not fit: {error}") from None


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


def result_reader(function: Callable[..., Any] | None) -> Callable[[Raw], Any]:
    """How a stored result becomes what the function is annotated to return; plain JSON where it says nothing."""
    # Most functions are lambdas and say nothing.
    is_mute = type(function) is types.FunctionType and not function.__annotations__ and not function.__dict__
    kind = None if function is None or is_mute else _return_type(function)
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
