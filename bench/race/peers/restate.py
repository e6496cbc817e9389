"""Restate: invocations that are stored before they are accepted, and run at once by a service."""

from __future__ import annotations

import http.client
import json
import platform
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import util
from pathlib import Path

from kit import HERE, PAYLOAD, Missing, Process, Request, Wire, free_port
from peer import Peer

from .driftq import post

VERSION = "1.7.12"
MACHINES = {"x86_64": "x64", "aarch64": "arm64"}
LOAD_S = 60.0


class Restate(Peer):
    name, title = "restate", "Restate"
    settings = ("restate-server --node-name race, all else as it comes", "a service by hypercorn", "POST …/send")
    note = "what is stored is run at once: rates of storing have that in them, and workers are measured while it stores"
    client = "its Python SDK; the guard is its own: a step of ctx.run"
    rows = ("produce-1", "produce-64", "jobs", "guarded", "memory", "recovery")
    most_jobs = 1000
    service: Process | None = None

    def install(self) -> str:
        package = f"@restatedev/restate-server-linux-{MACHINES.get(platform.machine(), 'x64')}"

        def fetch(folder: Path) -> None:
            plain = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-save")
            self.tools.run("npm", "install", "--prefix", folder, *plain, f"{package}@{VERSION}", cwd=folder)

        self.program = self.tools.once("restate", fetch) / "node_modules" / package / "bin/restate-server"
        if not util.find_spec("restate"):
            raise Missing("PyPI's restate-sdk is not installed: nothing could run what it stores")
        done = subprocess.run([self.program, "--version"], capture_output=True, text=True, check=True)
        return f"Restate {done.stdout.split()[-1]}" if VERSION in done.stdout else f"Restate {VERSION}"

    def launch(self) -> Process:
        if not self.service:
            self.port, self.admin, self.node, self.app = (free_port() for _ in range(4))
            words = [sys.executable, "-m", "hypercorn", "--bind", f"127.0.0.1:{self.app}", "restate_app:app"]
            given = {"PYTHONPATH": str(HERE / "workers"), "RACE_FOLDER": str(self.folder)}
            self.service = Process(words, self.folder / "service.log", given)
            self.service.until(lambda: Wire(self.app).close() or True, "the service")
        given = {
            "RESTATE_BASE_DIR": str(self.folder / "data"),
            "RESTATE_BIND_ADDRESS": f"127.0.0.1:{self.node}",
            "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{self.port}",
            "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{self.admin}",
            "RESTATE_DISABLE_TELEMETRY": "true",
            "RESTATE_LOG_FILTER": "error",
        }
        return Process([str(self.program), "--node-name", "race"], self.folder / "log", given)

    def stop(self) -> None:
        super().stop()
        if self.service:
            self.service.end()
            self.service = None

    def ask(self, path: str, body: object) -> dict:
        connection = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=20)
        headers = {"content-type": "application/json", "accept": "application/json"}
        try:
            connection.request("POST", path, json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
        except http.client.HTTPException as error:
            raise Missing(str(error)) from None
        finally:
            connection.close()
        if answer.status >= 300:
            raise Missing(f"{answer.status}: {text[:200]!r}")
        return json.loads(text)

    def ready(self) -> bool:
        # Its partitions come up after its ports.
        self.connect().close()
        return self.stored() >= 0

    def stored(self) -> int:
        query = "SELECT count(*) AS n FROM sys_invocation WHERE target_handler_name = 'race'"
        return int(self.ask("/query", {"query": query})["rows"][0]["n"])

    def prepare(self) -> None:
        self.ask("/deployments", {"uri": f"http://127.0.0.1:{self.app}"})

    def request(self, wire: Wire, queue: str, count: int) -> Request:
        return Request(post(f"/race/{queue}/send", json.dumps(PAYLOAD.decode()).encode()), b'"invocationId"', 1)

    def fill(self, count: int, seconds: float) -> int:
        return self.produce(64, 1, seconds, count).messages

    def load(self, queue: str, count: int) -> None:
        """The worker does, because what is stored is run at once."""
        self.count = count

    def worker(self, queue: str, is_guarded: bool, effects: Path) -> Process:
        return super().worker(f"{queue} {self.count}", is_guarded, effects)

    def work(self, queue: str, effect: Callable[[str], None], is_guarded: bool) -> None:
        name, count = queue.split()
        self.produce(16, 1, LOAD_S, int(count), name)
        signal.pause()
