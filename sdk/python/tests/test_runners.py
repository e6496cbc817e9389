"""Who runs jobs: nothing that is handed over stays lying."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from driftq._jobs import Job, Lane, Tasks, Threads
from driftq._settings import make_route
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
