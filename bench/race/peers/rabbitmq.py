"""RabbitMQ with quorum queues and publisher confirms."""

from __future__ import annotations

import os
import re
import socket
import struct
import time
from collections.abc import Callable

from kit import BATCH, PAYLOAD, Process, Request, Wire, free_port
from peer import LATENCY, QUEUES, RATES, Peer, in_threads

from .redis_streams import Beside

PACKAGES = (
    "rabbitmq-server", "erlang-base", "erlang-asn1", "erlang-crypto", "erlang-eldap", "erlang-ftp", "erlang-inets",
    "erlang-mnesia", "erlang-os-mon", "erlang-parsetools", "erlang-public-key", "erlang-runtime-tools", "erlang-ssl",
    "erlang-syntax-tools", "erlang-tftp", "erlang-tools", "erlang-xmerl",
)  # fmt: skip
DELIVER, END = b"\0\x3c\0\x3c", b"\xce"
QUIET_S = 0.5


def short(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def long(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def frame(channel: int, kind: int, body: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(body)) + body + END


def method(number: int, minor: int, body: bytes = b"", channel: int = 1) -> bytes:
    return frame(channel, 1, struct.pack(">HH", number, minor) + body)


class RabbitMq(Beside, Peer):
    name, title = "rabbitmq", "RabbitMQ, quorum queue"
    settings = (
        "rabbitmq-server with listeners.tcp.1 = 127.0.0.1:PORT, all else as it comes",
        "x-queue-type: quorum, persistent messages, confirm.select; prefetch of 200, acks of 100 at once",
    )
    note = "a confirm waits for the sync; an ack has no answer. One node: a quorum of one"
    client = "pika, 16 threads; the guard is a key in a synced Redis beside it"
    epmd: Process | None = None

    def install(self) -> str:
        self.root = self.tools.debian("rabbitmq", *PACKAGES)
        script = self.root / "usr/lib/erlang/bin/erl"
        # The script names the folder that the package would be installed into.
        moved = re.sub(r"^( *ROOTDIR=).*", rf"\g<1>{self.root}/usr/lib/erlang", script.read_text(), flags=re.MULTILINE)
        script.write_text(moved)
        self.program = next(self.root.glob("usr/lib/rabbitmq/lib/*/sbin/rabbitmq-server"))
        return f"RabbitMQ {self.program.parent.parent.name.rpartition('-')[2]}"

    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.root / "usr/lib/erlang/bin"), os.environ["PATH"]])
        names = {name: str(self.folder / name) for name in ("mnesia", "logs", "home")}
        return {
            "PATH": path,
            "HOME": names["home"],
            "ERL_EPMD_PORT": str(self.epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"race{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self.dist_port),
            "RABBITMQ_MNESIA_BASE": names["mnesia"],
            "RABBITMQ_LOG_BASE": names["logs"],
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none"),
        }

    def launch(self) -> Process:
        if not self.epmd:
            self.port, self.epmd_port, self.dist_port = free_port(), free_port(), free_port()
            (self.folder / "home").mkdir(exist_ok=True)
            (self.folder / "plugins").write_text("[].\n")
            (self.folder / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{self.port}\n")
            epmd = next(self.root.glob("usr/lib/erlang/erts-*/bin/epmd"))
            # Erlang's directory of nodes would otherwise outlive the race.
            self.epmd = Process([str(epmd)], self.folder / "epmd.log", self.environment())
            self.epmd.until(lambda: socket.create_connection(("127.0.0.1", self.epmd_port), 1).close() or True, "epmd")
        return Process([str(self.program)], self.folder / "log", self.environment())

    def stop(self) -> None:
        super().stop()
        if self.epmd:
            self.epmd.end()
            self.epmd = None

    def connect(self) -> Wire:
        wire = Wire(self.port)
        wire.send(b"AMQP\0\0\x09\x01")
        self.answer(wire, 10, 10)
        wire.send(method(10, 11, long(b"") + short("PLAIN") + long(b"\0guest\0guest") + short("en_US"), 0))
        self.answer(wire, 10, 30)
        wire.send(method(10, 31, struct.pack(">HIH", 1, 131072, 0), 0) + method(10, 40, short("/") + b"\0\0", 0))
        self.answer(wire, 10, 41)
        wire.send(method(20, 10, b"\0"))
        self.answer(wire, 20, 11)
        return wire

    def answer(self, wire: Wire, number: int, minor: int) -> bytes:
        """The rest of the method that must come next."""
        _, _, length = struct.unpack(">BHI", wire.exactly(7))
        body = wire.exactly(length + 1)
        if struct.unpack(">HH", body[:4]) != (number, minor):
            raise OSError(f"RabbitMQ said {body[:200]!r}")
        return body[4:-1]

    def prepare(self) -> None:
        wire = self.connect()
        for queue in QUEUES:
            kind = short("x-queue-type") + b"S" + long(b"quorum")
            wire.send(method(50, 10, b"\0\0" + short(queue) + b"\x02" + long(kind)))
            self.answer(wire, 50, 11)
        wire.close()

    def request(self, wire: Wire, queue: str, count: int) -> Request:
        wire.send(method(85, 10, b"\0"))
        self.answer(wire, 85, 11)
        # A publish is three frames; the property is the delivery mode: persistent.
        head = struct.pack(">HHQH", 60, 0, len(PAYLOAD), 0x1000) + b"\x02"
        publish = method(60, 40, b"\0\0" + short("") + short(queue) + b"\0") + frame(1, 2, head) + frame(1, 3, PAYLOAD)
        return Request(publish * count, "amqp", count)

    def stored(self) -> int:
        # The count of a quorum queue lags a little behind its confirms.
        seen, since = -1, time.monotonic()
        while time.monotonic() - since < QUIET_S:
            if (count := self.counted()) != seen:
                seen, since = count, time.monotonic()
            time.sleep(0.02)
        return seen

    def counted(self) -> int:
        wire = self.connect()
        # Passive: it is asked for, not made.
        wire.send(method(50, 10, b"\0\0" + short(RATES) + b"\x01" + long(b"")))
        answer = self.answer(wire, 50, 11)
        wire.close()
        return int(struct.unpack(">I", answer[1 + answer[0] :][:4])[0])

    def consumer(self) -> Callable[[], int]:
        wire = self.connect()
        wire.send(method(60, 10, struct.pack(">IHB", 0, 2 * BATCH, 0)))
        self.answer(wire, 60, 11)
        wire.send(method(60, 20, b"\0\0" + short(RATES) + short("") + b"\0" + long(b"")))
        wire.socket.settimeout(QUIET_S)
        total = 0

        def take() -> int:
            nonlocal total
            try:
                while (count := wire.data.count(DELIVER)) < BATCH:
                    wire.more()
            except TimeoutError:
                count = wire.data.count(DELIVER)
            # Payloads have no such bytes; what follows the last of them belongs to it.
            del wire.data[: wire.data.rindex(DELIVER) + len(DELIVER) if count else 0]
            if count:
                total += count
                wire.send(method(60, 80, struct.pack(">QB", total, 1)))
            return count

        return take

    def channel(self):
        import pika

        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port)).channel()

    def sender(self) -> Callable[[bytes], None]:
        import pika

        channel = self.channel()
        channel.confirm_delivery()
        kept = pika.BasicProperties(delivery_mode=2)
        return lambda payload: channel.basic_publish("", LATENCY, payload, kept)

    def receive(self, ready: Callable[[], None], on: Callable[[bytes], bool]) -> None:
        channel = self.channel()
        channel.basic_qos(prefetch_count=1)
        ready()
        for deliver, _, body in channel.consume(LATENCY):
            channel.basic_ack(deliver.delivery_tag)
            if on(body):
                return

    def work(self, queue: str, effect: Callable[[str], None], is_guarded: bool) -> None:
        def worker() -> None:
            channel = self.channel()
            once = self.guard(effect) if is_guarded else effect
            channel.basic_qos(prefetch_count=1)
            for deliver, _, _ in channel.consume(queue):
                # Messages have no id of their own here: what a producer would send is made up.
                once(f"{id(channel)}-{deliver.delivery_tag}")
                channel.basic_ack(deliver.delivery_tag)

        in_threads(worker)
