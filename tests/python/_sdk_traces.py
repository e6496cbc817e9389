"""One order through three services in three languages is one trace, and the trace explains every millisecond.

usage: DRIFTQ_BIN=… python3 tests/python/_sdk_traces.py --rust COMMAND --typescript COMMAND --python COMMAND

Each command is a worker that prints a line of JSON for each of its spans. The server sends its own by OTLP to a collector
that is part of this program, reads the protocol by the numbers of its fields, and takes nothing without the right key.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from _broker import POLL_S, TIMEOUT_S, Client, Server

TRACE, PRODUCER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
KEY = "Bearer k-17"
# Waits and work are the whole way, but for this share.
UNEXPLAINED_MAX = 0.05
STATIONS = [("orders", "billing", "charge"), ("parcels", "packing", "label"), ("mails", "post", "mail")]


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def fields(data):
    """Pairs of a field's number and its value."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        else:
            size, at = (8, at) if tag & 7 == 1 else (4, at) if tag & 7 == 5 else varint(data, at)
            value, at = data[at : at + size], at + size
            value = value if tag & 7 == 2 else int.from_bytes(value, "little")
        yield tag >> 3, value


def inside(data, number):
    return [value for found, value in fields(data) if found == number]


def span(data):
    known = dict(fields(data))
    attributes = {}
    for pair in inside(data, 9):
        name, value = dict(fields(pair)).values()
        ((_, value),) = fields(value)
        attributes[name.decode()] = value.decode() if isinstance(value, bytes) else value
    return {
        "name": known[5].decode(),
        "trace": known[1].hex(),
        "id": known[2].hex(),
        "parent": known.get(4, b"").hex(),
        "begin": known[7],
        "end": known[8],
        "attributes": attributes,
    }


class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    spans = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        is_allowed = self.headers["authorization"] == KEY
        if is_allowed:
            for resource in inside(body, 1):
                for scope in inside(resource, 2):
                    self.spans.extend(span(found) for found in inside(scope, 2))
        self.send_response(200 if is_allowed else 401)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Service:
    """A worker, and the spans that it has printed."""

    def __init__(self, command, server):
        environment = {**os.environ, "DRIFTQ_SERVER": f"http://{server.host}:{server.port}"}
        self.process = subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE, text=True, env=environment)
        self.spans = []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.spans.append(json.loads(line))

    def stop(self):
        self.process.terminate()
        code = self.process.wait(TIMEOUT_S)
        self.reader.join(TIMEOUT_S)
        assert code == 0, f"a service ended with {code}"


def wait_for(what, is_there):
    deadline = time.monotonic() + TIMEOUT_S
    while not is_there():
        assert time.monotonic() < deadline, f"{what} did not come in {TIMEOUT_S} s"
        time.sleep(POLL_S)


def has_worker(client, topic, group):
    found = client.call("GET", f"/v2/topics/{topic}/groups/{group}")
    return found.status == 200 and len(found.json["members"]) > 0


def check(spans, services):
    """Whether what was told is one trace without a gap; its words for people."""
    for found in spans + services:
        # A span within a handler is in its handler's trace.
        assert found["trace"] in (TRACE, None), f"another trace: {found}"
    waits = [found for found in spans if "driftq.wait.reason" in found["attributes"]]
    deliveries = [found for found in spans if found["name"].startswith("deliver ")]
    names = [found["name"].split()[1] for found in sorted(deliveries, key=lambda found: found["begin"])]
    assert names == ["orders", "parcels", "parcels", "mails"], names
    reasons = {found["attributes"]["driftq.wait.reason"] for found in waits}
    assert {"scheduled", "backoff"} <= reasons, reasons
    ids = {found["id"]: found for found in spans}
    for topic, _, scope in STATIONS:
        processed = [found for found in services if found["name"] == f"process {topic}"]
        assert len(processed) == names.count(topic), processed
        for found in processed:
            delivery = ids[found["parent"]]
            assert delivery["name"] == f"deliver {topic}", (found, delivery)
        carried_out = [found for found in services if found["name"] == f"effect {scope}"]
        assert [found["parent"] for found in carried_out] == [processed[-1]["id"]], carried_out
        assert [found["name"] for found in spans].count(f"effect {scope}") == 1, scope

    (posted,) = [found for found in spans if found["name"].startswith("POST /v2/topics/")]
    assert posted["parent"] == PRODUCER, posted
    # The way ends with the last effect.
    whole = max(found["end"] for found in spans if found["name"] == "effect mail") - posted["begin"]
    parts = sorted(waits + deliveries, key=lambda found: found["begin"])
    explained = sum(found["end"] - found["begin"] for found in parts)
    assert abs(explained - whole) <= whole * UNEXPLAINED_MAX, f"{explained / 1e6} ms of {whole / 1e6} ms are explained"
    for found in parts:
        after, took = (found["begin"] - posted["begin"]) / 1e6, (found["end"] - found["begin"]) / 1e6
        print(f"after {after:7.1f} ms, {took:7.1f} ms: {found['name']}")
    return f"{explained / 1e6:.1f} ms of {whole / 1e6:.1f} ms are explained, by {len(parts)} spans"


def main():
    parser = argparse.ArgumentParser()
    for language in ("rust", "typescript", "python"):
        parser.add_argument(f"--{language}", required=True)
    commands = vars(parser.parse_args()).values()
    collector = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    os.environ["OTEL_EXPORTER_OTLP_HEADERS"] = f"authorization={KEY.replace(' ', '%20')}"
    server = Server("--otlp-endpoint", f"http://127.0.0.1:{collector.server_port}", "--trace-sample", "0")
    services = []
    try:
        client = Client(server)
        for topic, _, _ in STATIONS:
            made = client.call("PUT", f"/v2/topics/{topic}", {"partitions": 1})
            assert made.status < 300, made
        services += [Service(command, server) for command in commands]
        for topic, group, _ in STATIONS:
            wait_for(f"a worker of {topic}", lambda: has_worker(client, topic, group))
        headers = {"traceparent": f"00-{TRACE}-{PRODUCER}-01"}
        posted = client.call("POST", "/v2/topics/orders/messages", {"value": {"order": 7}}, headers=headers)
        assert posted.status < 300, posted
        spans = Collector.spans
        wait_for("the last delivery", lambda: any(found["name"] == "deliver mails" for found in spans))
        for service in services:
            service.stop()
        said = check(list(spans), [found for service in services for found in service.spans])
        print(f"one trace, three services, three languages: {said}")
    finally:
        for service in services:
            if service.process.poll() is None:
                service.process.kill()
        server.discard()
    return 0


if __name__ == "__main__":
    sys.exit(main())
