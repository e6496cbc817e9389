"""`driftq serve` as a process of the test."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from types import TracebackType
from typing import IO

from ..client import Client
from ..errors import DriftQError

_LISTENING = "listening on "
_ADVICE = "build it with `cargo build -p driftq`, and set DRIFTQ_BIN to its path, or put driftq into the PATH"
STOP_TIMEOUT_S = 30.0


class NoBinary(DriftQError, FileNotFoundError):
    """There is no `driftq` to start."""


class Server:
    """A server on a free port, in memory, or `on_disk` so that it can be killed and started again.

    The binary is `DRIFTQ_BIN`, else `driftq` in the `PATH`. After a restart it listens at the same address.
    """

    def __init__(self, *flags: str, on_disk: bool = False, binary: str | None = None) -> None:
        found = binary or os.environ.get("DRIFTQ_BIN") or shutil.which("driftq")
        if not found:
            raise NoBinary(f"no driftq binary: {_ADVICE}")
        self._binary = found
        self._flags = flags
        self._on_disk = on_disk
        self._folder = tempfile.TemporaryDirectory(prefix="driftq-test-")
        self._errors: IO[str] = open(  # noqa: SIM115
            os.path.join(self._folder.name, "stderr"), "w+", encoding="utf-8", errors="replace"
        )
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._url = "http://127.0.0.1:0"
        self.start()

    @property
    def url(self) -> str:
        """Where it is: an https URL if it was started with `--tls-cert`."""
        return self._url

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    def client(self, *, patience: float = 30.0) -> Client:
        return Client(self.url, patience=patience)

    def start(self) -> None:
        """Starts it, and waits until it listens."""
        place = ["--data", os.path.join(self._folder.name, "data")] if self._on_disk else ["--ephemeral"]
        address = self._url.split("://")[1]
        command = [self._binary, "serve", "--listen", address, "--log-level", "warn", *place, *self._flags]
        # A setting in the developer's shell is not meant for this server.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DRIFTQ_")}
        try:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=environment, start_new_session=True
            )
        except OSError as error:
            self._errors.close()
            self._folder.cleanup()
            raise NoBinary(f"{self._binary} cannot be run ({error.strerror}): {_ADVICE}") from error
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(_LISTENING):
                self._url = line.removeprefix(_LISTENING).strip()
                break
        else:
            raise RuntimeError(f"the server ended with {process.wait()} before it listened: {self.log()}")
        self._process = process
        # Whatever it prints later must not fill the pipe and stop it.
        self._reader = threading.Thread(target=process.stdout.read, daemon=True)
        self._reader.start()

    def kill(self) -> None:
        """What `kill -9` does. Only a server on disk knows afterwards what it knew."""
        if self._process is not None:
            self._process.kill()
            self._wait()

    def restart(self) -> None:
        """Killed, and started again at the same address with the same data."""
        if not self._on_disk:
            raise RuntimeError("a server in memory forgets everything: use Server(on_disk=True)")
        self.kill()
        self.start()

    def stop(self) -> int:
        """The exit code of a graceful stop."""
        if self._process is None:
            return 0
        self._process.terminate()
        return self._wait()

    def log(self) -> str:
        """What it wrote to its log."""
        self._errors.flush()
        self._errors.seek(0)
        return self._errors.read()

    def close(self) -> None:
        self.kill()
        self._errors.close()
        self._folder.cleanup()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait(self) -> int:
        process = self._process
        assert process is not None
        code = process.wait(STOP_TIMEOUT_S)
        if self._reader is not None:
            self._reader.join(STOP_TIMEOUT_S)
        if process.stdout is not None:
            process.stdout.close()
        self._process = None
        return code
