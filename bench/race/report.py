"""The race's figures as a table for people, as JSON for scripts, and as the page docs/benchmarks.md."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

import plot
from kit import HERE, ROOT, say

PAGE = ROOT / "docs/benchmarks.md"
# What is the same on every page.
NOTES = HERE / "notes.md"


@dataclass(frozen=True)
class Figure:
    """One column of the tables."""

    title: str
    unit: str
    what: str
    more_is_better: bool = True


# What is measured, in order. One row of the race may give several figures.
ROWS = {
    "produce-1": ("produce-1",),
    "produce-64": ("produce-64",),
    "tool": ("tool",),
    "batch": ("batch",),
    "consume": ("consume",),
    "latency": ("latency-p50", "latency-p99"),
    "jobs": ("jobs",),
    "guarded": ("guarded",),
    "memory": ("memory-idle", "memory"),
    "recovery": ("recovery",),
}
NEED_CLIENTS = {"latency", "guarded", "jobs"}
FIGURES = {
    "produce-1": Figure("produce, 1 conn", "/s", "messages of 100 bytes stored on one connection, one at a time"),
    "produce-64": Figure("produce, 64 conns", "/s", "the same on 64 connections"),
    "tool": Figure("64 conns, own tool", "/s", "the same by the peer's own benchmark program: a check on the race's"),
    "batch": Figure("batches of 100", "/s", "messages stored on 16 connections, a hundred per request or pipelined"),
    "consume": Figure("consume + ack", "/s", "messages taken and acked by 4 processes, a hundred at a time"),
    "latency-p50": Figure("e2e p50", "ms", "from before the send to after the receipt, at 100/s", False),
    "latency-p99": Figure("e2e p99", "ms", "the same, of the slowest in a hundred", False),
    "guarded": Figure("guarded effect", "/s", "messages handled with one effect each that must take place once"),
    "jobs": Figure("effect, no guard", "/s", "the same without a guard: after a crash an effect may take place twice"),
    "memory-idle": Figure("memory idle", "MiB", "of the server and all its processes, shared pages once", False),
    "memory": Figure("memory after", "MiB", "the same after the rows before it", False),
    "recovery": Figure(
        "kill -9, recovery", "s", "from the restart until it answers and knows of so many messages again", False
    ),
}
# A table of the page each, so that it is not wider than a screen.
TABLES = {
    "Storing and taking": ("produce-1", "produce-64", "tool", "batch", "consume"),
    "Latency, memory, recovery": ("latency-p50", "latency-p99", "memory-idle", "memory", "recovery"),
    "Workers": ("guarded", "jobs"),
}


def shown(value: float, unit: str) -> str:
    """Three digits: nobody believes more."""
    if value >= 1_000_000:
        return f"{value / 1e6:.2f}M"
    if value >= 10_000:
        return f"{value / 1e3:.0f}k"
    if value >= 1000:
        return f"{value / 1e3:.1f}k"
    if value >= 100 or (unit == "/s" and value >= 10):
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


class Result:
    """The medians, and what they are to DriftQ's."""

    def __init__(self, data: dict) -> None:
        self.data = data
        self.figures = data["figures"]

    def values(self, peer: str, figure: str) -> list[float]:
        return self.figures.get(peer, {}).get(figure, [])

    def median(self, peer: str, figure: str) -> float | None:
        values = self.values(peer, figure)
        return statistics.median(values) if values else None

    def ahead(self, peer: str, figure: str) -> float | None:
        """How many times better DriftQ is: below 1 the peer is ahead."""
        ours, theirs = self.median("driftq", figure), self.median(peer, figure)
        if not ours or not theirs or peer == "driftq":
            return None
        return ours / theirs if FIGURES[figure].more_is_better else theirs / ours

    def cell(self, peer: str, figure: str, strong: str) -> str:
        middle = self.median(peer, figure)
        if middle is None:
            return "–"
        values = self.values(peer, figure)
        text = shown(middle, FIGURES[figure].unit)
        if len(values) > 1:
            half = (max(values) - min(values)) / 2 / middle * 100
            text += f" ±{half:.0f}%" if half < 100 else " ±>99%"
        if figure == "recovery":
            text += f" of {shown(self.median(peer, 'recovery-messages') or 0, '/s')}"
        if (ahead := self.ahead(peer, figure)) is not None:
            mark = strong if ahead < 1 else ""
            text += f" {mark}{ahead:.2g}×{mark}" if ahead < 10 else f" {ahead:.0f}×"
        return text

    def table(self, figures: tuple[str, ...], strong: str) -> list[list[str]]:
        """Peers that have any of these, with a heading."""
        columns = [name for name in figures if any(self.values(peer, name) for peer in self.figures)]
        heads = [f"{FIGURES[name].title} ({FIGURES[name].unit})" for name in columns]
        lines = [["", *heads]]
        for peer, facts in self.data["peers"].items():
            if any(self.values(peer, name) for name in columns):
                lines.append([facts["title"], *(self.cell(peer, name, strong) for name in columns)])
        return lines if columns else []

    def ceilings(self) -> list[list[str]]:
        """Against the disk, and against a bare HTTP server."""
        names = [name for name in ("produce-1", "produce-64", "batch") if self.values("driftq", name)]
        lines = [["", *(f"{FIGURES[name].title}: per disk sync" for name in names), "1 conn / bare", "64 conns / bare"]]
        for peer, facts in self.data["peers"].items():
            cells = []
            syncs = self.median(peer, "syncs")
            for name in names:
                rate = self.median(peer, name)
                cells.append(f"{rate / syncs:.2f}" if rate and syncs else "–")
            for name in ("produce-1", "produce-64"):
                rate, bare = self.median(peer, name), self.median("bare", name)
                cells.append(f"{rate / bare:.2f}" if rate and bare else "–")
            if any(cell != "–" for cell in cells):
                lines.append([facts["title"], *cells])
        return lines if len(lines) > 1 and names else []

    def beaten(self) -> list[str]:
        """Where peers are ahead."""
        lines = []
        for figure, facts in FIGURES.items():
            ahead = {peer: self.ahead(peer, figure) for peer in self.data["peers"] if peer != "bare"}
            better = sorted((value, peer) for peer, value in ahead.items() if value is not None and value < 1)
            if better:
                names = (f"{self.data['peers'][peer]['title']} ({1 / value:.1f}×)" for value, peer in better)
                lines.append(f"{facts.title}: {', '.join(names)}")
        return lines

    def gaps(self) -> list[str]:
        """Everything that is not in the tables, and why."""
        lines = [f"{title}: left out; {why}" for title, why in self.data["left_out"].items()]
        for peer, reasons in self.data["missing"].items():
            for row, why in reasons.items():
                has_others = any(self.values(peer, figure) for figure in ROWS.get(row, ()))
                when = "left out in a round" if has_others else "left out"
                lines.append(f"{self.data['peers'][peer]['title']}, {row}: {when}; {why}")
        return lines


def plain(lines: list[list[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]

    def row(line: list[str]) -> str:
        first, *others = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        return "  ".join([first.strip().ljust(widths[0]), *others])

    return "\n".join(map(row, lines))


def markdown(lines: list[list[str]]) -> str:
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([rows[0], "|---|" + "---:|" * (len(lines[0]) - 1), *rows[1:]])


def show(data: dict, options: argparse.Namespace) -> None:
    """Prints the tables; writes what was asked for."""
    result = Result(data)
    print_to = sys.stderr if options.json == "-" else sys.stdout
    for title, figures in TABLES.items():
        if lines := result.table(figures, "!"):
            print(f"\n{title}\n{plain(lines)}", file=print_to)
    if lines := result.ceilings():
        print(f"\nAgainst the disk and bare HTTP\n{plain(lines)}", file=print_to)
    syncs = data["syncs"]
    if syncs:
        spread = f"({min(syncs):.0f} to {max(syncs):.0f})"
        print(f"\ndisk: {statistics.median(syncs):.0f} fdatasync/s of 4 KiB {spread}", file=print_to)
    print("×: how many times better DriftQ is; with exclamation marks, the peer is ahead", file=print_to)
    for line in result.gaps():
        print(line, file=print_to)
    if options.json:
        text = json.dumps(data, indent=1) + "\n"
        sys.stdout.write(text) if options.json == "-" else Path(options.json).write_text(text)
    page = Path(options.page) if options.page else None
    if page is None and not options.from_json and is_whole(options):
        page = PAGE
    if page:
        write_page(result, page)


def is_whole(options: argparse.Namespace) -> bool:
    return not (options.quick or options.peers or options.rows or options.count)


def write_page(result: Result, page: Path) -> None:
    images = page.parent / "images"
    images.mkdir(parents=True, exist_ok=True)
    for name, figures in plot.PLOTS.items():
        (images / f"{name}.svg").write_text(plot.bars(result, figures))
    page.write_text(page_text(result))
    say(f"wrote {page} and its plots")


def machine_words(data: dict) -> str:
    machine = data["machine"]
    syncs = statistics.median(data["syncs"])
    load = machine["load_before"]
    busy = load > 0.3 * machine["cores"]
    words = (
        f"{data['date']}, {data['minutes']} minutes, {data['rounds']} round(s): {machine['cores']} cores "
        f"({machine['cpu']}), {machine['memory_gib']} GiB, Linux {machine['kernel']}, {machine['filesystem']}, "
        f"{syncs:.0f} fdatasync/s of 4 KiB over a file that is there already (lowest {min(data['syncs']):.0f}, "
        f"highest {max(data['syncs']):.0f}). "
        f"Servers and clients share the cores."
    )
    if busy:
        words += f" **The machine was busy**: its load was {load} before the race began. Look at no figure too closely."
    if max(data["syncs"]) > 2 * min(data["syncs"]):
        words += " **The disk's own rate moved a lot meanwhile**, and with it what waits for the disk."
    if data["quick"]:
        words += " **A quick run**: one short round, a smoke test and not a measurement."
    return words


def page_text(result: Result) -> str:
    data = result.data
    lines = [
        "# Benchmarks",
        "",
        "DriftQ beside what people use instead: real servers, set up so that an answer means that the disk has it, "
        "given the same work in the same run. This page is written by the program that ran them, after "
        "`cargo build --release --features full`:",
        "",
        "<!-- not run: it takes many minutes, and installs the peers below target -->",
        "```sh",
        data["command"],
        "```",
        "",
        machine_words(data),
        "",
        "Every cell is the median of the rounds with half the distance between the best and the worst round, and how "
        "many times better DriftQ was in this run. **Bold: the peer is ahead.** Figures belong to this machine; ratios "
        "travel better.",
        "",
        "![Rates](images/race-rates.svg)",
        "",
        "![Latency, memory, recovery](images/race-costs.svg)",
    ]
    for title, figures in TABLES.items():
        if table := result.table(figures, "**"):
            lines += ["", f"## {title}", "", markdown(table), ""]
            lines += [f"- **{FIGURES[name].title}**: {FIGURES[name].what}" for name in figures if name in used(result)]
    if table := result.ceilings():
        lines += ["", "## Against the disk and bare HTTP", "", markdown(table), ""]
        lines += [
            "Messages per bare `fdatasync` of the disk above 1 are what committing in groups gives. The bare HTTP "
            "server parses nothing and stores nothing; a peer with a protocol of its own can be ahead of it."
        ]
    if beaten := result.beaten():
        lines += ["", "## Where peers are ahead", "", *(f"- {line}" for line in beaten)]
    if gaps := result.gaps():
        lines += ["", "## What is not in the tables", "", *(f"- {gap}" for gap in gaps)]
    lines += ["", NOTES.read_text().strip(), "", "## The peers as they were run", ""]
    lines += ["| | version | commands and settings | client | |", "|---|---|---|---|---|"]
    for facts in data["peers"].values():
        settings = "<br>".join(f"`{setting}`" for setting in facts["settings"])
        lines.append(f"| {facts['title']} | {facts['version']} | {settings} | {facts['client']} | {facts['note']} |")
    return "\n".join(lines) + "\n"


def used(result: Result) -> set[str]:
    return {name for figures in result.figures.values() for name in figures}
