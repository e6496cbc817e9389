"""What the race asks of a peer, and the rows that are the same for all."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kit import BATCH, CALL_S, CONSUMERS, Driven, Missing, Process, Request, Tools, Wire, drive, forked

# One queue for the rates, one for the latency, one for the guarded effects: a backlog in one is not in another's way.
RATES, LATENCY, GUARDED = QUEUES = ("race", "latency", "guarded")


class Peer:
    """One system: started as a user would run it durably, and driven by its own protocol and clients."""

    name = ""
    title = ""
    # What is set, in the words of its own configuration, and what an answer means then.
    settings: tuple[str, ...] = ()
    note = ""
    # What is used for the rows that need a client of its own.
    client = ""
    rows: tuple[str, ...] = ("produce-1", "produce-64", "batch", "consume", "latency", "guarded", "memory", "recovery")
    # Only where it is asked for by name.
    is_optional = False

    def __init__(self, tools: Tools) -> None:
        self.tools = tools
        self.port = 0
        self.process: Process | None = None
        self.folder = Path()

    # What each peer says of itself.

    def install(self) -> str:
        """Makes sure that it is there; answers its version. Raises Missing with the reason."""
        raise NotImplementedError

    def launch(self) -> Process:
        """Starts it on `self.folder`, at `self.port`."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Makes queues and tables, once per folder."""

    def connect(self) -> Wire:
        """A connection that is logged in."""
        return Wire(self.port)

    def request(self, wire: Wire, queue: str, count: int) -> Request:
        """What stores this many messages, all synced before the reply."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Whether it answers."""
        self.connect().close()
        return True

    def stored(self) -> int:
        """How many messages the queue of the rates holds."""
        raise NotImplementedError

    def backlog(self) -> int:
        """How many of them nobody has acked."""
        return self.stored()

    def consumer(self) -> Callable[[], int]:
        """A call that takes up to a hundred messages and acks them; 0 when there are none."""
        raise NotImplementedError

    def sender(self) -> Callable[[bytes], None]:
        """A call of its users' client that stores one message."""
        raise Missing("no such client")

    def receive(self, ready: Callable[[], None], on: Callable[[bytes], bool]) -> None:
        """Takes messages by its users' client, each acked before the next, until `on` says that it was the last."""
        raise Missing("no such client")

    def guarded(self, count: int, effect: Callable[[str], None]) -> float:
        """Takes this many messages from the queue, each with one effect that is guarded; answers seconds."""
        raise Missing("no such client")

    # What is the same for all.

    def start(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        os.chmod(folder, 0o777)
        self.restart()
        self.prepare()

    def restart(self) -> float:
        """Seconds from the start of the process to its first answer."""
        began = time.monotonic()
        self.process = self.launch()
        self.process.until(self.ready, self.title)
        return time.monotonic() - began

    def kill(self) -> None:
        if self.process:
            self.process.end()

    def stop(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def memory_mib(self) -> float:
        return self.process.memory_mib() if self.process else 0.0

    def produce(self, connections: int, count: int, seconds: float, most: int, queue: str = RATES) -> Driven:
        wires = [self.connect() for _ in range(connections)]
        requests = [self.request(wire, queue, count) for wire in wires]
        return drive(self.tools.driver(), wires, requests, count, seconds, most)

    def consume(self, seconds: float) -> tuple[int, float]:
        """Messages that were taken and acked by several processes, and the seconds that it took them."""
        began = time.monotonic()

        def work() -> tuple[int, float]:
            take, total, last = self.consumer(), 0, time.monotonic()
            while time.monotonic() - began < seconds and (taken := take()):
                total, last = total + taken, time.monotonic()
            return total, last

        parts = forked([work] * CONSUMERS, seconds + CALL_S * 2)
        return sum(part[0] for part in parts), max(part[1] for part in parts) - began

    def latency(self, count: int, per_second: int) -> list[float]:
        """Milliseconds from before the send to after the receipt, between two processes."""
        go_read, go_write = os.pipe()

        def receive() -> list[float]:
            times: list[float] = []

            def on(message: bytes) -> bool:
                if message.startswith(b"t"):
                    times.append((time.monotonic_ns() - int(message[1:])) / 1e6)
                return len(times) >= count

            self.receive(lambda: os.write(go_write, b"x"), on)
            return times

        def send() -> int:
            store = self.sender()
            os.read(go_read, 1)
            begin = time.monotonic()
            for number in range(count):
                time.sleep(max(0.0, begin + number / per_second - time.monotonic()))
                store(b"t%d" % time.monotonic_ns())
            return count

        try:
            times, _ = forked([receive, send], count / per_second + CALL_S)
        finally:
            os.close(go_read)
            os.close(go_write)
        return sorted(times)

    def fill(self, count: int, seconds: float) -> int:
        """A backlog for recovery; less than asked for where a peer is slow."""
        return self.produce(16, BATCH, seconds, count).messages


async def in_flight(count: int, source: Callable, handle: Callable, most: int = 64) -> None:
    """Hand-written workers of a peer: up to so many messages at once, until the count is done."""
    tasks: set[asyncio.Task] = set()
    taken = 0
    while taken < count or tasks:
        if taken < count and len(tasks) < most:
            for message in await source(min(most - len(tasks), count - taken)):
                tasks.add(asyncio.create_task(handle(message)))
                taken += 1
        if tasks:
            done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()


def in_threads(count: int, worker: Callable[[Callable[[], bool]], None], most: int = 16) -> None:
    """The same for clients that block: threads with a connection each, which ask before they take one more."""
    lock, left = threading.Lock(), count

    def next_one() -> bool:
        nonlocal left
        with lock:
            left -= 1
            return left >= 0

    with ThreadPoolExecutor(most) as pool:
        for done in [pool.submit(worker, next_one) for _ in range(most)]:
            done.result()
