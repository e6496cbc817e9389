"""Drives the flow of an effect: with threads, and with asyncio. All rules are in the flow."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from . import errors
from ._calls import Call
from ._effects import EffectFlow, Pause, Reconcile, Step, Steps
from ._options import Reconciler

if TYPE_CHECKING:
    from .async_client import AsyncClient
    from .client import Client


def begin(flow: EffectFlow, client: Client, reconcile: Reconciler | None) -> None:
    """Until the function is to run, or there is a result; raises what the effect ends with."""
    question, answer = flow.opening(), None
    if question is not None:
        try:
            answer = client.begins.begin(question)
        except errors.Refused as refused:
            raise flow.refused(refused)
        if flow.begun(answer):
            return
    _carry_out(flow.steps(answer), client, reconcile)


def end(flow: EffectFlow, client: Client, value: Any = None, error: BaseException | None = None) -> None:
    """Writes down how the function ended; raises what the effect ends with."""
    steps = flow.end(value, error)
    if steps is not None:
        _carry_out(steps, client, None)


def _carry_out(steps: Steps, client: Client, reconcile: Reconciler | None) -> None:
    step = _next(steps)
    while step is not None:
        value: Any = None
        error: BaseException | None = None
        try:
            if isinstance(step, bytes):
                value = client.begins.begin(step)
            elif isinstance(step, Call):
                value = client.call(step)
            elif isinstance(step, Reconcile) and reconcile is not None:
                value = reconcile(step.record)
            elif isinstance(step, Pause):
                time.sleep(step.seconds)
        except BaseException as raised:
            error = raised
        step = _next(steps, value, error)


def _next(steps: Steps, value: Any = None, error: BaseException | None = None) -> Step | None:
    """The next step; None if there is none."""
    try:
        return steps.send(value) if error is None else steps.throw(error)
    except StopIteration:
        return None


async def begin_async(flow: EffectFlow, client: AsyncClient, reconcile: Reconciler | None) -> None:
    """`begin` with asyncio."""
    question, answer = flow.opening(), None
    if question is not None:
        try:
            answer = await client.begins.begin(question)
        except errors.Refused as refused:
            raise flow.refused(refused)
        if flow.begun(answer):
            return
    steps = flow.steps(answer)
    await _carry_out_async(steps, _next(steps), client, reconcile)


def end_async(
    flow: EffectFlow, client: AsyncClient, value: Any = None, error: BaseException | None = None
) -> Awaitable[None] | None:
    """`end` with asyncio. None if the ending was taken over: there is nothing to wait for."""
    steps = flow.end(value, error)
    if steps is None:
        return None
    step = _next(steps)
    return None if step is None else _write_down(steps, step, client)


async def _write_down(steps: Steps, step: Step, client: AsyncClient) -> None:
    """A cancellation does not stop it: what happened must be known."""
    ending = asyncio.ensure_future(_carry_out_async(steps, step, client, None))
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


async def _carry_out_async(
    steps: Steps, step: Step | None, client: AsyncClient, reconcile: Reconciler | None
) -> None:
    while step is not None:
        value: Any = None
        error: BaseException | None = None
        try:
            if isinstance(step, bytes):
                value = await client.begins.begin(step)
            elif isinstance(step, Call):
                value = await client.call(step)
            elif isinstance(step, Reconcile) and reconcile is not None:
                value = reconcile(step.record)
                if inspect.isawaitable(value):
                    value = await value
            elif isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
        except BaseException as raised:
            error = raised
        step = _next(steps, value, error)
