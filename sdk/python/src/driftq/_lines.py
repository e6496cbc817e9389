"""The way to the server, for threads: connections that are kept, and made as they are needed.

A worker's effects are two calls each, and a call by the transport of httpx2 for threads takes half as much processor
time again. Threads of Python share one processor, so this is what slows a worker down.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections import deque

import httpx2

from ._calls import (
    CONNECTIONS_KEPT,
    CONNECTIONS_MAX,
    CONNECTION_IDLE_S,
    CONNECT_TIMEOUT_S,
    Address,
    Answer,
    Call,
    addresses,
)
from ._servers import Servers, Turn
from ._talk import Request, Talk, is_readable, request_of

READ_BYTES = 1 << 16


class Line:
    """One connection. Only when an answer is complete is it free again: one that is not must be closed, or the next
    caller gets what is left."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._talk = Talk()
        # Whether it can take another request.
        self.is_free = False
        self.free_since = 0.0

    def ask(self, request: Request, quiet_s: float) -> Answer:
        """Sends a request. `quiet_s`: how long nothing may move, in either direction, before it is given up."""
        self.is_free = False
        self._socket.settimeout(quiet_s)
        is_sent = self._write(self._talk.sent(request), quiet_s)
        answer = self._read(quiet_s)
        # A server that answers before it has read the request is not asked again here.
        if is_sent and self._talk.next_is_possible():
            self.is_free = True
            self.free_since = time.monotonic()
        return answer

    def is_usable(self) -> bool:
        """Whether it is open, as far as can be known. The server may have closed it just now."""
        return self.is_free and not is_readable(self._socket.fileno())

    def hang_up(self) -> None:
        """Ends the call that is under way in another thread, which then closes it."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()

    def _write(self, data: bytes, quiet_s: float) -> bool:
        """Whether the server took all of it. If it took only a part, it may have said why."""
        left = memoryview(data)
        try:
            while left:
                left = left[self._socket.send(left) :]
        except TimeoutError as error:
            raise httpx2.WriteTimeout(f"the request was not taken within {quiet_s:g} s") from error
        except OSError:
            return False
        return True

    def _read(self, quiet_s: float) -> Answer:
        while True:
            try:
                data = self._socket.recv(READ_BYTES)
            except TimeoutError as error:
                raise httpx2.ReadTimeout(f"nothing came for {quiet_s:g} s") from error
            except OSError as error:
                raise httpx2.ReadError(str(error)) from error
            if not data and not self._talk.has_begun:
                raise httpx2.ReadError("the server closed the connection before it answered")
            answer = self._talk.read(data)
            if answer is not None:
                return answer


class Lines:
    """Sends calls, each by a connection of its own while it is under way. Raises errors of httpx2."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._room = threading.BoundedSemaphore(CONNECTIONS_MAX)
        self._lock = threading.Lock()
        self._busy: set[Line] = set()
        # The one that was used last is at the end, and is used next.
        self._free: deque[Line] = deque()

    def send(self, call: Call, prefers_redirect: bool = False) -> Answer:
        request = request_of(self._address, call, prefers_redirect)
        if not self._room.acquire(timeout=call.answer_s()):
            raise httpx2.PoolTimeout(f"{CONNECTIONS_MAX} calls are under way, and none of them ended")
        try:
            line = self._take() or self._connect()
            try:
                return line.ask(request, call.answer_s())
            finally:
                self._give_back(line)
        finally:
            self._room.release()

    def let_go(self) -> None:
        """Closes what is not in use."""
        with self._lock:
            free = list(self._free)
            self._free.clear()
        for line in free:
            line.close()

    def close(self) -> None:
        with self._lock:
            free, busy = list(self._free), list(self._busy)
            self._free.clear()
        for line in free:
            line.close()
        for line in busy:
            line.hang_up()

    def _take(self) -> Line | None:
        latest = time.monotonic() - CONNECTION_IDLE_S
        found, useless = None, []
        with self._lock:
            while self._free and self._free[0].free_since < latest:
                useless.append(self._free.popleft())
            while self._free and found is None:
                line = self._free.pop()
                if line.is_usable():
                    found = line
                    self._busy.add(line)
                else:
                    useless.append(line)
        for line in useless:
            line.close()
        return found

    def _give_back(self, line: Line) -> None:
        with self._lock:
            self._busy.discard(line)
            if line.is_free and len(self._free) < CONNECTIONS_KEPT:
                self._free.append(line)
                return
        line.close()

    def _connect(self) -> Line:
        address = self._address
        try:
            connected = socket.create_connection((address.host, address.port), CONNECT_TIMEOUT_S)
            try:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if address.tls is not None:
                    connected = address.tls.wrap_socket(connected, server_hostname=address.host)
            except BaseException:
                connected.close()
                raise
        except TimeoutError as error:
            raise httpx2.ConnectTimeout(f"no connection within {CONNECT_TIMEOUT_S:g} s") from error
        except (OSError, UnicodeError) as error:
            raise httpx2.ConnectError(str(error)) from error
        line = Line(connected)
        with self._lock:
            self._busy.add(line)
        return line


class ClusterLines:
    """The same for the servers of a cluster, each with connections of its own. Raises errors of this package's: they say
    which of the servers it was."""

    def __init__(self, servers: Servers, key: str | None, ca_file: str | os.PathLike[str] | None) -> None:
        self._servers = servers
        self._ways = [Lines(address) for address in addresses(servers.urls, key, ca_file)]

    def send(self, call: Call) -> Answer:
        turn = Turn(self._servers)
        while True:
            number = turn.number
            try:
                answer = self._ways[number].send(call, turn.prefers_redirect)
                if turn.ends_with(answer):
                    return answer
            except httpx2.HTTPError as error:
                problem = turn.fails_with(error)
                if problem is not None:
                    raise problem from error
            finally:
                if number != self._servers.current:
                    # No call goes there for now, and idle connections would stay open until the server closes them.
                    self._ways[number].let_go()

    def close(self) -> None:
        for way in self._ways:
            way.close()


def lines_to(url: str, key: str | None, ca_file: str | os.PathLike[str] | None) -> Lines | ClusterLines:
    """The way to one server, or to those of a cluster."""
    servers = Servers(url)
    return ClusterLines(servers, key, ca_file) if len(servers.urls) > 1 else Lines(Address(url, key, ca_file))
