"""A page of Markdown as the snippet runner sees it: fenced blocks, what stands before them, and what is to be done."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]

FENCE = re.compile(r"^ {0,3}(`{3,})(.*)$")
COMMENT = re.compile(r"^\s*<!--\s*(.*?)\s*-->\s*$")
SAVED = re.compile(r"\b[Ss]aved?\b[^`]*\bas `([\w.-]+)`")
EVERY = re.compile(r"^every (\w+) block: (.+)$")
DOC_TESTS = re.compile(r'doc\s*=\s*include_str!\(\s*"([^"]+\.(?:md|txt))"')
ADDRESS = re.compile(r"(?:localhost|127\.0\.0\.1):8080")

MARKS = {
    "not run": re.compile(r"^not run: (.+)$"),
    "checked by": re.compile(r"^checked by (\S+)$"),
    "parsed": re.compile(r"^parsed: (.+)$"),
    "whole file": re.compile(r"^whole file (\S+)$"),
    "part of": re.compile(r"^part of (\S+)$"),
    "save as": re.compile(r"^save as ([\w.-]+)$"),
    "needs": re.compile(r"^needs (python|typescript|nothing)$"),
}
# Made from tables in the code; a test compares them.
GENERATED = "docs/reference/"
GENERATED_BY = ("checked by", "crates/pages/src/main.rs")
GENERATED_MARKS = {"text": GENERATED_BY, "json": GENERATED_BY, "sh": ("parsed", "examples of the commands' own help")}
PROGRAMS = {"python": ".py", "js": ".mjs", "ts": ".ts"}
SDK_OF = {"python": "python", "js": "typescript", "ts": "typescript"}
IMPORTS = {
    "python": re.compile(r"^\s*(?:from|import) driftq\b", re.M),
    "js": re.compile(r"""["']driftq(?:/[\w/-]+)?["']"""),
    "ts": re.compile(r"""["']driftq(?:/[\w/-]+)?["']"""),
}


class Wrong(Exception):
    """The page says something that is not so, or that nobody can check."""


class Block:
    """One fenced block, and what the lines before it say about it."""

    def __init__(self, page, line, info, text):
        self.page, self.line, self.info, self.text = page, line, info, text
        self.language = re.split(r"[ ,]", info, maxsplit=1)[0]
        self.marks = {}
        self.name = None
        # Set by the plan: `run`, `save`, `output`, `parsed`, `not run` or `checked`, and why for the last three.
        self.role, self.why = None, ""
        self.output_of = None
        self.expects = None

    @property
    def where(self):
        return f"{self.page.name}:{self.line}"

    def wrong(self, why):
        return Wrong(f"{self.where}: {why}")


class Page:
    def __init__(self, name, text):
        self.name = name
        self.every = dict(GENERATED_MARKS) if name.startswith(GENERATED) else {}
        self.blocks = []
        self.read(text)

    def read(self, text):
        prose, has_heading, before = [], True, None
        lines = text.split("\n")
        index = 0
        while index < len(lines):
            line = lines[index]
            fence = FENCE.match(line)
            if fence is None:
                prose.append((index + 1, line))
                has_heading = has_heading or line.startswith("#")
                index += 1
                continue
            end = self.end_of(lines, index, fence.group(1))
            block = Block(self, index + 1, fence.group(2).strip(), "\n".join(lines[index + 1 : end]) + "\n")
            self.read_prose(block, prose)
            # A heading between a command and a block means that the block is about something else.
            block.output_of = None if has_heading else before
            self.blocks.append(block)
            prose, has_heading, before = [], False, block
            index = end + 1
        self.read_every(prose)

    def end_of(self, lines, start, ticks):
        for index in range(start + 1, len(lines)):
            if lines[index].strip() == ticks:
                return index
        raise Wrong(f"{self.name}:{start + 1}: the block has no end")

    def read_every(self, prose):
        for number, line in prose:
            comment = COMMENT.match(line)
            if comment and (found := EVERY.match(comment.group(1))):
                self.every[found.group(1)] = self.mark(found.group(2), number)

    def mark(self, text, number):
        for kind, pattern in MARKS.items():
            if found := pattern.match(text):
                return kind, found.group(1)
        raise Wrong(f"{self.name}:{number}: `{text}` is no mark; there are: {', '.join(MARKS)}")

    def read_prose(self, block, prose):
        self.read_every(prose)
        lines = list(prose)
        while lines and not lines[-1][1].strip():
            lines.pop()
        while lines and (comment := COMMENT.match(lines[-1][1])):
            number, _ = lines.pop()
            if not EVERY.match(comment.group(1)):
                kind, value = self.mark(comment.group(1), number)
                block.marks[kind] = value
            while lines and not lines[-1][1].strip():
                lines.pop()
        paragraph = []
        while lines and lines[-1][1].strip():
            paragraph.insert(0, lines.pop()[1])
        said = SAVED.findall(" ".join(paragraph))
        block.name = block.marks.get("save as") or (said[-1] if said else None)


def plan(page, doc_tested):
    """Gives every block its part, or says which one nobody would check."""
    for block in page.blocks:
        decide(block, doc_tested)
    for index, block in enumerate(page.blocks):
        if block.role == "save":
            later = page.blocks[index + 1 :]
            if not any(mentions(other, block) for other in later if other.role in ("run", "save")):
                raise block.wrong(f"`{block.name}` is saved, and no later block uses it")


def decide(block, doc_tested):
    marks = block.marks
    if not marks.keys() & {"not run", "checked by", "parsed"} and block.language in block.page.every:
        kind, value = block.page.every[block.language]
        marks = {**marks, kind: value}
    for kind in ("whole file", "part of"):
        if kind in marks:
            same_as_file(block, kind, marks[kind])
    if "not run" in marks:
        block.role, block.why = "not run", marks["not run"]
    elif "parsed" in marks:
        block.role, block.why = "parsed", marks["parsed"]
    elif "checked by" in marks:
        block.role, block.why = "checked", checked_by(block, marks["checked by"])
    elif block.language == "sh" or block.language in PROGRAMS:
        block.role = "save" if block.name else "run"
    elif block.language == "rust":
        block.role, block.why = "checked", rust(block, marks, doc_tested)
    elif block.name:
        block.role = "save"
    elif block.language in ("json", "text"):
        output(block)
    elif not block.language:
        raise block.wrong("the block names no language")
    else:
        raise block.wrong(f"`{block.language}` is neither run nor saved under a name nor marked with a reason")


def output(block):
    command = block.output_of
    if command is None or command.role not in ("run", "not run", "parsed"):
        raise block.wrong("no command stands before it whose output it could be; mark it if it is something else")
    if command.role != "run":
        block.role, block.why = "not run", "its command is not run"
        return
    block.role = "output"
    command.expects = block


def mentions(other, block):
    """Whether a later block runs or imports what was saved."""
    stem = re.escape(pathlib.PurePath(block.name).stem)
    return re.search(rf"(?<![\w.-]){stem}\b", other.text) is not None


def same_as_file(block, kind, path):
    file = ROOT / path
    if not file.is_file():
        raise block.wrong(f"{path} is not there")
    text, wanted = file.read_text(encoding="utf-8"), block.text
    is_same = text == wanted if kind == "whole file" else f"\n{wanted}" in f"\n{text}"
    if not is_same:
        raise block.wrong(f"it is not the same as {path}: copy it from there")


def checked_by(block, path):
    file = ROOT / path
    if not file.is_file():
        raise block.wrong(f"{path} is not there")
    if pathlib.PurePath(block.page.name).name not in file.read_text(encoding="utf-8"):
        raise block.wrong(f"{path} does not name this page")
    return path


def rust(block, marks, doc_tested):
    """Rust is compiled by cargo: as a doc test of the page, or as the file that the block was taken from."""
    if re.search(r"\b(ignore|text)\b", block.info):
        raise block.wrong("`ignore` takes it out of the doc tests")
    source = marks.get("whole file") or marks.get("part of")
    if source and (source.startswith("crates/") or source in doc_tested):
        return source
    if block.page.name in doc_tested:
        return doc_tested[block.page.name]
    raise block.wrong("no crate includes this page in its doc tests, and it is no part of a file that is compiled")


def doc_tested_pages():
    """The pages that a crate includes in its doc tests, and the file that does."""
    found = {}
    for source in sorted(ROOT.glob("crates/*/src/**/*.rs")):
        for path in DOC_TESTS.findall(source.read_text(encoding="utf-8")):
            page = (source.parent / path).resolve()
            found[page.relative_to(ROOT).as_posix()] = source.relative_to(ROOT).as_posix()
    return found
