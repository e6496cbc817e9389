"""Heartbeats: one call every third of a lease extends everything that the worker holds, and says what is not begun."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import errors
from ._jobs import Held, Job
from ._outage import Outage
from ._settings import Settings
from ._wire import LEASES_MAX, settle_call
from .context import is_stale

if TYPE_CHECKING:
    from .async_client import AsyncClient

log = logging.getLogger("driftq")
# A heartbeat that is not answered within this time, or a third of a lease if that is longer, is sent anew.
ANSWER_MIN_S = 1.0


class Heartbeats:
    def __init__(
        self,
        client: AsyncClient,
        settings: Settings,
        held: dict[str, Held],
        interrupt: Callable[[Held, errors.Interruption], None],
        outage: Outage,
    ) -> None:
        self._client = client
        self._every_s = settings.heartbeat_every_s()
        self._lease_ms = settings.lease_ms
        self._held = held
        self._interrupt = interrupt
        self._outage = outage
        # Begun since the server was told that they were not.
        self._begun: list[Job] = []
        self._has_begun = asyncio.Event()

    def begun(self, job: Job) -> None:
        """The server believes that it waits: if the worker died with it, no attempt would be counted.

        Only what waited here through a heartbeat comes here, and what comes while a call is under way goes together in
        the next one: a worker that keeps up makes no such call.
        """
        job.is_told_waiting = False
        self._begun.append(job)
        self._has_begun.set()

    async def run(self) -> None:
        while True:
            began = time.monotonic()
            self._take_begun()
            await self._beat_all([held for held in self._held.values() if not held.is_over])
            await self._tell_begun_until(began + self._every_s)

    async def _tell_begun_until(self, ends_at: float) -> None:
        while (left_s := ends_at - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(left_s):
                    await self._has_begun.wait()
            except TimeoutError:
                return
            await self._beat_all([held for job in self._take_begun() for held in job.held if not held.is_over])

    def _take_begun(self) -> list[Job]:
        begun, self._begun = self._begun, []
        self._has_begun.clear()
        return begun

    async def _beat_all(self, kept: list[Held]) -> None:
        for start in range(0, len(kept), LEASES_MAX):
            await self._beat(kept[start : start + LEASES_MAX])

    async def _beat(self, kept: list[Held]) -> None:
        asked_at = time.monotonic()
        results = await self._extend([self._said(held) for held in kept])
        for index, held in enumerate(kept):
            if results is None:
                self._look_at_clock(held)
                continue
            result = results[index]
            if result.get("status") != "ok":
                self._interrupt(held, errors.LeaseLost("somebody else has the message"))
            elif result.get("cancelled"):
                self._interrupt(held, errors.Cancelled("the message was cancelled"))
            else:
                held.ends_at = asked_at + self._lease_ms / 1000

    def _said(self, held: Held) -> dict[str, Any]:
        job = held.job
        # Set before looking: a thread that begins in between sees it, and says so.
        job.is_told_waiting = True
        if job.has_begun:
            job.is_told_waiting = False
            return {"token": held.token, "lease_ms": self._lease_ms}
        return {"token": held.token, "lease_ms": self._lease_ms, "started": False}

    async def _extend(self, leases: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
        """One result per lease; None if the server could not be asked."""
        call = settle_call("extend", leases)
        call.patience_s = 0.0
        try:
            async with asyncio.timeout(max(self._every_s, ANSWER_MIN_S)):
                results: list[dict[str, Any]] = (await self._client.call(call))["results"]
        except (errors.DriftQError, TimeoutError) as error:
            if is_stale(error):
                return [{"status": "stale"}]
            if isinstance(error, errors.Refused):
                log.warning("no heartbeat: %s", error)
            else:
                self._outage.began(error)
            return None
        self._outage.ended()
        return results if len(results) == len(leases) else None

    def _look_at_clock(self, held: Held) -> None:
        if held.ends_at <= time.monotonic():
            self._interrupt(held, errors.LeaseLost("the lease ran out while the server could not be reached"))
