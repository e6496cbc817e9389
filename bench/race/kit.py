"""What every peer of the race shares: installing, processes that end by their id, ports, memory, the load generator."""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import os
import pwd
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAYLOAD = b"x" * 100
BATCH = 100
# A server that does not answer by then will not.
READY_S = 60.0
POLL_S = 0.002
CALL_S = 20.0
CONSUMERS = 4
SYNC_BLOCKS = 1024


class Missing(Exception):
    """Why a peer, or a row of it, is left out."""


def say(*words: object) -> None:
    print(*words, file=sys.stderr, flush=True)


def void(_: object) -> None:
    """For callers that have no use for an answer."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Tools:
    """The folder in which everything is installed, and nothing outside it is changed."""

    def __init__(self, folder: Path, offline: bool) -> None:
        self.folder, self.offline = folder, offline
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, *command: str | Path, cwd: Path | None = None) -> None:
        """For installing: quiet unless it fails."""
        if self.offline:
            raise Missing("not installed, and --offline forbids fetching it")
        say("  $", *command)
        try:
            done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Missing(f"cannot be installed: {error}") from None
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
            raise Missing(f"`{Path(command[0]).name}` failed: {lines[-1][:160]}")

    def once(self, name: str, install: Callable[[Path], None]) -> Path:
        """Installs into a folder that is there only when the installation was whole."""
        folder = self.folder / name
        if not folder.exists():
            half = self.folder / f"{name}.half"
            shutil.rmtree(half, ignore_errors=True)
            half.mkdir()
            install(half)
            half.rename(folder)
        return folder

    def driver(self) -> Path:
        source = HERE / "drive.c"

        def build(folder: Path) -> None:
            if not shutil.which("cc"):
                raise Missing("the load generator needs a C compiler: `cc` on the PATH")
            subprocess.run(["cc", "-O2", "-o", folder / "drive", source], check=True)

        return self.once(f"drive-{int(source.stat().st_mtime)}", build) / "drive"

    def debian(self, name: str, *packages: str) -> Path:
        """Packages of Debian, unpacked beside everything else: this needs no root and starts no service."""

        def install(folder: Path) -> None:
            if not shutil.which("apt-get"):
                raise Missing(f"needs Debian's packages {' '.join(packages)}, or {name} on the PATH")
            self.run("apt-get", "-q", "download", *packages, cwd=folder)
            for package in sorted(folder.glob("*.deb")):
                self.run("dpkg", "-x", package, folder / "root")
                package.unlink()

        return self.once(f"debian-{name}", install) / "root"

    def node(self) -> Path:
        """BullMQ, by the lock file."""

        def install(folder: Path) -> None:
            if not shutil.which("npm"):
                raise Missing("needs Node.js and npm on the PATH")
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / "node" / name, folder)
            # Nothing of its packages is run for installing; what is optional of them is native code that is not needed.
            plain = ("--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund")
            self.run("npm", "install", "--prefix", folder, *plain, cwd=folder)

        return self.once("node", install)

    def python(self) -> Path:
        """An interpreter with the clients that users use, by the hashes of their packages, and with this SDK."""

        def install(folder: Path) -> None:
            self.run(sys.executable, "-m", "venv", folder)
            pip = (folder / "bin/python", "-m", "pip", "--disable-pip-version-check", "--quiet", "install")
            self.run(*pip, "--require-hashes", "--no-deps", "-r", HERE / "requirements.txt")

        version = hashlib.sha256((HERE / "requirements.txt").read_bytes()).hexdigest()[:12]
        return self.once(f"venv-{version}", install) / "bin/python"


def program(name: str, *folders: str | Path) -> str | None:
    """Where a program is: Debian keeps some out of the PATH."""
    places = os.pathsep.join([*map(str, folders), os.environ.get("PATH", ""), "/usr/sbin"])
    return shutil.which(name, path=places)


def nobody() -> str | None:
    """Whom to run programs as that refuse to be run by root."""
    return pwd.getpwnam("nobody").pw_name if os.geteuid() == 0 else None


class Process:
    """A child, ended by its id with all that it started. Ctrl-C reaches the race alone, which ends its children."""

    running: list[Process] = []

    def __init__(
        self, command: list[str], log: Path, env: dict[str, str] | None = None, user: str | None = None
    ) -> None:
        self.log = log
        # What a caller has set for servers of his own must not reach these.
        clean = {name: value for name, value in os.environ.items() if not name.startswith("DRIFTQ_")}
        with open(log, "ab") as output:
            self.child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=clean | (env or {}),
                user=user,
                start_new_session=True,
            )
        Process.running.append(self)

    def family(self) -> list[int]:
        """The child and all that came of it: some servers' own children leave the group."""
        parents: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(entry.name))
        found = [self.child.pid]
        for process in found:
            found += parents.get(process, [])
        return found

    def end(self) -> None:
        """What `kill -9` does, to all of them."""
        if self in Process.running:
            Process.running.remove(self)
        # The child is not yet waited for, so that its id is still its own; its children cannot be adopted before.
        for process in self.family() if self.child.poll() is None else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.child.wait()

    def until(self, ready: Callable[[], object], what: str) -> None:
        """Polls until it is ready, with a bound."""
        deadline, last = time.monotonic() + READY_S, ""
        while True:
            try:
                if ready():
                    return
            except (OSError, Missing) as error:
                last = str(error)
            if self.child.poll() is not None or time.monotonic() > deadline:
                words = self.log.read_text(errors="replace").strip().splitlines()[-3:]
                raise Missing(f"{what} did not come up: {last}; it said: {' / '.join(words)[-300:]}")
            time.sleep(POLL_S)

    def memory_mib(self) -> float:
        """Proportional memory of the whole family: pages that several processes share are counted once."""
        total = 0
        for process in self.family():
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                    if line.startswith("Pss:"):
                        total += int(line.split()[1])
        return total / 1024


def end_all() -> None:
    for process in reversed(list(Process.running)):
        process.end()


class Wire:
    """A connection with just enough to speak a protocol by hand."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), CALL_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = bytearray()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def more(self) -> None:
        piece = self.socket.recv(1 << 18)
        if not piece:
            raise ConnectionError(f"the peer hung up; last read: {bytes(self.data[-200:])!r}")
        self.data += piece

    def until(self, mark: bytes, count: int = 1) -> bytes:
        """Everything up to the count-th mark and what came with it."""
        while self.data.count(mark) < count:
            self.more()
        return self.take()

    def exactly(self, length: int) -> bytes:
        while len(self.data) < length:
            self.more()
        taken = bytes(self.data[:length])
        del self.data[:length]
        return taken

    def take(self) -> bytes:
        taken = bytes(self.data)
        self.data.clear()
        return taken

    def close(self) -> None:
        self.socket.close()


@dataclass(frozen=True)
class Request:
    """What a connection sends again and again, and how its reply is told to be whole."""

    data: bytes
    mark: bytes | str
    marks: int


@dataclass(frozen=True)
class Driven:
    messages: int
    seconds: float
    p50_us: int
    p99_us: int

    @property
    def rate(self) -> float:
        return self.messages / self.seconds if self.seconds else 0.0


def drive(driver: Path, wires: list[Wire], requests: list[Request], messages: int, seconds: float, most: int) -> Driven:
    """Runs the load generator over connections that are logged in."""
    first = requests[0]
    mark = first.mark if isinstance(first.mark, str) else first.mark.hex()
    fds = [wire.socket.fileno() for wire in wires]
    command = [str(word) for word in (driver, mark, first.marks, messages, seconds, most, *fds)]
    data = b"".join(struct.pack("=I", len(request.data)) + request.data for request in requests)
    try:
        done = subprocess.run(command, input=data, capture_output=True, pass_fds=fds, timeout=seconds + 60)
    except subprocess.TimeoutExpired:
        raise Missing("the load generator did not end") from None
    finally:
        for wire in wires:
            wire.close()
    if done.returncode:
        raise Missing(done.stderr.decode(errors="replace").strip()[:300])
    count, took, p50, p99 = done.stdout.split()
    return Driven(int(count), float(took), int(p50), int(p99))


def forked(tasks: list[Callable[[], object]], seconds: float) -> list[object]:
    """Runs each in a process of its own; answers what they answered, as JSON. The first failure is the caller's."""
    context = multiprocessing.get_context("fork")
    pipes, children = [], []

    def child(task: Callable[[], object], pipe: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            pipe.send_bytes(json.dumps({"value": task()}).encode())
        except BaseException as error:
            pipe.send_bytes(json.dumps({"error": f"{type(error).__name__}: {error}"[:300]}).encode())

    for task in tasks:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=child, args=(task, theirs), daemon=True)
        process.start()
        theirs.close()
        pipes.append(ours)
        children.append(process)
    deadline = time.monotonic() + seconds
    try:
        answers = []
        for pipe in pipes:
            if not pipe.poll(max(0.0, deadline - time.monotonic())):
                raise Missing(f"no end within {seconds:.0f} s")
            answers.append(json.loads(pipe.recv_bytes()))
    except EOFError:
        raise Missing("a client process died") from None
    finally:
        for process in children:
            process.kill()
            process.join()
    for answer in answers:
        if "error" in answer:
            raise Missing(answer["error"])
    return [answer["value"] for answer in answers]


@contextlib.contextmanager
def data_folder(parent: Path) -> Iterator[Path]:
    """Where servers keep their data, on the disk under test; gone afterwards."""
    folder = parent / f"data-{os.getpid()}"
    folder.mkdir(parents=True)
    os.chmod(folder, 0o777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sync_rate(folder: Path, seconds: float) -> float:
    """Writes of 4 KiB with fdatasync each, over a file that is there already: what a log could do at most."""
    path, block, count = folder / "sync", b"x" * 4096, 0
    file = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(file, block * SYNC_BLOCKS)
    os.fsync(file)
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        os.pwrite(file, block, count % SYNC_BLOCKS * len(block))
        os.fdatasync(file)
        count += 1
    took = time.monotonic() - began
    os.close(file)
    path.unlink()
    return count / took
