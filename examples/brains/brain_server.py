"""What every brain needs: the HTTP side of DriftQ's router hook, with the standard library only.

A brain is a function from a topic and a list of messages to a list of decisions of the same length. A decision is a
dict with `label` and, if wanted, `target_topic`, `partition_override`, `meta` (text to text) and `cache`; None means
no opinion.
"""

import base64
import json
import socket
from collections.abc import Callable
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

Message = dict
Decision = dict
Brain = Callable[[str, list[Message]], list[Decision | None]]

# The broker sends at most about 1 MiB of keys and values at once; escaped as JSON it can be six times as long.
BODY_BYTES_MAX = 8 << 20
# How many messages the broker may ask about at once, unless the brain has a `batch_max` of its own. The broker learns
# it from a header of every answer.
BATCH_MAX = 64


def text_of(message: Message, name: str = "value") -> str:
    """The key or value as text, also if it came as base64 because it is not UTF-8."""
    if name in message:
        return message[name]
    return base64.b64decode(message.get(f"{name}_b64", "")).decode("utf-8", "replace")


def at_pointer(value: str, pointer: str):
    """What a JSON pointer (RFC 6901) finds in a value; None if the value is not JSON or has no such place."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return None
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and step in found:
            found = found[step]
        elif isinstance(found, list) and step.isdigit() and int(step) < len(found):
            found = found[int(step)]
        else:
            return None
    return found


def answer(brain: Brain, question: dict) -> dict | None:
    """The answer to a question about one message or about several."""
    topic = question["topic"]
    if "message" in question:
        return brain(topic, [question["message"]])[0]
    return {"decisions": brain(topic, question["messages"])}


class Handler(BaseHTTPRequestHandler):
    # Connections stay open: a broker that asks often should not have to connect each time.
    protocol_version = "HTTP/1.1"
    # The head and the body of an answer are two writes: without this, the second waits for an acknowledgement.
    disable_nagle_algorithm = True
    timeout = 300

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > BODY_BYTES_MAX:
            self.close_connection = True
            self.reply(413, {"error": "the question needs a length, and a reasonable one"})
            return
        try:
            question = json.loads(self.rfile.read(int(length)))
            reply = answer(self.server.brain, question)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.reply(400, {"error": f"not a question: {error!r}"})
            return
        self.reply(200, reply)

    def reply(self, status: int, body: dict | None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("DriftQ-Batch-Max", str(getattr(self.server.brain, "batch_max", BATCH_MAX)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_) -> None:
        """A line for each question would drown everything else."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = socket.SOMAXCONN

    def __init__(self, address: tuple[str, int], brain: Brain) -> None:
        super().__init__(address, Handler)
        self.brain = brain


def serve(brain: Brain, host: str, port: int) -> None:
    """Answers questions until it is interrupted."""
    with Server((host, port), brain) as server:
        host, port = server.server_address[:2]
        print(f"listening on http://{host}:{port}/", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


class Asker:
    """Asks a brain as the broker does; for self-tests."""

    def __init__(self, port: int) -> None:
        self.connection = HTTPConnection("127.0.0.1", port, timeout=60)

    def post(self, body: bytes) -> tuple[int, object]:
        self.connection.request("POST", "/", body, {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        assert int(response.getheader("DriftQ-Batch-Max")) > 1
        return response.status, json.loads(response.read())

    def one(self, topic: str, message: Message) -> Decision | None:
        status, decision = self.post(json.dumps({"topic": topic, "message": message}).encode())
        assert status == 200, decision
        return decision

    def many(self, topic: str, messages: list[Message]) -> list[Decision | None]:
        status, answer = self.post(json.dumps({"topic": topic, "messages": messages}).encode())
        assert status == 200, answer
        assert len(answer["decisions"]) == len(messages)
        return answer["decisions"]


@contextmanager
def running(brain: Brain):
    """A brain behind a real socket for the length of a `with`; gives somebody who asks it."""
    with Server(("127.0.0.1", 0), brain) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        asker = Asker(server.server_address[1])
        try:
            yield asker
        finally:
            asker.connection.close()
            server.shutdown()


def check_manners(asker: Asker) -> None:
    """Nonsense is refused with a 4xx and does not end the brain or the connection."""
    for body in [b"", b"hello", b"[]", b"{}", b'{"topic": "t"}', b'{"topic": "t", "message": 5}']:
        status, _ = asker.post(body)
        assert status == 400, (body, status)
    assert asker.many("t", []) == []
