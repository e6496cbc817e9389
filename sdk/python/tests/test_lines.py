"""The way of the client for threads: what it keeps, what it gives up, and what it reads."""

from __future__ import annotations

import socket
import threading

import pytest
from strangers import raw_server, says

import driftq
from driftq import _lines, _talk
from driftq._calls import Call
from driftq.testing import Server

STATUS = b'{"version":"1","epoch":1}'
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 25\r\n\r\n" + STATUS
# Long enough for everything but a test that fails.
SIGNAL_S = 30.0


def status_call(answer_timeout_s: float = SIGNAL_S) -> Call:
    return Call("GET", "/v2/status", expects=("version",), answer_timeout_s=answer_timeout_s)


def lines_of(client: driftq.Client) -> _lines.Lines:
    """Its way to its only server."""
    way = client._lines
    assert isinstance(way, _lines.Lines)
    return way


class Kept:
    """A server that answers every request on a connection, and counts the connections."""

    def __init__(self, raw: bytes = OK) -> None:
        self.connections = 0
        self._raw = raw

    def __call__(self, connection: socket.socket) -> None:
        self.connections += 1
        while connection.recv(65_536):
            connection.sendall(self._raw)


def test_a_connection_is_kept_and_closed_at_the_end() -> None:
    kept = Kept()
    with raw_server(kept) as url, driftq.Client(url, patience=0.0) as client:
        for _ in range(5):
            assert client.status() == {"version": "1", "epoch": 1}
        assert (kept.connections, len(lines_of(client)._free), len(lines_of(client)._busy)) == (1, 1, 0)
        client.close()
        assert not lines_of(client)._free


def test_calls_at_once_have_a_connection_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lines, "CONNECTIONS_KEPT", 2)
    together = threading.Barrier(4)
    kept = Kept()

    def answer(connection: socket.socket) -> None:
        together.wait(SIGNAL_S)
        kept(connection)

    with raw_server(answer) as url, driftq.Client(url, patience=0.0) as client:
        threads = [threading.Thread(target=client.status) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SIGNAL_S)
        assert len(lines_of(client)._free) == 2, "more are kept than may be"
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
    with raw_server(kept) as url, driftq.Client(url, patience=0.0) as client:
        for _ in range(2):
            client.status()
    assert kept.connections == 2


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n19\r\n" + STATUS + b"\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + STATUS,
        b"HTTP/1.1 102 Processing\r\n\r\n" + OK,
    ],
    ids=["in chunks", "until the end", "after a sign of life"],
)
def test_an_answer_that_comes(raw: bytes) -> None:
    with raw_server(says(raw)) as url, driftq.Client(url, patience=0.0) as client:
        assert client.status() == {"version": "1", "epoch": 1}


def test_an_idle_connection_that_the_server_closes() -> None:
    closed = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(OK)
        connection.shutdown(socket.SHUT_RDWR)
        connection.close()
        closed.set()

    # No patience: a connection that is asked although it is closed would be an error.
    with raw_server(answer) as url, driftq.Client(url, patience=0.0) as client:
        for _ in range(3):
            assert client.status()["version"] == "1"
            assert closed.wait(SIGNAL_S)
            closed.clear()


def test_an_idle_connection_that_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept()
    with raw_server(kept) as url, driftq.Client(url, patience=0.0) as client:
        client.status()
        monkeypatch.setattr(_lines, "CONNECTION_IDLE_S", -1.0)
        client.status()
    assert kept.connections == 2


@pytest.mark.parametrize("raw", [b"", OK[:20], OK[:-3]], ids=["nothing", "in the head", "in the body"])
def test_an_answer_that_breaks_off(raw: bytes) -> None:
    with raw_server(says(raw)) as url, driftq.Client(url, patience=0.0) as client:
        with pytest.raises((driftq.ConnectionLost, driftq.NotDriftQ)):
            client.status()
        assert not lines_of(client)._free, "what is left would be the next one's answer"


@pytest.mark.parametrize("raw", [b"", OK[:-3]], ids=["at all", "whole"])
def test_an_answer_that_does_not_come(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    # The time of a connection is not that of an answer.
    monkeypatch.setattr(_lines, "CONNECT_TIMEOUT_S", 2 * SIGNAL_S)
    is_over = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(raw)
        is_over.wait(SIGNAL_S)
        connection.close()

    with raw_server(answer) as url, driftq.Client(url, patience=0.0) as client:
        with pytest.raises(driftq.ConnectionLost, match="nothing came for 0.2 s"):
            client.call(status_call(0.2))
        assert not lines_of(client)._free and not lines_of(client)._busy
        is_over.set()


def test_a_request_that_nobody_takes() -> None:
    is_over = threading.Event()

    def answer(_: socket.socket) -> None:
        is_over.wait(SIGNAL_S)

    with raw_server(answer) as url, driftq.Client(url, patience=0.0) as client:
        large = Call("POST", "/v2/topics/t/messages", b"x" * (64 << 20), answer_timeout_s=0.3)
        with pytest.raises(driftq.ConnectionLost, match="not taken within 0.3 s"):
            client.call(large)
        is_over.set()


@pytest.mark.parametrize("takes_the_rest", [True, False])
def test_a_refusal_before_the_request_is_read(takes_the_rest: bool) -> None:
    refusal = b'{"code":"BODY_TOO_LARGE","status":413,"title":"t","detail":"d","retryable":false,"help":"h"}'
    raw = b"HTTP/1.1 413 Too Large\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(refusal) + refusal

    def answer(connection: socket.socket) -> None:
        connection.recv(1024)
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        while takes_the_rest and connection.recv(1 << 20):
            pass
        connection.close()

    with raw_server(answer) as url, driftq.Client(url, patience=0.0) as client:
        with pytest.raises(driftq.Refused, match="d"):
            client.call(Call("POST", "/v2/topics/t/messages", b"x" * (8 << 20)))


def test_an_answer_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_talk, "ANSWER_BYTES_MAX", 24)
    with raw_server(says(OK)) as url, driftq.Client(url, patience=0.0) as client:
        with pytest.raises(driftq.NotDriftQ, match="more than 24 bytes"):
            client.status()


def test_calls_that_wait_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lines, "CONNECTIONS_MAX", 1)
    begun, is_over = threading.Event(), threading.Event()

    def answer(connection: socket.socket) -> None:
        while connection.recv(65_536):
            begun.set()
            is_over.wait(SIGNAL_S)
            connection.sendall(OK)

    with raw_server(answer) as url, driftq.Client(url, patience=0.0) as client:
        first = threading.Thread(target=client.status)
        first.start()
        assert begun.wait(SIGNAL_S)
        with pytest.raises(driftq.ConnectionLost, match="1 calls are under way"):
            client.call(status_call(0.1))
        is_over.set()
        first.join(SIGNAL_S)
        assert client.status()["version"] == "1", "its room is free again"


def test_a_client_that_is_closed_in_the_middle(shared: Server) -> None:
    with shared.client() as client:
        client.create_topic("lines-closed")
        ended: list[BaseException] = []
        body = {"owner": "o", "max": 1, "lease_ms": 1_000, "wait_ms": 20_000}
        call = Call("POST", "/v2/topics/lines-closed/groups/g/lease", body, wait_ms=20_000, patience_s=0.0)

        def ask() -> None:
            try:
                client.call(call)
            except driftq.DriftQError as error:
                ended.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        # The group is there when the server has the call.
        with shared.client() as other:
            while not other.request("GET", "/v2/topics/lines-closed/groups")["groups"]:
                pass
        client.close()
        asking.join(SIGNAL_S)
        assert len(ended) == 1 and isinstance(ended[0], driftq.ConnectionLost)
        assert not lines_of(client)._busy
