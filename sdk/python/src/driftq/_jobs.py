"""A job: one run of a handler, with the deliveries that it was called for."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable

from . import errors
from ._current import within
from ._payloads import BadPayload, parse
from ._settings import Route
from .context import AsyncContext, Context


class Held:
    """A delivery that the worker holds."""

    __slots__ = ("context", "is_over", "job", "lent")

    def __init__(self, context: Context | AsyncContext) -> None:
        self.context = context
        self.lent = context._lent
        self.job: Job | None = None
        # Settled, being settled, or not ours any more: whatever its handler still says is dropped.
        self.is_over = False


class Job:
    """Runs the handler, and remembers how each of its deliveries ended."""

    __slots__ = ("endings", "held", "route", "task", "timers")

    def __init__(self, route: Route, held: list[Held]) -> None:
        self.route = route
        self.held = held
        self.task: asyncio.Task[None] | None = None
        self.timers: list[asyncio.TimerHandle] = []
        self.endings: list[tuple[Held, BaseException | None]] = []

    def run(self) -> None:
        """In a thread."""
        parsed = self._parse()
        if not parsed:
            return
        try:
            if self.route.batch:
                self.route.function([held.context for held in parsed])
            else:
                context = parsed[0].context
                with within(context):
                    self.route.function(context.payload, context)
        except BaseException as error:
            self._end(parsed, error)
        else:
            self._end(parsed, None)

    async def run_async(self) -> None:
        """As a task."""
        parsed = self._parse()
        if not parsed:
            return
        try:
            if self.route.batch:
                await self.route.function([held.context for held in parsed])
            else:
                context = parsed[0].context
                with within(context):
                    await self.route.function(context.payload, context)
        except BaseException as error:
            self._end(parsed, error)
        else:
            self._end(parsed, None)

    def _parse(self) -> list[Held]:
        parsed = []
        for held in self.held:
            try:
                held.context.payload = parse(self.route.parse, held.context.raw)
                parsed.append(held)
            except BadPayload as error:
                self.endings.append((held, error))
        return parsed

    def _end(self, parsed: list[Held], error: BaseException | None) -> None:
        for held in parsed:
            own = held.context.outcome if self.route.batch else None
            self.endings.append((held, own if own is not None else error))

    def stop_if_all_are_over(self, reason: errors.Interruption) -> None:
        """A task that works for nobody any more is cancelled.

        If only the lease is lost, an effect that is being carried out may end first: cut off in the middle, nobody
        would know whether it happened, while its own lease lives and its outcome can still be written down.
        """
        task = self.task
        if task is None or not all(held.is_over for held in self.held):
            return
        text = f"{type(reason).__name__}: {reason}"
        if isinstance(reason, errors.LeaseLost):
            for held in self.held:
                context = held.context
                if isinstance(context, AsyncContext) and context._effects_running:
                    context._after_effects = lambda: self.stop_if_all_are_over(reason)
                    return
        task.cancel(text)


class Pool:
    """Threads for handlers. They are daemons: one that never ends must not keep the process from ending."""

    def __init__(self, size: int, ended: Callable[[Job], None]) -> None:
        self._size = size
        self._ended = ended
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._lock = threading.Lock()

    def submit(self, job: Job) -> None:
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            elif len(self._threads) < self._size:
                thread = threading.Thread(target=self._work, name=f"driftq-handler-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._jobs.put(job)

    def close(self) -> None:
        for _ in self._threads:
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            with self._lock:
                self._idle += 1
            self._ended(job)


