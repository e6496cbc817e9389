"""How an effect of a message ended goes out with the message's commit, and the message is not acked without it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from front import Front

import driftq
from driftq import _commits, _effects
from driftq._calls import Call
from driftq._commits import Entry
from driftq._endings import Ending
from driftq.testing import Server, assert_effects, run_until_idle, run_until_idle_async

PROMPT = {"retry_policy": {"max_attempts": 5, "backoff_ms": 1, "max_backoff_ms": 1, "jitter": "none"}}
KINDS = pytest.mark.parametrize("kind", ["threads", "tasks"])


@pytest.fixture
def front(shared: Server) -> Iterator[Front]:
    with Front(shared.url, []) as front:
        yield front


def work(url: str, topic: str, kind: str, handle: Any, **options: Any) -> None:
    """Runs the worker until the topic is done. The handler is a generator: it yields what is to be awaited."""
    if kind == "threads":
        with driftq.Client(url) as client:
            worker = driftq.Worker(client, "g", **options)

            @worker.handler(topic)
            def run(payload: Any, ctx: driftq.Context) -> None:
                steps = handle(payload, ctx)
                value: Any = None
                while True:
                    try:
                        value = steps.send(value)
                    except StopIteration:
                        return

            run_until_idle(worker)
        return

    async def main() -> None:
        async with driftq.AsyncClient(url) as client:
            worker = driftq.AsyncWorker(client, "g", **options)

            @worker.handler(topic)
            async def run(payload: Any, ctx: driftq.AsyncContext) -> None:
                steps = handle(payload, ctx)
                value: Any = None
                while True:
                    try:
                        value = await steps.send(value)
                    except StopIteration:
                        return

            await run_until_idle_async(worker)

    asyncio.run(main())


def prepared(server: Server, name: str, kind: str, count: int = 1) -> str:
    topic = f"{name}-{kind}"
    with server.client() as client:
        client.create_topic(topic, **PROMPT)
        client.create_topic(f"{topic}-receipts")
        client.send_many(topic, range(count))
    return topic


def state(server: Server, scope: str, key: str) -> str:
    with server.client() as client:
        return str(client.request("POST", "/v2/effects/get", {"scope": scope, "key": key})["state"])


@KINDS
def test_an_ending_goes_with_the_commit(
    shared: Server, front: Front, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """However slow this machine is: no ending waits long enough to go alone, no commit is sent while others may come."""
    monkeypatch.setattr(_commits, "ENDING_LINGER_S", 3600.0)
    monkeypatch.setattr(_commits, "COMMIT_LINGER_S", 3600.0)
    topic = prepared(shared, "rides", kind, 20)

    def handle(payload: int, ctx: Any) -> Any:
        assert (yield ctx.effect(topic, lambda: payload * 2, key=str(payload))) == payload * 2
        ctx.send(f"{topic}-receipts", payload)

    work(front.url, topic, kind, handle, concurrency=20)
    assert_effects(shared, scope=topic, count=20)
    assert front.posts("/v2/effects/finish") == []
    commits = [json.loads(body) for body in front.posts("/v2/commit")]
    ones = [one for commit in commits for one in commit.get("commits", [commit])]
    assert len(ones) == 20 and all(one["ack"] and one["effects"] and one["produce"] for one in ones)
    assert len(commits) < 10, "commits did not go together"


def test_a_loop_that_comes_late_does_not_send_the_ending_of_an_ended_handler_alone() -> None:
    """The handler has ended in its thread, and its commit is about to be added: the ending goes with that."""
    sent: list[Any] = []

    async def send(call: Call) -> Any:
        sent.append(json.loads(call.content() or b""))
        return {"result": "committed"}

    async def main() -> None:
        item = {"topic": "t", "partition": 0, "offset": 0, "lease": {"token": "m", "attempt": 1}}
        context = driftq.AsyncContext(item, "g", "o", None)  # type: ignore[arg-type]
        ending = Ending(("", "s", "k"), "e", {"status": "succeeded", "code": 200}, 0.0)
        ended: list[Exception | None] = []

        def collect() -> None:
            if not ended and not ending.is_riding:
                commits.add(Entry(lambda: b'{"ack":["m"],"effects":[' + ending.written() + b"]}", [ending], ended.append))

        commits = _commits.Commits(send, lambda: False, lambda _: None, collect)
        commits.expect(context, ending)
        while not sent or commits.is_open():
            await asyncio.sleep(0.001)

    asyncio.run(main())
    assert [sorted(commit) for commit in sent] == [["ack", "effects"]]


@KINDS
def test_an_ending_does_not_wait_for_a_handler_that_goes_on(shared: Server, front: Front, kind: str) -> None:
    topic = prepared(shared, "goes-on", kind)
    seen: list[str] = []

    def handle(payload: int, ctx: Any) -> Any:
        yield ctx.effect(topic, lambda: 1, key="k")
        for _ in range(500):
            seen.append(state(shared, topic, "k"))
            if seen[-1] == "succeeded":
                return
            yield asyncio.sleep(0.01) if kind == "tasks" else ctx.cancelled.wait(0.01)

    work(front.url, topic, kind, handle)
    assert seen[-1] == "succeeded"
    assert_effects(shared, scope=topic, count=1)


@KINDS
def test_the_same_effect_twice_in_a_handler(shared: Server, kind: str) -> None:
    topic = prepared(shared, "twice", kind)
    results: list[Any] = []

    def handle(payload: int, ctx: Any) -> Any:
        for number in range(2):
            results.append((yield ctx.effect(topic, lambda number=number: number, key="k")))

    work(shared.url, topic, kind, handle)
    assert results == [0, 0]
    assert_effects(shared, scope=topic, count=1)


@KINDS
def test_a_message_that_is_given_back_does_not_take_the_ending_with_it(shared: Server, kind: str) -> None:
    topic = prepared(shared, "given-back", kind)
    results: list[Any] = []

    def handle(payload: int, ctx: Any) -> Any:
        results.append((yield ctx.effect(topic, lambda: ctx.attempt, key="k")))
        if ctx.attempt == 1:
            raise driftq.Retry(0.0, "again")

    work(shared.url, topic, kind, handle)
    assert results == [1, 1]
    assert_effects(shared, scope=topic, count=1)


@KINDS
def test_a_commit_that_is_refused_does_not_take_the_ending_with_it(shared: Server, kind: str) -> None:
    topic = prepared(shared, "refused", kind)
    results: list[Any] = []

    def handle(payload: int, ctx: Any) -> Any:
        results.append((yield ctx.effect(topic, lambda: ctx.attempt, key="k")))
        if ctx.attempt == 1:
            ctx.send("no-such-topic", 1)

    work(shared.url, topic, kind, handle)
    assert results == [1, 1]
    assert_effects(shared, scope=topic, count=1)


@KINDS
def test_a_commit_of_the_handler_has_the_ending_too(shared: Server, front: Front, kind: str) -> None:
    topic = prepared(shared, "commit", kind)

    def handle(payload: int, ctx: Any) -> Any:
        yield ctx.effect(topic, lambda: 1, key="k")
        yield ctx.commit()
        assert state(shared, topic, "k") == "succeeded"

    work(front.url, topic, kind, handle)
    assert_effects(shared, scope=topic, count=1)
    assert front.posts("/v2/effects/finish") == [] and len(front.posts("/v2/commit")) == 1


@KINDS
def test_a_result_that_is_too_large_for_a_commit(kind: str) -> None:
    with Server("--effect-result-bytes-max", "1000") as server:
        topic = prepared(server, "large", kind)
        results: list[Any] = []

        def handle(payload: int, ctx: Any) -> Any:
            results.append((yield ctx.effect(topic, lambda: "x" * 2_000, key="k")))
            results.append((yield ctx.effect(topic, lambda: "small", key="l")))

        work(server.url, topic, kind, handle)
        assert results == ["x" * 2_000, "small"]
        assert_effects(server, scope=topic, count=2)
        with server.client() as client:
            assert client.effect(topic, lambda: pytest.fail("it ran twice"), key="l") == "small"
            with pytest.raises(driftq.ResultNotKept):
                client.effect(topic, lambda: pytest.fail("it ran twice"), key="k")


@KINDS
def test_the_message_is_not_acked_before_the_ending_is_heard(
    shared: Server, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The ending alone is lost on its way, again and again; the commit carries it all the same."""
    monkeypatch.setattr(_commits, "ENDING_LINGER_S", 0.0)
    topic = prepared(shared, "heard", kind)
    rules = [{"body_has": "heard-alone", "lose": "request", "times": 3}]
    with Front(shared.url, rules) as front:

        def handle(payload: int, ctx: Any) -> Any:
            yield ctx.effect(topic, lambda: "heard-alone", key="k")
            yield asyncio.sleep(0.05) if kind == "tasks" else threading.Event().wait(0.05)

        work(front.url, topic, kind, handle)
        assert len([body for _, _, body in front.requests if b"heard-alone" in body]) >= 4
    assert_effects(shared, scope=topic, count=1)


@KINDS
def test_an_ending_does_not_wait_until_there_is_room_for_a_follow_up(shared: Server, kind: str) -> None:
    """The commit is refused for now; how the effect ended is heard all the same, and the commit goes out later."""
    topic = prepared(shared, "no-room", kind)
    with shared.client() as client:
        client.create_topic(f"{topic}-full", partition_messages_max=1)
        client.send(f"{topic}-full", "in the way")
        heard = threading.Event()

        def make_room() -> None:
            while not heard.is_set():
                records = list(client.effects(scope=topic))
                if records and records[0]["state"] == "succeeded":
                    heard.set()
            client.request("PATCH", f"/v2/topics/{topic}-full", {"partition_messages_max": 10})

        thread = threading.Thread(target=make_room, daemon=True)
        thread.start()

        def handle(payload: int, ctx: Any) -> Any:
            yield ctx.effect(topic, lambda: 1, key="k")
            ctx.send(f"{topic}-full", payload)

        try:
            work(shared.url, topic, kind, handle)
        finally:
            heard.set()
            thread.join(30)
        assert_effects(shared, scope=topic, count=1)
        assert len(list(client.messages(f"{topic}-full"))) == 2


@KINDS
@pytest.mark.parametrize("why", ["durable", "slow", "large"])
def test_an_ending_that_is_stored_before_the_handler_goes_on(
    shared: Server, front: Front, monkeypatch: pytest.MonkeyPatch, kind: str, why: str
) -> None:
    monkeypatch.setattr(_effects, "PROMPT_S", 0.0 if why == "slow" else 1.0)
    topic = prepared(shared, f"stored-{why}", kind)
    states: list[str] = []

    def handle(payload: int, ctx: Any) -> Any:
        result = "x" * 70_000 if why == "large" else 1
        yield ctx.effect(topic, lambda: result, key="k", durable=why == "durable")
        states.append(state(shared, topic, "k"))

    work(front.url, topic, kind, handle)
    assert states == ["succeeded"] and len(front.posts("/v2/effects/finish")) == 1
    assert front.posts("/v2/commit") == []
