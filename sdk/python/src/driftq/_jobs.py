"""A job: one run of a handler, with the deliveries that it was called for; and the threads and tasks that run it."""

from __future__ import annotations

import asyncio
import itertools
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
from ._payloads import parse, payload_of
from ._settings import Route
from ._spans import OpenSpan, handling
from ._wire import seconds_until
from .context import AsyncContext, Context

# A runner that never had to wait lets others have their turn after this time.
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

    __slots__ = ("context", "is_over", "job", "token", "verb")

    def __init__(self, context: Context | AsyncContext, job: Job, token: str, ends_at: float) -> None:
        self.context = context
        self.job = job
        self.token = token
        context._ends_at = ends_at
        # Settled, being settled, or not this worker's any more: whatever its handler still says is dropped.
        self.is_over = False
        # How it is being settled.
        self.verb = ""

    @property
    def ends_at(self) -> float:
        """When its lease is over, by this machine's monotonic clock."""
        return self.context._ends_at

    @ends_at.setter
    def ends_at(self, ends_at: float) -> None:
        self.context._ends_at = ends_at

    def is_meant_by(self, error: BaseException) -> bool:
        """Whether an error of a batch is about this message. One message was interrupted; the others only failed with
        it."""
        if not isinstance(error, errors.Interruption) or error is self.context.outcome:
            return True
        return error.lease_token == self.token


Endings = list[tuple[Held, BaseException | None]]


class Job:
    """Runs the handler, and remembers how each of its deliveries ended."""

    __slots__ = (
        "endings", "has_begun", "has_ended", "has_limit", "held", "is_kept", "is_left", "is_told_waiting", "lane", "route",
        "task", "timers"
    )  # fmt: skip

    def __init__(self, lane: Lane, is_kept: bool) -> None:
        self.lane = lane
        self.route = lane.route
        self.held: list[Held] = []
        # Whether heartbeats keep what waits.
        self.is_kept = is_kept
        self.has_limit = lane.route.timeout is not None
        self.task: asyncio.Task[None] | None = None
        self.timers: list[asyncio.TimerHandle] | None = None
        self.has_begun = False
        # The server was told that it is not begun.
        self.is_told_waiting = False
        self.has_ended = False
        # It does not end, and another job has its place.
        self.is_left = False
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
        span = self._span(parsed)
        try:
            self.route.function(*arguments)
        except BaseException as error:
            self._end(parsed, error, span)
        else:
            self._end(parsed, None, span)
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
        span = self._span(parsed)
        try:
            await self.route.function(*arguments)
        except GeneratorExit:
            mark = None  # The loop has gone without this task, and its context with it.
            raise
        except BaseException as error:
            self._end(parsed, error, span)
        else:
            self._end(parsed, None, span)
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
            except BaseException as error:
                if isinstance(error, errors.Interruption):
                    error.lease_token = held.token
                self.endings.append((held, error))
        return parsed

    def _check(self, held: Held) -> None:
        if not self.is_kept and held.ends_at <= time.monotonic():
            raise errors.LeaseLost("it waited here longer than its lease, and nobody kept it")
        if self.has_limit:
            deadline = held.context._envelope.get("deadline")
            if deadline and seconds_until(deadline) <= 0:
                raise errors.DeadlinePassed("it passed before the message was begun")

    def _span(self, parsed: list[Held]) -> OpenSpan | None:
        """What follows from these messages is part of the handler's span."""
        span = handling([held.context._item for held in parsed], parsed[0].context.group)
        if span is not None and (own := span.trace()) is not None:
            for held in parsed:
                held.context._trace = own._replace(parent_span_id=held.context.trace.parent_span_id)
        return span

    def _end(self, parsed: list[Held], error: BaseException | None, span: OpenSpan | None) -> None:
        if span is not None:
            span.end(error)
        for held in parsed:
            own = held.context.outcome
            self.endings.append((held, error if own is None or not self.route.batch else own))

    def stop_if_all_are_over(self, reason: errors.Interruption, watch: Callable[[Job], None]) -> None:
        """A task all of whose messages are over is cancelled. From then on it is watched, as a thread is.

        If only the lease is lost, an effect that is being carried out may end first: if it were cut off in the middle,
        it would not be known whether it happened, while its own lease lives and its outcome can still be written down.
        """
        if not all(held.is_over for held in self.held):
            return
        if isinstance(reason, errors.LeaseLost):
            for held in self.held:
                context = held.context
                if context._effects_running:
                    context._after_effects = lambda: self.stop_if_all_are_over(reason, watch)
                    if context._effects_running:  # A thread's effect may have ended just now, and seen nothing.
                        return
        watch(self)
        if self.task is not None:
            self.task.cancel(f"{type(reason).__name__}: {reason}")


class Threads:
    """Threads for handlers. They are daemons: one that never ends must not keep the process from ending.

    A thread that takes a job wakes one more thread if there are more jobs, which wakes the next in its turn. So quick
    handlers are run by few threads one after the other, without a switch between threads for each, and slow ones by all
    of them.
    """

    def __init__(self, size: int, begins: Callable[[Job], None], ended: Callable[[Job], None]) -> None:
        self._size = size
        self._begins = begins
        self._ended = ended
        self._jobs: deque[Job] = deque()
        # One mark per thread that waits; a thread that takes a mark must put a word for it.
        self._idle: deque[bool] = deque()
        self._words: queue.SimpleQueue[bool] = queue.SimpleQueue()
        # A thread was woken or begun, and has not looked for a job yet.
        self._is_waking = False
        self._threads: list[threading.Thread] = []
        # Those whose handler does not end. Each ends with it.
        self._left = 0
        self._numbers = itertools.count()
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

    def leave(self, job: Job) -> bool:
        """Gives the place of a job that does not end to another thread. False if it has ended just now."""
        with self._lock:
            if job.has_ended:
                return False
            job.is_left = True
            self._left += 1
        if self._jobs:
            self._wake()
        return True

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
        if len(self._threads) - self._left >= self._size:
            return
        with self._lock:
            if len(self._threads) - self._left >= self._size:
                return
            self._is_waking = True
            name = f"driftq-handler-{next(self._numbers)}"
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
                if not self._run(job):
                    return
            self._idle.append(True)
            # A job that came before the mark has woken no thread: then there is no need to wait.
            if self._jobs and self._takes_mark():
                continue
            if not self._words.get():
                return

    def _run(self, job: Job) -> bool:
        """Whether the thread still has its place."""
        job.has_begun = True
        if job.has_limit or job.is_told_waiting:
            self._begins(job)
        job.run()
        with self._lock:
            job.has_ended = True
            if job.is_left:
                self._left -= 1
                self._threads.remove(threading.current_thread())
        self._ended(job)
        return not job.is_left


class Tasks:
    """Tasks for handlers. Each runs one job after the other, and then waits for more: a task per message would cost more
    than the rest."""

    def __init__(self, size: int, begins: Callable[[Job], None], ended: Callable[[Job], None]) -> None:
        self._size = size
        self._begins = begins
        self._ended = ended
        self._jobs: deque[Job] = deque()
        self._runners: set[asyncio.Task[None]] = set()
        # Those that have a job, or are about to look for one. Counted by the runners themselves.
        self._running = 0
        # What the others wait for; the one that began to wait last goes on first.
        self._idle: list[asyncio.Future[None]] = []
        self._loop = asyncio.get_running_loop()
        # Those whose handler does not end although it was cancelled. Each ends with it.
        self._left: set[asyncio.Task[None]] = set()

    def submit(self, jobs: list[Job]) -> None:
        self._jobs.extend(jobs)
        for _ in range(min(self._size - self._running, len(self._jobs))):
            self._running += 1
            if not self._wakes_one():
                self._runners.add(self._loop.create_task(self._work()))

    def _wakes_one(self) -> bool:
        while self._idle:
            woken = self._idle.pop()
            if not woken.done():  # Else it was cancelled.
                woken.set_result(None)
                return True
        return False

    def take_back(self) -> list[Job]:
        found = list(self._jobs)
        self._jobs.clear()
        return found

    def leave(self, job: Job) -> bool:
        """Gives the place of a job that does not end to another task. False if it has ended just now."""
        if job.task is None:
            return False
        job.is_left = True
        self.give_up(job.task)
        self.submit([])
        return True

    def give_up(self, runner: asyncio.Task[None]) -> None:
        if runner not in self._left and not runner.done():
            self._left.add(runner)
            self._running -= 1

    def close(self) -> None:
        self._jobs.clear()
        for runner in self._runners:
            runner.cancel()
        for runner in self._left:
            _forget(runner)

    async def _work(self) -> None:
        own = asyncio.current_task()
        assert own is not None
        try:
            while True:
                await self._run_all(own)
                if own in self._left:
                    return
                await self._wait()
        finally:
            self._runners.discard(own)
            if own in self._left:
                self._left.remove(own)
            else:
                self._running -= 1

    async def _wait(self) -> None:
        """Until there are jobs again."""
        woken = self._loop.create_future()
        self._idle.append(woken)
        self._running -= 1
        try:
            await woken
        except asyncio.CancelledError:
            if woken.cancelled():
                self._running += 1  # No other code has counted it again.
            raise

    async def _run_all(self, own: asyncio.Task[None]) -> None:
        turn_ends = time.monotonic() + TURN_S
        while self._jobs:
            job = self._jobs.popleft()
            job.task = own
            job.has_begun = True
            if job.has_limit or job.is_told_waiting:
                self._begins(job)
            await job.run_async()
            job.task = None
            # A cancellation was for that job, and not for the next one.
            while own.cancelling():
                own.uncancel()
            self._ended(job)
            if own in self._left:
                return
            # One that has nothing more to run waits anyway.
            if self._jobs and time.monotonic() > turn_ends:
                await asyncio.sleep(0)
                turn_ends = time.monotonic() + TURN_S


def _forget(task: asyncio.Task[None]) -> None:
    """`asyncio.run` ends when every task has; it would wait for ever for one that does not end when it is cancelled."""
    asyncio.tasks._unregister_task(task)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
