"""Producers: together in one call, bounded, and nothing lost."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from strangers import loses_answers, raw_server, says_nothing

import driftq
from driftq._batches import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, Batches, Record
from driftq.testing import Server


def values(client: driftq.Client, topic: str) -> list[str]:
    return [item["value"] for item in client.messages(topic)]


def test_many(shared: Server) -> None:
    with shared.client() as client, driftq.Producer(client) as producer:
        client.create_topic("many")
        futures = [producer.send("many", {"n": n}, key=str(n)) for n in range(2_500)]
        producer.flush()
        assert all(future.done() for future in futures)
        assert [future.result().offset for future in futures] == list(range(2_500))
        with pytest.raises(TypeError, match="kye"):
            producer.send("many", 1, kye="k")  # type: ignore[call-arg]


def test_many_from_tasks(shared: Server) -> None:
    async def main() -> list[int]:
        async with driftq.AsyncClient(shared.url) as client, driftq.AsyncProducer(client, buffer=100) as producer:
            await client.create_topic("many-tasks")
            futures = [await producer.send("many-tasks", n) for n in range(1_000)]
            await producer.flush()
            return [future.result().offset for future in futures]

    assert asyncio.run(main()) == list(range(1_000))


class Sink:
    def __init__(self) -> None:
        self.result: Any = None

    def done(self) -> bool:
        return self.result is not None

    def set_result(self, result: Any, /) -> None:
        self.result = result

    def set_exception(self, exception: Any, /) -> None:
        self.result = exception


def test_size_of_batches() -> None:
    batches = Batches(30.0)
    for _ in range(BATCH_MESSAGES_MAX + 1):
        batches.add(Record("small", b"x", Sink()))
    for _ in range(3):
        batches.add(Record("large", b"x" * (BATCH_BYTES_MAX // 2 - 10), Sink()))
    batches.add(Record("huge", b"x" * (2 * BATCH_BYTES_MAX), Sink()))
    sizes: list[tuple[str, int]] = []
    while isinstance(batch := batches.take(), list):
        sizes.append((batch[0].topic, len(batch)))
    assert sorted(sizes) == [("huge", 1), ("large", 1), ("large", 2), ("small", 1), ("small", BATCH_MESSAGES_MAX)]
    assert batches.take() is None


def test_a_bad_message_fails_alone(shared: Server) -> None:
    with shared.client() as client, driftq.Producer(client) as producer:
        client.create_topic("bad-one")
        futures = [producer.send("bad-one", n, priority=99 if n == 37 else 1) for n in range(100)]
        producer.flush()
        failed = [n for n, future in enumerate(futures) if future.exception() is not None]
        assert failed == [37] and isinstance(futures[37].exception(), driftq.Refused)
        assert len(values(client, "bad-one")) == 99


def test_a_topic_that_is_not_there(shared: Server) -> None:
    with shared.client() as client, driftq.Producer(client) as producer:
        client.create_topic("there")
        nowhere, there = producer.send("nowhere", 1), producer.send("there", 1)
        producer.flush()
        assert isinstance(nowhere.exception(), driftq.TopicUnknown) and there.result().offset == 0


def test_a_lost_answer(shared: Server) -> None:
    with shared.client() as client:
        client.create_topic("lost")
        with loses_answers(shared.url, 1) as url, driftq.Client(url) as through, driftq.Producer(through) as producer:
            futures = [producer.send("lost", n) for n in range(50)]
            producer.flush()
            assert [future.result().offset for future in futures] == list(range(50))
        assert values(client, "lost") == [str(n) for n in range(50)]


def test_the_server_restarts(on_disk: Server) -> None:
    with on_disk.client() as client, driftq.Producer(client) as producer:
        client.create_topic("t")
        futures = [producer.send("t", n) for n in range(500)]
        on_disk.restart()
        futures += [producer.send("t", n) for n in range(500, 1_000)]
        producer.flush()
        assert len({future.result().offset for future in futures}) == 1_000
        assert sorted(int(value) for value in values(client, "t")) == list(range(1_000))


def fill_and_drain(client: driftq.Client, topic: str) -> driftq.Worker:
    worker = driftq.Worker(client, "g", concurrency=1, prefetch=4)
    worker.handler(topic)(lambda payload, ctx: None)
    return worker


def test_refused_for_now_is_sent_again(shared: Server) -> None:
    """The topic takes ten messages; the rest waits here until a worker has made room, and `send` waits with it."""
    with shared.client() as client, driftq.Producer(client, buffer=20) as producer:
        client.create_topic("full", partition_messages_max=10)
        client.request("POST", "/v2/topics/full/groups/g/lease", {"owner": "first"})
        worker = fill_and_drain(client, "full")
        thread = threading.Thread(target=lambda: worker.run(signals=False), daemon=True)
        futures = []
        for n in range(30):
            if n == 12:
                thread.start()
            futures.append(producer.send("full", n))
        producer.flush()
        worker.stop()
        thread.join(30)
        assert len({future.result().offset for future in futures}) == 30


def test_refused_for_too_long(shared: Server) -> None:
    with shared.client(patience=0.3) as client, driftq.Producer(client) as producer:
        client.create_topic("too-long", partition_messages_max=10)
        client.request("POST", "/v2/topics/too-long/groups/g/lease", {"owner": "first"})
        futures = [producer.send("too-long", n) for n in range(15)]
        producer.flush()
        assert sum(isinstance(future.exception(), driftq.Overloaded) for future in futures) == 5


def test_a_closed_producer_takes_nothing(shared: Server) -> None:
    with shared.client() as client:
        producer = driftq.Producer(client)
        producer.close()
        with pytest.raises(RuntimeError, match="closed"):
            producer.send("t", 1)
        with pytest.raises(ValueError):
            driftq.Producer(client, buffer=0)


def test_the_buffer_is_bounded() -> None:
    """Nobody answers: the sixth message waits for a place, and gets one when the first five have failed."""
    sent = threading.Event()
    with raw_server(says_nothing) as url:
        producer = driftq.Producer(driftq.Client(url, patience=0.1), buffer=5)
        futures = [producer.send("t", n) for n in range(5)]

        def send() -> None:
            producer.send("t", 5)
            sent.set()

        threading.Thread(target=send, daemon=True).start()
        assert not sent.wait(0.3), "the sixth message did not wait"
    assert sent.wait(30)
    producer.close()
    assert all(isinstance(future.exception(), driftq.DriftQError) for future in futures)


def test_the_buffer_of_tasks_is_bounded() -> None:
    async def main() -> None:
        with raw_server(says_nothing) as url:
            async with driftq.AsyncClient(url, patience=0.1) as client:
                producer = driftq.AsyncProducer(client, buffer=5)
                futures = [await producer.send("t", n) for n in range(5)]
                sixth = asyncio.ensure_future(producer.send("t", 5))
                done, _ = await asyncio.wait([sixth], timeout=0.3)
                assert not done, "the sixth message did not wait"
                url.hang_up()
                await sixth
                await producer.close()
                assert all(isinstance(future.exception(), driftq.DriftQError) for future in futures)

    asyncio.run(main())
