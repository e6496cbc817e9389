"""Bad input for the native API, thousands of requests of it, against the real binary.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/fuzz_v2.py

Two sources: requests written by hand, and schemathesis over the served document, which is installed into a folder of
its own below `target`. Where it cannot be installed the reason is printed. All seeds are fixed.
"""

import http.client
import json
import os
import re
import select
import socket
import subprocess
import sys
from pathlib import Path

from _broker import TIMEOUT_S, Case, main
from _fuzz_hostile import broken_http, repeat, requests, send
from _fuzz_rules import CANARY, SPARE

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or HERE.parents[1] / "target")
TOOLS = TARGET / "python-tools"
REQUIREMENTS = HERE / "requirements.txt"
INSTALL_S = 300
FUZZ_S = 300
EXAMPLES = 8
SEED = 20251221
GROWTH_MAX_MIB = 256
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,negative_data_rejection,missing_required_header,unsupported_method,"
    "refused_for_a_reason,problems_are_problems"
)
PROBLEM = "application/problem+json"


def tools():
    """The Python that has schemathesis; `None`, after the reason, if there is none to be had."""
    python, wanted = TOOLS / "bin" / "python", REQUIREMENTS.read_text(encoding="utf-8")
    stamp = TOOLS / "installed.txt"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    try:
        quiet = {"check": True, "timeout": INSTALL_S, "capture_output": True, "text": True}
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(TOOLS)], **quiet)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        install += ["--retries", "1", "--timeout", "20"]
        subprocess.run([*install, "--requirement", str(REQUIREMENTS)], **quiet)
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        print("schemathesis could not be installed:", " ".join(said[-3:]))
        return None
    stamp.write_text(wanted, encoding="utf-8")
    return python


def read_answer(answers):
    """`(status, headers)` of the next answer on a connection; `None` if it has ended."""
    line = answers.readline()
    if not line:
        return None
    headers = http.client.parse_headers(answers)
    answers.read(int(headers.get("Content-Length", "0")))
    return int(line.split()[1]), {name.lower(): value for name, value in headers.items()}


class Fuzz(Case):
    # Short waits: for a heartbeat of a stream, and for what a hostile client does not send.
    flags = ("--heartbeat-ms", "50", "--head-timeout-ms", "1000", "--body-timeout-ms", "1000", "--topics-max", "20000")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tools = tools()

    def setUp(self):
        super().setUp()
        self.furnish()
        self.canary = self.stock(CANARY)
        self.memory = self.resident()

    def furnish(self):
        """Something to find behind every path of the document."""
        for topic in ("orders", SPARE):
            if not self.is_there(topic):
                self.create(topic, partitions=2)
        self.produce(*({"value": f"v{index}", "key": f"k{index % 3}"} for index in range(300)), topic="orders")
        items = self.lease(topic="orders", group="billing", max=3)
        self.settle("nack", *items, dead=True, error="poison")

    def stock(self, name):
        """What must be there afterwards: messages, a delivery, a dead letter."""
        if not self.is_there(name):
            self.create(name)
            self.produce(*(f"precious {index}" for index in range(20)), topic=name)
            items = self.lease(topic=name, group="keeper", max=2, lease_ms=600_000)
            self.settle("ack", items[0])
        return self.look(name)

    def is_there(self, name):
        return self.client.call("GET", f"/v2/topics/{name}").status == 200

    def look(self, name):
        messages = self.call("GET", f"/topics/{name}/messages?limit=1000")["messages"]
        group = self.call("GET", f"/topics/{name}/groups/keeper")
        return messages, (group["lag"], group["in_flight"])

    def resident(self):
        """Memory of the broker in MiB."""
        status = Path(f"/proc/{self.server.process.pid}/status")
        if not status.exists():
            return 0
        return int(re.search(r"VmRSS:\s+(\d+)", status.read_text(encoding="utf-8"))[1]) / 1024

    def tearDown(self):
        self.assertIsNone(self.server.process.poll(), "the broker lives")
        # A connection that was idle for as long as the fuzzer ran may have ended.
        self.client.close()
        self.assertEqual(self.call("GET", "/readyz")["status"], "ready")
        self.assertEqual(self.look(CANARY), self.canary, "what was there is there")
        grown = self.resident() - self.memory
        print(f"memory: {self.memory:.0f} MiB before, {grown:+.0f} MiB")
        self.assertLess(grown, GROWTH_MAX_MIB)

    def test_1_hostile_requests(self):
        failures, everything = [], list(requests())
        before = self.call("GET", "/topics/orders")["next_offset"]
        everything += [("broken HTTP", request, statuses) for request, statuses in broken_http()]
        for name, request, statuses in everything:
            try:
                status, kind, body = send(self.server, request, TIMEOUT_S)
            except TimeoutError:
                failures.append(f"{name}: no answer\n    {repeat(self.server, request)}")
                continue
            explains = name == "broken HTTP" or status < 300 or (kind == PROBLEM and json.loads(body)["detail"])
            if status not in statuses or not explains:
                shown = f"{status} {kind} {body[:300]!r}, expected {statuses}"
                failures.append(f"{name}: {shown}\n    {repeat(self.server, request)}")
        print(f"{len(everything)} hostile requests")
        self.assertFalse(failures, "\n" + "\n".join(failures))
        self.assertEqual(self.call("GET", "/topics/orders")["next_offset"], before, "nothing of it was stored")

    def test_1_a_refusal_leaves_the_connection_in_order(self):
        """A refusal before the body came either keeps the connection or says that it ends."""
        for path in ("/v2/nothing", "/v2/topics", "/v2/dlq//redrive", "/v2/topics/orders/messages", "/v2/leases/ack"):
            with socket.create_connection((self.server.host, self.server.port), TIMEOUT_S) as connection:
                head = f"POST {path} HTTP/1.1\r\nHost: broker\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\n"
                connection.sendall(head.encode())
                # Some refusals come at once and some after the body: the body follows late enough for the first kind.
                select.select([connection], [], [], 0.3)
                answers = connection.makefile("rb")
                try:
                    connection.sendall(b"text")
                    first = read_answer(answers)
                    self.assertIn(first[0], (404, 405, 415), path)
                    if first[1].get("connection", "").lower() == "close":
                        continue
                    connection.sendall(b"GET /v2/healthz HTTP/1.1\r\nHost: broker\r\n\r\n")
                    second = read_answer(answers)
                except OSError as error:
                    self.fail(f"{path}: the connection ended and the answer did not say so: {error!r}")
                self.assertIsNotNone(second, f"{path}: the connection ended and the answer did not say so")
                self.assertEqual(second[0], 200, path)

    def test_2_schemathesis(self):
        if self.tools is None:
            self.skipTest("schemathesis is not there")
        address = f"http://{self.server.host}:{self.server.port}"
        command = [
            str(self.tools), "-m", "schemathesis.cli", "run", f"{address}/v2/openapi.json", "--checks", CHECKS,
            "--exclude-operation-id", "stream", "--exclude-operation-id", "stream_events", "--mode", "all",
            "--phases", "examples,coverage,fuzzing",
            "--max-examples", str(EXAMPLES), "--seed", str(SEED), "--generation-codec", "ascii",
            "--generation-database", "none", "--request-timeout", "20", "--continue-on-failure", "--no-color",
            "--output-sanitize", "false", "--warnings", "off", "--suppress-health-check", "all",
        ]
        environment = {**os.environ, "SCHEMATHESIS_HOOKS": "_fuzz_hooks", "PYTHONPATH": str(HERE)}
        work = TOOLS / "work"
        work.mkdir(exist_ok=True)
        run = subprocess.run(
            command, cwd=work, env=environment, capture_output=True, text=True, timeout=FUZZ_S, check=False
        )
        cases = re.search(r"(\d+) generated", run.stdout)
        print(f"schemathesis: {cases[0] if cases else 'nothing was generated'}")
        self.assertEqual(run.returncode, 0, f"{run.stdout[-20000:]}\n{run.stderr[-4000:]}")
        self.assertGreater(int(cases[1]), 3000)


if __name__ == "__main__":
    main()
