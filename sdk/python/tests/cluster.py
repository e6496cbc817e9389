"""Three servers of a cluster on one log in PostgreSQL, which `driftq-testbed` beside the binary starts."""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import shutil
import subprocess
import threading
import time
from contextlib import ExitStack
from types import TracebackType
from typing import IO, Any
from urllib.parse import urlsplit

import pytest

_LISTENING = "listening on "
SERVERS = 3
SIGNAL_S = 30.0
POLL_S = 0.02


class Cluster:
    """Skips the test if there is no PostgreSQL."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._binary = os.environ.get("DRIFTQ_BIN") or shutil.which("driftq") or ""
        testbed = pathlib.Path(self._binary).with_name("driftq-testbed")
        if not self._binary or not testbed.is_file():
            pytest.skip(f"no driftq-testbed beside the binary ({self._binary or 'none'}), to start PostgreSQL with")
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._ends = ExitStack()
        try:
            self._log = self._start_database([str(testbed), "serve", "--durable"], folder / "testbed")
            for number in range(SERVERS):
                self._start_server(folder / f"server-{number}")
            while self.serving() is None:
                time.sleep(POLL_S)
        except BaseException:
            self._ends.close()
            raise

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    @property
    def urls(self) -> list[str]:
        """Where those are that were not killed."""
        return list(self._processes)

    def serving(self) -> str | None:
        """The URL of the one that serves, as one of them says."""
        place = urlsplit(self.urls[0])
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=SIGNAL_S)
        try:
            connection.request("GET", "/v2/cluster")
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
            return answer.get("serving")
        finally:
            connection.close()

    def kill(self, url: str) -> None:
        """What `kill -9` does."""
        process = self._processes.pop(url)
        process.kill()
        process.wait(SIGNAL_S)

    def _start_database(self, command: list[str], log: pathlib.Path) -> str:
        process = self._start(command, self._ends.enter_context(log.open("w")), stdin=subprocess.PIPE)
        assert process.stdin is not None and process.stdout is not None
        self._ends.callback(process.wait, SIGNAL_S)
        self._ends.callback(process.stdin.close)  # That ends it.
        url = process.stdout.readline().strip()
        if not url:
            pytest.skip(f"PostgreSQL was not started: {log.read_text().strip()}")
        return url

    def _start_server(self, log: pathlib.Path) -> None:
        flags = ["--log", self._log, "--log-schema", "sdk_python", "--node-url", "http://127.0.0.1:0"]
        command = [self._binary, "serve", "--listen", "127.0.0.1:0", "--log-level", "warn", *flags]
        process = self._start(command, self._ends.enter_context(log.open("w")))
        self._ends.callback(process.wait, SIGNAL_S)
        self._ends.callback(process.kill)
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(_LISTENING):
                self._processes[line.removeprefix(_LISTENING).strip()] = process
                break
        else:
            raise RuntimeError(f"a server ended with {process.wait()} before it listened: {log.read_text()}")
        # Whatever it prints later must not fill the pipe and stop it.
        threading.Thread(target=process.stdout.read, daemon=True).start()

    def _start(self, command: list[str], log: IO[str], stdin: int | None = None) -> subprocess.Popen[str]:
        # A setting in the developer's shell is not meant for these servers, but a database for tests is.
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("DRIFTQ_") or name == "DRIFTQ_TEST_POSTGRES"
        }
        return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
