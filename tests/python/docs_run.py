"""Runs what the pages say: every fenced block of README.md, docs/, the READMEs of the SDKs and llms.txt.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/docs_run.py [PAGE …]

Each page has a fresh server, whose address takes the place of localhost:8080, a fresh folder, and one shell that all
its blocks share. What a block is for:

    sh              is run, and must succeed; a status of 400 or more must be announced on the page
    python, ts, js  is run, too. Or only saved, if the paragraph before says "save this as `name.py`", for a later block
    json, text      after a command, is its output. `…` stands for what was left out, moments may differ
    rust            is compiled by cargo: the page is in a crate's doc tests, or the block is part of a compiled file
    anything else   is saved under a name that the paragraph before gives, for a later block

Everything else needs a comment before it, and is counted:

    <!-- not run: reason -->          <!-- checked by PATH -->, a test that reads this page
    <!-- parsed: reason -->           its driftq commands are only parsed by the binary
    <!-- whole file PATH -->          <!-- part of PATH -->: it must be the same as there
    <!-- save as NAME -->             <!-- needs python -->, typescript: the SDK; nothing: from here on without
    <!-- every LANGUAGE block: not run: reason -->, or `parsed`, `checked by`: for a whole page

The SDKs are those of DRIFTQ_DOCS_PYTHON (a python that has it) and DRIFTQ_DOCS_NODE_MODULES (the node_modules that has
it); without them their blocks, and what comes after these on a page, are skipped, which is said.
"""

import collections
import concurrent.futures
import pathlib
import re
import sys
import tempfile
import time

import _docs_compare
import _docs_parse
import _docs_selftest
import _docs_tools
from _broker import BINARY, Server
from _docs_page import ADDRESS, IMPORTS, PROGRAMS, ROOT, SDK_OF, Page, Wrong, doc_tested_pages, plan
from _docs_shell import Shell

PAGES_AT_ONCE = 2
# A reader would wonder whether it hangs.
SLOW_SECONDS = 10
PATTERNS = ("README.md", "docs/**/*.md", "sdk/*/README.md", "llms.txt")
RUN_WITH = {"python": "python3", "js": "node", "ts": "node"}


class Visit:
    """A page on its way through the runner."""

    def __init__(self, page, tools, missing):
        self.page, self.tools, self.missing = page, tools, missing
        self.skips, self.skipped = None, set()
        self.counts = collections.Counter()
        self.failures, self.slow = [], []

    def run(self):
        started = time.monotonic()
        if any(block.role in ("run", "save") for block in self.page.blocks):
            # A process that was just killed may still be about to leave.
            with tempfile.TemporaryDirectory(prefix="driftq-docs-", ignore_cleanup_errors=True) as folder:
                try:
                    self.run_in(pathlib.Path(folder))
                except Exception as error:
                    self.failures.append(f"{self.page.name}: {error!r}")
        for block in self.page.blocks:
            if block.role == "parsed":
                self.parse(block)
            if block.role in ("not run", "checked", "parsed"):
                self.counts[block.role] += 1
        self.seconds = time.monotonic() - started
        return self

    def run_in(self, top):
        self.folder = top / "page"
        self.folder.mkdir()
        server = Server("--ephemeral")
        self.address = f"{server.host}:{server.port}"
        shell = Shell(self.folder, self.tools, server)
        try:
            if "typescript" not in self.missing:
                _docs_tools.give_modules(self.folder)
            self.blocks(shell)
        finally:
            shell.close()
            code, complaints = server.stop(), server.complaints()
            server.discard()
        if code != 0 or "panicked" in complaints:
            self.failures.append(f"{self.page.name}: the server ended with {code}: {complaints}")

    def blocks(self, shell):
        for block in self.page.blocks:
            if block.role not in ("run", "save"):
                continue
            if self.is_skipped(block):
                self.counts["skipped"] += 1
                continue
            text = ADDRESS.sub(self.address, block.text)
            if block.role == "save":
                (self.folder / block.name).write_text(text, encoding="utf-8")
                self.counts["saved"] += 1
                continue
            if not self.run_block(shell, block, text):
                # What comes later on the page builds on this.
                return

    def is_skipped(self, block):
        """Whether the block needs an SDK that is not there, or comes after one that does and builds on it."""
        needs = [block.marks["needs"]] if "needs" in block.marks else []
        if block.language in IMPORTS and IMPORTS[block.language].search(block.text):
            needs.append(SDK_OF[block.language])
        if needs:
            self.skips = next((need for need in needs if need in self.missing), None)
        self.skipped |= {self.skips} - {None}
        return self.skips is not None

    def run_block(self, shell, block, text):
        if block.language in PROGRAMS:
            file = self.folder / f"block_{block.line}{PROGRAMS[block.language]}"
            file.write_text(text, encoding="utf-8")
            text = f'{RUN_WITH[block.language]} "{file}"\n'
        started = time.monotonic()
        ran = shell.run(text)
        self.counts["run"] += 1
        if (took := time.monotonic() - started) > SLOW_SECONDS:
            self.slow.append(f"{block.where} took {took:.0f} s")
        if ran.code != 0:
            return self.fail(block, f"exit code {ran.code} at: {ran.failed_at}", ran)
        announced = block.text + (block.expects.text if block.expects else "")
        for status in ran.statuses:
            if status >= 400 and str(status) not in announced:
                return self.fail(block, f"a call was answered {status}, and the page does not say so", ran)
        if block.expects:
            self.counts["compared"] += 1
            expected = ADDRESS.sub(self.address, block.expects.text)
            if difference := _docs_compare.difference(expected, ran.stdout):
                return self.fail(block.expects, f"the output differs:\n{difference}", ran)
        return True

    def parse(self, block):
        """What cannot be run may still name flags that do not exist."""
        try:
            found = list(_docs_parse.commands(block.text))
        except _docs_parse.Unreadable as error:
            found, complaints = [], [str(error)]
        else:
            complaints = [] if found else ["no driftq command is in it"]
        for words in found:
            if complaint := _docs_parse.complaint(BINARY, words):
                complaints.append(f"driftq {' '.join(words)}\n{complaint}")
        self.failures += [f"{block.where}: {complaint}" for complaint in complaints]

    def fail(self, block, why, ran):
        tail = lambda text: text[-4000:].rstrip()
        self.failures.append(f"{block.where}: {why}\n--- stdout\n{tail(ran.stdout)}\n--- stderr\n{tail(ran.stderr)}")
        return False


def pages(names):
    if names:
        files = [pathlib.Path(name).resolve() for name in names]
    else:
        found = {file for pattern in PATTERNS for file in ROOT.glob(pattern)}
        files = sorted(file for file in found if "node_modules" not in file.parts)
    for file in files:
        name = file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else str(file)
        yield name, file.read_text(encoding="utf-8")


def dead_links(name, text):
    """Files that llms.txt links to and that are not there; in Markdown files `cargo xtask tidy` looks."""
    links = [] if name.endswith(".md") else re.findall(r"\]\(([^)#\s]+)", text)
    here = (ROOT / name).parent
    return [f"{name}: {link} is not there" for link in links if "://" not in link and not (here / link).exists()]


def read(names, failures):
    doc_tested = doc_tested_pages()
    for name, text in pages(names):
        try:
            page = Page(name, text)
            plan(page, doc_tested)
            failures += dead_links(name, text)
            yield page
        except Wrong as wrong:
            failures.append(str(wrong))


def counted(counts):
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))


def report(visits, failures, missing):
    """Says what was done, what was not, and why."""
    total = collections.Counter()
    reasons = collections.defaultdict(list)
    for visit in visits:
        total += visit.counts
        for block in visit.page.blocks:
            if block.role in ("not run", "parsed"):
                reasons[f"{block.role}: {block.why}"].append(block.where)
    for reason, places in reasons.items():
        told = places if len(places) < 10 else [f"{len(places)} blocks of {places[0].split(':')[0]}"]
        print(f"{reason}: {', '.join(told)}")
    for need in sorted(set().union(*(visit.skipped for visit in visits))):
        print(f"skipped: {missing[need]}")
    for slow in (slow for visit in visits for slow in visit.slow):
        print(f"slow: {slow}")
    for failure in failures:
        print(f"\nFAILED {failure}", file=sys.stderr)
    print(f"{len(visits)} pages: {counted(total)}; {len(failures)} failed")


def main(names):
    if not BINARY:
        sys.exit("set DRIFTQ_BIN to the binary under test")
    failures = []
    with tempfile.TemporaryDirectory(prefix="driftq-docs-tools-") as folder:
        tools, missing = pathlib.Path(folder) / "bin", _docs_tools.missing()
        _docs_tools.provide(tools, BINARY)
        failures += _docs_selftest.run(lambda page: Visit(page, tools, missing).run())
        found = list(read(names, failures))
        visits = []
        with concurrent.futures.ThreadPoolExecutor(PAGES_AT_ONCE) as pool:
            for visit in pool.map(lambda page: Visit(page, tools, missing).run(), found):
                told, word = counted(visit.counts) or "no blocks", "FAILED" if visit.failures else "ok"
                print(f"{word:6} {visit.page.name}: {told}; {visit.seconds:.1f} s", flush=True)
                visits.append(visit)
                failures += visit.failures
    report(visits, failures, missing)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
