"""Heartbeats: one call every third of a lease extends everything that the worker holds."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import errors
from ._jobs import Held
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

    async def run(self) -> None:
        while True:
            began = time.monotonic()
            kept = [held for held in self._held.values() if not held.is_over]
            for start in range(0, len(kept), LEASES_MAX):
                await self._beat(kept[start : start + LEASES_MAX])
            await asyncio.sleep(max(0.0, began + self._every_s - time.monotonic()))

    async def _beat(self, kept: list[Held]) -> None:
        asked_at = time.monotonic()
        results = await self._extend([held.token for held in kept])
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

    async def _extend(self, tokens: list[str]) -> list[dict[str, Any]] | None:
        """One result per token; None if the server could not be asked."""
        call = settle_call("extend", [{"token": token, "lease_ms": self._lease_ms} for token in tokens])
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
        return results if len(results) == len(tokens) else None

    def _look_at_clock(self, held: Held) -> None:
        if held.ends_at <= time.monotonic():
            self._interrupt(held, errors.LeaseLost("the lease ran out while the server could not be reached"))
