"""Drives the flow of an effect: with threads, and with asyncio. All rules are in the flow."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from ._calls import Call
from ._effects import RUN, EffectFlow, Pause, Reconcile
from ._options import Reconciler

if TYPE_CHECKING:
    from .async_client import AsyncClient
    from .client import Client


class Drive:
    """Takes the flow from one run of the function to the next; `done` once there is a result."""

    def __init__(self, flow: EffectFlow, client: Client, reconcile: Reconciler | None) -> None:
        self.flow = flow
        self._steps = flow.steps()
        self._client = client
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
                if isinstance(step, bytes):
                    value = self._client.begins.begin(step)
                elif isinstance(step, Call):
                    value = self._client.call(step)
                elif isinstance(step, Reconcile) and self._reconcile is not None:
                    value = self._reconcile(step.record)
                elif isinstance(step, Pause):
                    time.sleep(step.seconds)
            except BaseException as raised:
                error = raised


class AsyncDrive:
    """The same with asyncio."""

    def __init__(self, flow: EffectFlow, client: AsyncClient, reconcile: Reconciler | None) -> None:
        self.flow = flow
        self._steps = flow.steps()
        self._client = client
        self._reconcile = reconcile
        self.done = False
        self.value: Any = None

    def advance(self) -> Awaitable[bool]:
        """True if there is a result, False if the function is to run; raises what the effect ends with."""
        return self._go_on(self._next(None, None))

    async def _go_on(self, step: Any) -> bool:
        while step is not None and step is not RUN:
            value: Any = None
            error: BaseException | None = None
            try:
                if isinstance(step, bytes):
                    value = await self._client.begins.begin(step)
                elif isinstance(step, Call):
                    value = await self._client.call(step)
                elif isinstance(step, Reconcile) and self._reconcile is not None:
                    value = self._reconcile(step.record)
                    if inspect.isawaitable(value):
                        value = await value
                elif isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
            except BaseException as raised:
                error = raised
            step = self._next(value, error)
        return self.done

    def _next(self, value: Any, error: BaseException | None) -> Any:
        """The next step; None if there is none."""
        try:
            return self._steps.send(value) if error is None else self._steps.throw(error)
        except StopIteration as end:
            self.done, self.value = True, end.value
            return None

    def end(self, value: Any = None, error: BaseException | None = None) -> Awaitable[None] | None:
        """Writes down how the function ended. None if that was taken over: there is nothing to wait for."""
        step = self._next(value, error)
        return None if step is None else self._write_down(step)

    async def _write_down(self, step: Any) -> None:
        """A cancellation does not stop it: what happened must be known."""
        ending = asyncio.ensure_future(self._go_on(step))
        cancelled: asyncio.CancelledError | None = None
        while not ending.done():
            try:
                await asyncio.wait([ending])
            except asyncio.CancelledError as raised:
                cancelled = raised
        if cancelled is not None:
            if not ending.cancelled():
                ending.exception()  # Retrieved, so that asyncio does not log that it never was.
            raise cancelled
        ending.result()
