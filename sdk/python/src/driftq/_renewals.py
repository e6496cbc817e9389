"""Keeps the leases of effects while their functions run, with threads and with tasks."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from ._calls import Call
from ._effects import Lease
from .errors import DriftQError, Refused

log = logging.getLogger("driftq")


class Renewals:
    """One thread per client, begun with its first effect. It sleeps until a lease is a third through."""

    def __init__(self, call: Callable[[Call], Any]) -> None:
        self._call = call
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Lease]] = []
        self._kept: dict[int, Lease] = {}
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._closed = False
        # When the thread wakes up by itself. Waking it for every effect would cost more than the effect's calls.
        self._wakes_at = 0.0

    def keep(self, lease: Lease) -> int:
        with self._changed:
            number = next(self._numbers)
            self._kept[number] = lease
            at = time.monotonic() + lease.renew_every_s()
            heapq.heappush(self._due, (at, number, lease))
            if self._thread is None:
                self._thread = threading.Thread(target=self._renew, name="driftq-renewals", daemon=True)
                self._thread.start()
            elif at < self._wakes_at:
                self._changed.notify()
            return number

    def drop(self, number: int) -> None:
        with self._changed:
            self._kept.pop(number, None)
            if len(self._due) > 2 * len(self._kept) + 64:
                self._due = [entry for entry in self._due if entry[1] in self._kept]
                heapq.heapify(self._due)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _renew(self) -> None:
        while (entry := self._next()) is not None:
            number, lease = entry
            asked_at = time.monotonic()
            every_s = lease.renew_every_s()
            try:
                self._call(lease.renew_call())
                lease.renewed(asked_at)
            except Refused as error:
                if not error.retryable:
                    log.warning("an effect was overtaken while it ran: %s", error)
                    self.drop(number)
            except DriftQError as error:
                log.warning("an effect's lease could not be renewed: %s", error)
            with self._changed:
                if number in self._kept:
                    heapq.heappush(self._due, (time.monotonic() + every_s, number, lease))

    def _next(self) -> tuple[int, Lease] | None:
        with self._changed:
            while not self._closed:
                while self._due and self._due[0][1] not in self._kept:
                    heapq.heappop(self._due)
                if not self._due:
                    self._wakes_at = float("inf")
                    self._changed.wait()
                    continue
                self._wakes_at = self._due[0][0]
                wait_s = self._wakes_at - time.monotonic()
                if wait_s <= 0:
                    _, number, lease = heapq.heappop(self._due)
                    self._wakes_at = 0.0
                    return number, lease
                self._changed.wait(wait_s)
            return None


class AsyncRenewals:
    """With tasks: one timer per client. Most effects are over long before it fires, and cost an entry in a dict."""

    def __init__(self, call: Callable[[Call], Awaitable[Any]]) -> None:
        self._call = call
        self._kept: dict[int, tuple[float, Lease]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    def keep(self, lease: Lease) -> int:
        number = next(self._numbers)
        self._keep(number, lease)
        return number

    def drop(self, number: int) -> None:
        self._kept.pop(number, None)
        task = self._tasks.pop(number, None)
        if task is not None:
            task.cancel()

    def _keep(self, number: int, lease: Lease) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + lease.renew_every_s()
        self._kept[number] = at, lease
        if self._timer is None or at < self._timer.when():
            self._set_timer(loop, at)

    def _set_timer(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(at, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for number, (at, lease) in list(self._kept.items()):
            if at <= now:
                del self._kept[number]
                self._tasks[number] = asyncio.ensure_future(self._renew(number, lease))
        if self._kept:
            self._set_timer(loop, min(at for at, _ in self._kept.values()))

    async def _renew(self, number: int, lease: Lease) -> None:
        asked_at = time.monotonic()
        try:
            await self._call(lease.renew_call())
            lease.renewed(asked_at)
        except Refused as error:
            if not error.retryable:
                log.warning("an effect was overtaken while it ran: %s", error)
                return
        except DriftQError as error:
            log.warning("an effect's lease could not be renewed: %s", error)
        del self._tasks[number]
        self._keep(number, lease)
