"""Servers that are not DriftQ, or stand in its way."""

from __future__ import annotations

import http.server
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit


class Stranger(str):
    """The URL of a server that can go away."""

    _listener: socket.socket
    _open: list[socket.socket]

    def __new__(cls, url: str, listener: socket.socket, open_sockets: list[socket.socket]) -> Stranger:
        stranger = super().__new__(cls, url)
        stranger._listener, stranger._open = listener, open_sockets
        return stranger

    def hang_up(self) -> None:
        _hang_up(self._listener)
        for connection in self._open:
            _hang_up(connection)


@contextmanager
def raw_server(answer: Callable[[socket.socket], None]) -> Iterator[Stranger]:
    """Listens on a free port, and does this with every connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    open_sockets: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            open_sockets.append(connection)
            threading.Thread(target=_quietly, args=(answer, connection), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield Stranger(f"http://127.0.0.1:{listener.getsockname()[1]}", listener, open_sockets)
    finally:
        _hang_up(listener)
        for connection in open_sockets:
            _hang_up(connection)


def _quietly(answer: Callable[[socket.socket], None], connection: socket.socket) -> None:
    try:
        answer(connection)
    except OSError:
        pass


def says(raw: bytes) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(raw)
        connection.close()

    return answer


def says_nothing(connection: socket.socket) -> None:
    connection.recv(65_536)


@contextmanager
def http_server(
    answers: list[tuple[int, dict[str, str], Any]], tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Gives these answers one after the other, the last one again and again; and lists what was asked."""
    asked: list[str] = []
    left = list(answers)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            asked.append(f"{self.command} {self.path}")
            status, headers, body = left.pop(0) if len(left) > 1 else left[0]
            raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    # How often it looks whether it is to end.
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def loses_answers(url: str, count: int) -> Iterator[str]:
    """Passes everything on to the server, and loses the first answers: the connection breaks instead."""
    target = urlsplit(url)
    left = [count]

    def pass_on(connection: socket.socket) -> None:
        server = socket.create_connection((target.hostname, target.port or 80))
        there = threading.Thread(target=_quietly, args=(lambda _: _pipe(connection, server), connection), daemon=True)
        there.start()
        try:
            while answer := server.recv(65_536):
                if left[0] > 0:
                    left[0] -= 1
                    return
                connection.sendall(answer)
        finally:
            _hang_up(connection)
            _hang_up(server)

    with raw_server(pass_on) as front:
        yield front


def _pipe(source: socket.socket, target: socket.socket) -> None:
    while data := source.recv(65_536):
        target.sendall(data)
    _hang_up(target)


def _hang_up(connection: socket.socket) -> None:
    """Also whoever waits in another thread for something to come is told."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    connection.close()
