"""What a worker says: nobody should have to guess why nothing happens, or that messages were given up."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from test_worker import PROMPT, Running, until

import driftq
from driftq import _engine
from driftq.testing import Server, run_until_idle


def levels(caplog: pytest.LogCaptureFixture, text: str) -> list[int]:
    return [record.levelno for record in caplog.records if text in record.getMessage()]


def test_a_server_that_goes_and_comes(on_disk: Server, caplog: pytest.LogCaptureFixture) -> None:
    """Once each, however many topics the worker asks for."""
    caplog.set_level(logging.INFO, "driftq")
    with on_disk.client() as client:
        worker = driftq.Worker(client, "g", lease_ms=300)
        asking = 0
        for topic in ("a", "b"):
            client.create_topic(topic)
            worker.handler(topic)(lambda payload, ctx: None)
        running = Running(worker)

        def is_asking() -> bool:
            nonlocal asking
            try:
                asking = sum(client.group(topic, "g")["lag"] == 0 for topic in ("a", "b"))
            except driftq.errors.GroupUnknown:
                return False
            return asking == 2

        until(is_asking, "the worker asks for both topics")
        on_disk.kill()
        until(lambda: levels(caplog, "is away"), "the log says that the server is away")
        assert on_disk.url in caplog.text
        on_disk.start()
        until(lambda: levels(caplog, "is back"), "the log says that the server is back")
        running.stop()
    assert levels(caplog, "is away") == [logging.WARNING]
    assert levels(caplog, "is back") == [logging.INFO]


def test_dead_letters_are_loud(shared: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "driftq")
    with shared.client() as client:
        client.create_topic("loud", **PROMPT)
        worker = driftq.Worker(client, "g")

        @worker.handler("loud")
        def handle(payload: Any, ctx: driftq.Context) -> None:
            if ctx.attempt == 1:
                raise driftq.Retry(0.001, "a retry that was meant")
            if ctx.attempt == 2:
                raise RuntimeError("an error that was not")
            raise driftq.Dead("given up")

        client.send("loud", 1)
        client.send("loud", driftq.raw("no json"))
        run_until_idle(worker)
    assert levels(caplog, "a retry that was meant") == [logging.INFO]
    assert levels(caplog, "an error that was not") == [logging.WARNING]
    assert levels(caplog, "given up") == [logging.WARNING]
    assert levels(caplog, "does not parse") == [logging.WARNING]


def test_what_the_server_did_not_hear(
    on_disk: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_engine, "SETTLE_GRACE_S", 0.2)
    with on_disk.client() as client:
        client.create_topic("unheard")
        client.send("unheard", 1)
        worker = driftq.Worker(client, "g")
        ended = threading.Event()

        @worker.handler("unheard")
        def handle(payload: Any, ctx: driftq.Context) -> None:
            on_disk.kill()
            ended.set()

        running = Running(worker)
        assert ended.wait(30)
        running.stop()
    assert levels(caplog, "unheard/0/0: the server did not hear its ack") == [logging.WARNING]
