"""Credentials of AWS for those of an attempt: a stand-in for STS checks the token by the published keys."""

from __future__ import annotations

import asyncio
import json
import pathlib
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt.api_jwt
import pytest
from sts import Sts

import driftq
from driftq import (
    AsyncClient,
    AsyncContext,
    AsyncWorker,
    AwsCredentials,
    Client,
    Context,
    StsRefused,
    StsUnanswered,
    Worker,
    _sts,
)
from driftq.testing import Server, run_until_idle, run_until_idle_async

ISSUER = "https://driftq.example"
ROLE = "arn:aws:iam::123456789012:role/billing"
KINDS = pytest.mark.parametrize("kind", ["threads", "tasks"])
EXAMPLES = json.loads((pathlib.Path(__file__).resolve().parents[3] / "tests" / "sts.json").read_text())
CREDENTIAL = "head.claims.signature"
# Longer than a credential for STS is good for.
LEASE_MS = 600_000

# What is asked for, as a handler asks.
Ask = Callable[[Any], Any]


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    with Server("--issuer", ISSUER) as server:
        yield server


@pytest.fixture
def sts(shared: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sts]:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with Sts(ISSUER, shared.url, "sts.amazonaws.com", {ROLE}) as sts:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.url)
        yield sts


def asked(server: Server, topic: str, kind: str, ask: Ask) -> Any:
    """What a handler gets or is told, asked once."""
    outcomes: list[Any] = []
    topic = f"{topic}-{kind}"
    if kind == "threads":
        with Client(server.url) as client:
            client.create_topic(topic)
            client.send(topic, 1)
            worker = Worker(client, "g", lease_ms=LEASE_MS)

            @worker.handler(topic)
            def handle(_: int, ctx: Context) -> None:
                try:
                    outcomes.append(ask(ctx))
                except (driftq.DriftQError, ValueError) as error:
                    outcomes.append(error)

            run_until_idle(worker)
    else:

        async def play() -> None:
            async with AsyncClient(server.url) as client:
                await client.create_topic(topic)
                await client.send(topic, 1)
                worker = AsyncWorker(client, "g", lease_ms=LEASE_MS)

                @worker.handler(topic)
                async def handle(_: int, ctx: AsyncContext) -> None:
                    try:
                        outcomes.append(await ask(ctx))
                    except (driftq.DriftQError, ValueError) as error:
                        outcomes.append(error)

                await run_until_idle_async(worker)

        asyncio.run(play())
    assert len(outcomes) == 1
    return outcomes[0]


@KINDS
def test_a_role_is_assumed_by_an_attempt(shared: Server, sts: Sts, kind: str) -> None:
    found = asked(shared, "roles", kind, lambda ctx: ctx.aws_credentials(ROLE, duration=timedelta(minutes=15)))
    assert isinstance(found, AwsCredentials)
    assert found.access_key_id.startswith("ASIA")
    left = found.expiration - datetime.now(UTC)
    assert timedelta(minutes=1) < left <= timedelta(minutes=15)
    # Nothing secret is shown.
    assert found.secret_access_key not in f"{found!r} {found}" and found.session_token not in f"{found!r} {found}"
    # What STS was asked, and what it read in the token.
    form, claims = sts.asked[-1], sts.claims[-1]
    assert form["RoleSessionName"] == f"driftq-roles-{kind}-0-0-1" and form["DurationSeconds"] == "900"
    assert claims["topic"] == f"roles-{kind}" and claims["attempt"] == 1
    assert claims["exp"] - claims["iat"] <= 60


@KINDS
def test_what_sts_refuses_has_its_code(shared: Server, sts: Sts, kind: str) -> None:
    error = asked(shared, "audience", kind, lambda ctx: ctx.aws_credentials(ROLE, audience="another"))
    assert isinstance(error, StsRefused) and error.code == "InvalidIdentityToken"
    assert error.detail == "Incorrect token audience" and error.status == 400 and not error.retryable
    assert sts.asked[-1]["WebIdentityToken"] not in f"{error!r} {error}" and sts.claims == []
    other = asked(shared, "role", kind, lambda ctx: ctx.aws_credentials(f"{ROLE}2", session_name="anna@example.com"))
    assert isinstance(other, StsRefused) and (other.code, other.status) == ("AccessDenied", 403)
    assert sts.asked[-1]["RoleSessionName"] == "anna@example.com" and "DurationSeconds" not in sts.asked[-1]


@KINDS
def test_a_token_that_is_over_is_refused(
    shared: Server, sts: Sts, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """STS looks at the clock by itself: here its clock is an hour ahead."""
    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + timedelta(hours=1)

    monkeypatch.setattr(jwt.api_jwt, "datetime", Later)
    error = asked(shared, "over", kind, lambda ctx: ctx.aws_credentials(ROLE))
    assert isinstance(error, StsRefused) and error.code == "ExpiredTokenException"


@KINDS
@pytest.mark.parametrize(
    "answer, said",
    [
        ((200, b"<a>" + b" " * _sts.ANSWER_BYTES_MAX), "more than 65536 bytes"),
        ((200, b"It works!"), "is not XML"),
        ((502, b"<html></html>"), "gave 502"),
    ],
)
def test_what_is_no_answer_of_sts(
    shared: Server, sts: Sts, kind: str, answer: tuple[int, bytes], said: str
) -> None:
    sts.answer = answer
    error = asked(shared, f"strange-{len(answer[1])}", kind, lambda ctx: ctx.aws_credentials(ROLE))
    assert isinstance(error, StsUnanswered) and said in str(error) and sts.url in str(error)
    assert error.retryable == (answer[0] == 502)


@KINDS
def test_nobody_answers(shared: Server, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}/sts"
    error = asked(shared, "nobody", kind, lambda ctx: ctx.aws_credentials(ROLE, endpoint=url))
    assert isinstance(error, StsUnanswered) and error.retryable and url in str(error)
    assert error.__cause__ is None and error.__context__ is None, "the transport's error holds the request"
    # A listener that never answers.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr("driftq._sts_calls._TIMEOUT", 0.2)
        monkeypatch.setattr("driftq._sts_calls.TIMEOUT_S", 0.2)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        error = asked(shared, "silent", kind, lambda ctx: ctx.aws_credentials(ROLE, endpoint=url))
    assert isinstance(error, StsUnanswered) and error.retryable


@pytest.mark.parametrize(
    "options, said",
    [
        ({"session_name": "a b"}, "session_name"),
        ({"session_name": "x" * 65}, "session_name"),
        ({"duration": 899}, "900"),
        ({"duration": 43_201}, "43200"),
        ({"region": "evil.example/"}, "region"),
        ({"endpoint": "https://me:hunter2@sts.example"}, "endpoint"),
        ({"endpoint": "ftp://sts.example"}, "endpoint"),
    ],
)
def test_what_cannot_be_asked_is_said_before_anything_is_sent(options: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        _sts.role_of(ROLE, ("orders", 0, 17, 1), options)
    assert "hunter2" not in str(raised.value)


def test_where_sts_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_STS"):
        monkeypatch.delenv(name, raising=False)
    assert _sts.endpoint_of(None, None) == "https://sts.amazonaws.com/"
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert _sts.endpoint_of(None, None) == "https://sts.eu-west-1.amazonaws.com/"
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert _sts.endpoint_of(None, None) == "https://sts.eu-central-1.amazonaws.com/"
    assert _sts.endpoint_of("cn-north-1", None) == "https://sts.cn-north-1.amazonaws.com.cn/"
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://localhost:4566")
    assert _sts.endpoint_of("cn-north-1", None) == "http://localhost:4566/"
    assert _sts.endpoint_of(None, "https://vpce-1.example/sts") == "https://vpce-1.example/sts"


@pytest.mark.parametrize("example", EXAMPLES["answers"], ids=lambda example: example["name"])
def test_answers(example: dict[str, Any]) -> None:
    """The examples that every SDK reads alike."""

    def read() -> AwsCredentials:
        return _sts.read_answer("http://sts", example["status"], example["body"].encode(), CREDENTIAL)

    if "credentials" in example:
        found, wanted = read(), example["credentials"]
        assert found.expiration.replace(microsecond=found.expiration.microsecond // 1000 * 1000) == datetime.fromisoformat(
            wanted.pop("expiration")
        )
        assert {name: getattr(found, name) for name in wanted} == wanted
    elif "refused" in example:
        with pytest.raises(StsRefused) as refused:
            read()
        assert {name: getattr(refused.value, name) for name in example["refused"]} == example["refused"]
        assert CREDENTIAL not in str(refused.value)
    else:
        with pytest.raises(StsUnanswered, match=example["strange"]) as strange:
            read()
        assert strange.value.retryable == example["retryable"]


@pytest.mark.parametrize("example", EXAMPLES["session_names"], ids=lambda example: example["name"])
def test_session_names(example: dict[str, Any]) -> None:
    name = _sts.session_name(example["topic"], example["partition"], example["offset"], example["attempt"])
    assert name == example["name"] and _sts._SESSION_NAME.fullmatch(name)
