"""One shell per page: its blocks run one after the other and share variables, folder and background processes."""

import os
import pathlib
import re
import select
import shlex
import shutil
import signal
import subprocess
import time

BLOCK_SECONDS_MAX = 60
STATUS = re.compile(r"^HTTP/[\d.]+ (\d{3})", re.M)


class Ran:
    """How a block went."""

    def __init__(self, code, stdout, stderr, statuses, failed_at=""):
        self.code, self.stdout, self.stderr = code, stdout, stderr
        self.statuses, self.failed_at = statuses, failed_at


class Shell:
    def __init__(self, folder, tools, server):
        self.folder, self.server = folder, server
        self.notes = folder.parent / (folder.name + ".notes")
        self.headers = self.notes / "headers"
        self.headers.mkdir(parents=True)
        self.count = 0
        self.status, told = os.pipe()
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder, env=self.environment(tools), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, pass_fds=[told], start_new_session=True, text=True,
        )
        self.told = told
        os.close(told)

    def environment(self, tools):
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TMPDIR") if name in os.environ}
        return {
            **kept,
            "PATH": f"{tools}:{os.environ.get('PATH', '')}",
            "HOME": str(self.folder),
            "DRIFTQ_SERVER": f"http://{self.server.host}:{self.server.port}",
            "DOCS_RUN_HEADERS": str(self.headers),
            "DOCS_RUN_JS": str(self.folder / ".js"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }

    def run(self, text):
        """Runs a block where the last one left off."""
        self.count += 1
        block, out, err = (self.notes / f"{self.count}.{kind}" for kind in ("sh", "out", "err"))
        block.write_text(text, encoding="utf-8")
        # The trap says where it failed; `set -e` then ends the shell, and with it the wait.
        words = [
            "set -eo pipefail; trap 'echo \"failed $LINENO $?\" >&", self.told, "' ERR; . ", shlex.quote(str(block)),
            " </dev/null >", shlex.quote(str(out)), " 2>", shlex.quote(str(err)),
            "; trap - ERR; echo 'ended 0' >&", self.told, "\n",
        ]
        try:
            self.process.stdin.write("".join(map(str, words)))
            self.process.stdin.flush()
            said = self.await_end()
        except BrokenPipeError:
            said = ""
        return self.ran(said, text, out, err)

    def await_end(self):
        """What the shell said, up to the block's end or its own."""
        said, deadline = "", time.monotonic() + BLOCK_SECONDS_MAX
        while "ended 0\n" not in said:
            left = deadline - time.monotonic()
            if left <= 0:
                self.end()
                return said + f"late {BLOCK_SECONDS_MAX}\n"
            # A process that the block left behind keeps the pipe open, so that only the shell's end is the end.
            ready, _, _ = select.select([self.status], [], [], min(left, 0.05))
            if ready:
                piece = os.read(self.status, 4096).decode()
                if not piece:
                    return said
                said += piece
            elif self.process.poll() is not None:
                return said
        return said

    def ran(self, said, text, out, err):
        read = lambda path: path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        statuses = []
        for headers in sorted(self.headers.iterdir()):
            # Of redirections and `100 Continue` the last one is the answer.
            statuses += [int(status) for status in STATUS.findall(headers.read_text(errors="replace"))[-1:]]
            headers.unlink()
        code, failed_at = 0, ""
        if "late" in said:
            code, failed_at = 1, f"it had not ended after {BLOCK_SECONDS_MAX} s"
        elif "ended 0\n" not in said:
            failures = re.findall(r"failed (\d+) (\d+)", said)
            number, code = (int(failures[-1][0]), int(failures[-1][1])) if failures else (0, self.process.wait(5) or 1)
            lines = text.split("\n")
            failed_at = lines[number - 1].strip() if 0 < number <= len(lines) else "the shell itself ended"
        return Ran(code, read(out), read(err), statuses, failed_at)

    def end(self):
        """Ends what the page started, and nothing else: the session's own process group, and whoever left it."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(10)
        for process_id in self.strays():
            try:
                os.kill(process_id, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def strays(self):
        """Processes in sessions of their own, such as a test kit's server. They have a variable that nobody else has."""
        mark = f"DOCS_RUN_HEADERS={self.headers}".encode()
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name)
            except OSError:
                continue

    def close(self):
        self.end()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        os.close(self.status)
        shutil.rmtree(self.notes, ignore_errors=True)
