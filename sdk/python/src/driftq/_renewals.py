"""Keeps the leases of effects while their functions run, with threads and with tasks."""

from __future__ import annotations

import asyncio
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


class _Kept:
    """A lease, and when it is to be renewed."""

    __slots__ = ("at", "lease")

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.at = time.monotonic() + lease.renew_every_s()


class Renewals:
    """One thread per client, begun with its first effect. It sleeps until a lease is a third through. Most effects are
    over long before that, and cost an entry in a dict."""

    def __init__(self, call: Callable[[Call], Any]) -> None:
        self._call = call
        self._changed = threading.Condition()
        # Changed without the lock, by a single step each.
        self._kept: dict[int, _Kept] = {}
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._closed = False
        # A lease that is due before that wakes the thread, which otherwise wakes up by itself.
        self._wakes_at = float("inf")

    def keep(self, lease: Lease) -> int:
        number = next(self._numbers)
        self._kept[number] = kept = _Kept(lease)
        if kept.at < self._wakes_at:
            self._wake()
        return number

    def drop(self, number: int) -> None:
        self._kept.pop(number, None)

    def close(self) -> None:
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        with self._changed:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._renew_all, name="driftq-renewals", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _renew_all(self) -> None:
        while not self._closed:
            now = time.monotonic()
            for number, kept in self._kept.copy().items():
                if kept.at <= now and number in self._kept:
                    self._renew(number, kept)
            with self._changed:
                # Set before looking: a lease that is kept in between sees it, and wakes this thread once it waits.
                self._wakes_at = float("inf")
                wakes_at = min((kept.at for kept in self._kept.copy().values()), default=float("inf"))
                self._wakes_at = wakes_at
                if not self._closed and wakes_at > (now := time.monotonic()):
                    self._changed.wait(None if wakes_at == float("inf") else wakes_at - now)

    def _renew(self, number: int, kept: _Kept) -> None:
        asked_at = time.monotonic()
        lease = kept.lease
        try:
            self._call(lease.renew_call())
            lease.renewed(asked_at)
        except Refused as error:
            if not error.retryable:
                log.warning("an effect was overtaken while it ran: %s", error)
                self.drop(number)
        except DriftQError as error:
            log.warning("an effect's lease could not be renewed: %s", error)
        kept.at = time.monotonic() + lease.renew_every_s()


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
