"""Drives the flow of an effect: with threads, and with asyncio. All rules are in the flow."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any

from ._calls import Call
from ._effects import RUN, EffectFlow, Pause, Reconcile
from ._options import Reconciler


class Drive:
    """Takes the flow from one run of the function to the next; `done` once there is a result."""

    def __init__(self, flow: EffectFlow, call: Callable[[Call], Any], reconcile: Reconciler | None) -> None:
        self.flow = flow
        self._steps = flow.steps()
        self._call = call
        self._reconcile = reconcile
        self.done = False
        self.value: Any = None

    def advance(self, value: Any = None, error: BaseException | None = None) -> bool:
        """True if there is a result, False if the function is to run; raises what the effect ends with."""
        while True:
            try:
                step = self._steps.send(value) if error is None else self._steps.throw(error)
            except StopIteration as end:
                self.done, self.value = True, end.value
                return True
            if step is RUN:
                return False
            value, error = None, None
            try:
                if isinstance(step, Call):
                    value = self._call(step)
                elif isinstance(step, Reconcile) and self._reconcile is not None:
                    value = self._reconcile(step.record)
                elif isinstance(step, Pause):
                    time.sleep(step.seconds)
            except BaseException as raised:
                error = raised


class AsyncDrive:
    """The same with asyncio."""

    def __init__(
        self, flow: EffectFlow, call: Callable[[Call], Awaitable[Any]], reconcile: Reconciler | None
    ) -> None:
        self.flow = flow
        self._steps = flow.steps()
        self._call = call
        self._reconcile = reconcile
        self.done = False
        self.value: Any = None

    async def advance(self, value: Any = None, error: BaseException | None = None) -> bool:
        while True:
            try:
                step = self._steps.send(value) if error is None else self._steps.throw(error)
            except StopIteration as end:
                self.done, self.value = True, end.value
                return True
            if step is RUN:
                return False
            value, error = None, None
            try:
                if isinstance(step, Call):
                    value = await self._call(step)
                elif isinstance(step, Reconcile) and self._reconcile is not None:
                    value = self._reconcile(step.record)
                    if inspect.isawaitable(value):
                        value = await value
                elif isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
            except BaseException as raised:
                error = raised

    async def end(self, value: Any = None, error: BaseException | None = None) -> None:
        """Writes down how the function ended. A cancellation does not stop it: what happened must be known."""
        ending = asyncio.ensure_future(self.advance(value, error))
        cancelled: asyncio.CancelledError | None = None
        while not ending.done():
            try:
                await asyncio.wait([ending])
            except asyncio.CancelledError as raised:
                cancelled = raised
        if cancelled is not None:
            if not ending.cancelled():
                ending.exception()  # Looked at, so that nobody is told that it was not.
            raise cancelled
        ending.result()
