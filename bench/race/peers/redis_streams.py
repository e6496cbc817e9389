"""Redis Streams with an append-only file that is synced before every answer."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from kit import BATCH, PAYLOAD, Missing, Process, Request, Wire, free_port, program
from peer import LATENCY, QUEUES, RATES, Peer, in_flight

ID = re.compile(rb"\r\n(\d{13}-\d+)\r\n")
GROUP = "g"


def command(*words: str | bytes | int) -> bytes:
    """A command in Redis's protocol."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class Redis(Peer):
    name, title = "redis", "Redis Streams"
    appendfsync = "always"
    note = "an answer waits for the sync; entries stay in the stream when they are acked"
    client = "redis-py; the guard is a key that is set if it is not there"

    @classmethod
    def flags(cls) -> list[str]:
        return ["--appendonly", "yes", "--appendfsync", cls.appendfsync, "--save", ""]

    @classmethod
    def shown(cls) -> tuple[str, ...]:
        words = " ".join(word or "''" for word in cls.flags())
        return (f"redis-server --bind 127.0.0.1 --port PORT --dir DATA {words}",)

    @property
    def settings(self) -> tuple[str, ...]:
        return (*self.shown(), "XADD, XREADGROUP COUNT 100, XACK")

    def install(self) -> str:
        self.program = program("redis-server")
        if not self.program:
            raise Missing("needs redis-server on the PATH (`cargo xtask test --setup` installs it)")
        words = subprocess.run([self.program, "--version"], capture_output=True, text=True, check=True).stdout.split()
        return f"Redis {words[2].removeprefix('v=')}"

    def launch(self) -> Process:
        self.port = self.port or free_port()
        place = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder)]
        return Process([self.program, *place, *self.flags()], self.folder / "log")

    def call(self, *words: str | bytes | int) -> bytes:
        wire = self.connect()
        wire.send(command(*words))
        answer = wire.until(b"\r\n")
        wire.close()
        return answer

    def ready(self) -> bool:
        # While it loads its file it takes connections and refuses commands.
        return self.call("PING") == b"+PONG\r\n"

    def prepare(self) -> None:
        for queue in QUEUES:
            self.call("XGROUP", "CREATE", queue, GROUP, "0", "MKSTREAM")

    def request(self, wire: Wire, queue: str, count: int) -> Request:
        # An answer is an id, and ids start with the time in milliseconds: "\r\n1" is in each of them once until 2033.
        return Request(command("XADD", queue, "*", "p", PAYLOAD) * count, b"\r\n1", count)

    def tool(self, rate: float, seconds: float) -> float:
        words = [program("redis-benchmark") or "redis-benchmark", "-p", str(self.port), "-c", "64", "--csv"]
        words += ["-n", str(int(rate * seconds) + 64), "XADD", "tool", "*", "p", PAYLOAD.decode()]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60 + seconds)
        return float(done.stdout.splitlines()[-1].split('","')[1].strip('"'))

    def stored(self) -> int:
        return int(self.call("XLEN", RATES)[1:])

    def consumer(self) -> Callable[[], int]:
        wire = self.connect()
        name = f"c{os.getpid()}"
        # The PING's answer is the end of the one before it, which spares a parser.
        read = command("XREADGROUP", "GROUP", GROUP, name, "COUNT", BATCH, "STREAMS", RATES, ">") + command("PING")

        def take() -> int:
            wire.send(read)
            ids = ID.findall(wire.until(b"+PONG\r\n"))
            if ids:
                wire.send(command("XACK", RATES, GROUP, *ids))
                wire.until(b"\r\n")
            return len(ids)

        return take

    def sender(self) -> Callable[[bytes], None]:
        import redis

        client = redis.Redis(port=self.port)
        return lambda payload: client.xadd(LATENCY, {"p": payload}) and None

    def receive(self, ready: Callable[[], None], on: Callable[[bytes], bool]) -> None:
        import redis

        client = redis.Redis(port=self.port)
        ready()
        while True:
            for _, entries in client.xreadgroup(GROUP, "c", {LATENCY: ">"}, count=1, block=1000) or []:
                for entry, fields in entries:
                    client.xack(LATENCY, GROUP, entry)
                    if on(fields[b"p"]):
                        return

    def work(self, queue: str, effect: Callable[[str], None], is_guarded: bool) -> None:
        import redis.asyncio

        async def main() -> None:
            client = redis.asyncio.Redis(port=self.port, max_connections=80)

            async def source(most: int) -> list:
                found = await client.xreadgroup(GROUP, "c", {queue: ">"}, count=most, block=1000)
                return [entry for _, entries in found or [] for entry, _ in entries]

            async def handle(entry: bytes) -> None:
                if is_guarded:
                    await guard(client, entry.decode(), effect, lambda pipe: pipe.xack(queue, GROUP, entry))
                else:
                    effect(entry.decode())
                    await client.xack(queue, GROUP, entry)

            await in_flight(source, handle)

        asyncio.run(main())


class RedisEverySecond(Redis):
    """As most run it: what is answered may be lost."""

    name, title = "redis-everysec", "Redis Streams, everysec"
    appendfsync = "everysec"
    is_optional = True
    note = "**not durable**: an answer does not wait for the sync"


async def guard(client, name: str, effect: Callable[[str], None], settle: Callable) -> None:
    """What people write by hand: a key says that it began, and then what came of it. Who finds a key that says only
    that it began cannot know whether the effect took place."""
    if await client.set(f"guard:{name}", "began", nx=True):
        effect(name)
    async with client.pipeline(transaction=False) as pipe:
        pipe.set(f"guard:{name}", "done")
        settle(pipe)
        await pipe.execute()


class Beside:
    """For a peer that has nowhere to keep that an effect began: a Redis of the same durability stands beside it."""

    keeper: Redis | None = None

    def start(self, folder: Path) -> None:
        super().start(folder)
        self.keeper = Redis(self.tools)
        self.keeper.install()
        self.keeper.start(folder / "redis")

    def stop(self) -> None:
        if self.keeper:
            self.keeper.stop()
        super().stop()

    def keeper_port(self) -> int:
        return self.keeper.port if self.keeper else 0

    def guard(self, effect: Callable[[str], None]) -> Callable[[str], None]:
        """The same as above, for threads."""
        import redis

        client = redis.Redis(port=self.keeper_port())

        def once(name: str) -> None:
            if client.set(f"guard:{name}", "began", nx=True):
                effect(name)
            client.set(f"guard:{name}", "done")

        return once
