"""Whether a command printed what the page says, where the page may leave out what differs from run to run."""

import difflib
import re

# What differs from run to run: a part that was left out, a moment, a wait that is counted down, a run's own address.
PLACE = re.compile(
    r"(?P<rest> *…)"  # With the blanks before it, so that columns of figures may stand where they stand.
    r"|(?P<moment>\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z)"
    r'|(?P<wait>(?<="retry_after_ms":)\d+|(?<="took_ms":)[\d.]+)'
)
PATTERNS = {
    "rest": r"[^\n]*?",
    "moment": r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z",
    "wait": r"[\d.]+",
}


def line_pattern(line):
    pattern, end = "", 0
    for place in PLACE.finditer(line):
        pattern += re.escape(line[end : place.start()]) + PATTERNS[place.lastgroup]
        end = place.end()
    return pattern + re.escape(line[end:])


def pattern_of(expected):
    """One expression for the whole; a line that is only `…` stands for any number of lines."""
    lines = [line.rstrip() for line in expected.strip("\n").split("\n")]
    parts = [r"(?:[^\n]*\n)*?" if line.strip() == "…" else line_pattern(line) + r"[ \t]*\n" for line in lines]
    return re.compile("".join(parts) + r"\s*")


def difference(expected, actual):
    """None if they agree, else what a person needs to see."""
    # Answers that came without a line break of their own stand on one line each, as on the page.
    printed = actual.replace("\r\n", "\n")
    if "}{" not in expected:
        printed = printed.replace("}{", "}\n{")
    printed = printed.strip("\n") + "\n"
    if pattern_of(expected).fullmatch(printed):
        return None
    return "\n".join(diff_lines(expected, printed))


def diff_lines(expected, printed):
    """Lines that agree by their pattern are the same line to the diff."""
    wanted, came = expected.strip("\n").split("\n"), printed.strip("\n").split("\n")
    telling = [line for line in wanted if line.strip() != "…"]
    patterns = [(line, re.compile(line_pattern(line.rstrip()) + r"[ \t]*")) for line in telling]
    folded = [next((line for line, pattern in patterns if pattern.fullmatch(other)), other) for other in came]
    lines = difflib.unified_diff(wanted, folded, "the page", "what came", lineterm="", n=1)
    return [line if len(line) < 1000 else line[:1000] + " (cut)" for line in lines]
