"""Which of several servers is asked: by the rules alone, and by both clients."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from strangers import raw_server

import driftq
from driftq import errors
from driftq._calls import Answer, addresses
from driftq._lines import ClusterLines
from driftq._servers import SERVERS_MAX, Servers, Turn, server_url
from driftq._transport import ClusterTransport

A, B, C = "http://a:1", "http://b:2", "http://c:3"
STATUS = b'{"version":"1","epoch":1}'
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 25\r\n\r\n" + STATUS
PROBLEM = b'{"code":"UNAVAILABLE","status":503,"detail":"nobody serves","retryable":true,"retry_after_ms":10}'
AWAY = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: %d\r\n\r\n" % len(PROBLEM) + PROBLEM
NOBODY = "http://127.0.0.1:1"
SIGNAL_S = 30.0
# For calls that are repeated once or twice.
PATIENCE_S = 5.0


# What is named.


def test_several_urls_have_commas_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    assert server_url("http://a , http://b/,\thttp://c:3/x/") == "http://a,http://b,http://c:3/x"
    assert server_url("http://a,HTTP://A:80/,http://b,https://a") == "http://a,http://b,https://a", "one counts once"
    monkeypatch.setenv("DRIFTQ_SERVER", f"{A}, {B}")
    with driftq.Client() as client:
        assert client.url == f"{A},{B}"
        assert isinstance(client._lines, ClusterLines)


@pytest.mark.parametrize("wrong", ["", " ", "b:2", "ftp://b", "http://", "http://b:port", "http://b:0", "http://u:p@b"])
@pytest.mark.parametrize("order", ["{wrong},http://a", "http://a,{wrong}", "http://a,{wrong},http://c"])
def test_one_url_of_several_is_wrong(wrong: str, order: str) -> None:
    for kind in (driftq.Client, driftq.AsyncClient):
        with pytest.raises(driftq.InvalidUrl):
            kind(order.format(wrong=wrong))


def test_a_password_is_not_repeated() -> None:
    for url in ("http://me:se,cret@a", "http://a,http://me:secret@b", "http://me:secret@b:x,http://a"):
        with pytest.raises(driftq.InvalidUrl) as caught:
            server_url(url)
        assert "se" not in str(caught.value).replace("server", "").replace("user", "")


def test_too_many_are_named() -> None:
    urls = [f"http://a:{number + 1}" for number in range(SERVERS_MAX)]
    assert len(Servers(server_url(",".join(urls + urls))).urls) == SERVERS_MAX == 16
    with pytest.raises(driftq.InvalidUrl, match="17 servers"):
        server_url(",".join([*urls, "http://b"]))


def test_authorities_are_loaded_once() -> None:
    first, plain, last = addresses(["https://a", "http://b", "https://c"])
    assert first.tls is not None and first.tls is last.tls and plain.tls is None


# What is decided.


def unreachable() -> httpx2.HTTPError:
    return httpx2.ConnectError("refused")


def lost() -> httpx2.HTTPError:
    return httpx2.ReadError("the server closed the connection")


def redirect(location: str | None) -> Answer:
    return Answer(307, b"", None, location)


def test_a_location_is_one_of_the_servers() -> None:
    servers = Servers("http://a,https://a,http://b:81,http://c/x,http://c/x/y,http://[::1]:5")
    found = {
        "http://a": 0,
        "http://A:80/v2/topics?x=http://b:81/": 0,
        "https://a:443/v2": 1,
        "http://b:81/v2": 2,
        "http://c/x/v2": 3,
        "http://c/x/y/v2": 4,
        "http://c/x/yes": 3,
        "http://[::1]:5/v2": 5,
    }
    assert {location: servers.find(location) for location in found} == found
    foreign = ["http://b/v2", "https://b:81/v2", "http://c/v2", "http://c/xy", "http://a.evil/", "//a/", "/v2", "x", "", None]
    for location in foreign:
        assert servers.find(location) is None, location


def test_of_many_calls_that_fail_at_once_one_goes_on() -> None:
    servers = Servers(f"{A},{B},{C}")
    turns = [Turn(servers) for _ in range(6)]
    for turn in turns[::2]:
        assert isinstance(turn.fails_with(lost()), driftq.ConnectionLost)
    for turn in turns[1::2]:
        assert turn.ends_with(Answer(503, b"", None))
    assert servers.current == 1


def test_each_server_is_tried_once_whatever_other_calls_find() -> None:
    servers = Servers(f"{A},{B},{C}")
    turn = Turn(servers)
    assert turn.fails_with(unreachable()) is None and (turn.number, servers.current) == (1, 1)
    servers.current = 2  # Another call has gone on meanwhile.
    assert turn.fails_with(unreachable()) is None and turn.number == 2
    servers.current = 0  # And has come to one that this call has tried.
    problem = turn.fails_with(unreachable())
    assert isinstance(problem, driftq.Unreachable) and all(url in str(problem) for url in (A, B, C))
    turn = Turn(servers)
    servers.current = 1
    assert turn.fails_with(unreachable()) is None and turn.number == 1
    servers.current = 0
    assert turn.fails_with(unreachable()) is None and (turn.number, servers.current) == (2, 2)


def test_another_call_has_found_the_server_that_serves() -> None:
    servers = Servers(f"{A},{B},{C}")
    turns = [Turn(servers) for _ in range(3)]
    assert not turns[0].ends_with(redirect(f"{C}/v2/status")) and servers.current == 2
    assert turns[1].fails_with(unreachable()) is None and turns[1].number == 2
    assert isinstance(turns[2].fails_with(lost()), driftq.ConnectionLost) and servers.current == 2


def test_redirects_are_followed_as_often_as_there_are_servers() -> None:
    servers = Servers(f"{A},{B}")
    turn = Turn(servers)
    for location in (B, A):
        assert not turn.ends_with(redirect(location)) and servers.urls[turn.number] == location
    with pytest.raises(driftq.ConnectionLost) as caught:
        turn.ends_with(redirect(B))
    assert caught.value.retryable and A in str(caught.value) and B in str(caught.value)


def test_a_redirect_to_a_server_that_was_just_not_reached() -> None:
    servers = Servers(f"{A},{B},{C}")
    turn = Turn(servers)
    assert turn.fails_with(unreachable()) is None
    assert not turn.ends_with(redirect(A))
    assert (turn.number, turn.prefers_redirect) == (1, False), "the other one keeps the call until another serves"
    assert servers.prefers_redirect, "the next call asks again"


def test_a_request_that_cannot_be_written_is_no_fault_of_the_server() -> None:
    servers = Servers(f"{A},{B}")
    assert isinstance(Turn(servers).fails_with(httpx2.LocalProtocolError("illegal")), driftq.ConnectionLost)
    assert servers.current == 0


# What both clients do.

Asks = Callable[..., Servers | None]


def in_threads(url: str, times: int = 1, patience: float = 0.0, at_once: bool = False, **options: Any) -> Servers | None:
    failed: list[Exception] = []

    def ask(client: driftq.Client) -> None:
        try:
            assert client.status() == {"version": "1", "epoch": 1}
        except Exception as error:
            failed.append(error)

    with driftq.Client(url, patience=patience, **options) as client:
        if at_once:
            threads = [threading.Thread(target=ask, args=(client,)) for _ in range(times)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(SIGNAL_S)
        else:
            for _ in range(times):
                ask(client)
        if failed:
            raise failed[0]
        return client._lines._servers if isinstance(client._lines, ClusterLines) else None


def in_tasks(url: str, times: int = 1, patience: float = 0.0, at_once: bool = False, **options: Any) -> Servers | None:
    async def main() -> Servers | None:
        async with driftq.AsyncClient(url, patience=patience, **options) as client:
            if at_once:
                answers = await asyncio.gather(*(client.status() for _ in range(times)))
            else:
                answers = [await client.status() for _ in range(times)]
            assert all(answer == {"version": "1", "epoch": 1} for answer in answers)
            return client._transport._servers if isinstance(client._transport, ClusterTransport) else None

    return asyncio.run(asyncio.wait_for(main(), SIGNAL_S))


@pytest.fixture(params=[in_threads, in_tasks])
def ask(request: pytest.FixtureRequest) -> Asks:
    asks: Asks = request.param
    return asks


class Told:
    """A server that says what it is told to, and the last of that again and again."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.asked: list[bytes] = []
        self.connections = 0
        self._lock = threading.Lock()

    def __call__(self, connection: socket.socket) -> None:
        with self._lock:
            self.connections += 1
        while request := connection.recv(65_536):
            with self._lock:
                self.asked.append(request)
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if not answer:
                connection.close()
                return
            connection.sendall(answer)

    @property
    def preferred(self) -> list[bool]:
        """Whether it was asked to say where the serving server is, call by call."""
        return [b"\r\nprefer: redirect\r\n" in request.lower() for request in self.asked]


def to(url: str, path: str = "/v2/status") -> bytes:
    head = "HTTP/1.1 307 Temporary Redirect\r\npreference-applied: redirect\r\ncontent-length: 0\r\n"
    return f"{head}location: {url}{path}\r\n\r\n".encode()


def test_one_server_is_asked_as_ever(ask: Asks) -> None:
    told = Told(OK)
    with raw_server(told) as url:
        ask(url, key="dq_id_secret")
        ask(f" {url}/ , {url}", key="dq_id_secret")
        place = url.removeprefix("http://").encode()
    expected = (
        b"GET /v2/status HTTP/1.1\r\nhost: " + place + b"\r\naccept: */*\r\nuser-agent: driftq-python\r\n"
        b"authorization: Bearer dq_id_secret\r\naccept-encoding: identity\r\n\r\n"
    )
    assert [request.lower() for request in told.asked] == [expected.lower()] * 2


def test_one_server_that_redirects_is_not_followed(ask: Asks) -> None:
    other = Told(OK)
    with raw_server(other) as there, raw_server(Told(to(there))) as here, pytest.raises(driftq.NotDriftQ, match="307"):
        ask(here, patience=PATIENCE_S)
    assert not other.asked


def test_the_server_that_serves_is_asked_from_then_on(ask: Asks) -> None:
    serving = Told(OK)
    with raw_server(serving) as there:
        idle = Told(to(there))
        with raw_server(idle) as here:
            servers = ask(f"{here},{there}", times=3)
            assert servers is not None and servers.urls[servers.current] == there
    assert (idle.preferred, serving.preferred) == ([True], [True] * 3)
    # Each has its own connections, and one after the other is enough.
    assert (idle.connections, serving.connections) == (1, 1)


def test_idle_connections_to_a_server_that_is_left_are_closed() -> None:
    is_closed = threading.Event()

    def leave(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(to(there))
        assert not connection.recv(65_536)
        is_closed.set()

    with raw_server(Told(OK)) as there, raw_server(leave) as here:
        with driftq.Client(f"{here},{there}", patience=0) as client:
            client.status()
            assert is_closed.wait(SIGNAL_S)
        is_closed.clear()

        async def main() -> None:
            async with driftq.AsyncClient(f"{here},{there}", patience=0) as client:
                await client.status()
                assert await asyncio.to_thread(is_closed.wait, SIGNAL_S)

        asyncio.run(main())


def test_servers_that_point_at_each_other_are_away(ask: Asks) -> None:
    first, second = Told(OK), Told(OK)
    with raw_server(first) as here, raw_server(second) as there:
        first.answers, second.answers = [to(there)], [to(here)]
        with pytest.raises(driftq.ConnectionLost, match="serves"):
            ask(f"{here},{there}")
        assert len(first.asked) + len(second.asked) == 3
        first.answers, second.answers = [to(there), to(there), OK], [to(here)]
        ask(f"{here},{there}", patience=PATIENCE_S)


def test_a_server_that_was_not_named_is_not_followed(ask: Asks) -> None:
    evil, idle = Told(OK), Told(OK)
    with raw_server(evil) as elsewhere, raw_server(idle) as here:
        idle.answers = [to(elsewhere), OK]
        servers = ask(f"{here},{NOBODY}", times=3, key="dq_id_secret")
        assert servers is not None and servers.urls[servers.current] == here
    assert not evil.asked and not evil.connections
    assert idle.preferred == [True, False, False, False]


def test_a_server_that_still_redirects_is_no_server_of_driftq(ask: Asks) -> None:
    idle = Told(to("http://elsewhere"))
    with raw_server(idle) as here, pytest.raises(driftq.NotDriftQ, match=f"at {here} is"):
        ask(f"{here},{NOBODY}", patience=PATIENCE_S)
    assert idle.preferred == [True, False]


def test_the_next_server_is_asked_at_once_if_one_is_not_reached(ask: Asks) -> None:
    serving = Told(OK)
    with raw_server(serving) as there:
        servers = ask(f"{NOBODY},{NOBODY}/x,{there}", times=2)
        assert servers is not None and servers.urls[servers.current] == there
    assert len(serving.asked) == 2


def test_nobody_is_reached(ask: Asks) -> None:
    urls = [NOBODY, "http://127.0.0.1:2", "http://127.0.0.1:3"]
    with pytest.raises(driftq.Unreachable, match=",".join(urls)):
        ask(",".join(urls), patience=0.2)


def test_the_server_that_serves_is_gone_and_the_others_do_not_know(ask: Asks) -> None:
    idle = Told(to(NOBODY), OK)
    with raw_server(idle) as here:
        ask(f"{NOBODY},{here}")
    assert len(idle.asked) == 2


@pytest.mark.parametrize(("answer", "error"), [(AWAY, errors.Unavailable), (b"", driftq.ConnectionLost)])
def test_a_server_that_fails_is_left(ask: Asks, answer: bytes, error: type[Exception]) -> None:
    failing, serving = Told(answer), Told(OK)
    with raw_server(failing) as here, raw_server(serving) as there:
        servers = ask(f"{here},{there}", times=2, patience=PATIENCE_S)
        assert servers is not None and servers.urls[servers.current] == there
        assert (len(failing.asked), len(serving.asked)) == (1, 2)
        # Without patience it is left all the same, and the error is the caller's.
        with pytest.raises(error):
            ask(f"{here},{there}", times=1)
    assert (len(failing.asked), len(serving.asked)) == (2, 2)


def test_many_calls_that_fail_at_once_skip_no_server(ask: Asks) -> None:
    together = threading.Barrier(8)
    serving, last = Told(OK), Told(OK)

    def fail(connection: socket.socket) -> None:
        connection.recv(65_536)
        together.wait(SIGNAL_S)
        connection.sendall(AWAY)

    with raw_server(fail) as here, raw_server(serving) as there, raw_server(last) as end:
        ask(f"{here},{there},{end}", times=8, patience=PATIENCE_S, at_once=True)
    assert (len(serving.asked), len(last.asked)) == (8, 0)
