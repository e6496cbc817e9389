"""Who runs jobs: nothing that is handed over stays lying."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import driftq
from driftq._engine import ENDED_ENOUGH, Engine
from driftq._jobs import Job, Lane, Tasks, Threads
from driftq._settings import Settings, make_route
from driftq.context import AsyncContext, Context


def job_of(function: Any, number: int, *, is_async: bool) -> Job:
    lane = Lane(make_route("t", function, None, None, 0, "dead"), 10, 5)
    job = Job(lane, True)
    item = {"topic": "t", "value": str(number), "lease": {"token": str(number), "attempt": 1}}
    kind: Any = AsyncContext if is_async else Context
    job.add(kind(item, "g", "o", None), 0.0)
    return job


def test_a_job_that_comes_as_a_task_ends() -> None:
    """The task has seen that there is nothing more, and is not known to have ended yet."""

    async def main() -> list[int]:
        done: list[int] = []
        all_done = asyncio.Event()

        async def handle(payload: int, ctx: AsyncContext) -> None:
            done.append(payload)

        def ended(_: Job) -> None:
            if len(done) < 5:
                job = job_of(handle, len(done), is_async=True)
                asyncio.get_running_loop().call_soon(tasks.submit, [job])
            else:
                all_done.set()

        tasks = Tasks(1, lambda job: None, ended)
        tasks.submit([job_of(handle, 0, is_async=True)])
        async with asyncio.timeout(30):
            await all_done.wait()
        return done

    assert asyncio.run(main()) == [0, 1, 2, 3, 4]


def test_a_task_that_waits_takes_the_next_jobs() -> None:
    """One runner for job after job, also where each comes when the one before is long done; and another one, but not two,
    if somebody has cancelled the one that waits."""

    async def main() -> list[asyncio.Task[Any] | None]:
        ended: asyncio.Queue[Job] = asyncio.Queue()
        ran: list[asyncio.Task[Any] | None] = []

        async def handle(payload: int, ctx: AsyncContext) -> None:
            ran.append(asyncio.current_task())
            await asyncio.sleep(0)

        async def run(*numbers: int) -> None:
            tasks.submit([job_of(handle, number, is_async=True) for number in numbers])
            for _ in numbers:
                await ended.get()
            await asyncio.sleep(0)

        tasks = Tasks(1, lambda job: None, ended.put_nowait)
        async with asyncio.timeout(30):
            await run(0)
            await run(1)
            runner = ran[-1]
            assert runner is not None
            runner.cancel()
            await asyncio.sleep(0)
            await run(2, 3)
        tasks.close()
        return ran

    first, second, third, fourth = asyncio.run(main())
    assert first is second is not third is fourth


def test_threads_take_everything() -> None:
    """Many small lots, each handed over when the one before is done, which is when threads go to sleep."""
    lots, size = 500, 7
    left = [0]
    lock = threading.Lock()
    lot_done = threading.Event()

    def handle(payload: int, ctx: Context) -> None:
        pass

    def ended(_: Job) -> None:
        with lock:
            left[0] -= 1
            if not left[0]:
                lot_done.set()

    threads = Threads(4, lambda job: None, ended)
    for lot in range(lots):
        lot_done.clear()
        left[0] = size
        threads.submit([job_of(handle, lot * size + number, is_async=False) for number in range(size)])
        assert lot_done.wait(30), f"a job of lot {lot} was not run"
    threads.close()


def test_slow_handlers_run_at_once() -> None:
    barrier = threading.Barrier(4)
    ended = threading.Semaphore(0)

    def handle(payload: int, ctx: Context) -> None:
        barrier.wait(30)

    threads = Threads(4, lambda job: None, lambda job: ended.release())
    jobs = [job_of(handle, number, is_async=False) for number in range(8)]
    threads.submit(jobs)
    for _ in jobs:
        assert ended.acquire(timeout=30)
    assert all(error is None for job in jobs for _, error in job.endings)
    threads.close()


def test_a_thread_that_was_left_does_not_come_back() -> None:
    """Its place is taken: one more would be more handlers at once than were asked for."""
    ended = threading.Semaphore(0)
    stuck, release = threading.Event(), threading.Event()
    meetings: list[bool] = []
    both = threading.Barrier(2)

    def handle(payload: int, ctx: Context) -> None:
        if payload == 0:
            stuck.set()
            assert release.wait(30)
        elif payload > 1:
            try:
                both.wait(0.2)
                meetings.append(True)
            except threading.BrokenBarrierError:
                pass

    threads = Threads(1, lambda job: None, lambda job: ended.release())
    first, second = (job_of(handle, number, is_async=False) for number in range(2))
    threads.submit([first, second])
    assert stuck.wait(30)
    assert threads.leave(first)
    assert ended.acquire(timeout=30), "nobody took the place"
    release.set()
    assert ended.acquire(timeout=30)
    assert not threads.leave(second), "it has ended"
    threads.submit([job_of(handle, number, is_async=False) for number in (2, 3)])
    for _ in range(2):
        assert ended.acquire(timeout=30)
    assert not meetings
    threads.close()


def test_a_task_that_was_left_does_not_come_back() -> None:
    async def main() -> None:
        release = asyncio.Event()
        ended: asyncio.Queue[Job] = asyncio.Queue()
        running, most = 0, 0

        async def handle(payload: int, ctx: AsyncContext) -> None:
            nonlocal running, most
            if payload == 0:
                await release.wait()
                return
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

        tasks = Tasks(1, lambda job: None, ended.put_nowait)
        first, second = (job_of(handle, number, is_async=True) for number in range(2))
        tasks.submit([first, second])
        await asyncio.sleep(0)
        assert tasks.leave(first)
        async with asyncio.timeout(30):
            assert await ended.get() is second, "nobody took the place"
            tasks.submit([job_of(handle, number, is_async=True) for number in range(2, 10)])
            release.set()
            for _ in range(9):
                await ended.get()
        assert most == 1
        assert not tasks.leave(second), "it has ended"

    asyncio.run(main())


def test_the_loop_is_woken_for_many_that_end_in_threads() -> None:
    """By the first one, by enough of them, and by the last one."""

    async def main() -> list[str]:
        woken: list[str] = []

        class Loop:
            def call_soon_threadsafe(self, function: Any) -> None:
                woken.append(function.__name__)

        route = make_route("t", lambda payload, ctx: None, None, None, 0, "dead")
        async with driftq.AsyncClient("http://127.0.0.1:1") as client:
            engine = Engine(Settings("g"), [route], client, lambda: None, "o")  # type: ignore[arg-type, return-value]
            engine._loop = Loop()  # type: ignore[assignment]
            jobs = [job_of(route.function, number, is_async=False) for number in range(ENDED_ENOUGH + 3)]
            engine._jobs.update(jobs)
            for job in jobs[: ENDED_ENOUGH + 1]:
                engine._ended_in_thread(job)
            assert woken == ["_collect_soon", "_collect"]
            engine._collect()
            for job in jobs[ENDED_ENOUGH + 1 :]:
                engine._ended_in_thread(job)
            engine._collect()
            assert not engine._jobs
        return woken[2:]

    assert asyncio.run(main()) == ["_collect_soon", "_collect"]
