"""The calls of the public Python SDK, made with nothing but the standard library, against the real binary.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/compat_v1.py

Most streams use a short heartbeat interval; one waits for the real fifteen seconds, and holds an idle connection
meanwhile to see that it lives.
"""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import uuid

BINARY = os.environ.get("DRIFTQ_BIN", "")
TIMEOUT_S = 20
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Server:
    """`driftq serve` on a free port."""

    def __init__(self, *flags):
        self.data = tempfile.TemporaryDirectory(prefix="driftq-python-")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DRIFTQ_")}
        command = [BINARY, "serve", "--listen", "127.0.0.1:0", "--data", self.data.name, "--log-level", "warn", *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        marker = "listening on http://"
        for line in self.process.stdout:
            if marker in line:
                self.host, port = line.split(marker)[1].strip().rsplit(":", 1)
                self.port = int(port)
                break
        else:
            raise RuntimeError(f"the server ended before it listened: {self.process.wait()}")
        # Whatever it prints later must not fill the pipe and stop it.
        self.drain = threading.Thread(target=self.process.stdout.read)
        self.drain.start()

    def stop(self):
        self.process.terminate()
        return self.wait()

    def wait(self):
        code = self.process.wait(TIMEOUT_S)
        self.drain.join(TIMEOUT_S)
        self.process.stdout.close()
        self.data.cleanup()
        return code


class ApiError(Exception):
    """What the SDK makes of an answer of 400 and above."""

    def __init__(self, status, code, message):
        super().__init__(f"HTTP {status} {code}: {message}")
        self.status, self.code, self.message = status, code, message


class Sdk:
    """The SDK's calls: JSON bodies, a header for retries, a header for traces."""

    def __init__(self, server):
        self.connection = http.client.HTTPConnection(server.host, server.port, timeout=TIMEOUT_S)
        self.server = server

    def request(self, method, path, body=None, headers=None):
        sent = {"Accept": "application/json", "User-Agent": "driftq-py/0.1.0", "traceparent": TRACEPARENT}
        sent.update(headers or {})
        payload = None
        if body is not None:
            payload = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        self.connection.request(method, path, payload, sent)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 400:
            error = json.loads(text)
            raise ApiError(answer.status, error["error"], error["message"])
        return None if answer.status == 204 else json.loads(text)

    def healthz(self):
        return self.request("GET", "/v1/healthz")

    def create_topic(self, name, partitions=1):
        return self.request("POST", "/v1/topics", {"name": name, "partitions": partitions})

    def produce(self, topic, value, key=None, idempotency_key=None):
        """Tries the key at the top level first, and moves on only when that is refused as a bad request."""
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        message = {"topic": topic, "value": value}
        if key is not None:
            message["key"] = key
        if idempotency_key is None:
            return self.request("POST", "/v1/produce", message, headers), 1
        envelope = {"idempotency_key": idempotency_key}
        forms = [{**message, "idempotency_key": idempotency_key}, {**message, "envelope": envelope}]
        for tries, form in enumerate(forms, 1):
            try:
                return self.request("POST", "/v1/produce", form, headers), tries
            except ApiError as error:
                if error.status not in (400, 422) or tries == len(forms):
                    raise
        raise AssertionError("not reached")

    def settle(self, call, topic, group, owner, item, reason=None):
        body = {"topic": topic, "group": group, "owner": owner}
        body.update(partition=item["partition"], offset=item["offset"])
        if reason is not None:
            body["reason"] = reason
        return self.request("POST", f"/v1/{call}", body)

    def consume(self, topic, group, owner, lease_ms=60_000):
        return Stream(self.server, topic=topic, group=group, owner=owner, lease_ms=str(lease_ms))


class Stream:
    """A consume stream, line by line."""

    def __init__(self, server, **query):
        self.connection = http.client.HTTPConnection(server.host, server.port, timeout=TIMEOUT_S)
        path = "/v1/consume?" + urllib.parse.urlencode(query)
        self.connection.request("GET", path, headers={"traceparent": TRACEPARENT})
        self.answer = self.connection.getresponse()

    def line(self):
        return self.answer.readline()

    def item(self):
        """The next message; blank lines are skipped, as the SDK does."""
        while True:
            line = self.line()
            if not line:
                raise EOFError("the stream ended")
            if line.strip():
                return json.loads(line)

    def close(self):
        self.answer.close()
        self.connection.close()


class CompatV1(unittest.TestCase):
    def serve(self, *flags):
        server = Server(*flags)
        self.addCleanup(lambda: self.assertEqual(server.stop(), 0, "a graceful stop"))
        return self.sdk(server)

    def sdk(self, server):
        sdk = Sdk(server)
        self.addCleanup(sdk.connection.close)
        return sdk

    def open(self, sdk, *names, **options):
        stream = sdk.consume(*names, **options)
        self.addCleanup(stream.close)
        return stream

    def test_a_message_from_end_to_end(self):
        sdk = self.serve()
        self.assertEqual(sdk.healthz(), {"status": "ok"})
        created = {"status": "created", "name": "t1", "partitions": 3}
        self.assertEqual(sdk.create_topic("t1", 3), created)
        self.assertEqual(sdk.create_topic("t1", 9), created, "again is fine, and changes nothing")
        self.assertEqual(sdk.request("GET", "/v1/topics"), {"topics": ["t1"]})
        self.assertEqual(sdk.produce("t1", "päyload", key="k")[0], {"status": "produced", "topic": "t1"})
        stream = self.open(sdk, "t1", "g1", "worker-a")
        item = stream.item()
        self.assertEqual((item["key"], item["value"], item["attempts"], item["last_error"]), ("k", "päyload", 1, ""))
        self.assertIsNone(sdk.settle("nack", "t1", "g1", "worker-a", item, reason="db_deadlock"))
        item = stream.item()
        self.assertEqual((item["attempts"], item["last_error"]), (2, "db_deadlock"))
        with self.assertRaises(ApiError) as refused:
            sdk.settle("ack", "t1", "g1", "worker-b", item)
        error = refused.exception
        self.assertEqual((error.status, error.code, error.message), (409, "FAILED_PRECONDITION", "not owner"))
        for _ in range(2):
            self.assertIsNone(sdk.settle("ack", "t1", "g1", "worker-a", item))

    def test_the_fallback_of_idempotent_produce(self):
        sdk = self.serve()
        sdk.create_topic("t1")
        for _ in range(2):
            answer, tries = sdk.produce("t1", "once", idempotency_key="tenant_a:run_123:step_7")
            self.assertEqual((answer, tries), ({"status": "produced", "topic": "t1"}, 2))
        sdk.produce("t1", "after")
        stream = self.open(sdk, "t1", "g1", "worker-a")
        items = [stream.item(), stream.item()]
        self.assertEqual([item["value"] for item in items], ["once", "after"], "stored once")
        self.assertEqual(items[0]["envelope"], {"idempotency_key": "tenant_a:run_123:step_7"})
        self.assertNotIn("envelope", items[1])

    def test_headers_come_before_the_first_message_and_newlines_while_nothing_comes(self):
        sdk = self.serve("--heartbeat-ms", "200")
        sdk.create_topic("t1")
        begun = time.monotonic()
        stream = self.open(sdk, "t1", "g1", "worker-a")
        self.assertEqual(stream.answer.status, 200)
        self.assertEqual(stream.answer.getheader("Content-Type"), "application/x-ndjson; charset=utf-8")
        self.assertEqual(stream.answer.getheader("Transfer-Encoding"), "chunked")
        self.assertEqual([stream.line(), stream.line()], [b"\n", b"\n"])
        self.assertGreater(time.monotonic() - begun, 0.3)
        sdk.produce("t1", "v")
        self.assertEqual(stream.item()["value"], "v")

    def test_the_real_heartbeat_and_a_connection_that_waits_for_it(self):
        sdk = self.serve()
        sdk.create_topic("t1")
        socket_before = sdk.connection.sock
        stream = self.open(sdk, "t1", "g1", "worker-a")
        begun = time.monotonic()
        self.assertEqual(stream.line(), b"\n")
        waited = time.monotonic() - begun
        self.assertTrue(14 < waited < 18, f"{waited:.1f} s")
        self.assertEqual(sdk.healthz(), {"status": "ok"})
        self.assertIs(sdk.connection.sock, socket_before, "the idle connection was still good")

    def test_lines_stay_whole_for_readers_that_split_at_every_line_break(self):
        sdk = self.serve()
        sdk.create_topic("t1")
        value = "a\u0085b\u2028c\u2029d\x0be\x1cf"
        for text in (value, "next"):
            sdk.produce("t1", text)
        stream = self.open(sdk, "t1", "g1", "worker-a")
        # As httpx does it: the bytes are decoded, and the text is split by str.splitlines.
        text = (stream.line() + stream.line()).decode("utf-8")
        lines = [json.loads(line) for line in text.splitlines()]
        self.assertEqual([line["value"] for line in lines], [value, "next"])

    def test_half_of_a_surrogate_pair_and_blanks_around_a_query(self):
        sdk = self.serve()
        sdk.create_topic("t1")
        # What JSON.stringify makes of "😀".slice(0, 1); json.dumps writes the same.
        sdk.produce("t1", "cut \ud83d")
        sdk.request("POST", "/v1/produce?" + urllib.parse.urlencode({"topic": " t1", "value": " two words\n"}))
        stream = self.open(sdk, "t1", "g1", "worker-a")
        self.assertEqual([stream.item()["value"], stream.item()["value"]], ["cut \ufffd", "two words"])

    def test_a_stop_ends_streams_cleanly(self):
        server = Server()
        sdk = self.sdk(server)
        sdk.create_topic("t1")
        stream = self.open(sdk, "t1", "g1", "worker-a")
        server.process.terminate()
        self.assertEqual(stream.answer.read(), b"", "the end of the chunks, not a broken connection")
        # A second signal would mean "at once".
        self.assertEqual(server.wait(), 0)


if __name__ == "__main__":
    if not BINARY:
        sys.exit("set DRIFTQ_BIN to the binary under test")
    unittest.main(verbosity=2)
