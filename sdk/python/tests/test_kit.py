"""The test kit, which must be able to fail."""

from __future__ import annotations

from typing import Any

import pytest

import driftq
from driftq.testing import NoBinary, Server, assert_effects, run_until_idle


def test_effects_are_counted(driftq_server: Server, driftq_client: driftq.Client) -> None:
    driftq_client.effect("mail", lambda: 1, key="a")
    assert [effect["key"] for effect in assert_effects(driftq_server, scope="mail", count=1)] == ["a"]
    with pytest.raises(AssertionError, match="1 instead of 2"):
        assert_effects(driftq_server, scope="mail", count=2)
    with pytest.raises(driftq.NotDone):
        driftq_client.effect("sms", _closed, key="a")
    with pytest.raises(AssertionError, match="failed_retryable"):
        assert_effects(driftq_server, scope="sms", count=1)
    driftq_client.effect("sms", lambda: 1, key="a")
    with pytest.raises(AssertionError, match="2 times"):
        assert_effects(driftq_server, scope="sms", count=1)
    assert_effects(driftq_server, scope="sms", count=1, attempts=2)


def _closed() -> None:
    raise driftq.NotDone("closed")


def test_a_worker_that_is_never_done(driftq_client: driftq.Client) -> None:
    driftq_client.create_topic("t")
    driftq_client.send("t", 1)
    worker = driftq.Worker(driftq_client, "g")

    @worker.handler("t")
    def handle(payload: Any, ctx: driftq.Context) -> None:
        raise driftq.Snooze(60.0)

    with pytest.raises(TimeoutError):
        run_until_idle(worker, timeout=0.5)


def test_errors_of_the_worker_are_raised(driftq_client: driftq.Client) -> None:
    worker = driftq.Worker(driftq_client, "g")
    worker.handler("no-such-topic")(lambda payload, ctx: None)
    with pytest.raises(driftq.TopicUnknown):
        run_until_idle(worker)


def test_a_server_in_memory_does_not_restart(driftq_server: Server) -> None:
    with pytest.raises(RuntimeError, match="on_disk"):
        driftq_server.restart()


def test_a_server_on_disk_remembers(on_disk: Server) -> None:
    with on_disk.client() as client:
        client.create_topic("t")
        url = on_disk.url
        on_disk.restart()
        assert on_disk.url == url
        client.send("t", 1)
        assert on_disk.stop() == 0


def test_without_a_binary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRIFTQ_BIN", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NoBinary, match="DRIFTQ_BIN"):
        Server()
    monkeypatch.setenv("DRIFTQ_BIN", "/nonexistent")
    with pytest.raises(NoBinary, match="/nonexistent cannot be run .* set DRIFTQ_BIN"):
        Server()
    with pytest.raises(NoBinary, match="cannot be run"):
        Server(binary=__file__)
