"""A job: one run of a handler, with the deliveries that it was called for; and who runs it."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable

from . import errors
from ._current import within
from ._payloads import BadPayload, parse, payload_of
from ._settings import Route
from ._wire import seconds_until
from .context import AsyncContext, Context

# A runner that never had to wait lets others have their turn after so long.
TURN_S = 0.005


class Held:
    """A delivery that the worker holds."""

    __slots__ = ("context", "is_over", "job", "lent")

    def __init__(self, context: Context | AsyncContext, job: Job) -> None:
        self.context = context
        self.lent = context._lent
        self.job = job
        # Settled, being settled, or not ours any more: whatever its handler still says is dropped.
        self.is_over = False


class Job:
    """Runs the handler, and remembers how each of its deliveries ended."""

    __slots__ = ("endings", "has_limit", "held", "is_kept", "is_running", "route", "task", "timers")

    def __init__(self, route: Route, is_kept: bool) -> None:
        self.route = route
        self.held: list[Held] = []
        # Whether heartbeats keep what waits.
        self.is_kept = is_kept
        self.has_limit = route.timeout is not None
        self.is_running = False
        self.task: asyncio.Task[None] | None = None
        self.timers: list[asyncio.TimerHandle] = []
        self.endings: list[tuple[Held, BaseException | None]] = []

    def add(self, context: Context | AsyncContext) -> Held:
        held = Held(context, self)
        self.held.append(held)
        if context._envelope.get("deadline"):
            self.has_limit = True
        return held

    def run(self) -> None:
        """In a thread."""
        parsed = self.prepare()
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
        """In a task."""
        parsed = self.prepare()
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

    def prepare(self) -> list[Held]:
        """Those that are still of use, with their payloads."""
        parsed = []
        for held in self.held:
            if held.is_over:
                continue
            context = held.context
            try:
                self._check(held)
                context.payload = parse(self.route.parse, payload_of(context._item))
                parsed.append(held)
            except (BadPayload, errors.Interruption) as error:
                self.endings.append((held, error))
        return parsed

    def _check(self, held: Held) -> None:
        if not self.is_kept and held.lent.ends_at <= time.monotonic():
            raise errors.LeaseLost("it waited here longer than its lease, and nobody kept it")
        if self.has_limit:
            deadline = held.context._envelope.get("deadline")
            if deadline and seconds_until(deadline) <= 0:
                raise errors.DeadlinePassed("it passed before the message was begun")

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
        if isinstance(reason, errors.LeaseLost):
            for held in self.held:
                context = held.context
                if isinstance(context, AsyncContext) and context._effects_running:
                    context._after_effects = lambda: self.stop_if_all_are_over(reason)
                    return
        task.cancel(f"{type(reason).__name__}: {reason}")


class Threads:
    """Threads for handlers. They are daemons: one that never ends must not keep the process from ending."""

    def __init__(self, size: int, begins: Callable[[Job], None], ended: Callable[[Job], None]) -> None:
        self._size = size
        self._begins = begins
        self._ended = ended
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, jobs: list[Job]) -> None:
        for job in jobs:
            self._jobs.put(job)
        while len(self._threads) < self._size and self._jobs.qsize() > 0:
            name = f"driftq-handler-{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def take_back(self) -> list[Job]:
        """What was not begun."""
        found: list[Job] = []
        try:
            while (job := self._jobs.get_nowait()) is not None:
                found.append(job)
        except queue.Empty:
            pass
        return found

    def close(self) -> None:
        for _ in self._threads:
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if job.has_limit:
                self._begins(job)
            job.is_running = True
            job.run()
            self._ended(job)


class Tasks:
    """Tasks for handlers. Each runs one job after the other: a task per message would cost more than the rest."""

    def __init__(self, size: int, begins: Callable[[Job], None], ended: Callable[[Job], None]) -> None:
        self._size = size
        self._begins = begins
        self._ended = ended
        self._jobs: deque[Job] = deque()
        self._runners: set[asyncio.Task[None]] = set()

    def submit(self, jobs: list[Job]) -> None:
        self._jobs.extend(jobs)
        for _ in range(min(self._size - len(self._runners), len(self._jobs))):
            runner = asyncio.ensure_future(self._work())
            self._runners.add(runner)
            runner.add_done_callback(self._runners.discard)

    def take_back(self) -> list[Job]:
        found = list(self._jobs)
        self._jobs.clear()
        return found

    def close(self) -> None:
        self._jobs.clear()
        for runner in self._runners:
            runner.cancel()

    async def _work(self) -> None:
        own = asyncio.current_task()
        turn_ends = time.monotonic() + TURN_S
        while self._jobs:
            job = self._jobs.popleft()
            job.task = own
            job.is_running = True
            if job.has_limit:
                self._begins(job)
            await job.run_async()
            job.task = None
            # A cancellation was for that job, and not for the next one.
            while own is not None and own.cancelling():
                own.uncancel()
            self._ended(job)
            if time.monotonic() > turn_ends:
                await asyncio.sleep(0)
                turn_ends = time.monotonic() + TURN_S
