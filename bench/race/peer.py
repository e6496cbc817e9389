"""What the race asks of a peer, and the rows that are the same for all."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kit import BATCH, CALL_S, CONSUMERS, HERE, Driven, Missing, Process, Request, Tools, Wire, drive, forked

ROWS = ("produce-1", "produce-64", "tool", "batch", "consume", "latency", "jobs", "guarded", "memory", "recovery")
# One queue for the rates, one for the latency, two for the workers: what is left in one is not in another's way.
RATES, LATENCY, JOBS, GUARDED = QUEUES = ("race", "latency", "jobs", "guarded")


class Peer:
    """One system: started as a user would run it durably, and driven by its own protocol and clients."""

    name = ""
    title = ""
    # What is set, in the words of its own configuration, and what an answer means then.
    settings: tuple[str, ...] = ()
    note = ""
    # What is used for the rows that need a client of its own.
    client = ""
    rows: tuple[str, ...] = ROWS
    # Slower workers get fewer messages, or the race would take hours.
    most_jobs = 1_000_000
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

    def tool(self, rate: float, seconds: float) -> float:
        """The rate of storing on 64 connections by its own benchmark program; the first is what to expect."""
        raise Missing("")

    def stored(self) -> int:
        """How many messages the queue of the rates holds."""
        raise NotImplementedError

    def counted(self) -> int:
        """The same at this very moment, where the count lags behind."""
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

    def load(self, queue: str, count: int) -> None:
        """Stores what the workers are to take."""
        self.produce(4, 1, 60.0, count, queue)

    def work(self, queue: str, effect: Callable[[str], None], is_guarded: bool) -> None:
        """Takes messages until it is killed, and carries out the effect of each: once, if it is guarded."""
        raise Missing("no such client")

    def worker(self, queue: str, is_guarded: bool, effects: Path) -> Process:
        """A process that works: `work` above, unless the peer has a worker program of its own."""
        words = [self.name, self.port, self.keeper_port(), queue, int(is_guarded), effects, self.tools.folder]
        command = [sys.executable, str(HERE / "work.py"), *map(str, words)]
        return Process(command, self.folder / "worker.log")

    def keeper_port(self) -> int:
        """Where that an effect began is kept, if not in the peer itself."""
        return 0

    # What is the same for all.

    def start(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        os.chmod(folder, 0o777)
        self.restart()
        self.prepare()

    def restart(self, kept: int = 0) -> float:
        """Seconds from the start of the process until it answers, and until it knows of what it kept."""
        began = time.monotonic()
        self.process = self.launch()
        self.process.until(self.ready, self.title)
        if kept:
            self.process.until(lambda: self.counted() >= kept, f"{self.title} with {kept} messages")
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


async def in_flight(source: Callable, handle: Callable, most: int = 64) -> None:
    """Workers that are written by hand: up to so many messages at once, for ever."""
    tasks: set[asyncio.Task] = set()
    while True:
        if len(tasks) < most:
            tasks |= {asyncio.create_task(handle(message)) for message in await source(most - len(tasks))}
        if tasks:
            done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()


def in_threads(worker: Callable[[], None], most: int = 16) -> None:
    """The same for clients that block: threads with a connection each."""
    with ThreadPoolExecutor(most) as pool:
        for done in [pool.submit(worker) for _ in range(most)]:
            done.result()
