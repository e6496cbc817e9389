"""Running a worker until its topics are done, and what the ledger must say then."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from .. import errors
from ..client import Client
from ..worker import AsyncWorker, Worker
from ._server import Server

POLL_S = 0.02
IDLE_TIMEOUT_S = 30.0


def run_until_idle(worker: Worker, *, timeout: float = IDLE_TIMEOUT_S) -> None:
    """Runs the worker until its group owes nothing more in any of its topics, then stops it.

    Raises what the worker raises, and `TimeoutError` if it is not done in time.
    """
    failures: list[BaseException] = []

    def work() -> None:
        try:
            worker.run(signals=False)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work, name="driftq-test-worker", daemon=True)
    thread.start()
    deadline = time.monotonic() + timeout
    late = False
    while thread.is_alive() and not _is_idle(worker.client, worker):
        if time.monotonic() > deadline:
            late = True
            break
        thread.join(POLL_S)
    if thread.is_alive():
        worker.stop()
    thread.join(worker.settings.drain_timeout_s + IDLE_TIMEOUT_S)
    if failures:
        raise failures[0]
    if late:
        raise TimeoutError(f"the worker was not done within {timeout} s")


async def run_until_idle_async(worker: AsyncWorker, *, timeout: float = IDLE_TIMEOUT_S) -> None:
    """The same for a worker of tasks."""
    running = asyncio.ensure_future(worker.run(signals=False))
    deadline = time.monotonic() + timeout
    late = False
    while not running.done() and not await _is_idle_async(worker):
        if time.monotonic() > deadline:
            late = True
            break
        await asyncio.wait([running], timeout=POLL_S)
    if not running.done():
        worker.stop()
    await running
    if late:
        raise TimeoutError(f"the worker was not done within {timeout} s")


def assert_effects(
    server: Server | Client, *, scope: str, count: int | None = None, state: str = "succeeded", attempts: int | None = 1
) -> list[dict[str, Any]]:
    """Asserts that the scope has `count` effects, all in this state, and that each was begun once (or `attempts` times;
    None: any number of times). Returns them."""
    client = server.client() if isinstance(server, Server) else server
    found = list(client.effects(scope=scope))
    if isinstance(server, Server):
        client.close()
    if count is not None and len(found) != count:
        raise AssertionError(f"effects of {scope!r}: {len(found)} instead of {count}: {[one['key'] for one in found]}")
    for effect in found:
        if effect["state"] != state:
            raise AssertionError(f"{scope}/{effect['key']} is {effect['state']}, not {state}: {effect}")
        if attempts is not None and effect["attempt"] != attempts:
            raise AssertionError(f"{scope}/{effect['key']} was begun {effect['attempt']} times, not {attempts}: {effect}")
    return found


def _is_idle(client: Client, worker: Worker) -> bool:
    try:
        return all(client.group(topic, worker.settings.group)["lag"] == 0 for topic in worker.topics())
    except errors.GroupUnknown:
        return False  # The worker has not asked for anything yet.


async def _is_idle_async(worker: AsyncWorker) -> bool:
    try:
        for topic in worker.topics():
            if (await worker.client.group(topic, worker.settings.group))["lag"]:
                return False
    except errors.GroupUnknown:
        return False
    return True
