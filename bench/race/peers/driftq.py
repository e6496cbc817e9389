"""DriftQ itself, and the bare HTTP server that its own benchmark stands beside."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from kit import BATCH, PAYLOAD, ROOT, Missing, Process, Request, Wire, void
from peer import LATENCY, QUEUES, RATES, Peer

# A hundred bytes that the SDK can read: JSON in a string.
MESSAGE = json.dumps({"value": json.dumps("x" * (len(PAYLOAD) - 2))}).encode()
TOKEN = re.compile(rb'"token":"([^"]+)"')
LENGTH = re.compile(rb"(?i)content-length: (\d+)")


def binary() -> Path:
    """The program under test: DRIFTQ_BIN, or the release build."""
    path = Path(os.environ.get("DRIFTQ_BIN") or ROOT / "target/release/driftq")
    if not path.is_file():
        raise Missing("build it with `cargo build --release --features full`, or set DRIFTQ_BIN")
    return path


def post(path: str, body: bytes, kind: str = "application/json", method: str = "POST") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nhost: race\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def call(wire: Wire, request: bytes) -> bytes:
    """The body of the answer, which must be a success."""
    wire.send(request)
    while (end := wire.data.find(b"\r\n\r\n")) < 0:
        wire.more()
    head = wire.exactly(end + 4)
    length = LENGTH.search(head)
    body = wire.exactly(int(length[1]) if length else 0)
    if head[9:10] != b"2":
        raise Missing(f"{head[9:12].decode()}: {body[:200].decode(errors='replace')}")
    return body


class Http(Peer):
    """A server of the binary that says where it listens."""

    arguments: tuple[str, ...] = ()

    def install(self) -> str:
        done = subprocess.run([binary(), "--version"], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def launch(self) -> Process:
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        words = [word.replace("DATA", str(self.folder / "data")) for word in self.arguments]
        return Process([str(binary()), *words], log)

    def ready(self) -> bool:
        found = re.search(r"listening on (?:http://)?127\.0\.0\.1:(\d+)", (self.folder / "log").read_text())
        self.port = int(found[1]) if found else 0
        return bool(found)


class Bare(Http):
    """A hyper server that answers without doing anything: what HTTP alone costs here."""

    name, title = "bare", "bare HTTP server"
    arguments = ("bench-bare",)
    settings = ("driftq bench-bare",)
    note = "a hyper server that reads the body and answers, and stores nothing: the ceiling of any HTTP broker here"
    rows = ("produce-1", "produce-64")

    def request(self, wire: Wire, queue: str, count: int) -> Request:
        return Request(post("/", MESSAGE), b'"produced"', 1)


class DriftQ(Http):
    name, title = "driftq", "DriftQ"
    arguments = ("serve", "--listen", "127.0.0.1:0", "--data", "DATA", "--log-level", "warn")
    settings = ("driftq serve --listen 127.0.0.1:0 --data DATA --log-level warn", "topic with 4 partitions")
    note = "every answer, acks and effects too, waits for the sync"
    client = "its Python SDK, AsyncWorker"

    def prepare(self) -> None:
        wire = self.connect()
        for queue in QUEUES:
            settings = b'{"partitions":4,"partition_messages_max":100000000}'
            call(wire, post(f"/v2/topics/{queue}", settings, method="PUT"))
        wire.close()

    def request(self, wire: Wire, queue: str, count: int) -> Request:
        kind = "application/json" if count == 1 else "application/x-ndjson"
        body = MESSAGE if count == 1 else (MESSAGE + b"\n") * count
        return Request(post(f"/v2/topics/{queue}/messages", body, kind), b'"duplicate":false', count)

    def tool(self, rate: float, seconds: float) -> float:
        """On a server that it starts itself."""
        words = [binary(), "bench", "produce", "--connections", "64", "--rounds", "1", "-o", "json"]
        words += ["--seconds", str(max(1, round(seconds))), "--dir", self.folder]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60 + 10 * seconds)
        figures = json.loads(done.stdout)["figures"]
        return float(next(figure["value"] for figure in figures if figure["name"] == "produce, 64 connections"))

    def stored(self) -> int:
        wire = self.connect()
        topic = json.loads(call(wire, f"GET /v2/topics/{RATES} HTTP/1.1\r\nhost: race\r\n\r\n".encode()))
        wire.close()
        return int(topic["messages"])

    def consumer(self) -> Callable[[], int]:
        wire = self.connect()
        owner = f"w{os.getpid()}"
        lease = post(f"/v2/topics/{RATES}/groups/g/lease", json.dumps({"owner": owner, "max": BATCH}).encode())

        def take() -> int:
            tokens = TOKEN.findall(call(wire, lease))
            if tokens:
                leases = b",".join(b'{"token":"%s"}' % token for token in tokens)
                call(wire, post("/v2/leases/ack", b'{"leases":[%s]}' % leases))
            return len(tokens)

        return take

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def sender(self) -> Callable[[bytes], None]:
        import driftq

        client = driftq.Client(self.url)
        return lambda payload: void(client.send(LATENCY, payload.decode()))

    def handle(self, queue: str, concurrency: int, handle: Callable) -> None:
        """Runs the SDK's worker; the handler gets it, to stop it."""
        import driftq

        async def main() -> None:
            async with driftq.AsyncClient(self.url) as client:
                worker = driftq.AsyncWorker(client, "g", concurrency=concurrency, prefetch=2 * BATCH)
                worker.handler(queue)(handle(worker))
                await worker.run(signals=False)

        asyncio.run(main())

    def receive(self, ready: Callable[[], None], on: Callable[[bytes], bool]) -> None:
        def make(worker):
            async def handle(payload, _ctx) -> None:
                if on(payload.encode()):
                    worker.stop()

            return handle

        ready()
        self.handle(LATENCY, 1, make)

    def work(self, queue: str, effect: Callable[[str], None], is_guarded: bool) -> None:
        def make(_worker):
            async def handle(_payload, ctx) -> None:
                name = f"{ctx.partition}-{ctx.offset}"
                if is_guarded:
                    await ctx.effect("race", lambda: void(effect(name)), key=name)
                else:
                    effect(name)

            return handle

        self.handle(queue, 64, make)
