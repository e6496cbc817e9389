"""Whatever a handler raises, and whatever its outcome was made of: the message is settled, and the worker goes on."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import driftq
from driftq.testing import Server, run_until_idle, run_until_idle_async

PROMPT = {"retry_policy": {"backoff_ms": 1, "max_backoff_ms": 1, "jitter": "none"}}
DONE_S = 15.0


@pytest.fixture
def client(shared: Server) -> Iterator[driftq.Client]:
    with shared.client() as client:
        yield client


@pytest.fixture
def topic(client: driftq.Client, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", "-").replace("]", "")
    client.create_topic(name, **PROMPT)
    return str(name)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("it has no text")


class Hollow(driftq.Dead):
    """Without what its base would have set."""

    def __init__(self) -> None:
        pass


class Spoilt(driftq.Retry):
    def __init__(self) -> None:
        super().__init__()
        self.after = "soon"  # type: ignore[assignment]


def raising(make: Callable[[], BaseException]) -> Callable[[Any], None]:
    def act(_: Any) -> None:
        raise make()

    return act


def output_of_bytes(ctx: Any) -> None:
    ctx.output(dataset="d", version=b"1", partition_key="p", mode="append", location="l", digest="d")


# What the first attempt does, and what the second one is told.
MISTAKES: dict[str, tuple[Callable[[Any], None], str]] = {
    "retry-text": (raising(lambda: driftq.Retry(after="5")), "TypeError: after is '5'"),  # type: ignore[arg-type]
    "retry-endless": (raising(lambda: driftq.Retry(after=float("inf"))), "ValueError: after is inf"),
    "snooze-nothing": (raising(lambda: driftq.Snooze(None)), "TypeError: seconds is None"),  # type: ignore[arg-type]
    "retry-timedelta": (raising(lambda: driftq.Retry(timedelta(milliseconds=1), ValueError("later"))), "later"),
    "mute": (raising(Mute), "Mute"),
    "hollow": (raising(Hollow), "Hollow"),
    "spoilt": (raising(Spoilt), "Spoilt: to be tried again"),
    "exit": (raising(lambda: SystemExit(3)), "SystemExit: 3"),
    "own-cancellation": (raising(asyncio.CancelledError), "CancelledError"),
    "send-uuid": (lambda ctx: ctx.send("next", {}, run_id=uuid.uuid4()), "TypeError: UUID is not JSON"),
    "send-half-a-pair": (lambda ctx: ctx.send("next", "\udcff"), "UnicodeEncodeError"),
    "output-bytes": (output_of_bytes, "TypeError: bytes is not JSON"),
}


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_mistakes_in_outcomes(shared: Server, client: driftq.Client, topic: str, kind: str) -> None:
    told: dict[str, str] = {}

    def work(name: str, ctx: Any) -> None:
        if ctx.attempt > 1:
            told[name] = ctx.last_error
        elif name in MISTAKES:
            MISTAKES[name][0](ctx)

    client.send_many(topic, [*MISTAKES, "nothing"])
    if kind == "threads":
        worker = driftq.Worker(client, "g", concurrency=2)
        worker.handler(topic)(work)
        run_until_idle(worker, timeout=DONE_S)
    else:

        async def main() -> None:
            async with driftq.AsyncClient(shared.url) as async_client:
                worker = driftq.AsyncWorker(async_client, "g", concurrency=2)

                @worker.handler(topic)
                async def handle(name: str, ctx: driftq.AsyncContext) -> None:
                    work(name, ctx)

                await run_until_idle_async(worker, timeout=DONE_S)

        asyncio.run(main())
    assert told.keys() == MISTAKES.keys()
    for name, (_, expected) in MISTAKES.items():
        assert told[name].startswith(expected), name


def test_reasons_can_be_errors(client: driftq.Client, topic: str) -> None:
    worker = driftq.Worker(client, "g")

    @worker.handler(topic)
    def handle(payload: Any, ctx: driftq.Context) -> None:
        raise driftq.Dead(ValueError("no such card"))

    client.send(topic, 1)
    run_until_idle(worker, timeout=DONE_S)
    (letter,) = client.dead_letters(topic)
    assert letter["envelope"]["dead_letter"]["last_error"] == "no such card"
    assert driftq.Final(ValueError("stolen")).reason == "stolen"
    assert driftq.Snooze(timedelta(minutes=1)).seconds == 60


def test_parser_with_an_error_that_has_no_text(client: driftq.Client, topic: str) -> None:
    def parse(_: Any) -> Any:
        raise Mute

    worker = driftq.Worker(client, "g")
    worker.handler(topic, payload=parse)(lambda payload, ctx: pytest.fail("it was called"))
    client.send(topic, 1)
    run_until_idle(worker, timeout=DONE_S)
    (letter,) = client.dead_letters(topic)
    assert letter["envelope"]["dead_letter"]["last_error"] == "the payload does not parse: Mute"


def test_a_task_of_the_handlers_own_is_cancelled(shared: Server, client: driftq.Client, topic: str) -> None:
    """That is an error of the handler, and its attempt counts; only the worker's own cancellation gives back."""
    attempts: list[int] = []

    async def main() -> None:
        async with driftq.AsyncClient(shared.url) as async_client:
            worker = driftq.AsyncWorker(async_client, "g")

            @worker.handler(topic)
            async def handle(payload: Any, ctx: driftq.AsyncContext) -> None:
                attempts.append(ctx.attempt)
                if len(attempts) < 3:
                    own = asyncio.ensure_future(asyncio.sleep(30))
                    own.cancel()
                    await own

            await run_until_idle_async(worker, timeout=DONE_S)

    client.send(topic, 1)
    asyncio.run(main())
    assert attempts == [1, 2, 3]


def test_a_worker_that_is_cancelled_gives_back(shared: Server, client: driftq.Client, topic: str) -> None:
    async def main() -> None:
        async with driftq.AsyncClient(shared.url) as async_client:
            worker = driftq.AsyncWorker(async_client, "g")
            begun, ended = asyncio.Event(), asyncio.Event()

            @worker.handler(topic)
            async def handle(payload: Any, ctx: driftq.AsyncContext) -> None:
                begun.set()
                try:
                    await asyncio.sleep(30)
                finally:
                    ended.set()

            running = asyncio.ensure_future(worker.run(signals=False))
            await begun.wait()
            running.cancel()
            await ended.wait()
            async with asyncio.timeout(DONE_S):
                while (await async_client.group(topic, "g"))["in_flight"]:
                    await asyncio.sleep(0.01)

    client.send(topic, 1)
    asyncio.run(main())
    attempts: list[int] = []
    again = driftq.Worker(client, "g")
    again.handler(topic)(lambda payload, ctx: attempts.append(ctx.attempt))
    run_until_idle(again, timeout=DONE_S)
    assert attempts == [1]


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_one_of_a_batch_loses_its_lease(shared: Server, client: driftq.Client, topic: str, kind: str) -> None:
    """The others are not lost with it: they are nacked, and come again at once."""
    told: dict[int, str | None] = {}

    def lose(item: Any) -> None:
        """Somebody else settles it, so that the commit comes too late."""
        token = item.message["lease"]["token"]
        client.request("POST", "/v2/leases/nack", {"leases": [{"token": token, "error": "taken away"}]})

    client.send_many(topic, range(3))
    if kind == "threads":
        worker = driftq.Worker(client, "g", prefetch=3)

        @worker.batch_handler(topic, batch=3)
        def handle(items: list[driftq.Context]) -> None:
            if not told:
                told[-1] = None
                lose(items[0])
                items[0].commit()
            told.update({item.payload: item.last_error for item in items})

        run_until_idle(worker, timeout=DONE_S)
    else:

        async def main() -> None:
            async with driftq.AsyncClient(shared.url) as async_client:
                worker = driftq.AsyncWorker(async_client, "g", prefetch=3)

                @worker.batch_handler(topic, batch=3)
                async def handle(items: list[driftq.AsyncContext]) -> None:
                    if not told:
                        told[-1] = None
                        await asyncio.to_thread(lose, items[0])
                        await items[0].commit()
                    told.update({item.payload: item.last_error for item in items})

                await run_until_idle_async(worker, timeout=DONE_S)

        asyncio.run(main())
    assert told[0] == "taken away"
    assert all((told[number] or "").startswith("LeaseLost: somebody else") for number in (1, 2)), told
