"""Clients that are told several servers of a real cluster."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from cluster import SIGNAL_S, Cluster

import driftq
from driftq._lines import ClusterLines
from driftq._servers import Servers
from driftq._transport import ClusterTransport

PRODUCERS = 4
# Messages that are stored before a server is killed, and after it.
MESSAGES = 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def dead() -> str:
    """The URL of a server that is not there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def servers_of(client: driftq.Client | driftq.AsyncClient) -> Servers:
    way = client._lines if isinstance(client, driftq.Client) else client._transport
    assert isinstance(way, ClusterLines | ClusterTransport)
    return way._servers


def current(client: driftq.Client | driftq.AsyncClient) -> str:
    servers = servers_of(client)
    return servers.urls[servers.current]


def standby(cluster: Cluster) -> str:
    serving = cluster.serving()
    return next(url for url in cluster.urls if url != serving)


def test_the_server_that_serves_is_found(cluster: Cluster) -> None:
    idle = standby(cluster)
    named = ", ".join([idle, *(url for url in cluster.urls if url != idle)])
    with driftq.Client(named, patience=0) as client:
        client.create_topic("found")
        assert client.send("found", "x").offset == 0
        assert current(client) == cluster.serving()

    async def main() -> None:
        async with driftq.AsyncClient(named, patience=0) as client:
            assert (await client.send("found", "y")).offset == 1
            assert current(client) == cluster.serving()

    asyncio.run(main())


def test_the_first_server_is_dead(cluster: Cluster, dead: str) -> None:
    named = ",".join([dead, *cluster.urls])
    with driftq.Client(named, patience=0) as client:
        assert client.status()["version"]
        assert current(client) == cluster.serving()

    async def main() -> None:
        async with driftq.AsyncClient(named, patience=0) as client:
            assert (await client.status())["version"]
            assert current(client) == cluster.serving()

    asyncio.run(main())


def test_a_server_that_was_not_named_is_not_asked(cluster: Cluster, dead: str) -> None:
    idle = standby(cluster)
    with driftq.Client(f"{idle},{idle}/,{dead}", patience=0) as client:
        client.create_topic("passed-on")
        for number in range(3):
            assert client.send("passed-on", number).offset == number
        assert current(client) == idle and not servers_of(client).prefers_redirect

    async def main() -> None:
        async with driftq.AsyncClient(f"{idle},{dead}", patience=0) as client:
            assert (await client.send("passed-on", 3)).offset == 3
            assert current(client) == idle and not servers_of(client).prefers_redirect

    asyncio.run(main())


class Producers:
    """Threads that send numbers by one client until they are told to stop."""

    def __init__(self, client: driftq.Client, topic: str) -> None:
        self._client, self._topic = client, topic
        self._stop = threading.Event()
        self.stored: set[str] = set()
        self.failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(PRODUCERS)]
        for thread in self._threads:
            thread.start()

    def _work(self, thread: int) -> None:
        number = 0
        while not self._stop.is_set():
            value = f"{thread}-{number}"
            try:
                self._client.send(self._topic, value)
            except BaseException as error:
                self.failures.append(error)
                return
            self.stored.add(value)
            number += 1
            time.sleep(0.01)

    def has_stored(self, count: int) -> bool:
        assert not self.failures, self.failures
        return len(self.stored) >= count

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(SIGNAL_S)


# Last, because it leaves one server less.
def test_the_server_that_serves_is_killed(cluster: Cluster) -> None:
    named = ",".join(cluster.urls)
    worked: set[str] = set()

    async def until(producers: Producers, count: int) -> None:
        async with asyncio.timeout(SIGNAL_S):
            while not producers.has_stored(count):
                await asyncio.sleep(0.02)

    async def main(sender: driftq.Client) -> None:
        async with driftq.AsyncClient(named) as client:
            worker = driftq.AsyncWorker(client, "readers", concurrency=4)

            @worker.handler("killed")
            async def handle(payload: str, ctx: driftq.AsyncContext) -> None:
                worked.add(payload)

            running = asyncio.ensure_future(worker.run(signals=False))
            producers = Producers(sender, "killed")
            try:
                await until(producers, MESSAGES)
                victim = cluster.serving()
                assert victim is not None and current(client) == current(sender) == victim
                await asyncio.to_thread(cluster.kill, victim)
                await until(producers, len(producers.stored) + MESSAGES)
            finally:
                await asyncio.to_thread(producers.stop)
            assert not producers.failures
            async with asyncio.timeout(SIGNAL_S):
                while not producers.stored <= worked and not running.done():
                    await asyncio.sleep(0.02)
            worker.stop()
            await running
            assert producers.stored == worked
            assert victim != cluster.serving() == current(client) == current(sender)

    with driftq.Client(named) as sender:
        sender.create_topic("killed")
        asyncio.run(main(sender))
        kept = [str(item["value"]) for item in sender.messages("killed")]
        assert len(kept) == len(set(kept)), "a message is there twice"
