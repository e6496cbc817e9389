"""What the scripts for the native API share: the broker as a process, its calls, and how a refusal looks."""

import atexit
import calendar
import http.client
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

BINARY = os.environ.get("DRIFTQ_BIN", "")
TIMEOUT_S = 30
POLL_S = 0.02


class Server:
    """`driftq serve` on a free port; the same data again after a kill."""

    def __init__(self, *flags, prepare=None):
        """`prepare` is given the place of the data directory before the first start."""
        self.folder = tempfile.TemporaryDirectory(prefix="driftq-python-")
        self.errors = open(os.path.join(self.folder.name, "stderr"), "w+", encoding="utf-8", errors="replace")
        self.flags = flags
        if prepare:
            prepare(self.data)
        self.start()

    @property
    def data(self):
        return os.path.join(self.folder.name, "data")

    def start(self):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DRIFTQ_")}
        command = [BINARY, "serve", "--listen", "127.0.0.1:0", "--data", self.data, "--log-level", "warn", *self.flags]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment
        )
        marker = "listening on http://"
        for line in self.process.stdout:
            if marker in line:
                self.host, port = line.split(marker)[1].strip().rsplit(":", 1)
                self.port = int(port)
                break
        else:
            code = self.process.wait()
            raise RuntimeError(f"the server ended with {code} before it listened: {self.complaints()}")
        # Whatever it prints later must not fill the pipe and stop it.
        self.drain = threading.Thread(target=self.process.stdout.read, daemon=True)
        self.drain.start()
        # A script that ends early takes its server along.
        atexit.register(self.process.kill)

    def kill(self):
        """What `kill -9` does."""
        self.process.kill()
        self.wait()

    def restart(self):
        self.kill()
        self.start()

    def wait(self):
        code = self.process.wait(TIMEOUT_S)
        self.drain.join(TIMEOUT_S)
        self.process.stdout.close()
        return code

    def stop(self):
        """The exit code of a graceful stop."""
        self.process.terminate()
        return self.wait()

    def complaints(self):
        """What it wrote to its log."""
        self.errors.flush()
        self.errors.seek(0)
        return self.errors.read()

    def discard(self):
        if self.process.poll() is None:
            self.kill()
        self.errors.close()
        self.folder.cleanup()


class Answer:
    """An answer, and the request as a line that can be typed."""

    def __init__(self, line, status, headers, raw):
        self.line, self.status, self.headers, self.raw = line, status, headers, raw

    @property
    def kind(self):
        return (self.headers.get("Content-Type") or "").split(";")[0]

    @property
    def json(self):
        return json.loads(self.raw)

    @property
    def lines(self):
        return [json.loads(line) for line in self.raw.splitlines() if line.strip()]

    def __str__(self):
        return f"{self.line}\n{self.status} {self.raw[:2000].decode('utf-8', 'replace')}"


def curl(server, method, target, headers, body):
    """The request as a line for a shell; bytes that no shell takes go through printf."""
    words = ["curl", "-sS", "-i", "-X", method]
    for name, value in headers.items():
        words += ["-H", f"{name}: {value}"]
    words.append(f"http://{server.host}:{server.port}{target}")
    line = " ".join(shlex.quote(word) for word in words)
    if body is None:
        return line
    try:
        text = body.decode("ascii")
        if text.isprintable():
            return f"{line} --data-binary {shlex.quote(text[:4000])}"
    except UnicodeDecodeError:
        pass
    octal = "".join(f"\\{byte:03o}" for byte in body[:4000])
    return f"printf '{octal}' | {line} --data-binary @-"


class Client:
    """Calls over one connection, which is opened again after a restart."""

    def __init__(self, server):
        self.server = server
        self.connection = None

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def call(self, method, target, body=None, headers=None):
        sent = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        line = curl(self.server, method, target, sent, body)
        address = (self.server.host, self.server.port)
        if self.connection is None or (self.connection.host, self.connection.port) != address:
            self.close()
            self.connection = http.client.HTTPConnection(*address, timeout=TIMEOUT_S)
        try:
            self.connection.request(method, target, body, sent)
            answer = self.connection.getresponse()
            raw = answer.read()
        except Exception as error:
            self.close()
            raise AssertionError(f"{line}\nno answer: {error!r}") from error
        return Answer(line, answer.status, answer.headers, raw)


class Stream:
    """A stream of deliveries, line by line."""

    def __init__(self, server, path, **query):
        target = f"{path}?{urllib.parse.urlencode(query)}"
        self.connection = http.client.HTTPConnection(server.host, server.port, timeout=TIMEOUT_S)
        self.connection.request("GET", target)
        self.answer = self.connection.getresponse()
        if self.answer.status != 200:
            raise AssertionError(f"{target}: {self.answer.status} {self.answer.read()}")
        self.items = []
        self.has_ended = threading.Event()
        self.error = None
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        try:
            while line := self.answer.readline():
                if line.strip():
                    self.items.append(json.loads(line))
        except Exception as error:  # Closing it from the other thread ends here, too.
            self.error = error
        self.has_ended.set()

    def close(self):
        # Shutting the socket down wakes the reader; closing alone would not.
        if self.connection.sock is not None:
            self.connection.sock.shutdown(2)
        elif self.answer.fp is not None:
            self.answer.fp.raw._sock.shutdown(2)
        self.reader.join(TIMEOUT_S)
        self.connection.close()


def until(condition, what, seconds=TIMEOUT_S):
    """Polls until the condition holds, and answers what it said."""
    deadline = time.monotonic() + seconds
    while True:
        if said := condition():
            return said
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(POLL_S)


def seconds(moment):
    """A time of an answer as seconds since 1970; its text has no fixed number of digits and cannot be compared."""
    whole, _, fraction = moment.removesuffix("Z").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float(f"0.{fraction or 0}")


def quoted(name):
    return urllib.parse.quote(name, safe="")


class Case(unittest.TestCase):
    """Scenarios that share one broker; each uses its own topics."""

    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.flags)
        cls.addClassCleanup(cls.server.discard)
        cls.addClassCleanup(cls.finish)

    @classmethod
    def finish(cls):
        code = cls.server.stop()
        complaints = cls.server.complaints()
        if code != 0 or "panicked" in complaints:
            raise AssertionError(f"the server ended with {code}: {complaints}")

    def setUp(self):
        self.client = self.connect()
        self.topic = self.id().rsplit(".", 1)[-1]

    def connect(self):
        client = Client(self.server)
        self.addCleanup(client.close)
        return client

    def call(self, method, path, body=None, expect=200, **headers):
        """The JSON of an answer with the expected status."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self.client.call(method, "/v2" + path, body, named)
        self.assertEqual(answer.status, expect, str(answer))
        return answer.json if answer.raw else None

    def refused(self, method, path, body=None, status=400, code="INVALID_ARGUMENT", says="", headers=None):
        """The problem that a call is refused with."""
        answer = self.client.call(method, "/v2" + path, body, headers)
        return self.problem(answer, status, code, says)

    def problem(self, answer, status, code, says=""):
        self.assertEqual(answer.status, status, str(answer))
        self.assertEqual(answer.kind, "application/problem+json", str(answer))
        problem = answer.json
        self.assertEqual((problem["status"], problem["code"]), (status, code), str(answer))
        self.assertIn(says, problem["detail"], str(answer))
        self.assertTrue(problem["title"] and problem["help"], str(answer))
        self.assertIs(type(problem["retryable"]), bool, str(answer))
        return problem

    def create(self, topic=None, **settings):
        answer = self.client.call("PUT", f"/v2/topics/{quoted(topic or self.topic)}", settings)
        self.assertEqual(answer.status, 201, str(answer))
        return answer.json

    def produce(self, *messages, topic=None):
        """Stores one message per text or object, and answers where they are."""
        batch = [{"value": message} if isinstance(message, str) else message for message in messages]
        results = self.call("POST", f"/topics/{topic or self.topic}/messages", batch)
        for result in results:
            self.assertNotIn("error", result)
        return results

    def lease(self, group="g", owner="w", topic=None, **request):
        path = f"/topics/{topic or self.topic}/groups/{group}/lease"
        return self.call("POST", path, {"owner": owner, **request})["messages"]

    def lease_values(self, **request):
        return [item["value"] for item in self.lease(**request)]

    def settle(self, verb, *items, expect=200, **more):
        """Settles deliveries; all of them must be `ok`."""
        leases = [{"token": item["lease"]["token"], **more} for item in items]
        results = self.call("POST", f"/leases/{verb}", {"leases": leases}, expect)["results"]
        self.assertEqual([result["status"] for result in results], ["ok"] * len(items), results)
        return results

    def stale(self, verb, item, attempt=None):
        """Tries to settle a delivery that is over."""
        body = {"leases": [{"token": item["lease"]["token"]}]}
        problem = self.refused("POST", f"/leases/{verb}", body, 409, "STALE_LEASE")
        self.assertEqual(problem.get("attempt"), attempt, problem)

    def state(self, place, group="g"):
        """Where a message stands with a group."""
        path = f"/topics/{place['topic']}/messages/{place['partition']}/{place['offset']}"
        groups = {state["group"]: state for state in self.call("GET", path)["groups"]}
        return groups[group]

    def await_state(self, place, state, group="g"):
        return until(
            lambda: (found := self.state(place, group)) and found["state"] == state and found,
            f"{place} is {state}",
        )

    def group(self, group="g", topic=None):
        return self.call("GET", f"/topics/{topic or self.topic}/groups/{group}")

    def open(self, group="g", topic=None, **query):
        stream = Stream(self.server, f"/v2/topics/{topic or self.topic}/groups/{group}/stream", **query)
        self.addCleanup(stream.close)
        return stream

    def job(self, path, body, **headers):
        """Starts a job and waits for its end."""
        job = self.call("POST", path, body, 202, **headers)
        ended = lambda: (now := self.call("GET", f"/jobs/{job['id']}"))["state"] != "running" and now
        return until(ended, f"the end of job {job['id']}")


def main():
    if not BINARY:
        sys.exit("set DRIFTQ_BIN to the binary under test")
    unittest.main(verbosity=2)
