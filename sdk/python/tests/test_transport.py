"""The transport of the client for tasks: what it keeps, what it gives up, and what it reads."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from strangers import raw_server, says

import driftq
from driftq import _talk, _transport
from driftq._calls import Call
from driftq.testing import Server

STATUS = b'{"version":"1","epoch":1}'
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 25\r\n\r\n" + STATUS
# Long enough for everything but a test that fails.
SIGNAL_S = 30.0


def asked(url: str, use: Callable[[driftq.AsyncClient], Coroutine[Any, Any, Any]], patience: float = 0.0) -> Any:
    async def main() -> Any:
        async with driftq.AsyncClient(url, patience=patience) as client:
            return await asyncio.wait_for(use(client), SIGNAL_S)

    return asyncio.run(main())


def status_call(answer_timeout_s: float = SIGNAL_S) -> Call:
    return Call("GET", "/v2/status", expects=("version",), answer_timeout_s=answer_timeout_s)


def long_call(server: Server, topic: str) -> Call:
    """A call that the server answers late."""
    with server.client() as client:
        client.create_topic(topic)
    body = {"owner": "o", "max": 1, "lease_ms": 1_000, "wait_ms": 20_000}
    return Call("POST", f"/v2/topics/{topic}/groups/g/lease", body, wait_ms=20_000)


def transport_of(client: driftq.AsyncClient) -> _transport.Transport:
    """Its way to its only server."""
    way = client._transport
    assert isinstance(way, _transport.Transport)
    return way


async def under_way(client: driftq.AsyncClient, call: Call) -> asyncio.Future[Any]:
    """The call, when it has been sent."""
    asking = asyncio.ensure_future(client.call(call))
    while not any(connection._answer for connection in transport_of(client)._open):
        await asyncio.sleep(0)
    return asking


class Kept:
    """A server that answers every request on a connection, and counts the connections."""

    def __init__(self, *answers: bytes) -> None:
        self.connections = 0
        self._answers = answers or (OK,)

    def __call__(self, connection: socket.socket) -> None:
        self.connections += 1
        number = 0
        while connection.recv(65_536):
            connection.sendall(self._answers[min(number, len(self._answers) - 1)])
            number += 1


def test_a_connection_is_kept() -> None:
    kept = Kept()
    with raw_server(kept) as url:

        async def use(client: driftq.AsyncClient) -> None:
            for _ in range(5):
                assert await client.status() == {"version": "1", "epoch": 1}

        asked(url, use)
    assert kept.connections == 1


def test_calls_at_once_have_a_connection_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transport, "CONNECTIONS_KEPT", 2)
    together = threading.Barrier(4)
    kept = Kept()

    def answer(connection: socket.socket) -> None:
        together.wait(SIGNAL_S)
        kept(connection)

    with raw_server(answer) as url:

        async def use(client: driftq.AsyncClient) -> None:
            await asyncio.gather(*(client.status() for _ in range(4)))
            assert len(transport_of(client)._free) == 2, "more are kept than may be"
            await asyncio.sleep(0)
            assert len(transport_of(client)._open) == 2, "one that is not kept is open"

        asked(url, use)
    assert kept.connections == 4


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 25\r\nconnection: close\r\n\r\n" + STATUS,
        b"HTTP/1.0 200 OK\r\ncontent-length: 25\r\n\r\n" + STATUS,
        OK + b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
    ],
    ids=["says so", "HTTP/1.0", "says too much"],
)
def test_a_connection_is_not_kept_that(raw: bytes) -> None:
    kept = Kept(raw)
    with raw_server(kept) as url:

        async def use(client: driftq.AsyncClient) -> None:
            for _ in range(3):
                assert await client.status() == {"version": "1", "epoch": 1}

        asked(url, use)
    assert kept.connections == 3


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n" + STATUS[:5] + b"\r\n14\r\n" + STATUS[5:] + b"\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + STATUS,
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK,
    ],
    ids=["in chunks", "ends with the connection", "a hint first"],
)
def test_an_answer_that_comes(raw: bytes) -> None:
    with raw_server(says(raw)) as url:
        assert asked(url, lambda client: client.status()) == {"version": "1", "epoch": 1}


def test_an_answer_that_comes_byte_by_byte() -> None:
    def answer(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.recv(65_536)
        for index in range(len(OK)):
            connection.sendall(OK[index : index + 1])

    with raw_server(answer) as url:
        assert asked(url, lambda client: client.status()) == {"version": "1", "epoch": 1}


def test_an_idle_connection_that_the_server_closes() -> None:
    closed = threading.Event()
    connections = 0

    def answer(connection: socket.socket) -> None:
        nonlocal connections
        connections += 1
        connection.recv(65_536)
        connection.sendall(OK)
        connection.close()
        closed.set()

    with raw_server(answer) as url:

        async def use(client: driftq.AsyncClient) -> None:
            await client.status()
            # The event loop stands still: nobody but the socket itself can tell.
            assert closed.wait(SIGNAL_S)
            await client.status()

        asked(url, use)
    assert connections == 2


def test_an_idle_connection_that_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transport, "CONNECTION_IDLE_S", 0.0)
    kept = Kept()
    with raw_server(kept) as url:

        async def use(client: driftq.AsyncClient) -> None:
            for _ in range(3):
                await client.status()
                await asyncio.sleep(0.001)

        asked(url, use)
    assert kept.connections == 3


@pytest.mark.parametrize("raw", [b"HTTP/1.1 200 OK\r\nconte", OK[:-4]], ids=["in its head", "in its body"])
def test_an_answer_that_breaks_off(raw: bytes) -> None:
    answers = [raw, OK]

    def answer(connection: socket.socket) -> None:
        says(answers.pop(0))(connection)

    with raw_server(answer) as url:

        async def use(client: driftq.AsyncClient) -> None:
            with pytest.raises(driftq.ConnectionLost):
                await client.status()
            assert await client.status() == {"version": "1", "epoch": 1}

        asked(url, use)


@pytest.mark.parametrize("raw", [b"", b"HTTP/1.1 200 OK\r\nconte", OK[:-4]], ids=["at all", "in its head", "in its body"])
def test_an_answer_that_does_not_come(raw: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(raw)
        connection.recv(65_536)

    with raw_server(answer) as url:

        async def use(client: driftq.AsyncClient) -> None:
            with pytest.raises(driftq.ConnectionLost, match="nothing came"):
                await client.call(status_call(answer_timeout_s=0.2))
            await asyncio.sleep(0)
            assert not transport_of(client)._open, "the connection would give this answer to the next call"

        asked(url, use)


def test_an_answer_that_comes_slowly_is_waited_for() -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(65_536)
        for index in range(len(OK)):
            connection.sendall(OK[index : index + 1])
            time.sleep(0.02)

    with raw_server(answer) as url:
        # All of it takes longer than that; each byte takes a fraction of it.
        assert asked(url, lambda client: client.call(status_call(answer_timeout_s=1.0))) == {"version": "1", "epoch": 1}


def test_a_request_that_nobody_takes() -> None:
    is_over = threading.Event()

    def answer(_: socket.socket) -> None:
        is_over.wait(SIGNAL_S)

    with raw_server(answer) as url:

        async def use(client: driftq.AsyncClient) -> None:
            call = Call("POST", "/v2/topics/t/messages", bytes(32 * 1024 * 1024), answer_timeout_s=0.3)
            with pytest.raises(driftq.ConnectionLost, match="not taken"):
                await client.call(call)

        try:
            asked(url, use)
        finally:
            is_over.set()


def test_a_refusal_before_the_request_is_read() -> None:
    refusal = b'{"code":"BODY_TOO_LARGE","detail":"no","retryable":false}'
    head = b"HTTP/1.1 413 Too Large\r\ncontent-length: %d\r\nx-request-id: r-7\r\n\r\n" % len(refusal)
    is_over = threading.Event()
    connections = 0

    def answer(connection: socket.socket) -> None:
        nonlocal connections
        connections += 1
        connection.recv(1_024)
        connection.sendall(head + refusal)
        is_over.wait(SIGNAL_S)

    with raw_server(answer) as url:

        async def use(client: driftq.AsyncClient) -> None:
            for _ in range(2):
                with pytest.raises(driftq.errors.BodyTooLarge) as caught:
                    await client.call(Call("POST", "/v2/topics/t/messages", bytes(32 * 1024 * 1024)))
                assert caught.value.request_id == "r-7"

        try:
            asked(url, use)
        finally:
            is_over.set()
    assert connections == 2, "the rest of a request is taken for the next one"


def test_an_answer_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_talk, "ANSWER_BYTES_MAX", 24)
    with raw_server(says(OK)) as url, pytest.raises(driftq.NotDriftQ, match="more than 24 bytes"):
        asked(url, lambda client: client.status())


def test_a_head_that_is_too_large() -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nx: ")
        while True:
            connection.sendall(b"x" * 65_536)

    with raw_server(answer) as url, pytest.raises(driftq.NotDriftQ):
        asked(url, lambda client: client.status())


def test_a_call_that_is_cancelled(shared: Server) -> None:
    call = long_call(shared, "cancelled-call")

    async def use(client: driftq.AsyncClient) -> None:
        asking = await under_way(client, call)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await client.status())["version"], "it got the answer of another call"
        assert len(transport_of(client)._open) == 1, "the cancelled call left its connection"

    asked(shared.url, use)


def test_a_call_that_is_cancelled_when_its_answer_is_there() -> None:
    kept = Kept()
    with raw_server(kept) as url:

        async def use(client: driftq.AsyncClient) -> None:
            await client.status()
            connection = transport_of(client)._free[0]
            asking = asyncio.ensure_future(client.status())
            while connection._answer is None or not connection._answer.done():
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
            assert await client.status() == {"version": "1", "epoch": 1}

        asked(url, use)


def test_calls_that_wait_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transport, "CONNECTIONS_MAX", 1)
    came, go_on = threading.Event(), threading.Event()
    kept = Kept()

    def answer(connection: socket.socket) -> None:
        came.set()
        go_on.wait(SIGNAL_S)
        kept(connection)

    with raw_server(answer) as url:

        async def use(client: driftq.AsyncClient) -> None:
            first = asyncio.ensure_future(client.status())
            await asyncio.to_thread(came.wait, SIGNAL_S)
            with pytest.raises(driftq.ConnectionLost, match="calls are under way"):
                await client.call(status_call(answer_timeout_s=0.1))
            cancelled = asyncio.ensure_future(client.status())
            await asyncio.sleep(0)
            cancelled.cancel()
            waiting = [asyncio.ensure_future(client.status()) for _ in range(3)]
            go_on.set()
            await asyncio.gather(first, *waiting)

        asked(url, use)
    assert kept.connections == 1


def test_a_client_that_is_closed_in_the_middle(shared: Server) -> None:
    call = long_call(shared, "closed-client")

    async def main() -> None:
        client = driftq.AsyncClient(shared.url, patience=0.0)
        asking = await under_way(client, call)
        await client.close()
        with pytest.raises(driftq.ConnectionLost):
            await asyncio.wait_for(asking, SIGNAL_S)
        assert not transport_of(client)._open

    asyncio.run(main())


def test_a_server_that_is_killed_and_comes_back(on_disk: Server) -> None:
    call = long_call(on_disk, "killed")

    async def use(client: driftq.AsyncClient) -> None:
        asking = await under_way(client, call)
        await client.status()
        on_disk.kill()
        with pytest.raises(driftq.ConnectionLost):
            await asking
        with pytest.raises(driftq.Unreachable):
            await client.status()
        on_disk.restart()
        assert (await client.status())["version"]

    asked(on_disk.url, use)


def test_a_path_that_is_no_path(shared: Server) -> None:
    async def use(client: driftq.AsyncClient) -> None:
        for path in ("/v2/a b", "/v2/%zz"):
            with pytest.raises(driftq.DriftQError):
                await client.request("GET", path)
        with pytest.raises(driftq.DriftQError):
            await client.request("G ET", "/v2/status")
        assert (await client.status())["version"]

    asked(shared.url, use)
