"""Settlements that go together, and one that spoils the call for the others."""

from __future__ import annotations

import asyncio
from typing import Any

from driftq import errors
from driftq._calls import Call
from driftq._engine import COMMIT
from driftq._jobs import Held, Job, Lane
from driftq._settings import make_route
from driftq._settlements import ACK
from driftq._settler import Settler
from driftq.context import AsyncContext


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


def test_one_that_spoils_the_call() -> None:
    async def main() -> None:
        client = Fake()
        settled: list[str] = []
        settler = Settler(client, lambda held: settled.append(held.token), lambda: False)  # type: ignore[arg-type]
        lane = Lane(make_route("t", print, None, None, 0, "dead"), 10, 5)
        for token in ("a", "bad", "b"):
            item = {"topic": "t", "partition": 0, "offset": 0, "lease": {"token": token, "attempt": 1}}
            context = AsyncContext(item, "g", "o", client)  # type: ignore[arg-type]
            settler.add(Held(context, Job(lane, True), token, 0.0), ACK)
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
