"""One connection to the server, for tasks: HTTP/1.1, one request at a time."""

from __future__ import annotations

import asyncio
from typing import cast

import httpx2

from . import errors
from ._calls import Answer
from ._talk import Request, Talk, is_readable

class Connection(asyncio.Protocol):
    """The caller gets the answer, or an error of httpx2's that says why there is none. Only when the answer is complete
    is the connection free again: one that is not must be closed, or the next caller gets what is left.

    While it is open, it is among `all_open`.
    """

    def __init__(self, all_open: set[Connection]) -> None:
        self._loop = asyncio.get_running_loop()
        self._all_open = all_open
        self._talk = Talk()
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._is_writing = False
        self._moved_at = 0.0
        self._timer: asyncio.TimerHandle
        # Whether it can take another request.
        self.is_free = False
        self.free_since = 0.0

    async def ask(self, request: Request, quiet_s: float) -> Answer:
        """Sends a request. `quiet_s`: how long nothing may move, in either direction, before it is given up."""
        transport = self._transport
        if transport is None:
            raise httpx2.ReadError("the server closed the connection")
        self.is_free = False
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._answer = answer
        self._moved_at = self._loop.time()
        self._timer = self._loop.call_later(quiet_s, self._look_at_clock, quiet_s)
        try:
            transport.write(self._talk.sent(request))
            return await answer
        finally:
            self._timer.cancel()
            self._answer = None

    def is_usable(self) -> bool:
        """Whether it is open, as far as can be known. The server may have closed it just now."""
        transport = self._transport
        if transport is None or transport.is_closing() or not self.is_free:
            return False
        return not is_readable(transport.get_extra_info("socket").fileno())

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # What the event loop says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._all_open.add(self)
        # So that this is told when a request is out, and not before.
        self._transport.set_write_buffer_limits(high=0)

    def pause_writing(self) -> None:
        self._is_writing = True

    def resume_writing(self) -> None:
        self._is_writing = False
        self._moved_at = self._loop.time()

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.close()
            return
        self._moved_at = self._loop.time()
        self._read(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self.is_free = False
        self._all_open.discard(self)
        if error is None and self._talk.has_begun:
            self._read(b"")  # Some answers end with the connection.
        self._fail(httpx2.ReadError(str(error or "the server closed the connection before it answered")))

    def _read(self, data: bytes) -> None:
        """No data is the end of the connection."""
        try:
            answer = self._talk.read(data)
        except (httpx2.HTTPError, errors.DriftQError) as error:
            self._fail(error)
            return
        if answer is None:
            return
        # A server that answers before it has read the request is not asked again here.
        if self._transport is not None and not self._is_writing and self._talk.next_is_possible():
            self.is_free = True
            self.free_since = self._loop.time()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def _look_at_clock(self, quiet_s: float) -> None:
        """Checks again later if something has moved meanwhile."""
        left_s = self._moved_at + quiet_s - self._loop.time()
        if left_s > 0:
            self._timer = self._loop.call_later(left_s, self._look_at_clock, quiet_s)
        elif self._is_writing:
            self._fail(httpx2.WriteTimeout(f"the request was not taken within {quiet_s:g} s"))
        else:
            self._fail(httpx2.ReadTimeout(f"nothing came for {quiet_s:g} s"))

    def _fail(self, error: httpx2.HTTPError | errors.DriftQError) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
