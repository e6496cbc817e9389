"""A job: one run of a handler, with the deliveries that it was called for; and who runs it."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import Token
from typing import Any

from . import errors
from ._calls import Call
from ._current import variable
from ._payloads import BadPayload, parse, payload_of
from ._settings import Route
from ._wire import seconds_until
from .context import AsyncContext, Context

# A runner that never had to wait lets others have their turn after so long.
TURN_S = 0.005


class Lane:
    """One topic of the worker, and how much it holds of it."""

    def __init__(self, route: Route, quota: int, ahead: int) -> None:
        self.route = route
        self.quota = quota
        # Asking for every single place that gets free would make many small calls; what waits here bridges them.
        self.least = max(1, ahead // 2)
        # One half is worked on while the other one is on its way.
        self.most = max(route.per_job(), quota - ahead, -(-quota // 2))
        self.held = 0
        # The call that is under way, or was cut off.
        self.asking: Call | None = None
        self.room = asyncio.Event()

    def free(self) -> int:
        return self.quota - self.held

    def wanted(self) -> int:
        return min(self.free(), self.most)


class Held:
    """A delivery that the worker holds."""

    __slots__ = ("context", "ends_at", "is_over", "job", "token")

    def __init__(self, context: Context | AsyncContext, job: Job, token: str, ends_at: float) -> None:
        self.context = context
        self.job = job
        self.token = token
        # Its lease is over then, by this machine's monotonic clock.
        self.ends_at = ends_at
        # Settled, being settled, or not ours any more: whatever its handler still says is dropped.
        self.is_over = False


Endings = list[tuple[Held, BaseException | None]]


class Job:
    """Runs the handler, and remembers how each of its deliveries ended."""

    __slots__ = ("endings", "has_limit", "held", "is_kept", "lane", "route", "task", "timers")

    def __init__(self, lane: Lane, is_kept: bool) -> None:
        self.lane = lane
        self.route = lane.route
        self.held: list[Held] = []
        # Whether heartbeats keep what waits.
        self.is_kept = is_kept
        self.has_limit = lane.route.timeout is not None
        self.task: asyncio.Task[None] | None = None
        self.timers: list[asyncio.TimerHandle] | None = None
        self.endings: Endings = []

    def add(self, context: Context | AsyncContext, ends_at: float) -> Held:
        held = Held(context, self, context._item["lease"]["token"], ends_at)
        self.held.append(held)
        if "deadline" in context._envelope:
            self.has_limit = True
        return held

    def run(self) -> None:
        """In a thread."""
        parsed = self.prepare()
        if not parsed:
            return
        arguments: tuple[Any, ...]
        mark: Token[Any] | None
        if self.route.batch:
            mark, arguments = None, ([held.context for held in parsed],)
        else:
            context = parsed[0].context
            mark, arguments = variable.set(context), (context.payload, context)
        try:
            self.route.function(*arguments)
        except BaseException as error:
            self._end(parsed, error)
        else:
            self._end(parsed, None)
        finally:
            if mark is not None:
                variable.reset(mark)

    async def run_async(self) -> None:
        """In a task."""
        parsed = self.prepare()
        if not parsed:
            return
        arguments: tuple[Any, ...]
        mark: Token[Any] | None
        if self.route.batch:
            mark, arguments = None, ([held.context for held in parsed],)
        else:
            context = parsed[0].context
            mark, arguments = variable.set(context), (context.payload, context)
        try:
            await self.route.function(*arguments)
        except BaseException as error:
            self._end(parsed, error)
        else:
            self._end(parsed, None)
        finally:
            if mark is not None:
                variable.reset(mark)

    def prepare(self) -> list[Held]:
        """Those that are still of use, with their payloads."""
        parsed = []
        for held in self.held:
            if held.is_over:
                continue
            context = held.context
            try:
                if self.has_limit or not self.is_kept:
                    self._check(held)
                context.payload = parse(self.route.parse, payload_of(context._item))
                parsed.append(held)
            except (BadPayload, errors.Interruption) as error:
                self.endings.append((held, error))
        return parsed

    def _check(self, held: Held) -> None:
        if not self.is_kept and held.ends_at <= time.monotonic():
            raise errors.LeaseLost("it waited here longer than its lease, and nobody kept it")
        if self.has_limit:
            deadline = held.context._envelope.get("deadline")
            if deadline and seconds_until(deadline) <= 0:
                raise errors.DeadlinePassed("it passed before the message was begun")

    def _end(self, parsed: list[Held], error: BaseException | None) -> None:
        for held in parsed:
            own = held.context.outcome
            self.endings.append((held, error if own is None or not self.route.batch else own))

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
    """Threads for handlers. They are daemons: one that never ends must not keep the process from ending.

    Whoever takes a job wakes one more thread if there are more jobs, which wakes the next in its turn. So quick handlers
    are run by few threads one after the other, without a switch between threads for each, and slow ones by all of them.
    """

    def __init__(self, size: int, begins: Callable[[Job], None], ended: Callable[[Job], None]) -> None:
        self._size = size
        self._begins = begins
        self._ended = ended
        self._jobs: deque[Job] = deque()
        # One mark per thread that waits; whoever takes a mark owes a word.
        self._idle: deque[bool] = deque()
        self._words: queue.SimpleQueue[bool] = queue.SimpleQueue()
        # A thread was woken or begun, and has not looked for a job yet.
        self._is_waking = False
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def submit(self, jobs: list[Job]) -> None:
        self._jobs.extend(jobs)
        self._wake()

    def take_back(self) -> list[Job]:
        """What was not begun."""
        found: list[Job] = []
        while (job := self._take()) is not None:
            found.append(job)
        return found

    def close(self) -> None:
        for _ in self._threads:
            self._words.put(False)

    def _take(self) -> Job | None:
        try:
            return self._jobs.popleft()
        except IndexError:
            return None

    def _wake(self) -> None:
        if self._takes_mark():
            self._is_waking = True
            self._words.put(True)
            return
        if len(self._threads) >= self._size:
            return
        with self._lock:
            if len(self._threads) >= self._size:
                return
            self._is_waking = True
            name = f"driftq-handler-{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
        thread.start()

    def _takes_mark(self) -> bool:
        try:
            return self._idle.pop()
        except IndexError:
            return False

    def _work(self) -> None:
        while True:
            self._is_waking = False
            while (job := self._take()) is not None:
                if self._jobs and not self._is_waking:
                    self._wake()
                self._run(job)
            self._idle.append(True)
            # A job that came before the mark was seen by nobody: then there is no need to wait.
            if self._jobs and self._takes_mark():
                continue
            if not self._words.get():
                return

    def _run(self, job: Job) -> None:
        if job.has_limit:
            self._begins(job)
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
        # Counted by the runners themselves: a task that has seen that there is nothing more is not done at once.
        self._running = 0

    def submit(self, jobs: list[Job]) -> None:
        self._jobs.extend(jobs)
        for _ in range(min(self._size - self._running, len(self._jobs))):
            self._running += 1
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
        try:
            await self._run_all()
        finally:
            self._running -= 1

    async def _run_all(self) -> None:
        own = asyncio.current_task()
        turn_ends = time.monotonic() + TURN_S
        while self._jobs:
            job = self._jobs.popleft()
            job.task = own
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
