"""Which handler or run the code that is running belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
variable: ContextVar[Any] = ContextVar("driftq_current", default=None)


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
