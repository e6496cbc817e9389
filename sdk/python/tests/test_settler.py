"""Settlements that go together, and one that spoils the call for the others."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import driftq
from driftq import _settler, errors
from driftq._calls import Call
from driftq._commits import _all_done
from driftq._jobs import Held, Job, Lane
from driftq._settings import make_route
from driftq._settlements import ACK, COMMIT
from driftq._settler import Settler
from driftq.context import AsyncContext
from driftq.testing import Server, run_until_idle_async


class Fake:
    """Refuses every call in which a bad token is."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    async def call(self, call: Call) -> Any:
        tokens = [lease["token"] for lease in call.body["leases"]]
        self.calls.append(tokens)
        await asyncio.sleep(0)
        if "bad" in tokens:
            raise errors.refusal({"code": "INVALID_ARGUMENT", "detail": "a bad token"}, 400)
        return {"results": [{"status": "ok"} for _ in tokens]}


def test_commits_are_taken_for_done_only_if_all_are() -> None:
    """A refusal that quotes what a result looks like is none."""
    done = {"result": "committed", "produced": [], "outputs": []}
    quoting = {"result": "refused", "problem": {"code": "STALE_LEASE", "detail": json.dumps(done, separators=(",", ":"))}}
    for results, is_done in (([done, done], True), ([done, quoting], False), ([done], False)):
        answer = json.dumps({"results": results}, separators=(",", ":")).encode()
        assert (_all_done(answer, 2) is not None) == is_done


def held(client: Fake, token: str) -> Held:
    lane = Lane(make_route("t", print, None, None, 0, "dead"), 10, 5)
    item = {"topic": "t", "partition": 0, "offset": 0, "lease": {"token": token, "attempt": 1}}
    context = AsyncContext(item, "g", "o", client)  # type: ignore[arg-type]
    return Held(context, Job(lane, True), token, 0.0)


@pytest.mark.parametrize("more", [0, 3], ids=["as many as are enough", "a few more"])
def test_acks_wait_until_there_are_enough(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    monkeypatch.setattr(_settler, "ACK_LINGER_S", 3600.0)

    async def main() -> None:
        client = Fake()
        settler = Settler(client, lambda _: None, lambda: True)  # type: ignore[arg-type]
        tokens = [str(number) for number in range(_settler.ACKS_ENOUGH + more)]
        settler.add(held(client, tokens[0]), ACK)
        await asyncio.sleep(0.01)
        assert client.calls == [], "the first one did not wait for others"
        for token in tokens[1:]:
            settler.add(held(client, token), ACK)
        await asyncio.wait_for(settler.drained(30.0), 30.0)
        assert client.calls == [tokens]

    asyncio.run(main())


def test_acks_do_not_wait_when_no_more_will_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_settler, "ACK_LINGER_S", 3600.0)

    async def main() -> None:
        client = Fake()
        is_busy = True
        settler = Settler(client, lambda _: None, lambda: is_busy)  # type: ignore[arg-type]
        settler.add(held(client, "first"), ACK)
        await asyncio.sleep(0.01)
        settler.add(held(client, "last"), ACK)
        is_busy = False
        settler.hurry()
        await settler.drained(30.0)
        assert client.calls == [["first", "last"]]

    asyncio.run(main())


def test_the_last_ack_of_a_worker_does_not_wait(monkeypatch: pytest.MonkeyPatch, shared: Server) -> None:
    monkeypatch.setattr(_settler, "ACK_LINGER_S", 3600.0)

    async def main() -> None:
        async with driftq.AsyncClient(shared.url) as client:
            await client.create_topic("last-ack")
            await client.send_many("last-ack", range(5))
            worker = driftq.AsyncWorker(client, "g", concurrency=1)

            @worker.handler("last-ack")
            async def handle(_payload: int, _ctx: driftq.AsyncContext) -> None:
                await asyncio.sleep(0.01)  # Others have their turn, and the ack of the one before waits.

            await run_until_idle_async(worker)

    asyncio.run(main())


def test_one_that_spoils_the_call() -> None:
    async def main() -> None:
        client = Fake()
        settled: list[str] = []
        settler = Settler(client, lambda held: settled.append(held.token), lambda: False)  # type: ignore[arg-type]
        for token in ("a", "bad", "b"):
            settler.add(held(client, token), ACK)
        await settler.drained(30.0)
        assert client.calls == [["a", "bad", "b"], ["a"], ["bad"], ["b"]]
        assert settled == ["a", "bad", "b"]

    asyncio.run(main())


class Broken:
    """No call can even be made."""

    async def call(self, call: Call) -> Any:
        raise RuntimeError("the transport is gone")


def test_whatever_is_raised_every_entry_ends() -> None:
    """An entry that never ends would keep its place in the worker for ever, and heartbeats its message."""

    async def main() -> None:
        client = Broken()
        settled: list[str] = []
        settler = Settler(client, lambda held: settled.append(held.token), lambda: False)  # type: ignore[arg-type]
        lane = Lane(make_route("t", print, None, None, 0, "dead"), 10, 5)
        for token, settlement in (("a", ACK), ("b", ACK), ("c", COMMIT)):
            item = {"topic": "t", "partition": 0, "offset": 0, "lease": {"token": token, "attempt": 1}}
            context = AsyncContext(item, "g", "o", client)  # type: ignore[arg-type]
            settler.add(Held(context, Job(lane, True), token, 0.0), settlement)
        await settler.drained(30.0)
        assert sorted(settled) == ["a", "b", "c"]

    asyncio.run(main())
