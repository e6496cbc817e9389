"""Pages that are wrong in one way each: a runner that lets one of them pass is itself wrong."""

from _docs_compare import difference
from _docs_page import Page, Wrong, plan

SH = "```sh\n%s\n```\n"

# What is wrong, the page, and what must be said about it.
WRONG = [
    ("a command that fails", SH % "false", "exit code 1 at: false"),
    ("a command in a pipe that fails", SH % "false | cat", "exit code 1"),
    ("a command that is not there", SH % "driftq frobnicate", "exit code 2"),
    ("a status that nobody announced", SH % "curl -s localhost:8080/v2/topics/none", "answered 404"),
    ("another output", SH % "echo one; echo two" + "\n```text\none\nthree\n```\n", "-three"),
    ("output that is missing", SH % "echo one" + "\n```text\none\ntwo\n```\n", "-two"),
    ("output that the page leaves out", SH % "echo one; echo two" + "\n```text\none\n```\n", "+two"),
    ("a flag that is not there", "<!-- parsed: it is long -->\n" + SH % "driftq serve --no-such-flag", "--no-such-flag"),
    ("a block without a command", "<!-- parsed: it is long -->\n" + SH % "true", "no driftq command"),
    ("a program that fails", "```python\nraise SystemExit(3)\n```\n", "exit code 3"),
]
UNREADABLE = [
    ("an unknown language", "```cobol\nSTOP RUN\n```\n", "neither run nor saved"),
    ("no language", "```\nx\n```\n", "names no language"),
    ("a mark that is misspelt", "<!-- not rum: x -->\n" + SH % "true", "is no mark"),
    ("a reason that is missing", "<!-- not run: -->\n" + SH % "true", "is no mark"),
    ("an output of nothing", "```json\n{}\n```\n", "no command stands before it"),
    ("an output of another section", SH % "true" + "\n## Next\n\n```json\n{}\n```\n", "no command stands before it"),
    ("a file that nobody uses", "Save this as `left.py`:\n\n```python\nprint(1)\n```\n", "no later block uses it"),
    ("a file that differs", "<!-- whole file LICENSE -->\n```text\nx\n```\n", "not the same as LICENSE"),
    ("a test that does not read the page", "<!-- checked by LICENSE -->\n```text\nx\n```\n", "does not name this page"),
    ("Rust that nobody compiles", "```rust\nfn main() {}\n```\n", "no crate includes this page"),
    ("a block without an end", "```sh\ntrue\n", "has no end"),
]
RIGHT = (
    "Save this as `said.py`:\n\n```python\nWORD = 'one'\n```\n\n"
    + SH % "word=$(python3 -c 'import said; print(said.WORD)')"
    + "\n" + SH % "echo $word 2026-01-02T03:04:05.6Z; echo three; false || echo four"
    + "\nIt says:\n\n```text\no… 2020-01-01T00:00:00Z\n…\nfour\n```\n"
)


def run(visit):
    """The failures of the runner itself."""
    failures = []
    for what, text, says in WRONG:
        page = Page("wrong.md", text)
        plan(page, {})
        told = "\n".join(visit(page).failures)
        if says not in told:
            failures.append(f"the runner let {what} pass, or did not say {says!r}: {told}")
    for what, text, says in UNREADABLE:
        try:
            plan(Page("wrong.md", text), {})
            failures.append(f"the runner let {what} pass")
        except Wrong as wrong:
            if says not in str(wrong):
                failures.append(f"the runner said of {what}: {wrong}")
    page = Page("right.md", RIGHT)
    plan(page, {})
    failures += [f"the runner found fault: {failure}" for failure in visit(page).failures]
    if difference('{"a":1,…}\n{"b":2}', '{"a":1,"c":3}{"b":2}') or not difference('{"a":1}', '{"a":2}'):
        failures.append("answers are not compared")
    return failures
