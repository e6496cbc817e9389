"""Stops that come early, and signals that must be heard whatever the handlers do."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest
from strangers import raw_server

import driftq
from driftq._stop_signals import listen
from driftq.testing import Server

NEVER_ENDS = """
import asyncio, sys, time
import driftq

worker = driftq.Worker(driftq.Client(), "g", drain_timeout=300)


def blocks():
    while True:
        time.sleep(60)


async def swallows():
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass


if sys.argv[1] == "thread":

    @worker.handler(sys.argv[2])
    def handle(payload, ctx):
        print("begun", flush=True)
        blocks()

else:

    @worker.handler(sys.argv[2])
    async def handle(payload, ctx):
        print("begun", flush=True)
        blocks() if sys.argv[1] == "blocking task" else await swallows()


worker.run()
"""


@pytest.mark.parametrize("handler", ["thread", "blocking task", "deaf task"])
def test_second_signal_ends_the_process(shared: Server, handler: str) -> None:
    topic = handler.replace(" ", "-")
    with shared.client() as client:
        client.create_topic(topic)
        client.send(topic, 1)
    environment = {**os.environ, "DRIFTQ_SERVER": shared.url}
    command = [sys.executable, "-c", NEVER_ENDS, handler, topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"begun\n"
            # Two of a kind that come at once are one signal to the kernel.
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) in (-signal.SIGTERM, -signal.SIGINT)
        finally:
            process.kill()


@pytest.mark.parametrize("kind", ["threads", "tasks"])
@pytest.mark.parametrize("sent_to", ["the process", "another thread"])
def test_signal_while_there_is_no_server(kind: str, sent_to: str) -> None:
    """The worker asks, and nobody answers: it ends at once, and not when its `start_timeout` is over. The kernel may
    show a signal to any thread, and an event loop that waits is not interrupted by one of another thread."""
    assert threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)

    def answer(connection: socket.socket) -> None:
        connection.recv(65_536)
        if sent_to == "another thread":
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    async def main(url: str) -> None:
        async with driftq.AsyncClient(url) as client:
            async_worker = driftq.AsyncWorker(client, "g", start_timeout=20.0)
            async_worker.handler("t")(lambda payload, ctx: None)
            await async_worker.run()

    with raw_server(answer) as url:
        if kind == "threads":
            worker = driftq.Worker(driftq.Client(url), "g", start_timeout=20.0)
            worker.handler("t")(lambda payload, ctx: None)
            worker.run()
        else:
            asyncio.run(main(url))
    assert signal.getsignal(signal.SIGTERM) is before
    assert signal.set_wakeup_fd(-1) == -1


def test_signal_after_a_loop_was_given_up() -> None:
    """A program may drop an event loop with a worker in it, and begin another one, which then is the one to hear."""
    before = signal.getsignal(signal.SIGTERM)

    async def given_up() -> None:
        assert listen(lambda: pytest.fail("it is gone")) is not None

    async def heard() -> None:
        stopped = asyncio.Event()
        leave = listen(stopped.set)
        assert leave is not None
        threading.Thread(target=lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)).start()
        await asyncio.wait_for(stopped.wait(), 20)
        leave()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(given_up())
    loop.close()
    asyncio.run(heard())
    assert signal.getsignal(signal.SIGTERM) is before
    assert signal.set_wakeup_fd(-1) == -1


def test_stop_before_the_run(shared: Server) -> None:
    with shared.client() as client:
        client.create_topic("early")

    async def main() -> None:
        async with driftq.AsyncClient(shared.url) as client:
            worker = driftq.AsyncWorker(client, "g")
            seen: list[Any] = []

            @worker.handler("early")
            async def handle(payload: Any, ctx: driftq.AsyncContext) -> None:
                seen.append(payload)
                worker.stop()

            running = asyncio.ensure_future(worker.run(signals=False))
            worker.stop()
            async with asyncio.timeout(20):
                await running
            # That stop was for that run, and not for the next one.
            await client.send("early", 1)
            async with asyncio.timeout(20):
                await worker.run(signals=False)
            assert seen == [1]

    asyncio.run(main())
