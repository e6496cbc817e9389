#!/usr/bin/env python3
"""DriftQ beside what people use instead, on this machine, in one run.

Each peer is started as a user would run it durably, on a port that the system chooses and with data in a folder that is
removed at the end, and is given the same work. One server runs at a time. Rounds go through all peers before any of
them has its next turn, so that a slow minute of the machine hits all of them; the median of the rounds counts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import report
from kit import BATCH, ROOT, Missing, Tools, data_folder, end_all, say, sync_rate
from peer import GUARDED, JOBS, Peer
from peers import PEERS

# A worker that has not done its work by then is left out.
WORK_S = 60.0
DEFAULT = [name for name, peer in PEERS.items() if not peer.is_optional]


class Plan:
    """How much of everything; bounded in count and in time."""

    def __init__(self, quick: bool, count: int) -> None:
        self.seconds = 0.7 if quick else 2.0
        self.most = count or 2_000_000
        self.backlog = count or (20_000 if quick else 400_000)
        self.latency = min(count or 500, 50 if quick else 500)
        self.per_second = 100
        self.effects = min(count or 4000, 400 if quick else 4000)
        self.retained = count or (20_000 if quick else 300_000)
        self.fill_s = 2.0 if quick else 10.0


class Turn:
    """One peer's part of one round."""

    # It was interrupted. Python drops the exception that says so if it is raised while an object is being destroyed.
    is_over = False

    def __init__(self, peer: Peer, plan: Plan, rows: list[str], found: dict[str, list[float]]) -> None:
        self.peer, self.plan, self.rows, self.found = peer, plan, rows, found
        self.missing: dict[str, str] = {}
        # What was acknowledged.
        self.stored = 0

    def run(self, folder: Path) -> None:
        idle = "memory" in self.rows and "memory" in self.peer.rows
        try:
            self.peer.start(folder)
            if idle:
                self.add("memory-idle", self.peer.memory_mib())
            for row in self.rows:
                self.row(row)
        finally:
            self.peer.stop()

    def add(self, row: str, value: float) -> None:
        self.found.setdefault(row, []).append(value)

    def row(self, row: str) -> None:
        if Turn.is_over:
            raise KeyboardInterrupt
        if row not in self.peer.rows:
            return
        say(f"    {row}")
        try:
            getattr(self, row.replace("-", "_"))()
        except (Missing, OSError, subprocess.SubprocessError) as error:
            if not str(error):
                return
            self.missing[row] = str(error)
            say(f"    {row} left out: {error}")

    def produced(self, row: str, connections: int, count: int, most: int) -> None:
        driven = self.peer.produce(connections, count, self.plan.seconds, most)
        self.stored += driven.messages
        self.add(row, driven.rate)

    def produce_1(self) -> None:
        self.produced("produce-1", 1, 1, self.plan.most)

    def produce_64(self) -> None:
        self.produced("produce-64", 64, 1, self.plan.most)

    def tool(self) -> None:
        rates = self.found.get("produce-64") or [1000.0]
        self.add("tool", self.peer.tool(rates[-1], self.plan.seconds))

    def batch(self) -> None:
        """The backlog of `consume`, with everything before it."""
        self.produced("batch", 16, BATCH, self.plan.backlog)

    def consume(self) -> None:
        found = self.peer.stored()
        if found != self.stored:
            raise Missing(f"it holds {found} messages, and acknowledged {self.stored}: a fault, not a figure")
        consumed, seconds = self.peer.consume(self.plan.seconds * 3)
        if consumed == 0 or consumed > self.stored:
            raise Missing(f"{consumed} messages were consumed of {self.stored}: a fault, not a figure")
        self.add("consume", consumed / seconds)
        self.add("consumed", consumed)
        self.add("stored", self.stored)

    def latency(self) -> None:
        times = self.peer.latency(self.plan.latency, self.plan.per_second)
        if len(times) != self.plan.latency:
            raise Missing(f"{len(times)} of {self.plan.latency} messages arrived: this is a fault, not a figure")
        self.add("latency-p50", statistics.median(times))
        self.add("latency-p99", times[len(times) * 99 // 100])

    def jobs(self) -> None:
        self.add("jobs", self.worked(self.plan.effects, is_guarded=False))

    def guarded(self) -> None:
        self.add("guarded", self.worked(self.plan.effects, is_guarded=True))

    def worked(self, count: int, is_guarded: bool) -> float:
        """The effect is a line in a file. The rate is that from the first line to the last, so that nobody pays for the
        start of a process; at the end the file must have every message once."""
        count = min(count, self.peer.most_jobs)
        queue = GUARDED if is_guarded else JOBS
        self.peer.load(queue, count)
        path = self.peer.folder / f"effects-{int(is_guarded)}"
        path.touch()
        process = self.peer.worker(queue, is_guarded, path)
        first = deadline = None
        try:
            deadline, lines = time.monotonic() + WORK_S, 0
            while lines < count:
                time.sleep(0.002)
                now, lines = time.monotonic(), path.read_bytes().count(b"\n")
                if lines and first is None:
                    first, head = now, lines
                if now > deadline or (process.child.poll() is not None and path.read_bytes().count(b"\n") < count):
                    words = process.log.read_text(errors="replace").strip().splitlines()[-1:]
                    raise Missing(f"{lines} of {count} effects within {now - deadline + WORK_S:.0f} s; {words}")
        finally:
            process.end()
        names = path.read_text().split()
        if len(names) != count or len(set(names)) != count:
            raise Missing(f"{len(names)} effects, {len(set(names))} different, of {count}: a fault, not a figure")
        return (count - head) / max(now - first, 1e-3)

    def memory(self) -> None:
        self.add("memory", self.peer.memory_mib())

    def recovery(self) -> None:
        """The process is killed with everything it holds. The time is up when all of it can be seen again."""
        self.peer.fill(self.plan.retained, self.plan.fill_s)
        before = self.peer.stored()
        self.peer.kill()
        seconds = self.peer.restart(before)
        self.add("recovery", seconds)
        self.add("recovery-messages", before)


def race(peers: list[Peer], plan: Plan, rows: list[str], rounds: int, folder: Path, deadline: float) -> dict:
    """All figures of all rounds that fit into the time; a round that was begun is ended."""
    found: dict[str, dict[str, list[float]]] = {peer.name: {} for peer in peers}
    missing: dict[str, dict[str, str]] = {peer.name: {} for peer in peers}
    syncs: list[float] = []
    length = 0.0
    for number in range(rounds):
        began = time.monotonic()
        if began + length > deadline:
            say(f"  no time for round {number + 1}: --minutes allows more")
            rounds = number
            break
        # Whoever comes first has the coldest machine: everyone in turn.
        shift = number % len(peers)
        for peer in peers[shift:] + peers[:shift]:
            syncs.append(sync_rate(folder, 0.3))
            say(f"  round {number + 1} of {rounds}: {peer.title} (disk: {syncs[-1]:.0f} syncs/s)")
            found[peer.name].setdefault("syncs", []).append(syncs[-1])
            turn = Turn(peer, plan, rows, found[peer.name])
            try:
                turn.run(folder / peer.name)
            except (Missing, OSError) as error:
                turn.missing["all"] = str(error)
                say(f"    left out: {error}")
            missing[peer.name].update(turn.missing)
        length = time.monotonic() - began
    return {"figures": found, "missing": missing, "syncs": syncs, "rounds": rounds}


def available(names: list[str], tools: Tools) -> tuple[list[Peer], dict[str, str], dict[str, str]]:
    """The peers that can be had, their versions, and why the others cannot."""
    peers, versions, left_out = [], {}, {}
    for name in names:
        peer = PEERS[name](tools)
        try:
            versions[name] = peer.install()
            peers.append(peer)
        except (Missing, OSError) as error:
            left_out[name] = str(error)
            say(f"  {peer.title} is left out: {error}")
    return peers, versions, left_out


def machine(folder: Path) -> dict:
    """What the figures belong to."""
    processors, memory, mounts = (Path("/proc", name).read_text() for name in ("cpuinfo", "meminfo", "mounts"))
    cpu = re.search(r"model name\s*: (.*)", processors)
    mounts = [line.split()[:3] for line in mounts.splitlines()]
    around = [mount for mount in mounts if folder.is_relative_to(mount[1])]
    kind = max(around, key=lambda mount: len(mount[1]))[2]
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": cpu[1] if cpu else platform.machine(),
        "memory_gib": int(memory.split()[1]) // 2**20 + 1,
        "kernel": platform.release().split("-")[0],
        "filesystem": kind,
        "load_before": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ", ".join(PEERS)
    parser.add_argument("--quick", action="store_true", help="one short round: a smoke test, not a measurement")
    parser.add_argument("--rounds", type=int, help="rounds; the median counts (3, or 1 with --quick)")
    on_demand = ", ".join(name for name in PEERS if name not in DEFAULT)
    parser.add_argument("--minutes", type=float, default=25.0, help="no round is begun that would not fit into this")
    parser.add_argument("--peers", help=f"which: {names}; only when they are named here: {on_demand}")
    parser.add_argument("--rows", help=f"which rows: {', '.join(report.ROWS)}")
    parser.add_argument("--count", type=int, default=0, help="messages of each row at most: for tests")
    parser.add_argument("--json", metavar="FILE", help="writes all figures there; - is standard output")
    parser.add_argument("--page", metavar="FILE", help="writes the page there, and its plots into images/ beside it")
    parser.add_argument("--from-json", metavar="FILE", help="runs nothing: prints the table of an earlier run again")
    parser.add_argument("--dir", default=ROOT / "target/race", type=Path, help="on the disk to be measured")
    parser.add_argument("--offline", action="store_true", help="installs nothing; what is not there is left out")
    return parser.parse_args()


def chosen(given: str | None, known: list[str], default: list[str], what: str) -> list[str]:
    names = given.split(",") if given else default
    for name in names:
        if name not in known:
            sys.exit(f"there is no {what} `{name}`; there are: {', '.join(known)}")
    return names


def with_clients(tools: Tools, rows: list[str], names: list[str]) -> None:
    """Goes on in an interpreter that has the peers' clients, where rows or peers need them."""
    is_needed = set(rows) & report.NEED_CLIENTS or "restate" in names
    if os.environ.get("RACE_CLIENTS") or not is_needed:
        return
    try:
        python = tools.python()
    except Missing as error:
        say(f"  rows that need the peers' own clients are left out: {error}")
        return
    os.environ["RACE_CLIENTS"] = "1"
    os.execv(python, [str(python), *sys.argv])


def command(options: argparse.Namespace) -> str:
    """What to type to have it again; where it wrote to is nobody's business."""
    words = ["python3", "bench/race/race.py", *(["--quick"] if options.quick else [])]
    for name in ("rounds", "peers", "rows", "count"):
        if value := getattr(options, name):
            words += [f"--{name}", str(value)]
    return " ".join(words)


def interrupted(_number: int, _frame: object) -> None:
    Turn.is_over = True
    raise KeyboardInterrupt


def main() -> None:
    options = arguments()
    if options.from_json:
        with open(options.from_json, encoding="utf-8") as file:
            return report.show(json.load(file), options)
    names = chosen(options.peers, list(PEERS), DEFAULT, "peer")
    rows = chosen(options.rows, list(report.ROWS), list(report.ROWS), "row")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    options.dir = options.dir.resolve()
    tools = Tools(options.dir / "tools", options.offline)
    with_clients(tools, rows, names)
    sys.path.insert(0, str(ROOT / "sdk/python/src"))
    rounds = options.rounds or (1 if options.quick else 3)
    began = time.time()
    try:
        tools.driver()
        peers, versions, left_out = available(names, tools)
        if not peers:
            sys.exit("no peer can be had; the reasons are above")
        with data_folder(options.dir) as folder:
            facts = machine(folder)
            deadline = time.monotonic() + 60 * options.minutes
            result = race(peers, Plan(options.quick, options.count), rows, rounds, folder, deadline)
    except Missing as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("interrupted: everything that was started has ended")
    finally:
        end_all()
    result |= {
        "machine": facts | {"load_after": round(os.getloadavg()[0], 1)},
        "command": command(options),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(began)),
        "minutes": round((time.time() - began) / 60, 1),
        "quick": options.quick,
        "peers": {
            peer.name: {
                "title": peer.title,
                "version": versions[peer.name],
                "settings": list(peer.settings),
                "note": peer.note,
                "client": peer.client,
            }
            for peer in peers
        },
        "left_out": {PEERS[name].title: why for name, why in left_out.items()},
    }
    report.show(result, options)


if __name__ == "__main__":
    main()
