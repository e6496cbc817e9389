"""beanstalkd with a binlog that is synced before every answer."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

from kit import BATCH, PAYLOAD, Process, Request, Wire, free_port, program
from peer import LATENCY, RATES, Peer, in_threads

from .redis_streams import Beside

RESERVED = re.compile(rb"RESERVED (\d+) \d+\r\n")


class Beanstalkd(Beside, Peer):
    name, title = "beanstalkd", "beanstalkd"
    settings = ("beanstalkd -l 127.0.0.1 -p PORT -b DATA -f0", "batches are pipelined: it has none of its own")
    note = "an answer waits for the sync; all jobs are in memory"
    client = "greenstalk, 16 threads; the guard is a key in a synced Redis beside it"

    def install(self) -> str:
        self.program = program("beanstalkd")
        if not self.program:
            self.program = str(self.tools.debian("beanstalkd", "beanstalkd") / "usr/bin/beanstalkd")
        words = subprocess.run([self.program, "-v"], capture_output=True, text=True, check=True).stdout.split()
        return f"beanstalkd {words[-1]}"

    def launch(self) -> Process:
        self.port = self.port or free_port()
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        words = [self.program, "-l", "127.0.0.1", "-p", str(self.port), "-b", str(data), "-f0"]
        return Process(words, self.folder / "log")

    def ready(self) -> bool:
        # It takes connections before it has read its binlog.
        wire = self.connect()
        wire.send(b"list-tubes\r\n")
        return wire.until(b"\r\n").startswith(b"OK")

    def request(self, wire: Wire, queue: str, count: int) -> Request:
        wire.send(b"use %s\r\n" % queue.encode())
        wire.until(b"USING ")
        put = b"put 1024 0 60 %d\r\n%s\r\n" % (len(PAYLOAD), PAYLOAD)
        return Request(put * count, b"INSERTED ", count)

    def stored(self) -> int:
        wire = self.connect()
        wire.send(b"stats-tube %s\r\n" % RATES.encode())
        found = re.search(rb"current-jobs-ready: (\d+)", wire.until(b"pause-time-left"))
        wire.close()
        return int(found[1])

    def consumer(self) -> Callable[[], int]:
        wire = self.connect()
        wire.send(b"watch %s\r\nignore default\r\n" % RATES.encode())
        wire.until(b"WATCHING ", 2)
        ask = b"reserve-with-timeout 0\r\n" * BATCH

        def take() -> int:
            wire.send(ask)
            while True:
                ids = RESERVED.findall(wire.data)
                if len(ids) + wire.data.count(b"TIMED_OUT\r\n") == BATCH and wire.data.endswith(b"\r\n"):
                    break
                wire.more()
            # The last body may still be on its way; its end is the end of what was read.
            wire.take()
            wire.send(b"".join(b"delete %s\r\n" % job for job in ids))
            if ids:
                wire.until(b"DELETED\r\n", len(ids))
            return len(ids)

        return take

    def sender(self) -> Callable[[bytes], None]:
        import greenstalk

        client = greenstalk.Client(("127.0.0.1", self.port), use=LATENCY)
        return lambda payload: client.put(payload.decode()) and None

    def receive(self, ready: Callable[[], None], on: Callable[[bytes], bool]) -> None:
        import greenstalk

        client = greenstalk.Client(("127.0.0.1", self.port), watch=LATENCY)
        ready()
        while True:
            job = client.reserve()
            client.delete(job)
            if on(job.body.encode()):
                return

    def work(self, queue: str, effect: Callable[[str], None], is_guarded: bool) -> None:
        import greenstalk

        def worker() -> None:
            client = greenstalk.Client(("127.0.0.1", self.port), watch=queue)
            once = self.guard(effect) if is_guarded else effect
            while True:
                job = client.reserve()
                once(str(job.id))
                client.delete(job)

        in_threads(worker)
