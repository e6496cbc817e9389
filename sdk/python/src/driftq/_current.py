"""Which handler or run the code that is running belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import NoContext

if TYPE_CHECKING:
    from ._effects import EffectFlow

T = TypeVar("T")
variable: ContextVar[Any] = ContextVar("driftq_current", default=None)
# The flow of the effect that is being carried out.
effect_variable: ContextVar["EffectFlow | None"] = ContextVar("driftq_current_effect", default=None)


@dataclass(slots=True)
class CurrentEffect:
    """The effect that is being carried out. Pass its `key` on to the service that the effect calls, where there is a
    field for it: then both ends recognise a repeat. `attempt` counts the times that it was begun."""

    scope: str
    key: str
    attempt: int


def current_effect() -> CurrentEffect:
    """The effect that this code carries out: for functions of `effect(…)`, guarded functions, and `guard` blocks."""
    flow = effect_variable.get()
    if flow is None or flow.lease is None:
        raise NoContext("current_effect() was called outside of an effect's function")
    return CurrentEffect(flow.terms.scope, flow.key, flow.lease.attempt)


def current() -> Any:
    """The context of the handler, or the run, that this code runs in; None outside of both."""
    return variable.get()


@contextmanager
def within(context: T) -> Iterator[T]:
    token = variable.set(context)
    try:
        yield context
    finally:
        variable.reset(token)
