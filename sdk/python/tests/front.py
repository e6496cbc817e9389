"""Stands between an SDK and the server, and does to calls what networks and busy servers do."""

from __future__ import annotations

import http.client
import json
import pathlib
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

ANSWER_TIMEOUT_S = 60.0


class Front:
    """Passes calls on. A rule with `lose` takes a request or its answer away and closes the connection; one with
    `without` takes a member out of the body of a request. Before a server with TLS it speaks TLS as well, with the
    server's own certificate: `certificates` is the folder of `driftq tls dev`."""

    def __init__(self, url: str, rules: list[dict[str, Any]], certificates: pathlib.Path | None = None) -> None:
        self._place = urlsplit(url)
        self._trust = None if certificates is None else ssl.create_default_context(cafile=certificates / "ca.pem")
        self._rules = rules
        self._lost = [0] * len(rules)
        self._lock = threading.Lock()
        # What was asked, with lost requests: methods, paths and bodies.
        self.requests: list[tuple[str, str, bytes]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        if certificates is not None:
            own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            own.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
            # The handshake is the business of the connection's own thread.
            self._server.socket = own.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"{self._place.scheme}://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Front:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def posts(self, path: str) -> list[bytes]:
        """The bodies of the calls to this path."""
        return [body for method, asked, body in self.requests if (method, asked) == ("POST", path)]

    def losing(self, body: bytes) -> str:
        """What is lost of this call: `request`, `answer` or nothing."""
        with self._lock:
            for index, rule in enumerate(self._rules):
                if "lose" not in rule or rule["body_has"].encode() not in body:
                    continue
                if self._lost[index] < rule.get("times", float("inf")):
                    self._lost[index] += 1
                    return str(rule["lose"])
        return ""

    def changed(self, path: str, body: bytes) -> bytes:
        for rule in self._rules:
            if "without" in rule and rule["post"] == path:
                members = json.loads(body)
                members.pop(rule["without"], None)
                body = json.dumps(members).encode()
        return body

    def ask(self, method: str, path: str, body: bytes, key: str | None = None) -> tuple[int, bytes]:
        host, port = self._place.hostname or "", self._place.port
        connection = (
            http.client.HTTPConnection(host, port, timeout=ANSWER_TIMEOUT_S)
            if self._trust is None
            else http.client.HTTPSConnection(host, port, timeout=ANSWER_TIMEOUT_S, context=self._trust)
        )
        try:
            headers = {"content-type": "application/json"} if body else {}
            if key is not None:
                headers["authorization"] = key
            connection.request(method, path, body or None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def _handler(front: Front) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            front.requests.append((self.command, self.path, body))
            lost = front.losing(body)
            self.close_connection = bool(lost)
            if lost == "request":
                return
            try:
                changed = front.changed(self.path, body)
                status, answer = front.ask(self.command, self.path, changed, self.headers.get("authorization"))
            except OSError:  # The server is away, and so are we.
                self.close_connection = True
                return
            if lost:
                return
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PUT = do_DELETE = _pass_on

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
