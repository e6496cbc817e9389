"""Effects of deliveries whose lease is lost: the server restarts, or somebody else gets the message."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import driftq
from driftq.testing import Server, assert_effects, run_until_idle, run_until_idle_async

PROMPT = {"retry_policy": {"backoff_ms": 1, "max_backoff_ms": 1, "jitter": "none"}}


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_server_restarts_while_a_handler_runs(on_disk: Server, kind: str) -> None:
    """The effect ran once, the message is done, and there is one receipt: nothing lost, nothing doubled."""
    client = on_disk.client()
    client.create_topic("charges", **PROMPT)
    client.create_topic("receipts")
    client.send_many("charges", range(20))
    charged: list[int] = []

    def charge(number: int) -> int:
        charged.append(number)
        if number == 7:
            on_disk.restart()
        return number

    def found(record: dict[str, Any]) -> Any:
        number = int(record["key"])
        return driftq.Succeeded(number) if number in charged else driftq.NOT_DONE

    async def charge_async(number: int) -> int:
        await asyncio.to_thread(charge, number)
        return number

    if kind == "threads":
        worker = driftq.Worker(client, "g", concurrency=2, lease_ms=1_000)

        @worker.handler("charges")
        def handle(number: int, ctx: driftq.Context) -> None:
            ctx.effect("charge", charge, number, key=str(number), reconcile=found)
            ctx.send("receipts", number)

        run_until_idle(worker)
    else:

        async def main() -> None:
            async with driftq.AsyncClient(on_disk.url) as async_client:
                worker = driftq.AsyncWorker(async_client, "g", concurrency=2, lease_ms=1_000)

                @worker.handler("charges")
                async def handle(number: int, ctx: driftq.AsyncContext) -> None:
                    await ctx.effect("charge", charge_async, number, key=str(number), reconcile=found)
                    ctx.send("receipts", number)

                await run_until_idle_async(worker)

        asyncio.run(main())

    assert sorted(charged) == list(range(20))
    assert_effects(on_disk, scope="charge", count=20, attempts=None)
    assert sorted(int(item["value"]) for item in client.messages("receipts")) == list(range(20))
    assert client.group("charges", "g")["lag"] == 0


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_an_effect_outlives_the_lease_of_its_message(on_disk: Server, kind: str) -> None:
    """The server restarts while an effect runs. The lease goes on, or runs out while the server is away; the effect ends
    and is written down all the same, and the next attempt, without a reconciler, replays it. The first worker stops, so
    that the next attempt comes after the end of this one: the other order has a test of its own below."""
    client = on_disk.client()
    client.create_topic("charges", **PROMPT)
    client.send("charges", 1)
    results: list[str] = []
    ended = threading.Event()
    stops: list[Any] = []

    def charge() -> str:
        stops.pop()()
        on_disk.restart()
        return "charged"

    async def charge_async() -> str:
        return await asyncio.to_thread(charge)

    if kind == "threads":
        for _ in range(2):
            worker = driftq.Worker(client, "g", concurrency=1, lease_ms=600)
            stops.append(worker.stop)

            @worker.handler("charges")
            def handle(payload: Any, ctx: driftq.Context) -> None:
                try:
                    results.append(ctx.effect("charge", charge, key="k"))
                finally:
                    ended.set()

            run_until_idle(worker)
            assert ended.wait(30)
    else:

        async def main() -> None:
            async with driftq.AsyncClient(on_disk.url) as async_client:
                for _ in range(2):
                    worker = driftq.AsyncWorker(async_client, "g", concurrency=1, lease_ms=600)
                    stops.append(worker.stop)

                    @worker.handler("charges")
                    async def handle(payload: Any, ctx: driftq.AsyncContext) -> None:
                        try:
                            results.append(await ctx.effect("charge", charge_async, key="k"))
                        finally:
                            ended.set()

                    await run_until_idle_async(worker)
                    assert await asyncio.to_thread(ended.wait, 30)

        asyncio.run(main())
    assert "charged" in results and set(results) == {"charged"}
    assert_effects(on_disk, scope="charge", count=1)
    assert client.group("charges", "g")["lag"] == 0


@pytest.mark.parametrize("durable", [True, False], ids=["at once", "with the commit"])
def test_an_overtaken_effect_is_left_to_whoever_finds_out(shared: Server, durable: bool) -> None:
    """Somebody else has the message, and is told that nobody knows. What the first one knows comes too late: it does not
    resolve the effect, and what it returned is dropped."""
    client = shared.client()
    topic = f"overtaken-{durable}"
    client.create_topic(topic, **PROMPT)
    client.send(topic, 1)
    asked, ended = threading.Event(), threading.Event()
    seen: list[Any] = []
    # No lease lapses, however slow this machine is, and no heartbeat says that one is lost.
    worker = driftq.Worker(client, "g", concurrency=3, lease_ms=600_000, heartbeat=False)

    def charge(token: str) -> str:
        # Whoever has the token may give the message back: the next attempt begins while this one runs.
        client.request("POST", "/v2/leases/nack", {"leases": [{"token": token, "error": "given to another"}]})
        assert asked.wait(30)
        return "charged"

    @worker.handler(topic)
    def handle(payload: Any, ctx: driftq.Context) -> None:
        token = ctx.message["lease"]["token"]
        try:
            seen.append(ctx.effect(topic, lambda: charge(token), key="k", durable=durable))
        except driftq.LeaseLost:
            seen.append("lost")
            raise
        except driftq.EffectUncertain:
            seen.append("uncertain")
            asked.set()
            assert ended.wait(30)
            raise driftq.Dead("nobody knows") from None
        finally:
            if ctx.attempt == 1:
                ended.set()

    run_until_idle(worker)
    # An outcome that is to go with the commit may be handed over before the commit is refused.
    assert seen == ["uncertain", "lost"] or (not durable and seen == ["uncertain", "charged"])
    assert_effects(client, scope=topic, count=1, state="unknown")
    letters = list(client.dead_letters(topic))
    assert len(letters) == 1 and "nobody knows" in str(letters[0])


def test_an_overtaken_effect_of_no_message_is_uncertain(shared: Server) -> None:
    client = shared.client()

    def charge() -> str:
        with shared.client() as other:  # The lease is over, and somebody else takes it.
            name = {"scope": "taken", "key": "k"}
            while other.request("POST", "/v2/effects/begin", name | {"wait_ms": 5_000})["decision"] != "execute":
                pass
        return "charged"

    # A lease that nobody renews.
    client.renewals.keep = lambda lease: 0  # type: ignore[method-assign]
    with pytest.raises(driftq.EffectUncertain, match="overtaken"):
        client.effect("taken", charge, key="k", lease_ms=50, on_lapse="retry")
    assert_effects(client, scope="taken", count=1, state="in_progress", attempts=2)
