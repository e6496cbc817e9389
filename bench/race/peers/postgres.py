"""PostgreSQL as a queue: one table, SKIP LOCKED, commits that wait for the disk."""

from __future__ import annotations

import asyncio
import functools
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Callable

from kit import BATCH, PAYLOAD, Missing, Process, Request, Wire, free_port, nobody, program
from peer import GUARDED, LATENCY, QUEUES, RATES, Peer, in_flight

# Debian's folders of programs, the newest last.
FOLDERS = "/usr/lib/postgresql"
TAKE = (
    "DELETE FROM {0} WHERE id = ANY(ARRAY(SELECT id FROM {0} ORDER BY id FOR UPDATE SKIP LOCKED LIMIT {1})) "
    "RETURNING id, payload"
)
BEGIN = f"""
WITH taken AS (
    UPDATE {GUARDED} SET payload = 'taken' WHERE id = (
        SELECT id FROM {GUARDED} WHERE payload <> 'taken' ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1
    ) RETURNING id
), began AS (
    INSERT INTO guard SELECT id, NULL FROM taken ON CONFLICT DO NOTHING RETURNING key
)
SELECT id, EXISTS (SELECT FROM began) FROM taken
"""
DELETED = re.compile(rb"C\0\0\0.DELETE (\d+)\0", re.DOTALL)


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack(">I", len(body) + 4) + body


def prepared(name: bytes, *values: bytes) -> bytes:
    """Runs a prepared statement with text values, without waiting."""
    fields = b"".join(struct.pack(">I", len(value)) + value for value in values)
    bind = b"\0" + name + b"\0" + struct.pack(">HH", 0, len(values)) + fields + struct.pack(">H", 0)
    return message(b"B", bind) + message(b"E", b"\0" + struct.pack(">I", 0)) + message(b"S", b"")


class Postgres(Peer):
    name, title = "postgres", "PostgreSQL, SKIP LOCKED"
    settings = (
        "initdb --auth=trust",
        "postgres -D DATA -c max_connections=120, all else as it comes: fsync=on, synchronous_commit=on",
        "INSERT by a prepared statement; batches by unnest; DELETE … FOR UPDATE SKIP LOCKED LIMIT 100 RETURNING",
    )
    note = "a commit waits for the sync"
    client = "psycopg 3, LISTEN/NOTIFY for the latency; the guard is a unique row"

    def install(self) -> str:
        folders = sorted(os.listdir(FOLDERS), key=float) if os.path.isdir(FOLDERS) else []
        given = os.environ.get("DRIFTQ_TEST_POSTGRES_BIN", "")
        self.bin = [given, *(f"{FOLDERS}/{name}/bin" for name in reversed(folders))]
        self.program = program("postgres", *self.bin)
        if not self.program:
            raise Missing("needs PostgreSQL's server (`cargo xtask test --setup` installs it)")
        words = subprocess.run([self.program, "--version"], capture_output=True, text=True, check=True).stdout.split()
        return f"PostgreSQL {words[2]}"

    def launch(self) -> Process:
        data, user = self.folder / "data", nobody()
        if not data.exists():
            self.port = free_port()
            data.mkdir(mode=0o700)
            if user:
                shutil.chown(data, user)
            words = [program("initdb", *self.bin), "-D", str(data), "-U", "race", "--auth=trust", "--no-sync"]
            done = subprocess.run(words, user=user, cwd=data, capture_output=True, text=True)
            if done.returncode:
                why = done.stderr.strip()[-200:]
                raise Missing(f"initdb failed: {why} (--dir must name a folder that every user can enter)")
        options = ["-p", str(self.port), "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={data}"]
        words = [self.program, "-D", str(data), *options, "-c", "max_connections=120"]
        return Process(words, self.folder / "log", user=user)

    def connect(self) -> Wire:
        wire = Wire(self.port)
        wire.send(message(b"", struct.pack(">I", 196608) + b"user\0race\0database\0postgres\0\0"))
        wire.until(b"Z\0\0\0\x05I")
        return wire

    def call(self, statement: str) -> bytes:
        wire = self.connect()
        wire.send(message(b"Q", statement.encode() + b"\0"))
        answer = wire.until(b"Z\0\0\0\x05I")
        wire.close()
        if answer.startswith(b"E"):
            raise Missing(answer[:200].decode(errors="replace"))
        return answer

    def prepare(self) -> None:
        for queue in QUEUES:
            self.call(f"CREATE TABLE {queue} (id bigserial PRIMARY KEY, payload text NOT NULL)")
        self.call("CREATE TABLE guard (key bigint PRIMARY KEY, outcome text)")

    def statement(self, wire: Wire, text: str) -> None:
        wire.send(message(b"P", b"s\0" + text.encode() + b"\0" + struct.pack(">H", 0)) + message(b"S", b""))
        wire.until(b"Z\0\0\0\x05I")

    def request(self, wire: Wire, queue: str, count: int) -> Request:
        if count == 1:
            self.statement(wire, f"INSERT INTO {queue} (payload) VALUES ($1)")
            return Request(prepared(b"s", PAYLOAD), b"INSERT 0 1\0", 1)
        self.statement(wire, f"INSERT INTO {queue} (payload) SELECT unnest($1::text[])")
        array = b"{%s}" % b",".join([PAYLOAD] * count)
        return Request(prepared(b"s", array), b"INSERT 0 %d\0" % count, 1)

    def tool(self, rate: float, seconds: float) -> float:
        script = self.folder / "insert.sql"
        script.write_text(f"INSERT INTO {LATENCY} (payload) VALUES ('{PAYLOAD.decode()}');\n")
        words = [program("pgbench", *self.bin) or "pgbench", "-n", "-M", "prepared", "-c", "64", "-j", "2"]
        words += ["-f", str(script)]
        words += ["-T", str(max(1, round(seconds))), "-h", "127.0.0.1", "-p", str(self.port), "-U", "race", "postgres"]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60 + seconds)
        self.call(f"TRUNCATE {LATENCY}")
        return float(re.search(r"tps = ([\d.]+)", done.stdout)[1])

    def stored(self) -> int:
        # A data row with one column: its length, then the digits.
        found = re.search(rb"D\0\0\0.\0\x01\0\0\0.(\d+)", self.call(f"SELECT count(*) FROM {RATES}"), re.DOTALL)
        return int(found[1])

    def consumer(self) -> Callable[[], int]:
        wire = self.connect()
        self.statement(wire, TAKE.format(RATES, BATCH))
        take_some = prepared(b"s")

        def take() -> int:
            wire.send(take_some)
            return int(DELETED.search(wire.until(b"Z\0\0\0\x05I"))[1])

        return take

    @property
    def url(self) -> str:
        return f"postgresql://race@127.0.0.1:{self.port}/postgres"

    def sender(self) -> Callable[[bytes], None]:
        import psycopg

        connection = psycopg.connect(self.url, autocommit=True)
        insert = f"WITH row AS (INSERT INTO {LATENCY} (payload) VALUES (%s)) SELECT pg_notify('{LATENCY}', '')"
        return lambda payload: connection.execute(insert, (payload.decode(),)) and None

    def receive(self, ready: Callable[[], None], on: Callable[[bytes], bool]) -> None:
        import psycopg

        take = TAKE.format(LATENCY, 1)
        connect = functools.partial(psycopg.connect, self.url, autocommit=True)
        with connect() as listener, connect() as taker:
            listener.execute(f"LISTEN {LATENCY}")
            ready()
            for _ in listener.notifies():
                while row := taker.execute(take).fetchone():
                    if on(row[1].encode()):
                        return

    def work(self, queue: str, effect: Callable[[str], None], is_guarded: bool) -> None:
        import psycopg

        take = TAKE.format(queue, 1)

        async def main() -> None:
            connections = asyncio.Queue()
            for _ in range(16):
                connections.put_nowait(await psycopg.AsyncConnection.connect(self.url, autocommit=True))

            async def source(_: int) -> list:
                return [await connections.get()]

            async def handle(connection) -> None:
                if is_guarded:
                    await self.guard(connection, effect)
                else:
                    # The message is gone with its effect, or comes back: at least once.
                    async with connection.transaction():
                        if row := await (await connection.execute(take)).fetchone():
                            effect(str(row[0]))
                connections.put_nowait(connection)

            await in_flight(source, handle)

        asyncio.run(main())

    async def guard(self, connection, effect: Callable[[str], None]) -> None:
        """One commit marks the message as taken and that its effect began; another ends both."""
        row = await (await connection.execute(BEGIN)).fetchone()
        if row is None:
            return
        if row[1]:
            effect(str(row[0]))
        async with connection.transaction():
            await connection.execute("UPDATE guard SET outcome = 'done' WHERE key = %s", row[:1])
            await connection.execute(f"DELETE FROM {GUARDED} WHERE id = %s", row[:1])
