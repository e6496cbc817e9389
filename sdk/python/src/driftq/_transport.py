"""The way to the server, for tasks: connections that are kept, and made as they are needed.

A worker does little besides its calls, and a call by the transport of httpx2 for tasks takes three times as much
processor time. This one does only what a broker's client needs.
"""

from __future__ import annotations

import asyncio
from collections import deque

import httpx2
import os

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
from ._connection import Connection
from ._servers import Servers, Turn
from ._talk import request_of

# A server with two addresses of which one is dead: how long before the other one is tried.
NEXT_ADDRESS_S = 0.25


class Transport:
    """Sends calls, each by a connection of its own while it is under way. Raises errors of httpx2."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._open: set[Connection] = set()
        # The one that was used last is at the end, and is used next.
        self._free: deque[Connection] = deque()
        self._room = asyncio.Semaphore(CONNECTIONS_MAX)

    async def send(self, call: Call, prefers_redirect: bool = False) -> Answer:
        request = request_of(self._address, call, prefers_redirect)
        await self._wait_for_room(call.answer_s())
        try:
            connection = self._take() or await self._connect()
            try:
                return await connection.ask(request, call.answer_s())
            finally:
                self._give_back(connection)
        finally:
            self._room.release()

    def let_go(self) -> None:
        """Closes what is not in use."""
        while self._free:
            self._free.pop().close()

    async def close(self) -> None:
        for connection in list(self._open):
            connection.close()
        self._free.clear()
        # The event loop closes them in its next turn; the program may end right after this.
        await asyncio.sleep(0)

    async def _wait_for_room(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s if self._room.locked() else None):
                await self._room.acquire()
        except TimeoutError:
            raise httpx2.PoolTimeout(f"{CONNECTIONS_MAX} calls are under way, and none of them ended") from None

    def _take(self) -> Connection | None:
        self._close_old()
        while self._free:
            connection = self._free.pop()
            if connection.is_usable():
                return connection
            connection.close()
        return None

    def _give_back(self, connection: Connection) -> None:
        if connection.is_free and len(self._free) < CONNECTIONS_KEPT:
            self._free.append(connection)
        else:
            connection.close()

    def _close_old(self) -> None:
        latest = asyncio.get_running_loop().time() - CONNECTION_IDLE_S
        while self._free and self._free[0].free_since < latest:
            self._free.popleft().close()

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._open),
                    self._address.host,
                    self._address.port,
                    ssl=self._address.tls,
                    happy_eyeballs_delay=NEXT_ADDRESS_S,
                )
        except TimeoutError as error:
            raise httpx2.ConnectTimeout(f"no connection within {CONNECT_TIMEOUT_S:g} s") from error
        except (OSError, UnicodeError) as error:
            raise httpx2.ConnectError(str(error)) from error
        return connection


class ClusterTransport:
    """The same for the servers of a cluster, each with connections of its own. Raises errors of this package's: they say
    which of the servers it was."""

    def __init__(self, servers: Servers, key: str | None, ca_file: str | os.PathLike[str] | None) -> None:
        self._servers = servers
        self._ways = [Transport(address) for address in addresses(servers.urls, key, ca_file)]

    async def send(self, call: Call) -> Answer:
        turn = Turn(self._servers)
        while True:
            number = turn.number
            try:
                answer = await self._ways[number].send(call, turn.prefers_redirect)
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

    async def close(self) -> None:
        for way in self._ways:
            await way.close()


def transport_to(url: str, key: str | None, ca_file: str | os.PathLike[str] | None) -> Transport | ClusterTransport:
    """The way to one server, or to those of a cluster."""
    servers = Servers(url)
    return ClusterTransport(servers, key, ca_file) if len(servers.urls) > 1 else Transport(Address(url, key, ca_file))
