"""What handlers can do: follow-ups, commits, batches, and what their context says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
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


def test_follow_up_to_nowhere(client: driftq.Client, topic: str) -> None:
    """A commit that is refused is an error of this attempt: the message is not lost, and not acked either."""
    worker = driftq.Worker(client, "g")

    @worker.handler(topic)
    def handle(payload: Any, ctx: driftq.Context) -> None:
        if ctx.attempt == 1:
            ctx.send("no-such-topic", 1)
        else:
            assert "TopicUnknown" in (ctx.last_error or "")

    client.send(topic, 1)
    run_until_idle(worker)


def test_what_is_collected_after_a_commit_is_a_mistake(client: driftq.Client, topic: str) -> None:
    worker = driftq.Worker(client, "g")
    raised: list[type[BaseException]] = []

    @worker.handler(topic)
    def handle(payload: Any, ctx: driftq.Context) -> None:
        ctx.commit()
        with pytest.raises(RuntimeError) as caught:
            ctx.send(topic, 2)
        raised.append(caught.type)
        with pytest.raises(RuntimeError) as caught:
            ctx.commit()
        raised.append(caught.type)

    client.send(topic, 1)
    run_until_idle(worker)
    assert raised == [RuntimeError, RuntimeError]


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_batches(shared: Server, client: driftq.Client, topic: str, kind: str) -> None:
    sizes: list[int] = []
    done: list[int] = []

    def work(items: Any) -> None:
        sizes.append(len(items))
        for item in items:
            if item.payload == 3:
                item.outcome = driftq.Dead("three is out")
            elif item.payload == 4 and item.attempt == 1:
                item.outcome = driftq.Retry(0.001, "once more")
            else:
                done.append(item.payload)
        if 6 in [item.payload for item in items if item.attempt == 1]:
            raise RuntimeError("an error of all")

    client.send_many(topic, range(8))
    if kind == "threads":
        worker = driftq.Worker(client, "g", concurrency=1, prefetch=7)
        worker.batch_handler(topic, batch=4)(work)
        run_until_idle(worker)
    else:

        async def main() -> None:
            async with driftq.AsyncClient(shared.url) as async_client:
                worker = driftq.AsyncWorker(async_client, "g", concurrency=1, prefetch=7)

                @worker.batch_handler(topic, batch=4)
                async def handle(items: list[driftq.AsyncContext]) -> None:
                    work(items)

                await run_until_idle_async(worker)

        asyncio.run(main())
    assert max(sizes) == 4
    assert set(done) == {0, 1, 2, 4, 5, 6, 7}
    assert done.count(6) == 2, "the error of the batch was not that of each message"
    (letter,) = client.dead_letters(topic)
    assert letter["envelope"]["dead_letter"]["last_error"] == "three is out"


def test_two_topics_and_both_kinds(client: driftq.Client, topic: str) -> None:
    client.create_topic(f"{topic}-2")
    seen: list[str] = []
    worker = driftq.Worker(client, "g", concurrency=1, prefetch=0)
    worker.handler(topic)(lambda payload, ctx: seen.append(f"thread {payload}"))

    @worker.handler(f"{topic}-2")
    async def handle(payload: int, ctx: driftq.AsyncContext) -> None:
        seen.append(f"task {await ctx.effect('two', lambda: payload, key=str(payload))}")

    client.send(topic, 1)
    client.send(f"{topic}-2", 2)
    run_until_idle(worker)
    assert sorted(seen) == ["task 2", "thread 1"]


def test_context(client: driftq.Client, topic: str) -> None:
    place = client.send(
        topic, {"n": 1}, key="k", run_id="run-7", step_id="charge", parent_step_id="plan", tenant_id="acme",
        labels={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "x": "y"}, idempotency_key="once",
    )  # fmt: skip
    seen: list[Any] = []
    worker = driftq.Worker(client, "g")

    @worker.handler(topic)
    def handle(payload: Any, ctx: driftq.Context) -> None:
        seen.append((ctx.topic, ctx.partition, ctx.offset, ctx.key, ctx.attempt, ctx.last_error, ctx.group))
        seen.append((ctx.run_id, ctx.step_id, ctx.parent_step_id, ctx.tenant_id, ctx.labels["x"], ctx.idempotency_key))
        seen.append((ctx.trace.trace_id, ctx.trace.parent_span_id, len(ctx.trace.span_id), ctx.deadline))
        seen.append((ctx.raw, ctx.message["value"], ctx.payload))
        ctx.effect("context", lambda: 1, key="k")

    run_until_idle(worker)
    assert seen == [
        (topic, place.partition, place.offset, "k", 1, None, "g"),
        ("run-7", "charge", "plan", "acme", "y", "once"),
        ("a" * 32, "b" * 16, 16, None),
        (b'{"n":1}', '{"n":1}', {"n": 1}),
    ]
    (effect,) = client.effects(scope="context")
    assert (effect["tenant_id"], effect["run_id"], effect["step_id"]) == ("acme", "run-7", "charge")


def test_a_cancellation_is_for_one_message_only(shared: Server, client: driftq.Client, topic: str) -> None:
    """Tasks run one message after the other: what is left of a cancellation would confuse time-outs and task groups of
    the next one."""
    tasks: list[Any] = []
    left: list[int] = []

    async def main() -> None:
        async with driftq.AsyncClient(shared.url) as async_client:
            worker = driftq.AsyncWorker(async_client, "g", concurrency=1)

            @worker.handler(topic, timeout=0.2)
            async def handle(payload: int, ctx: driftq.AsyncContext) -> None:
                task = asyncio.current_task()
                assert task is not None
                tasks.append(task)
                left.append(task.cancelling())
                if payload == 1 and ctx.attempt == 1:
                    await asyncio.sleep(30)

            await run_until_idle_async(worker)

    client.send_many(topic, [1, 2])
    asyncio.run(main())
    assert tasks[0] is tasks[1], "the second message did not follow in the same task"
    assert left == [0, 0, 0]
