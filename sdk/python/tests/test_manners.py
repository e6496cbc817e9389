"""What a program may expect of an SDK that runs inside it: words in time, and signals that are not taken away."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from test_worker import Running, until

import driftq
from driftq.testing import Server

HANDLED = 40


def nobody() -> str:
    """A URL where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_second_stop_settles_what_is_done(shared: Server, kind: str) -> None:
    """It waits for nobody, but loses nothing: what was handled does not come again."""
    topic = f"second-stop-{kind}"
    with shared.client() as client:
        client.create_topic(topic)
        client.send_many(topic, range(HANDLED))
        worker = driftq.Worker(client, "g", concurrency=HANDLED)
        seen: list[int] = []

        def done(payload: int) -> None:
            seen.append(payload)
            if len(seen) == HANDLED:
                worker.stop()
                worker.stop()

        if kind == "threads":
            worker.handler(topic)(lambda payload, ctx: done(payload))
        else:

            @worker.handler(topic)
            async def handle(payload: int, ctx: driftq.AsyncContext) -> None:
                done(payload)

        worker.run(signals=False)
        assert sorted(seen) == list(range(HANDLED))
        # The handler that stopped the worker may still have run.
        group = client.group(topic, "g")
        assert (group["lag"] <= 1, group["in_flight"]) == (True, 0)


def test_second_stop_does_not_wait_for_handlers(shared: Server) -> None:
    with shared.client() as client:
        client.create_topic("no-waiting")
        client.send_many("no-waiting", range(2))
        worker = driftq.Worker(client, "g", concurrency=2, drain_timeout=300)
        begun, release = threading.Event(), threading.Event()

        @worker.handler("no-waiting")
        def handle(payload: Any, ctx: driftq.Context) -> None:
            if payload == 1:
                begun.set()
                release.wait(60)

        running = Running(worker)
        assert begun.wait(30)
        until(lambda: client.group("no-waiting", "g")["lag"] == 1, "the quick one is settled")
        worker.stop()
        running.stop()
        # The other one is given back at once.
        group = client.group("no-waiting", "g")
        assert (group["lag"], group["in_flight"]) == (1, 0)
        release.set()


PART_OF_AN_APPLICATION = """
import asyncio, sys
import driftq


async def main():
    async with driftq.AsyncClient() as client:
        worker = driftq.AsyncWorker(client, "g")

        @worker.handler(sys.argv[1])
        async def handle(payload, ctx):
            print("begun", flush=True)
            await asyncio.sleep(0.3)
            print("drained", flush=True)

        working = asyncio.create_task(worker.run())
        try:
            await asyncio.sleep(10)
            print("the application did not hear it", flush=True)
        except asyncio.CancelledError:
            print("the application heard it", flush=True)
            await working
            raise


try:
    asyncio.run(main())
except KeyboardInterrupt:
    sys.exit(42)
"""

ENDS_BY_ITSELF = """
import asyncio, sys
import driftq


async def main():
    async with driftq.AsyncClient() as client:
        workers = [driftq.AsyncWorker(client, group) for group in ("a", "b")]

        async def handle(payload, ctx):
            print("begun", flush=True)
            await asyncio.sleep(0.3)

        for worker in workers:
            worker.handler(sys.argv[1])(handle)
        if "gather" in sys.argv[1]:
            await asyncio.gather(*(worker.run() for worker in workers))
        elif "group" in sys.argv[1]:
            async with asyncio.TaskGroup() as group:
                for worker in workers:
                    group.create_task(worker.run())
        else:
            for task in [asyncio.create_task(worker.run()) for worker in workers]:
                await task
        await asyncio.sleep(0.1)
        print("ended by itself", flush=True)


asyncio.run(main())
"""

LISTENS_ITSELF = """
import signal, sys
import driftq

heard = []
signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
worker = driftq.Worker(driftq.Client(), "g")


@worker.handler(sys.argv[1])
def handle(payload, ctx):
    print("begun", flush=True)
    ctx.cancelled.wait(0.3)


worker.run()
print("heard", heard, flush=True)
"""


def signalled(shared: Server, program: str, topic: str, number: int) -> tuple[int, str]:
    with shared.client() as client:
        client.create_topic(topic)
        client.send(topic, 1)
    environment = {**os.environ, "DRIFTQ_SERVER": shared.url}
    command = [sys.executable, "-c", program, topic]
    # In the background of a shell script SIGINT is ignored, and a program inherits that; one in the foreground hears it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        started = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    with started as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "begun\n"
            process.send_signal(number)
            rest, _ = process.communicate(timeout=30)
            return process.returncode, rest
        finally:
            process.kill()


def test_ctrl_c_reaches_the_application(shared: Server) -> None:
    """The worker drains first; then the program ends as it would have without one."""
    code, printed = signalled(shared, PART_OF_AN_APPLICATION, "part", signal.SIGINT)
    assert (code, printed) == (42, "drained\nthe application heard it\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("how", ["gather", "group", "await"])
def test_a_program_that_waits_for_its_workers_ends_by_itself(shared: Server, how: str, number: signal.Signals) -> None:
    """All of them drain; nothing is cut short, neither the slower worker nor what the program does afterwards."""
    code, printed = signalled(shared, ENDS_BY_ITSELF, f"{how}-{number.name}", number)
    assert code == 0
    assert printed.replace("begun\n", "") == "ended by itself\n"


def test_sigterm_ends_the_application(shared: Server) -> None:
    code, printed = signalled(shared, PART_OF_AN_APPLICATION, "part-term", signal.SIGTERM)
    assert (code, printed) == (-signal.SIGTERM, "drained\n")


def test_a_listener_of_the_application_hears_its_signal(shared: Server) -> None:
    code, printed = signalled(shared, LISTENS_ITSELF, "listens", signal.SIGTERM)
    assert (code, printed) == (0, f"heard [{int(signal.SIGTERM)}]\n")


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_a_server_that_is_not_there_is_said_at_once(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    url = nobody()
    told_at: list[float] = []

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told_at.append(time.monotonic())

    async def main() -> None:
        async with driftq.AsyncClient(url, patience=1.5) as client:
            await client.send("t", 1)

    logger, told = logging.getLogger("driftq"), Told(logging.WARNING)
    logger.addHandler(told)
    began = time.monotonic()
    try:
        with pytest.raises(driftq.errors.Unreachable):
            if kind == "threads":
                with driftq.Client(url, patience=1.5) as client:
                    client.send("t", 1)
            else:
                asyncio.run(main())
    finally:
        logger.removeHandler(told)
    ended = time.monotonic()
    assert len(told_at) == 1, "once, and not for every try"
    assert told_at[0] - began < (ended - began) / 2
    assert url in caplog.text and "1.5 s" in caplog.text


def test_handlers_are_refused_where_they_are_written() -> None:
    worker = driftq.Worker(driftq.Client(nobody()), "g")
    wrong: list[Any] = [lambda payload: None, lambda: None, lambda a, b, c: None, lambda a, b, *, c: None, 17]
    for handler in wrong:
        with pytest.raises(TypeError, match="the handler of 't'"):
            worker.handler("t")(handler)
    for batch_handler in (lambda: None, lambda items, ctx: None):
        with pytest.raises(TypeError, match="the batch handler of 't'"):
            worker.batch_handler("t", batch=2)(batch_handler)
    assert worker.topics() == []

    class Right:
        def handle(self, payload: Any, ctx: Any) -> None: ...

        def __call__(self, payload: Any, ctx: Any, more: int = 0) -> None: ...

    right: list[Any] = [lambda *args: None, Right().handle, Right(), print]
    for index, fine in enumerate(right):
        worker.handler(f"t{index}")(fine)


def test_misspelt_options_are_refused_where_they_are_written() -> None:
    client = driftq.Client(nobody())
    with pytest.raises(TypeError, match="concurency"):
        driftq.Worker(client, "g", concurency=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="on_laps"):
        driftq.guarded("mail", on_laps="retry")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="idempotency_ky"):
        client.send("t", 1, idempotency_ky="k")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="maxattempts"):
        client.effect("mail", lambda: None, key="k", maxattempts=2)  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", [driftq.Client, driftq.AsyncClient])
def test_a_user_in_the_url_is_refused(kind: Any) -> None:
    for url in ("http://me:secret@127.0.0.1:8080", "http://me@127.0.0.1:8080", "https://:secret@broker"):
        with pytest.raises(driftq.errors.InvalidUrl, match="user") as caught:
            kind(url)
        assert "secret" not in str(caught.value)
