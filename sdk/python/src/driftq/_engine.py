"""The worker: borrows, runs, keeps, settles. One engine for handlers in threads and as tasks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from . import _api, errors
from ._calls import BACKOFF_MAX_S, WAITED_FOR, Repeats
from ._heartbeats import Heartbeats
from ._jobs import Held, Job, Lane, Tasks, Threads
from ._outage import FOREVER
from ._settings import Route, Settings
from ._settlements import ACK, COMMIT, RELEASE, Settlement, level_of, nack, settlement_of
from ._settler import Settler, place, tell_unheard
from ._wire import described, lease_call, seconds_until
from .context import AsyncContext, Context, Delivery
from .outcomes import Outcome

if TYPE_CHECKING:
    from .async_client import AsyncClient
    from .client import Client

log = logging.getLogger("driftq")
LEASE_WAIT_MS = 20_000
# How long a handler that was told to stop may go on before it is left behind.
CANCEL_GRACE_S = 5.0
# How long a stop waits for a server that is to hear the last settlements.
SETTLE_GRACE_S = 5.0
# How long tasks may take to end when the worker no longer waits for handlers.
KILL_GRACE_S = 0.1
# How long a job that ended in a thread waits for others, unless enough come sooner.
ENDED_LINGER_S = 0.002
ENDED_ENOUGH = 64
# How many handlers may be left behind, or as many as run at once if that is more.
LEFT_BEHIND_MAX = 8


class Engine:
    def __init__(
        self,
        settings: Settings,
        routes: list[Route],
        client: AsyncClient,
        sync_client: Callable[[], Client],
        owner: str,
    ) -> None:
        self.settings = settings
        self._client = client
        self._sync_client = sync_client
        self._owner = owner
        # Each topic has its share, so that none of them waits for another's messages to be done.
        quota = -(-settings.capacity() // len(routes))
        ahead = (settings.capacity() - settings.concurrency) // len(routes)
        self._lanes = [Lane(route, max(quota, route.per_job()), ahead) for route in routes]
        self._jobs: set[Job] = set()
        self._held: dict[str, Held] = {}
        self._left: set[Job] = set()
        self._left_max = max(LEFT_BEHIND_MAX, settings.concurrency)
        self._outage = client.outage
        self._ended: deque[Job] = deque()
        # The loop was told of what ended; and it waits for more.
        self._is_collecting = self._is_lingering = False
        self._settler = Settler(client, self._settled, lambda: bool(self._jobs), self._overtaken, self._collect)
        self._heartbeats = Heartbeats(client, settings, self._held, self._interrupt, self._outage)
        self._threads = Threads(settings.concurrency, self._begins_in_thread, self._ended_in_thread)
        self._tasks = Tasks(settings.concurrency, self._begins, self._end_job)
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._killed = asyncio.Event()
        self._idle = asyncio.Event()
        self._is_closed = False
        self._error: BaseException | None = None

    def stop(self) -> None:
        """Drains; the second time, without waiting for handlers. What they have done is settled in any case."""
        if self._stopping.is_set():
            self._killed.set()
        self._stopping.set()

    async def run(self) -> None:
        await self._unless_stopped(self._find_topics())
        borrowers = [asyncio.ensure_future(self._borrow(lane)) for lane in self._lanes]
        beats = asyncio.ensure_future(self._heartbeats.run()) if self.settings.heartbeat else None
        try:
            await self._stopping.wait()
            await _cancelled(borrowers)
            if not self._killed.is_set():
                await asyncio.gather(*(self._fetch_lost_answer(lane) for lane in self._lanes))
            await self._drain()
        finally:
            self._is_closed = True
            for task in [*borrowers, *([beats] if beats else [])]:
                task.cancel()
            tell_unheard([held for held in self._held.values() if held.is_over])
            self._settler.cancel()
            self._threads.close()
            self._tasks.close()
        if self._error is not None:
            raise self._error

    async def _find_topics(self) -> None:
        for lane in self._lanes:
            call = _api.topic(lane.route.topic)
            call.patience_s = self.settings.start_timeout_s
            try:
                await self._client.call(call)
            except errors.TopicUnknown as error:
                raise self._named(error, lane)

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        tasks = [asyncio.ensure_future(work), asyncio.ensure_future(self._stopping.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0].done():
                tasks[0].result()
        finally:
            await _cancelled(tasks)

    def _named(self, error: errors.TopicUnknown, lane: Lane) -> errors.TopicUnknown:
        error.add_note(f"It is the topic {lane.route.topic!r}, of which the group {self.settings.group!r} has a worker.")
        return error

    # Borrowing.

    async def _borrow(self, lane: Lane) -> None:
        try:
            while not self._stopping.is_set():
                if lane.free() < lane.least:
                    lane.room.clear()
                    await lane.room.wait()
                    continue
                await self._borrow_once(lane)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if isinstance(error, errors.TopicUnknown):
                self._named(error, lane)
            # A refusal that no repeat mends, such as a topic that was deleted: drain, then say so.
            self._error = error
            self._stopping.set()

    async def _borrow_once(self, lane: Lane) -> None:
        settings = self.settings
        call = lease_call(
            lane.route.topic, settings.group, self._owner, lane.wanted(), settings.lease_ms, LEASE_WAIT_MS
        )
        call.patience_s = 0.0
        lane.asking = call
        repeats = Repeats(FOREVER)
        while True:
            try:
                answer = await self._client.call(call)
                break
            except errors.GroupUnknown:
                return  # It was deleted while this waited: asking again begins it anew, or says that the topic is gone.
            except errors.DriftQError as error:
                delay_s = BACKOFF_MAX_S if isinstance(error, WAITED_FOR) else repeats.next(error)
                self._outage.began(error)
            # The next answer is to come at once: it says that the server is back.
            call.body["wait_ms"] = call.wait_ms = 0
            await asyncio.sleep(delay_s)
        self._outage.ended()
        lane.asking = None
        self._submit(lane, answer["messages"])

    async def _fetch_lost_answer(self, lane: Lane) -> None:
        """A call that was cut off may have been answered: the messages would be lent to this worker without its knowing
        until their leases end. The same call again gives the same messages, and they go back with the others."""
        call = lane.asking
        if call is None:
            return
        call.body["wait_ms"] = call.wait_ms = 0
        call.patience_s = 0.0
        try:
            async with asyncio.timeout(SETTLE_GRACE_S):
                answer = await self._client.call(call)
        except (errors.DriftQError, TimeoutError) as error:
            log.info("what was borrowed last could not be given back: %s", error)
            return
        self._submit(lane, [item for item in answer["messages"] if item["lease"]["token"] not in self._held])

    def _submit(self, lane: Lane, items: list[dict[str, Any]]) -> None:
        """A handler of batches gets those that came together.

        Leases are counted from the answer on. That is late by the time that it took to get here, which does no harm:
        the server decides who holds a message, this clock only says when to stop hoping.
        """
        route, settings, held = lane.route, self.settings, self._held
        ends_at = time.monotonic() + settings.lease_ms / 1000
        size = route.per_job()
        jobs: list[Job] = []
        lane.held += len(items)
        for start in range(0, len(items), size):
            job = Job(lane, settings.heartbeat)
            for item in items[start : start + size]:
                one = job.add(self._context(route, item), ends_at)
                held[one.token] = one
            jobs.append(job)
        self._jobs.update(jobs)
        if self._stopping.is_set():
            self._give_back(jobs)
        else:
            (self._tasks if route.is_async else self._threads).submit(jobs)

    def _context(self, route: Route, item: dict[str, Any]) -> Context | AsyncContext:
        group, desk = self.settings.group, self._settler.commits
        if route.is_async:
            return AsyncContext(item, group, self._owner, self._client, desk)
        return Context(item, group, self._owner, self._sync_client(), desk)

    # Running.

    def _begins_in_thread(self, job: Job) -> None:
        with suppress(RuntimeError):  # The loop is closed: the worker has given this handler up.
            self._loop.call_soon_threadsafe(self._begins, job)

    def _begins(self, job: Job) -> None:
        """Only for jobs with a limit, and for those of which the server was told that they are not begun."""
        if job not in self._jobs:
            return  # It has ended already.
        if job.is_told_waiting:
            self._heartbeats.begun(job)
        if job.has_limit:
            self._set_timers(job)

    def _set_timers(self, job: Job) -> None:
        job.timers = []
        for held in job.held:
            deadline = held.context._envelope.get("deadline")
            if deadline:
                reason = errors.DeadlinePassed(f"the message was of use until {deadline}")
                timer = self._loop.call_later(seconds_until(deadline), self._interrupt, held, reason)
                job.timers.append(timer)
        if job.route.timeout is not None:
            job.timers.append(self._loop.call_later(job.route.timeout, self._time_out, job))

    def _time_out(self, job: Job) -> None:
        for held in job.held:
            reason = errors.TimedOut(f"{job.route.name} took longer than {job.route.timeout} s")
            self._interrupt(held, reason)

    def _interrupt(self, held: Held, reason: errors.Interruption) -> None:
        """The handler is told; the message is settled at once, and what the handler still says is dropped."""
        context = held.context
        if held.is_over or context._is_committing or context._is_committed:
            return
        reason.lease_token = held.token
        context.cancelled.fire(reason)
        settlement = settlement_of(reason)
        self._settle(held, settlement)
        held.job.stop_if_all_are_over(reason, self._watch)
        log.log(level_of(reason, settlement), "%s: %s", place(held), described(reason))

    def _overtaken(self, context: Delivery) -> None:
        held = self._held.get(context._item["lease"]["token"])
        if held is not None:
            self._interrupt(held, errors.LeaseLost("an effect was overtaken before its outcome could be written down"))

    def _watch(self, job: Job) -> None:
        """From any thread: the handler was told to stop, and its messages are settled."""
        with suppress(RuntimeError):  # The loop is closed.
            self._loop.call_soon_threadsafe(self._set_watch, job)

    def _set_watch(self, job: Job) -> None:
        if job in self._jobs and job.has_begun:
            timer = self._loop.call_later(CANCEL_GRACE_S, self._leave, job)
            job.timers = [*(job.timers or ()), timer]

    def _leave(self, job: Job) -> None:
        """The handler does not end. Another job gets its place, unless too many were left already."""
        if job not in self._jobs or job.has_ended or self._is_closed:
            return
        name = job.route.name
        if len(self._left) >= self._left_max:
            self._error = errors.HandlersStuck(
                f"{len(self._left) + 1} handlers do not end although they were told to, the last of them {name}: the "
                "worker ends. Let handlers look at ctx.cancelled, and give what they wait for a limit"
            )
            self._stopping.set()
            self._give_back([*self._threads.take_back(), *self._tasks.take_back()])
        if (self._tasks if job.route.is_async else self._threads).leave(job):
            self._jobs.discard(job)
            self._left.add(job)
            log.warning("%s: %s does not end although it was told to, and is left behind", place(job.held[0]), name)
            self._set_idle()

    def _ended_in_thread(self, job: Job) -> None:
        """Called in the handler's thread. The loop is woken by the first one, which it lets wait for others for a moment,
        and again if there are enough of them, or nothing is left to wait for: woken for each, it would take turns with the
        handlers, and switching between threads would cost more than the work."""
        self._ended.append(job)
        ended = len(self._ended)
        is_enough = ended >= ENDED_ENOUGH or ended >= len(self._jobs)
        if self._is_collecting and not (is_enough and self._is_lingering):
            return  # The loop will look, and find this one, too.
        self._is_collecting = True
        self._is_lingering = not is_enough
        with suppress(RuntimeError):  # The loop is closed: the worker has given this handler up.
            self._loop.call_soon_threadsafe(self._collect if is_enough else self._collect_soon)

    def _collect_soon(self) -> None:
        self._loop.call_later(ENDED_LINGER_S, self._collect)

    def _collect(self) -> None:
        self._is_collecting = self._is_lingering = False
        while self._ended:
            self._end_job(self._ended.popleft())

    def _end_job(self, job: Job) -> None:
        if job.timers is not None:
            for timer in job.timers:
                timer.cancel()
        self._jobs.discard(job)
        if job.is_left:
            self._left.discard(job)
        for held, error in job.endings:
            try:
                self._end(job.route, held, error)
            except Exception as mistake:
                self._end_plainly(held, error, mistake)
        # Job and deliveries refer to each other: let go here, they are not left for the garbage collector to find.
        job.held, job.endings = [], []
        self._set_idle()

    def _set_idle(self) -> None:
        if not self._jobs:
            self._idle.set()
            self._settler.hurry()

    # Settling.

    def _end(self, route: Route, held: Held, error: BaseException | None) -> None:
        context = held.context
        if held.is_over:
            if error is not None and not isinstance(error, (errors.Interruption, asyncio.CancelledError)):
                log.warning("%s: dropped, for the message is not ours any more: %s", place(held), described(error))
            return
        if context._is_committed:
            if error is not None:
                log.warning("%s: %s, after the message was committed", place(held), described(error))
            held.is_over = True
            self._settled(held)
        elif error is None:
            self._settle(held, COMMIT if context._has_more_than_an_ack() else ACK)
        else:
            if self._is_closed and _is_cancel(error):
                error = errors.Cancelled("the worker was cancelled")
            is_own = not route.batch or held.is_meant_by(error)
            settlement = settlement_of(error, retry_bad_payload=route.retry_bad_payload, is_own=is_own)
            self._settle(held, settlement)
            level, trace = level_of(error, settlement), None if isinstance(error, Outcome) else error
            log.log(level, "%s: attempt %d: %s", place(held), context.attempt, described(error), exc_info=trace)

    def _end_plainly(self, held: Held, error: BaseException | None, mistake: Exception) -> None:
        """Whatever goes wrong with an outcome, the message is settled, and the worker goes on."""
        if not held.is_over:
            self._settle(held, nack(described(mistake if error is None else error)))
        with suppress(Exception):
            log.error("%s: its outcome could not be read: %s", place(held), described(mistake))

    def _settle(self, held: Held, settlement: Settlement) -> None:
        held.is_over = True
        held.verb = settlement.verb
        self._settler.add(held, settlement)

    def _settled(self, held: Held) -> None:
        """The server knows, or does not need to know any more: there is room for another message."""
        if self._held.pop(held.token, None) is None:
            return
        lane = held.job.lane
        lane.held -= 1
        if lane.quota - lane.held == lane.least:
            lane.room.set()

    # Draining.

    async def _drain(self) -> None:
        self._give_back([*self._threads.take_back(), *self._tasks.take_back()])
        if self._jobs and not self._killed.is_set():
            await self._wait_idle(self.settings.drain_timeout_s)
        # What has ended in a thread and was not looked at yet is done, and not interrupted.
        self._collect()
        tasks = [job.task for job in self._jobs if job.task is not None]
        for job in list(self._jobs):
            for held in job.held:
                self._interrupt(held, errors.Cancelled("the worker stops"))
        is_killed = self._killed.is_set()
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=KILL_GRACE_S if is_killed else CANCEL_GRACE_S)
            for task in stuck:
                self._tasks.give_up(task)
        self._settler.hurry()
        await self._settler.drained(SETTLE_GRACE_S)

    def _give_back(self, jobs: list[Job]) -> None:
        for job in jobs:
            self._jobs.discard(job)
            for held in job.held:
                if not held.is_over:
                    self._settle(held, RELEASE)

    async def _wait_idle(self, timeout_s: float) -> None:
        self._idle.clear()
        waits = [asyncio.ensure_future(self._idle.wait()), asyncio.ensure_future(self._killed.wait())]
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        await _cancelled(waits)


def _is_cancel(error: BaseException) -> bool:
    return isinstance(error, asyncio.CancelledError)


async def _cancelled(tasks: list[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
