"""The errors are those of the catalogue, and what is no DriftQ server is told apart."""

from __future__ import annotations

import asyncio
import json
import pathlib
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from strangers import http_server, loses_answers, raw_server, says, says_nothing

import driftq
from driftq import errors
from driftq._calls import Call
from driftq.testing import Server

PROBLEM = {"content-type": "application/problem+json"}


def test_every_code_has_its_class(repository: pathlib.Path) -> None:
    catalogue = json.loads((repository / "docs" / "errors.json").read_text())
    assert {entry["code"] for entry in catalogue} == errors.BY_CODE.keys()
    for entry in catalogue:
        error = errors.refusal(entry | {"detail": "so it is"}, entry["status"])
        name = "".join(word.capitalize() for word in entry["code"].split("_"))
        assert (type(error).__name__, error.code, error.status) == (name, entry["code"], entry["status"])
        assert error.retryable == entry["retryable"]
        assert "so it is" in str(error) and entry["help"] in str(error)
        assert isinstance(error, driftq.DriftQError)


def test_unknown_code_is_a_plain_refusal() -> None:
    error = errors.refusal({"code": "NEW_ONE", "detail": "from the future"}, 418)
    assert type(error) is errors.Refused and (error.code, error.status, error.retryable) == ("NEW_ONE", 418, False)


def test_refusal_of_a_real_server(shared: Server) -> None:
    with pytest.raises(driftq.TopicUnknown) as caught:
        shared.client().send("nowhere", "x")
    assert (caught.value.code, caught.value.status, caught.value.retryable) == ("TOPIC_UNKNOWN", 404, False)
    assert caught.value.help and caught.value.detail and caught.value.request_id


@pytest.mark.parametrize("url", ["", "localhost:8080", "ftp://a", "http://", "http://a:port", "http://a:99999"])
def test_url_that_cannot_be(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTQ_SERVER", url or "nonsense")
    with pytest.raises(driftq.InvalidUrl):
        driftq.Client()


def test_where_the_server_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTQ_SERVER", "http://127.0.0.1:1/")
    assert driftq.Client().url == "http://127.0.0.1:1"
    assert driftq.Client("http://127.0.0.1:2").url == "http://127.0.0.1:2"
    monkeypatch.delenv("DRIFTQ_SERVER")
    assert driftq.Client().url == "http://127.0.0.1:8080"


def both(url: str, call: Call, patience: float = 0.3) -> list[BaseException]:
    """The error of the client for threads, and that of the one for tasks."""

    async def asynchronously() -> None:
        async with driftq.AsyncClient(url, patience=patience) as client:
            await client.call(call)

    def synchronously() -> None:
        with driftq.Client(url, patience=patience) as client:
            client.call(call)

    found: list[BaseException] = []
    runs: list[Callable[[], None]] = [synchronously, lambda: asyncio.run(asynchronously())]
    for run in runs:
        with pytest.raises(driftq.DriftQError) as caught:
            run()
        found.append(caught.value)
    return found


def status_call(answer_timeout_s: float = 30.0) -> Call:
    return Call("GET", "/v2/status", expects=("version",), answer_timeout_s=answer_timeout_s)


def test_nobody_listens() -> None:
    for error in both("http://127.0.0.1:1", status_call()):
        assert isinstance(error, driftq.Unreachable)
        assert "http://127.0.0.1:1" in str(error) and "driftq serve" in str(error)


HTML = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>"


MAIL = b"220 mail.example ESMTP\r\n\r\n"
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"


@pytest.mark.parametrize("raw", [HTML, MAIL, NOT_FOUND], ids=["html", "mail", "not found"])
def test_something_else_listens(raw: bytes) -> None:
    with raw_server(says(raw)) as url:
        for error in both(url, status_call(), patience=30.0):
            assert isinstance(error, driftq.NotDriftQ) and url in str(error)


def test_something_else_speaks_json() -> None:
    with http_server([(200, {}, {})]) as (url, asked):
        for error in both(url, status_call(), patience=30.0):
            assert isinstance(error, driftq.NotDriftQ) and "version" in str(error)
        assert len(asked) == 2, "it is not asked again"


def test_no_answer_comes() -> None:
    with raw_server(says_nothing) as url:
        for error in both(url, status_call(answer_timeout_s=0.2)):
            assert isinstance(error, driftq.ConnectionLost)


def test_connection_that_breaks() -> None:
    with raw_server(says(b"")) as url:
        for error in both(url, status_call()):
            assert isinstance(error, driftq.ConnectionLost)


REFUSED_FOR_NOW: list[tuple[int, dict[str, str], Any]] = [
    (429, PROBLEM, {"code": "OVERLOADED", "status": 429, "detail": "full", "retryable": True, "retry_after_ms": 300}),
    (503, {"content-type": "text/html"}, "<html>the gateway has no server</html>"),
    (500, PROBLEM, {"code": "INTERNAL", "status": 500, "detail": "a mistake", "retryable": True}),
]


def test_what_may_succeed_later_is_repeated() -> None:
    with http_server([*REFUSED_FOR_NOW, (200, {}, {"version": "1", "epoch": 1})]) as (url, asked):
        began = time.monotonic()
        assert driftq.Client(url).status()["version"] == "1"
        assert len(asked) == 4
        assert time.monotonic() - began >= 0.3, "the server's hint was not heeded"
    with http_server([*REFUSED_FOR_NOW, (200, {}, {"version": "1", "epoch": 1})]) as (url, asked):

        async def main() -> Any:
            async with driftq.AsyncClient(url) as client:
                return await client.status()

        assert asyncio.run(main())["version"] == "1" and len(asked) == 4


def test_patience_ends() -> None:
    with http_server(REFUSED_FOR_NOW[:1]) as (url, asked):
        for error in both(url, status_call(), patience=0.5):
            assert isinstance(error, driftq.Overloaded) and error.retry_after_ms == 300
        assert len(asked) == 4, "one repeat each: a second one would come after patience is over"


def test_what_never_succeeds_is_not_repeated() -> None:
    refusal = {"code": "INVALID_ARGUMENT", "status": 400, "detail": "no", "retryable": False}
    with http_server([(400, PROBLEM, refusal)]) as (url, asked):
        for error in both(url, status_call(), patience=30.0):
            assert isinstance(error, errors.InvalidArgument)
        assert len(asked) == 2


def test_patience_is_seconds_or_a_timedelta() -> None:
    with driftq.Client(patience=timedelta(seconds=5)) as client:
        assert client.patience == 5.0
    with pytest.raises(TypeError, match="patience is '5'"):
        driftq.Client(patience="5")  # type: ignore[arg-type]


def test_a_lost_answer_stores_nothing_twice(shared: Server) -> None:
    client = shared.client()
    client.create_topic("lost-answers")
    with loses_answers(shared.url, 1) as url, driftq.Client(url) as through:
        assert through.send("lost-answers", "once").duplicate, "the first answer was not lost"
    assert [item["value"] for item in client.messages("lost-answers")] == ['"once"']


def test_a_lost_answer_begins_nothing_twice(shared: Server) -> None:
    with loses_answers(shared.url, 1) as url, driftq.Client(url) as through:
        assert through.effect("lost-begin", lambda: "done", key="k", wait=0.0) == "done"
    assert [effect["attempt"] for effect in shared.client().effects(scope="lost-begin")] == [1]
