"""What a worker has borrowed ahead of time and not begun loses no attempt if the worker dies."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from typing import Any

import pytest
from front import Front
from test_worker import Running, until

import driftq
from driftq.testing import Server

EXTEND = "/v2/leases/extend"

DIES = """
import sys, time
import driftq

worker = driftq.Worker(driftq.Client(), "g", concurrency=1, prefetch=1, lease_ms=900)


def handle(payload, ctx):
    time.sleep(600)


async def handle_async(payload, ctx):
    import asyncio

    await asyncio.sleep(600)


worker.handler(sys.argv[1])(handle if sys.argv[2] == "thread" else handle_async)
worker.run()
"""


def beats(front: Front) -> list[list[dict[str, Any]]]:
    return [json.loads(body)["leases"] for body in front.posts(EXTEND)]


@pytest.mark.parametrize("kind", ["thread", "task"])
def test_a_worker_that_dies(shared: Server, kind: str) -> None:
    topic = f"dies-{kind}"
    with shared.client() as client, Front(shared.url, []) as front:
        client.create_topic(topic, retry_policy={"backoff_ms": 1, "max_backoff_ms": 1, "jitter": "none"})
        client.send_many(topic, ["begun", "waits"])
        environment = {**os.environ, "DRIFTQ_SERVER": front.url}
        with subprocess.Popen([sys.executable, "-c", DIES, topic, kind], env=environment) as process:
            try:
                until(lambda: any(len(beat) == 2 for beat in beats(front)), "a heartbeat for both messages")
                said = next(beat for beat in beats(front) if len(beat) == 2)
                assert [lease.get("started") for lease in said] == [None, False]
            finally:
                process.kill()
        attempts: dict[str, int] = {}

        def take() -> bool:
            body = {"owner": "next", "max": 2, "lease_ms": 60_000, "wait_ms": 1_000}
            for item in client.request("POST", f"/v2/topics/{topic}/groups/g/lease", body)["messages"]:
                attempts[json.loads(item["value"])] = item["lease"]["attempt"]
            return len(attempts) == 2

        until(take, "both messages come again")
        assert attempts == {"begun": 2, "waits": 1}


@pytest.mark.parametrize("kind", ["thread", "task"])
def test_what_is_begun_is_told_before_the_next_heartbeat(shared: Server, kind: str) -> None:
    topic = f"told-{kind}"
    with shared.client() as direct, Front(shared.url, []) as front, driftq.Client(front.url) as client:
        direct.create_topic(topic)
        direct.send_many(topic, range(3))
        # A heartbeat every two seconds: what comes between two of them is none.
        worker = driftq.Worker(client, "g", concurrency=1, prefetch=2, lease_ms=6_000)
        goes_on = threading.Event()
        begun: list[str] = []

        if kind == "thread":

            @worker.handler(topic)
            def handle(payload: int, ctx: driftq.Context) -> None:
                begun.append(ctx._item["lease"]["token"])
                goes_on.wait(60)
                if payload == 1:
                    ctx.cancelled.wait(1.5)

        else:

            @worker.handler(topic)
            async def handle_async(payload: int, ctx: driftq.AsyncContext) -> None:

                begun.append(ctx._item["lease"]["token"])
                await asyncio.to_thread(goes_on.wait, 60)
                if payload == 1:
                    await asyncio.sleep(1.5)

        running = Running(worker)
        until(lambda: any(len(beat) == 3 for beat in beats(front)), "a heartbeat for all of them")
        goes_on.set()
        until(lambda: len(begun) > 1 and [{"token": begun[1], "lease_ms": 6_000}] in beats(front), "it is told of, alone")
        running.stop()
        assert running.error is None
