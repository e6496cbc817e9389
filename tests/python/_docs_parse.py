"""Commands that cannot be run on a page, but whose words can be checked: the binary parses them, and does nothing.

`--help` at the end of a command is looked at when everything before it was understood.
"""

import re
import shlex
import subprocess

PARSE_SECONDS_MAX = 20
ENDS = re.compile(r"^[|&;()]+$")
REDIRECTS = re.compile(r"^[<>&]+$")


class Unreadable(Exception):
    """No command of a shell."""


def commands(text):
    """The words of every `driftq` command in a block."""
    for words in lines(text):
        command, skips = [], False
        for word in [*words, ";"]:
            if ENDS.match(word):
                # What stands before it are variables, and words such as `do` or `xargs`.
                if "driftq" in command:
                    yield command[command.index("driftq") + 1 :]
                command = []
            elif REDIRECTS.match(word):
                skips = True
            elif skips:
                skips = False
            else:
                command.append(word)


def lines(text):
    """The words of every line; a line whose quotes are open goes on in the next one."""
    pending = ""
    for line in text.replace("\\\n", " ").split("\n"):
        # Neither a comment nor the number in `2>&1` is a word of the command.
        pending += re.sub(r"(?<=\s)[12](?=>)", "", re.sub(r"(^|\s)#\s.*", "", line)) + "\n"
        lexer = shlex.shlex(pending, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split, lexer.commenters = True, ""
        try:
            yield list(lexer)
            pending = ""
        except ValueError:
            continue
    if pending.strip():
        raise Unreadable(f"the quotes do not end: {pending.strip()}")


def complaint(binary, words):
    """What the binary has against a command; empty if nothing."""
    end = words.index("--") if "--" in words else len(words)
    asked = [binary, *words[:end], "--help"]
    ran = subprocess.run(asked, capture_output=True, text=True, timeout=PARSE_SECONDS_MAX, env={})
    return "" if ran.returncode == 0 else ran.stderr.strip()
