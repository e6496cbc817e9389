"""The worker at its limits: starts, stops, deadlines, lost leases, servers that go away."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import driftq
from driftq.testing import Server, run_until_idle, run_until_idle_async

PROMPT = {"retry_policy": {"backoff_ms": 1, "max_backoff_ms": 1, "jitter": "none"}}


@pytest.fixture
def client(shared: Server) -> Iterator[driftq.Client]:
    with shared.client() as client:
        yield client


@pytest.fixture
def topic(client: driftq.Client, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", "-").replace("]", "")
    client.create_topic(name, **PROMPT)
    return str(name)


class Running:
    """A worker in a thread of its own."""

    def __init__(self, worker: driftq.Worker) -> None:
        self.worker = worker
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.worker.run(signals=False)
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        self.worker.stop()
        self.thread.join(40)
        assert not self.thread.is_alive(), "the worker hangs"


def until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"not within 30 s: {what}"
        time.sleep(0.02)


def test_no_server_at_the_start() -> None:
    worker = driftq.Worker(driftq.Client("http://127.0.0.1:1"), "g", start_timeout=0.3)
    worker.handler("t")(lambda payload, ctx: None)
    with pytest.raises(driftq.Unreachable, match="driftq serve"):
        worker.run(signals=False)

    async def main() -> None:
        async with driftq.AsyncClient("http://127.0.0.1:1") as client:
            async_worker = driftq.AsyncWorker(client, "g", start_timeout=0.3)
            async_worker.handler("t")(lambda payload, ctx: None)
            await async_worker.run(signals=False)

    with pytest.raises(driftq.Unreachable):
        asyncio.run(main())


def test_server_that_comes_late(shared: Server) -> None:
    with Server(on_disk=True) as server:
        with server.client() as client:
            client.create_topic("t")
            client.send("t", 1)
        server.kill()
        worker = driftq.Worker(driftq.Client(server.url), "g", start_timeout=30.0)
        seen: list[Any] = []

        @worker.handler("t")
        def handle(payload: Any, ctx: driftq.Context) -> None:
            seen.append(payload)
            worker.stop()

        running = Running(worker)
        server.start()
        running.thread.join(30)
        assert seen == [1] and running.error is None


def test_no_topic_at_the_start(client: driftq.Client) -> None:
    worker = driftq.Worker(client, "g")
    client.create_topic("a-topic")
    for name in ("a-topic", "no-such-topic"):
        worker.handler(name)(lambda payload, ctx: None)
    with pytest.raises(driftq.TopicUnknown) as caught:
        worker.run(signals=False)
    assert "'no-such-topic'" in caught.value.__notes__[0]


def test_topic_that_is_deleted(client: driftq.Client, topic: str) -> None:
    begun = threading.Event()
    worker = driftq.Worker(client, "g")

    @worker.handler(topic)
    def handle(payload: Any, ctx: driftq.Context) -> None:
        begun.set()

    client.send(topic, 1)
    running = Running(worker)
    assert begun.wait(30)
    client.delete_topic(topic)
    running.thread.join(40)
    assert isinstance(running.error, driftq.TopicUnknown) and topic in running.error.__notes__[0]


@pytest.mark.parametrize(
    "mistake",
    [
        lambda client: driftq.Worker(client, ""),
        lambda client: driftq.Worker(client, "g", concurrency=0),
        lambda client: driftq.Worker(client, "g", prefetch=-1),
        lambda client: driftq.Worker(client, "g", lease_ms=0),
        lambda client: driftq.Worker(client, "g", drain_timeout=-1),
        lambda client: driftq.Worker(client, "g", start_timeout=float("nan")),
        lambda client: driftq.Worker(client, "g").run(),
        lambda client: driftq.Worker(client, "g").batch_handler("t", batch=0),
        lambda client: driftq.Worker(client, "g").handler("t", timeout=0)(print),
        lambda client: driftq.Worker(client, "g").handler("t", bad_payload="ignore")(print),  # type: ignore[arg-type]
    ],
)
def test_mistakes_are_told_at_once(client: driftq.Client, mistake: Any) -> None:
    with pytest.raises(ValueError):
        mistake(client)


def test_one_handler_at_a_time_unless_more_are_asked_for(client: driftq.Client, topic: str) -> None:
    running, most = [0], [0]
    worker = driftq.Worker(client, "g", prefetch=10, drain_timeout=timedelta(seconds=30))

    @worker.handler(topic, timeout=timedelta(seconds=30))
    def handle(payload: Any, ctx: driftq.Context) -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        ctx.cancelled.wait(0.01)
        running[0] -= 1

    client.send_many(topic, range(5))
    run_until_idle(worker)
    assert most == [1]


def test_drain_gives_back_what_was_not_begun(client: driftq.Client, topic: str) -> None:
    begun, end = threading.Event(), threading.Event()
    worker = driftq.Worker(client, "g", concurrency=1, prefetch=4)

    @worker.handler(topic)
    def handle(payload: Any, ctx: driftq.Context) -> None:
        begun.set()
        assert end.wait(30)

    client.send_many(topic, range(5))
    running = Running(worker)
    assert begun.wait(30)
    until(lambda: client.group(topic, "g")["in_flight"] == 5, "everything is borrowed")
    worker.stop()
    until(lambda: client.group(topic, "g")["in_flight"] == 1, "what was not begun is given back")
    end.set()
    running.thread.join(30)
    assert running.error is None and client.group(topic, "g")["lag"] == 4
    attempts: list[int] = []
    again = driftq.Worker(client, "g")
    again.handler(topic)(lambda payload, ctx: attempts.append(ctx.attempt))
    run_until_idle(again)
    assert attempts == [1, 1, 1, 1], "a message that was given back has lost an attempt"


def test_drain_ends(client: driftq.Client, topic: str) -> None:
    begun, told, end = threading.Event(), threading.Event(), threading.Event()
    worker = driftq.Worker(client, "g", drain_timeout=0.1)

    @worker.handler(topic)
    def handle(payload: Any, ctx: driftq.Context) -> None:
        begun.set()
        assert ctx.cancelled.wait(30) and isinstance(ctx.cancelled.reason, driftq.Cancelled)
        told.set()
        assert end.wait(30)

    client.send(topic, 1)
    running = Running(worker)
    assert begun.wait(30)
    running.stop()
    assert told.wait(30)
    group = client.group(topic, "g")
    assert (group["lag"], group["in_flight"]) == (1, 0), "it is not given back"
    end.set()


def test_second_stop_ends_at_once(client: driftq.Client, topic: str) -> None:
    begun, end = threading.Event(), threading.Event()
    worker = driftq.Worker(client, "g", drain_timeout=300.0)

    @worker.handler(topic)
    def handle(payload: Any, ctx: driftq.Context) -> None:
        begun.set()
        end.wait(60)

    client.send(topic, 1)
    running = Running(worker)
    assert begun.wait(30)
    worker.stop()
    running.stop()
    end.set()


def test_deadline(client: driftq.Client, topic: str) -> None:
    client.send(topic, "in time", deadline=timedelta(seconds=60))
    # The last one must be over when the one before it is, which ends with its deadline.
    soon = datetime.now(UTC) + timedelta(seconds=1)
    client.send(topic, "too slow", deadline=soon)
    client.send(topic, "not begun", deadline=soon - timedelta(seconds=0.1))
    begun: list[str] = []
    worker = driftq.Worker(client, "g", concurrency=1)

    @worker.handler(topic)
    def handle(payload: str, ctx: driftq.Context) -> None:
        begun.append(payload)
        if payload == "too slow":
            assert ctx.cancelled.wait(30)
            assert isinstance(ctx.cancelled.reason, driftq.DeadlinePassed)
            with pytest.raises(driftq.DeadlinePassed):
                ctx.check()

    run_until_idle(worker)
    assert begun == ["in time", "too slow"]
    letters = {json.loads(letter["value"]): letter["envelope"]["dead_letter"] for letter in client.dead_letters(topic)}
    assert letters.keys() == {"too slow", "not begun"}
    assert all("DeadlinePassed" in letter["last_error"] for letter in letters.values())


def test_late_results_are_dropped(client: driftq.Client, topic: str) -> None:
    """A thread cannot be stopped: after its time-out it goes on, and neither its follow-ups nor its errors count."""
    other = f"{topic}-receipts"
    client.create_topic(other)
    second = threading.Event()
    worker = driftq.Worker(client, "g", concurrency=2)

    @worker.handler(topic, timeout=0.2)
    def handle(payload: Any, ctx: driftq.Context) -> None:
        ctx.send(other, {"attempt": ctx.attempt})
        if ctx.attempt == 1:
            assert second.wait(30)
            return
        assert "TimedOut" in (ctx.last_error or "")
        second.set()

    client.send(topic, 1)
    run_until_idle(worker)
    assert [item["value"] for item in client.messages(other)] == ['{"attempt":2}']


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_lease_that_is_lost(shared: Server, client: driftq.Client, topic: str, kind: str) -> None:
    """A seek voids what was lent: the next heartbeat says so."""
    reasons: list[Any] = []
    calls: list[int] = []

    def seek() -> None:
        client.request("POST", f"/v2/topics/{topic}/groups/g/seek", {"to": "earliest"})

    client.send(topic, 1)
    if kind == "threads":
        worker = driftq.Worker(client, "g", lease_ms=600)

        @worker.handler(topic)
        def handle(payload: Any, ctx: driftq.Context) -> None:
            calls.append(ctx.attempt)
            if len(calls) == 1:
                seek()
                assert ctx.cancelled.wait(30)
                reasons.append(ctx.cancelled.reason)
                with pytest.raises(driftq.LeaseLost):
                    ctx.effect("lost", lambda: pytest.fail("it ran"), key=topic)
                with pytest.raises(driftq.LeaseLost):
                    ctx.commit()

        run_until_idle(worker)
    else:

        async def main() -> None:
            async with driftq.AsyncClient(shared.url) as async_client:
                worker = driftq.AsyncWorker(async_client, "g", lease_ms=600)

                @worker.handler(topic)
                async def handle(payload: Any, ctx: driftq.AsyncContext) -> None:
                    calls.append(ctx.attempt)
                    if len(calls) == 1:
                        await asyncio.to_thread(seek)
                        try:
                            await asyncio.sleep(30)
                        finally:
                            reasons.append(ctx.cancelled.reason)

                await run_until_idle_async(worker)

        asyncio.run(main())
    assert [type(reason) for reason in reasons] == [driftq.LeaseLost]
    assert len(calls) == 2, "somebody else has it"


def test_stale_ack_is_quiet(client: driftq.Client, topic: str) -> None:
    """Without heartbeats a slow handler loses its message; its ack changes nothing, and the worker goes on."""
    second = threading.Event()
    attempts: list[int] = []
    worker = driftq.Worker(client, "g", lease_ms=200, heartbeat=False, concurrency=2)

    @worker.handler(topic)
    def handle(payload: Any, ctx: driftq.Context) -> None:
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            assert second.wait(30)
        else:
            second.set()

    client.send(topic, 1)
    run_until_idle(worker)
    assert attempts == [1, 2]
