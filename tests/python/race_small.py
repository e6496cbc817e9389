"""The race in small: DriftQ and PostgreSQL with a few hundred messages. What it counts must agree, its tables and its
page must have their rows, and Ctrl-C must leave nothing behind. Times are not judged."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import _broker
from _broker import until

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = ROOT / "bench/race/race.py"
COUNT = 200
BATCH = 100
RUN_S = 120
PEERS = {"driftq": "DriftQ", "postgres": "PostgreSQL, SKIP LOCKED"}
ROWS = ("produce-1", "produce-64", "batch", "consume")


def running_in(folder):
    """Processes that were started with a path below this folder."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(folder).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            pass
    return found


class Race(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="driftq-race-")))
        # PostgreSQL refuses to be run by root, and whoever runs it then must get there.
        self.folder.chmod(0o755)

    def start(self, *words, **more):
        command = [sys.executable, str(PROGRAM), "--offline", "--dir", str(self.folder), *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    def run_small(self, peers, rows, *words):
        """The table and the figures of a run in which nothing is left out."""
        small = ["--quick", "--count", str(COUNT), "--peers", ",".join(peers), "--rows", ",".join(rows)]
        process = self.start(*small, "--json", str(self.folder / "figures"), *words)
        table, said = process.communicate(timeout=RUN_S)
        self.assertEqual(process.returncode, 0, said)
        result = json.loads((self.folder / "figures").read_text())
        self.assertEqual((result["left_out"], result["missing"]), ({}, {name: {} for name in peers}), said)
        return table, result

    def test_what_was_acknowledged_is_there_after_a_kill(self):
        _, result = self.run_small(["driftq"], ["batch", "recovery"])
        self.assertGreaterEqual(result["figures"]["driftq"]["recovery-messages"][0], 2 * COUNT)

    def test_counts_agree_and_every_row_is_there(self):
        page = self.folder / "benchmarks.md"
        table, result = self.run_small(PEERS, ROWS, "--page", str(page))
        for name, title in PEERS.items():
            figures = result["figures"][name]
            for row in ROWS:
                self.assertGreater(figures[row][0], 0, (name, row))
            # Rows stop at whole requests, so that the last of many connections may bring it a little above the count.
            self.assertGreaterEqual(figures["stored"][0], COUNT)
            self.assertEqual(figures["consumed"], figures["stored"], name)
            self.assertIn(f"\n{title} ", table)
            self.assertIn(f"\n| {title} | ", page.read_text())
        for name in ("race-rates", "race-costs"):
            xml.etree.ElementTree.fromstring((self.folder / f"images/{name}.svg").read_text())
        self.assertEqual(list(self.folder.glob("data-*")), [])

    def test_interrupted_it_leaves_nothing_behind(self):
        process = self.start("--peers", "postgres", "--rows", "produce-1,produce-64,batch", "--rounds", "50")
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        for line in process.stderr:
            if "produce-64" in line:
                break
        self.assertTrue(running_in(self.folder), "a server is at work")
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=RUN_S)
        except subprocess.TimeoutExpired:
            at_work = running_in(self.folder)
            process.kill()
            self.fail(f"it goes on, with {at_work}: {process.communicate()[1]}")
        self.assertNotEqual(process.returncode, 0, said)
        until(lambda: not running_in(self.folder), "nothing that was started is left")
        self.assertEqual(list(self.folder.glob("data-*")), [])

    def test_wrong_words_say_what_there_is(self):
        for words, says in (
            (["--peers", "kafka"], "there is no peer `kafka`; there are: driftq"),
            (["--rows", "speed"], "there is no row `speed`; there are: produce-1"),
        ):
            process = self.start(*words)
            _, said = process.communicate(timeout=RUN_S)
            self.assertEqual(process.returncode, 1, said)
            self.assertIn(says, said)


if __name__ == "__main__":
    os.environ.pop("RACE_CLIENTS", None)
    _broker.main()
