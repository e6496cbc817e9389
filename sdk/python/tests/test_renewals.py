"""Leases of effects are kept while they run."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import driftq
from driftq import testing
from driftq._calls import Call
from driftq._effects import Lease
from driftq._renewals import Renewals


def lease_of(token: str, lease_ms: int) -> Lease:
    now = time.monotonic()
    return Lease(token, 1, 1, lease_ms, now + lease_ms / 1000, now)


class Server:
    """Hears renewals, and lets a test look at each."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.is_heard = threading.Semaphore(0)

    def call(self, call: Call) -> Any:
        self.heard.append(call.body["token"])
        self.is_heard.release()


def test_a_lease_that_is_due_before_the_others_is_renewed_in_time() -> None:
    server = Server()
    renewals = Renewals(server.call)
    renewals.keep(lease_of("long", 600_000))
    while renewals._wakes_at == float("inf"):
        pass  # Until the thread has looked, and sleeps.
    number = renewals.keep(lease_of("short", 60))
    for _ in range(3):
        assert server.is_heard.acquire(timeout=30)
    assert set(server.heard) == {"short"}
    renewals.drop(number)
    renewals.close()


def test_a_lease_that_is_dropped_while_it_is_renewed_is_not_renewed_again() -> None:
    server = Server()
    renewals = Renewals(server.call)
    numbers = {"dropped": renewals.keep(lease_of("dropped", 60))}

    def dropping(call: Call) -> Any:
        if call.body["token"] == "dropped":
            renewals.drop(numbers["dropped"])
            renewals.keep(lease_of("kept", 60))
        return server.call(call)

    renewals._call = dropping
    for _ in range(4):
        assert server.is_heard.acquire(timeout=30)
    assert server.heard[:4] == ["dropped", "kept", "kept", "kept"]
    renewals.close()


def test_tasks_keep_the_leases_of_what_waits(shared: testing.Server) -> None:
    """While a plain function runs, the loop stands still: its lease is kept only once it is told how it went."""

    async def main() -> list[tuple[str, int]]:
        seen: list[tuple[str, int]] = []

        def look(where: str) -> None:
            seen.append((where, len(client.renewals._kept)))

        async def awaited() -> None:
            await asyncio.sleep(0)
            look("awaited")

        async def call(call: Call) -> Any:
            if call.path.endswith("/finish"):
                look("finish")
            return await ask(call)

        async with driftq.AsyncClient(shared.url) as client:
            ask = client.call
            client.call = call  # type: ignore[method-assign]
            await client.effect("kept", lambda: look("plain"), key="plain")
            await client.effect("kept", awaited, key="awaited")
            look("after")
        return seen

    assert asyncio.run(main()) == [("plain", 0), ("finish", 1), ("awaited", 1), ("finish", 1), ("after", 0)]
