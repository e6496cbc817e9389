"""Handlers that do not end although they were told to: they are left behind, as long as there are not too many."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

import driftq
from driftq import _engine
from driftq.testing import Server, run_until_idle, run_until_idle_async

PROMPT = {"retry_policy": {"backoff_ms": 1, "max_backoff_ms": 1, "jitter": "none"}}
DONE_S = 20.0


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_engine, "CANCEL_GRACE_S", 0.1)


async def ignore_cancellations(end: threading.Event) -> None:
    while not end.is_set():
        try:
            await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            pass


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_somebody_else_gets_the_place(shared: Server, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """One handler at a time, and the first one never ends: the others run all the same, and what it says in the end is
    dropped."""
    topic, receipts = f"stuck-{kind}", f"stuck-receipts-{kind}"
    client = shared.client()
    client.create_topic(topic, **PROMPT)
    client.create_topic(receipts)
    client.send_many(topic, range(4))
    caplog.set_level(logging.INFO, "driftq")
    end, ended = threading.Event(), threading.Event()
    try:
        if kind == "threads":
            worker = driftq.Worker(client, "g", concurrency=1)

            @worker.handler(topic, timeout=0.1)
            def handle(number: int, ctx: driftq.Context) -> None:
                if number == 0 and ctx.attempt == 1:
                    end.wait(60)
                    ctx.send(receipts, "too late")
                    ended.set()
                elif number == 3:
                    end.set()
                    assert ended.wait(30)
                    ctx.send(receipts, number)
                else:
                    ctx.send(receipts, number)

            # The one that waits for the first one to end may take longer than others.
            run_until_idle(worker, timeout=DONE_S)
        else:

            async def main() -> None:
                async with driftq.AsyncClient(shared.url) as async_client:
                    worker = driftq.AsyncWorker(async_client, "g", concurrency=1)

                    @worker.handler(topic, timeout=0.1)
                    async def handle(number: int, ctx: driftq.AsyncContext) -> None:
                        if number == 0 and ctx.attempt == 1:
                            await ignore_cancellations(end)
                            ctx.send(receipts, "too late")
                            ended.set()
                        elif number == 3:
                            end.set()
                            while not ended.is_set():
                                await asyncio.sleep(0.01)
                            ctx.send(receipts, number)
                        else:
                            ctx.send(receipts, number)

                    await run_until_idle_async(worker, timeout=DONE_S)

            asyncio.run(main())
    finally:
        end.set()
    assert sorted(item["value"] for item in client.messages(receipts)) == ["0", "1", "2", "3"]
    left = [record for record in caplog.records if "left behind" in record.message]
    assert left and all(record.levelno == logging.WARNING for record in left)
    assert f"{topic}/0/0" in left[0].message


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_too_many(shared: Server, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The worker ends, and says why. What waited is given back."""
    monkeypatch.setattr(_engine, "LEFT_BEHIND_MAX", 2)
    topic = f"too-many-{kind}"
    client = shared.client()
    client.create_topic(topic, **PROMPT)
    client.send_many(topic, range(20))
    end = threading.Event()
    begun: list[int] = []
    worker = driftq.Worker(client, "g", concurrency=1, prefetch=10)
    try:
        if kind == "threads":

            @worker.handler(topic, timeout=0.05)
            def handle(number: int, ctx: driftq.Context) -> None:
                begun.append(number)
                end.wait(60)
        else:

            @worker.handler(topic, timeout=0.05)
            async def handle_async(number: int, ctx: driftq.AsyncContext) -> None:
                begun.append(number)
                await ignore_cancellations(end)

        with pytest.raises(driftq.HandlersStuck, match=r"3 handlers .* ctx\.cancelled"):
            run_until_idle(worker, timeout=DONE_S)
    finally:
        end.set()
    assert len(begun) == 3
    group = client.group(topic, "g")
    assert (group["lag"], group["in_flight"]) == (20, 0), "what waited was not given back"


@pytest.mark.parametrize("stops", [1, 2])
def test_stop_with_a_task_that_does_not_end(shared: Server, stops: int) -> None:
    """`asyncio.run` waits for every task: for this one it would wait for ever."""
    topic = f"no-end-{stops}"
    client = shared.client()
    client.create_topic(topic)
    client.send(topic, 1)
    begun, end = threading.Event(), threading.Event()
    worker = driftq.Worker(client, "g", drain_timeout=0.1 if stops == 1 else 300.0)

    @worker.handler(topic)
    async def handle(payload: Any, ctx: driftq.AsyncContext) -> None:
        begun.set()
        await ignore_cancellations(end)

    thread = threading.Thread(target=worker.run, kwargs={"signals": False}, daemon=True)
    thread.start()
    try:
        assert begun.wait(30)
        for _ in range(stops):
            worker.stop()
        thread.join(DONE_S)
        assert not thread.is_alive(), "the worker hangs"
    finally:
        end.set()


def test_an_effect_may_end_first(shared: Server, caplog: pytest.LogCaptureFixture) -> None:
    """A thread that loses its lease in the middle of an effect is not left behind before the effect has ended."""
    client = shared.client()
    client.create_topic("lost-in-effect", **PROMPT)
    client.send("lost-in-effect", 1)
    worker = driftq.Worker(client, "g", lease_ms=300)
    lost = threading.Event()
    results: list[Any] = []

    def charge(ctx: driftq.Context) -> str:
        client.request("POST", "/v2/topics/lost-in-effect/groups/g/seek", {"to": "earliest"})
        assert ctx.cancelled.wait(30)
        lost.wait(1.0)  # Many times the grace.
        return "charged"

    @worker.handler("lost-in-effect")
    def handle(payload: Any, ctx: driftq.Context) -> None:
        found = driftq.Succeeded("charged")  # The next attempt is told that nobody knows.
        results.append(ctx.effect("lost-in-effect", lambda: charge(ctx), key="k", reconcile=lambda _: found))

    run_until_idle(worker, timeout=DONE_S)
    assert set(results) == {"charged"}
    assert "left behind" not in caplog.text
