"""Loads on the server's edge, and a canary that works beside them. Everything is on this machine, and everything that
is opened here is closed here."""

import contextlib
import json
import resource
import socket
import time

MIB = 1 << 20
TIMEOUT_S = 60


def raise_descriptors(wanted):
    """As many open sockets as the loads need, if the system gives them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def memory(server, field="VmHWM"):
    """Bytes of memory that the server's process takes now (VmRSS), or took at most (VmHWM)."""
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) << 10
    raise AssertionError(f"no {field}")


def metric(client, name):
    for line in client.call("GET", "/metrics").raw.decode().splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    raise AssertionError(f"no metric {name}")


def head(method, target, length):
    return (
        f"{method} {target} HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    ).encode()


class Wire:
    """One connection, by hand: what counts here is what is not sent and what is not read."""

    def __init__(self, server, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect((server.host, server.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def send(self, data):
        self.socket.sendall(data)

    def send_what_goes(self, data, seconds):
        """Sends until it is out, or until the other side has taken nothing for a while."""
        self.socket.settimeout(seconds)
        sent = 0
        with contextlib.suppress(TimeoutError, ConnectionError):
            while sent < len(data):
                sent += self.socket.send(data[sent : sent + (256 << 10)])
        self.socket.settimeout(TIMEOUT_S)
        return sent

    def answer(self):
        """Status, headers and body of the next answer."""
        while b"\r\n\r\n" not in self.rest:
            self.more()
        top, self.rest = self.rest.split(b"\r\n\r\n", 1)
        lines = top.decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
        length = int(headers.get("content-length", 0))
        pieces, have = [self.rest], len(self.rest)
        while have < length:
            piece = self.socket.recv(1 << 18)
            if not piece:
                raise AssertionError("the answer ends too early")
            pieces.append(piece)
            have += len(piece)
        body = b"".join(pieces)
        body, self.rest = body[:length], body[length:]
        return int(lines[0].split()[1]), headers, body

    def more(self):
        piece = self.socket.recv(1 << 16)
        if not piece:
            raise AssertionError("the connection was closed")
        self.rest += piece

    def call(self, method, target, body=b""):
        self.send(head(method, target, len(body)) + body)
        return self.answer()

    def close(self):
        self.socket.close()


class Canary:
    """A small producer and a small worker, each on its own connection, that never stop."""

    def __init__(self, server, client, topic="canary"):
        answer = client.call("PUT", f"/v2/topics/{topic}", {"partitions": 1})
        assert answer.status in (200, 201), str(answer)
        self.topic, self.count = topic, 0
        self.producer, self.worker = Wire(server), Wire(server)

    def once(self):
        """Seconds for one small message: stored; borrowed and acked."""
        self.count += 1
        body = json.dumps([{"value": f"n{self.count}"}]).encode()
        begun = time.monotonic()
        status, _, said = self.producer.call("POST", f"/v2/topics/{self.topic}/messages", body)
        stored = time.monotonic()
        assert status == 200, said
        body = json.dumps({"owner": "w", "max": 1, "wait_ms": 10_000}).encode()
        status, _, said = self.worker.call("POST", f"/v2/topics/{self.topic}/groups/g/lease", body)
        assert status == 200, said
        (item,) = json.loads(said)["messages"]
        assert (item["value"], item["lease"]["attempt"]) == (f"n{self.count}", 1), item
        body = json.dumps({"leases": [{"token": item["lease"]["token"]}]}).encode()
        status, _, said = self.worker.call("POST", "/v2/leases/ack", body)
        assert status == 200, said
        return stored - begun, time.monotonic() - stored

    def run(self, seconds=None, rounds=None):
        """Sorted times of both halves."""
        ends = time.monotonic() + (seconds or TIMEOUT_S)
        times = []
        while time.monotonic() < ends and (rounds is None or len(times) < rounds):
            times.append(self.once())
        return [sorted(half) for half in zip(*times)]

    def close(self):
        self.producer.close()
        self.worker.close()


def quantile(times, share):
    return times[min(len(times) - 1, int(len(times) * share))] * 1e3


class Load:
    """Sockets that are kept open until the end of the block."""

    def __init__(self):
        self.wires = []

    def open(self, server, receive_buffer=None):
        wire = Wire(server, receive_buffer)
        self.wires.append(wire)
        return wire

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for wire in self.wires:
            wire.close()


def unfinished_bodies(load, server, count, size, seconds):
    """Requests that promise a body and stop one byte before its end."""
    body = b'[{"value":"' + b"x" * (size - 14)
    sent = []
    for _ in range(count):
        wire = load.open(server)
        wire.send(head("POST", "/v2/topics/backlog/messages", size))
        sent.append(wire.send_what_goes(body, seconds))
    return sent


def unread_leases(load, server, topic, count, most):
    """Requests for messages whose answers nobody reads."""
    body = json.dumps({"owner": "deaf", "max": most, "lease_ms": 600_000}).encode()
    for number in range(count):
        wire = load.open(server, receive_buffer=4096)
        wire.send(head("POST", f"/v2/topics/{topic}/groups/deaf-{number}/lease", len(body)) + body)


def streams(load, server, topic, count, credit):
    """Streams that nobody reads, each of a group of its own."""
    for number in range(count):
        wire = load.open(server)
        target = f"/v2/topics/{topic}/groups/stream-{number}/stream?owner=s&credit={credit}&lease_ms=600000"
        wire.send(f"GET {target} HTTP/1.1\r\nhost: t\r\n\r\n".encode())


def fill(client, topic, count, size, batch_bytes=3 * MIB):
    """Stores messages of one size."""
    answer = client.call("PUT", f"/v2/topics/{topic}", {"partitions": 1})
    assert answer.status in (200, 201), str(answer)
    batch = max(1, min(1_000, batch_bytes // (size + 32)))
    value = "x" * size
    for begin in range(0, count, batch):
        messages = [{"value": value}] * min(batch, count - begin)
        answer = client.call("POST", f"/v2/topics/{topic}/messages", messages)
        assert answer.status == 200, str(answer)
