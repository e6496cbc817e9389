"""Sends commits, and endings of effects that do not wait for theirs. What comes while a call is under way goes together
in the next one."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from . import errors
from ._calls import Call, Repeats
from ._endings import Ending
from ._outage import FOREVER

if TYPE_CHECKING:
    from .context import Delivery

log = logging.getLogger("driftq")
COMMITS_MAX = 1_000
COMMIT_BYTES_MAX = 1_048_576
# How long a commit waits for others while handlers are at work, unless enough come sooner.
COMMIT_LINGER_S = 0.01
COMMITS_ENOUGH = 64
# A handler that ends within this time after an effect sends its ending with the commit; after that the ending goes
# alone.
ENDING_LINGER_S = 0.005

# Called with what came of it: None if it was done, else why not.
Ended = Callable[[Exception | None], None]


class Entry:
    """A commit: that of a message, or of one ending alone."""

    __slots__ = ("context", "ended", "endings", "repeats", "write")

    def __init__(
        self, write: Callable[[], bytes], endings: list[Ending], ended: Ended, context: Delivery | None = None
    ) -> None:
        self.write = write
        # The message that it acks, if it is more than an ending.
        self.context = context
        # Those that go with it.
        self.endings = endings
        self.ended = ended
        # When it was refused for now.
        self.repeats: Repeats | None = None

    def end(self, error: Exception | None) -> None:
        for ending in self.endings:
            ending.is_heard = ending.is_heard or error is None
            ending.is_riding = False
        self.ended(error)

    def leaves_out(self, error: errors.Refused) -> bool:
        """Whether it may be sent again without a result that is too large to be kept."""
        if not isinstance(error, errors.ResultTooLarge):
            return False
        named = [ending for index, ending in enumerate(self.endings) if error.part == f"effects[{index}]"]
        return any([ending.omit() for ending in named or self.endings])


class Commits:
    """One call at a time. Belongs to the event loop; only `expect` may be called from other threads."""

    def __init__(
        self,
        patiently: Callable[[Call], Awaitable[Any]],
        is_busy: Callable[[], bool],
        overtaken: Callable[[Delivery], None],
        collect: Callable[[], None] = lambda: None,
    ) -> None:
        self._patiently = patiently
        self._is_busy = is_busy
        self._overtaken = overtaken
        # Adds the commits of handlers that have ended and that the loop has not looked at yet.
        self._collect = collect
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._waiting: deque[Entry] = deque()
        self._task: asyncio.Task[None] | None = None
        self._is_enough = asyncio.Event()
        # Refused for now, and sent again later.
        self._later: dict[Entry, asyncio.TimerHandle] = {}
        # Endings whose handlers go on, by when they were taken over.
        self._expected: deque[tuple[float, Delivery, Ending]] = deque()
        self._is_watched = False

    def add(self, entry: Entry) -> None:
        for ending in entry.endings:
            ending.is_riding = True
        self._waiting.append(entry)
        if self._task is None:
            self._task = asyncio.ensure_future(self._flush())
        elif len(self._waiting) == COMMITS_ENOUGH:
            self._is_enough.set()

    def hurry(self) -> None:
        """No handler is at work any more: there are no others to wait for."""
        self._is_enough.set()

    def is_open(self) -> bool:
        """Whether there is more to send. Sends what still waits for a handler, too."""
        self._send_expected(float("inf"))
        return self._task is not None or bool(self._later)

    def cancel(self) -> None:
        for timer in self._later.values():
            timer.cancel()
        if self._task is not None:
            self._task.cancel()

    # Endings whose handlers go on.

    def expect(self, context: Delivery, ending: Ending) -> None:
        """From any thread: the ending rides with the commit of its message, if that comes soon."""
        self._expected.append((time.monotonic(), context, ending))
        if self._is_watched:
            return
        self._is_watched = True
        if threading.get_ident() == self._thread:
            self._watch()
        else:
            with suppress(RuntimeError):  # The loop is closed: the worker has given this handler up.
                self._loop.call_soon_threadsafe(self._watch)

    def _watch(self) -> None:
        self._loop.call_later(ENDING_LINGER_S, self._look)

    def _look(self) -> None:
        self._is_watched = False
        # A loop that comes late must not take a handler that has ended for one that goes on.
        self._collect()
        self._send_expected(time.monotonic() - ENDING_LINGER_S)
        if self._expected and not self._is_watched:
            self._is_watched = True
            self._watch()

    def _send_expected(self, until: float) -> None:
        while self._expected and self._expected[0][0] <= until:
            _, context, ending = self._expected.popleft()
            if not ending.is_heard and not ending.is_riding:
                self.finish(context, ending)

    def finish(self, context: Delivery, ending: Ending, ended: Callable[[], None] = lambda: None) -> None:
        """Sends an ending alone."""

        def end(error: Exception | None) -> None:
            if isinstance(error, (errors.StaleLease, errors.LeaseUnknown)):
                ending.is_heard = True  # Another holder has the effect: it is of no use to say it again.
                self._overtaken(context)
            elif error is not None:
                log.warning("%s/%s: how the effect ended was not heard: %s", *ending.name[1:], error)
            ended()

        self.add(Entry(lambda: b'{"effects":[' + ending.written() + b"]}", [ending], end))

    # Sending.

    async def _flush(self) -> None:
        try:
            while self._waiting:
                if len(self._waiting) < COMMITS_ENOUGH and self._is_busy():
                    await self._linger()
                batch, call = self._cut()
                if batch:
                    await self._send(batch, call)
        finally:
            self._task = None

    async def _linger(self) -> None:
        self._is_enough.clear()
        timer = self._loop.call_later(COMMIT_LINGER_S, self._is_enough.set)
        await self._is_enough.wait()
        timer.cancel()

    def _cut(self) -> tuple[list[Entry], Call]:
        batch: list[Entry] = []
        parts: list[bytes] = []
        size = 0
        while self._waiting and len(batch) < COMMITS_MAX:
            try:
                part = self._waiting[0].write()
            except Exception as error:
                self._waiting.popleft().end(error)
                continue
            size += len(part) + 1
            if batch and size > COMMIT_BYTES_MAX:
                break
            parts.append(part)
            batch.append(self._waiting.popleft())
        if len(batch) <= 1:
            return batch, commit_call(b"".join(parts))
        body = b'{"commits":[' + b",".join(parts) + b"]}"
        count = len(batch)
        return batch, Call("POST", "/v2/commit", body, expects=("results",), glance=lambda raw: _all_done(raw, count))

    async def _send(self, batch: list[Entry], call: Call) -> None:
        results: list[Exception | None]
        try:
            if len(batch) == 1:
                await self._send_alone(call)
                results = [None]
            else:
                call.patience_s = FOREVER
                results = _results(await self._patiently(call), len(batch))
        except Exception as error:
            if len(batch) > 1:
                # One of them is at fault: send each on its own.
                for entry in batch:
                    await self._send([entry], commit_call(entry.write()))
                return
            results = [error]
        for entry, result in zip(batch, results, strict=True):
            if result is None:
                entry.end(None)
            else:
                self._refused(entry, result)

    async def _send_alone(self, call: Call) -> None:
        """If the server is away, all commits wait for it; if it has no room for this commit, this one waits alone."""
        call.patience_s = 0.0
        repeats = Repeats(FOREVER)
        while True:
            try:
                await self._patiently(call)
                return
            except errors.Refused:
                raise
            except errors.DriftQError as error:
                await asyncio.sleep(repeats.next(error))

    def _refused(self, entry: Entry, error: Exception) -> None:
        if isinstance(error, errors.Refused) and entry.leaves_out(error):
            self.add(entry)
            return
        if isinstance(error, errors.DriftQError) and error.retryable:
            if entry.repeats is None:
                entry.repeats = Repeats(FOREVER)
                self._finish_meanwhile(entry)
            self._later[entry] = self._loop.call_later(entry.repeats.next(error), self._again, entry)
            return
        entry.end(error)

    def _finish_meanwhile(self, entry: Entry) -> None:
        """The server has no room for what goes with the endings. They need none, and do not wait for it."""
        if entry.context is not None:
            for ending in entry.endings:
                self.finish(entry.context, ending)

    def _again(self, entry: Entry) -> None:
        del self._later[entry]
        self.add(entry)


def commit_call(written: bytes) -> Call:
    return Call("POST", "/v2/commit", written, expects=("result",))


# What a result that was committed begins with. A text of JSON has its quotes escaped, so that it is found nowhere else.
_DONE = b'{"result":"committed"'


def _all_done(raw: bytes, count: int) -> dict[str, Any] | None:
    """The answer if nothing was refused, as it nearly always is: where each message was stored is not needed here, and
    need not be read."""
    return {"results": None} if raw.count(_DONE) == count else None


def _results(answer: dict[str, Any], count: int) -> list[Exception | None]:
    results: list[dict[str, Any]] | None = answer["results"]
    if results is None:
        return [None] * count
    if len(results) != count:
        raise errors.NotDriftQ("the answer to commits that went together has not one result for each")
    return [errors.refusal(one["problem"]) if one["result"] == "refused" else None for one in results]
