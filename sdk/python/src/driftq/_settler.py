"""Sends settlements. What comes while a call is under way goes together in the next one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from . import errors
from ._calls import BACKOFF_MAX_S, WAITED_FOR, Call
from ._commits import Commits, Entry
from ._jobs import Held
from ._outage import FOREVER
from ._settlements import DROP, Settlement, nack, settlement_of
from ._wire import LEASES_MAX, described, settle_call
from .context import is_stale

if TYPE_CHECKING:
    from ._endings import Ending
    from .async_client import AsyncClient
    from .context import Delivery

log = logging.getLogger("driftq")
# How long an ack waits for others while handlers are at work, unless enough come sooner: one call for many costs a
# fraction of one each.
ACK_LINGER_S = 0.01
ACKS_ENOUGH = 64
# How often a stop checks whether everything is sent.
DRAIN_LOOK_S = 0.005
# How many messages are named whose settlement the server did not hear.
UNHEARD_NAMED_MAX = 20


class Settler:
    """One queue per verb, one call at a time each. A server that is away is waited for."""

    def __init__(
        self,
        client: AsyncClient,
        settled: Callable[[Held], None],
        is_busy: Callable[[], bool],
        overtaken: Callable[[Delivery], None] = lambda _: None,
        collect: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._is_busy = is_busy
        self._settled = settled
        self.commits = Commits(self._patiently, is_busy, overtaken, collect)
        self._waiting: dict[str, list[tuple[Held, Settlement]]] = {"ack": [], "nack": [], "release": []}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # What acks wait for: that there are enough of them, or that no more will come.
        self._is_enough = asyncio.Event()

    def add(self, held: Held, settlement: Settlement) -> None:
        verb = settlement.verb
        if verb == "commit":
            self._commit(held)
        elif unheard := held.context._unheard():
            self._finish_first(held, settlement, unheard)
        elif verb == "drop":
            self._settled(held)
        else:
            waiting = self._waiting[verb]
            waiting.append((held, settlement))
            if verb not in self._tasks:
                self._tasks[verb] = asyncio.ensure_future(self._flush(verb))
            elif verb == "ack" and len(waiting) == ACKS_ENOUGH:
                self._is_enough.set()

    def hurry(self) -> None:
        """No handler is at work any more: there are no other acks to wait for."""
        self._is_enough.set()
        self.commits.hurry()

    async def drained(self, timeout_s: float) -> None:
        """Waits until everything is sent, or gives up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.commits.is_open() or self._tasks:
                    await asyncio.sleep(DRAIN_LOOK_S)

    def cancel(self) -> None:
        self.commits.cancel()
        for task in self._tasks.values():
            task.cancel()

    async def _flush(self, verb: str) -> None:
        waiting = self._waiting[verb]
        try:
            while waiting:
                if verb == "ack" and len(waiting) < ACKS_ENOUGH and self._is_busy():
                    await self._linger()
                batch = waiting[:LEASES_MAX]
                del waiting[:LEASES_MAX]
                await self._send(verb, batch)
        finally:
            del self._tasks[verb]

    async def _linger(self) -> None:
        self._is_enough.clear()
        try:
            async with asyncio.timeout(ACK_LINGER_S):
                await self._is_enough.wait()
        except TimeoutError:
            pass

    async def _send(self, verb: str, batch: list[tuple[Held, Settlement]]) -> None:
        call = settle_call(verb, [{"token": held.token, **settlement.fields} for held, settlement in batch])
        call.patience_s = FOREVER
        try:
            results: list[dict[str, Any]] = (await self._patiently(call))["results"]
            lost = {index for index, result in enumerate(results) if result["status"] != "ok"}
        except Exception as error:
            if len(batch) > 1 and not is_stale(error):
                # One of them is at fault: send each on its own.
                for one in batch:
                    await self._send(verb, [one])
                return
            _log_refusal(verb, batch[0][0], error)
            lost = set()
        for index, (held, _) in enumerate(batch):
            if index in lost:
                _log_lost(verb, held)
            self._settled(held)

    async def _patiently(self, call: Call) -> Any:
        """Waits also for a gateway that answers in the server's place, and for a certificate to be put right."""
        while True:
            try:
                return await self._client.call(call)
            except WAITED_FOR as error:
                log.warning("%s", error)
                await asyncio.sleep(BACKOFF_MAX_S)

    def _commit(self, held: Held) -> None:
        context = held.context
        self.commits.add(Entry(context._commit_body, context._unheard(), partial(self._committed, held), context))

    def _committed(self, held: Held, error: Exception | None) -> None:
        """What was refused is settled as its error says: the endings that were to go with it go alone, and first."""
        settlement = DROP
        if error is None:
            held.context._forget_endings()
            self._settled(held)
            return
        if is_stale(error):
            _log_lost("commit", held)
        elif isinstance(error, errors.Refused):
            log.warning("%s: the commit was refused: %s", place(held), error)
            settlement = settlement_of(error)
        else:
            log.error("%s: the commit failed: %s", place(held), described(error), exc_info=error)
            settlement = nack(described(error))
        self.add(held, settlement)

    def _finish_first(self, held: Held, settlement: Settlement, unheard: list[Ending]) -> None:
        """Once a message is given back, its effects can no longer be finished: the server must have heard before how
        they ended."""
        context = held.context
        left = len(unheard)

        def ended() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                context._forget_endings()
                self.add(held, settlement)

        for ending in unheard:
            self.commits.finish(context, ending, ended)


def place(held: Held) -> str:
    context = held.context
    return f"{context.topic}/{context.partition}/{context.offset}"


def tell_unheard(unheard: list[Held]) -> None:
    """What has ended and the server does not know of: it was away, or the worker had to end at once."""
    for held in unheard[:UNHEARD_NAMED_MAX]:
        log.warning("%s: the server did not hear its %s: the message will come again", place(held), held.verb)
    if len(unheard) > UNHEARD_NAMED_MAX:
        log.warning("the server did not hear of %d messages more", len(unheard) - UNHEARD_NAMED_MAX)


def _log_lost(verb: str, held: Held) -> None:
    log.info("%s: %s came too late, somebody else has the message", place(held), verb)


def _log_refusal(verb: str, held: Held, error: Exception) -> None:
    if is_stale(error):
        _log_lost(verb, held)
    else:
        log.error("%s: %s failed, the message will come again: %s", place(held), verb, described(error))
