"""One connection to the server, for tasks: HTTP/1.1, one request at a time."""

from __future__ import annotations

import asyncio
import select
from typing import cast

import h11
import httpx2

from . import errors
from ._calls import Answer

# The largest head of an answer that is read.
HEAD_BYTES_MAX = 100 * 1024
# The largest answer: what a worker with the default settings borrows at once may be so large.
ANSWER_BYTES_MAX = 1 << 30
REQUEST_ID = b"x-request-id"

# A head, and what is sent with it.
Request = tuple[h11.Request, bytes | None]


class _TooLarge(Exception):
    pass


class Connection(asyncio.Protocol):
    """Whoever asks gets the answer, or an error of httpx2's that says why there is none. Only when the answer is
    complete is the connection free again: one that is not must be closed, or the next one who asks gets what is left.

    While it is open, it is among `all_open`.
    """

    def __init__(self, all_open: set[Connection]) -> None:
        self._loop = asyncio.get_running_loop()
        self._all_open = all_open
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._head: h11.Response | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._is_writing = False
        self._moved_at = 0.0
        self._timer: asyncio.TimerHandle
        # Whether it can take another request.
        self.is_free = False
        self.free_since = 0.0

    async def ask(self, request: Request, quiet_s: float) -> Answer:
        """Sends a request. `quiet_s`: for so long nothing may move, in either direction."""
        transport = self._transport
        if transport is None:
            raise httpx2.ReadError("the server closed the connection")
        self.is_free = False
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._answer = answer
        self._moved_at = self._loop.time()
        self._timer = self._loop.call_later(quiet_s, self._look_at_clock, quiet_s)
        try:
            transport.write(self._sent(request))
            return await answer
        finally:
            self._timer.cancel()
            self._answer = None

    def is_usable(self) -> bool:
        """Whether it is open, as far as can be known. A server that closed it may have said so just now."""
        transport = self._transport
        if transport is None or transport.is_closing() or not self.is_free:
            return False
        return not _is_readable(transport.get_extra_info("socket").fileno())

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # What the event loop says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._all_open.add(self)
        # So that we are told when a request is out, and not before.
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
        if error is None and self._head is not None:
            self._read(b"")  # Some answers end with the connection.
        self._fail(httpx2.ReadError(str(error or "the server closed the connection before it answered")))

    # Requests and answers.

    def _sent(self, request: Request) -> bytes:
        head, content = request
        http = self._http
        parts = [http.send(head), http.send(h11.Data(data=content)) if content else None, http.send(h11.EndOfMessage())]
        return b"".join(part for part in parts if part)

    def _read(self, data: bytes) -> None:
        """No data is the end of the connection."""
        http = self._http
        try:
            http.receive_data(data)
            while True:
                event = http.next_event()
                if isinstance(event, h11.Data):
                    self._add(event.data)
                elif isinstance(event, h11.Response):
                    self._head = event
                elif isinstance(event, h11.EndOfMessage):
                    self._end()
                    return
                elif not isinstance(event, h11.InformationalResponse):
                    return  # There is more to come.
        except _TooLarge as error:
            self._fail(errors.NotDriftQ(str(error)))
        except h11.RemoteProtocolError as error:
            self._fail(httpx2.RemoteProtocolError(str(error)))

    def _add(self, data: bytes | bytearray) -> None:
        self._size += len(data)
        if self._size > ANSWER_BYTES_MAX:
            raise _TooLarge(f"an answer of more than {ANSWER_BYTES_MAX} bytes is not read: ask for fewer at once")
        self._parts.append(bytes(data))

    def _end(self) -> None:
        http, head, transport = self._http, self._head, self._transport
        assert head is not None, "h11 gives the head first"
        request_id = next((value.decode("latin-1") for name, value in head.headers if name == REQUEST_ID), None)
        answer = Answer(head.status_code, b"".join(self._parts), request_id)
        self._head, self._parts, self._size = None, [], 0
        # A server that answers before it has read the request, or says more than it was asked, is not asked again here.
        is_quiet = not self._is_writing and not http.trailing_data[0]
        if transport is not None and is_quiet and http.our_state is h11.DONE and http.their_state is h11.DONE:
            http.start_next_cycle()
            self.is_free = True
            self.free_since = self._loop.time()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def _look_at_clock(self, quiet_s: float) -> None:
        """Looks again later if something has moved meanwhile."""
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


def _is_readable(file_number: int) -> bool:
    """An idle connection has nothing to say but that it is closed."""
    if not hasattr(select, "poll"):  # Windows, where select takes any number.
        return bool(select.select([file_number], [], [], 0)[0])
    poll = select.poll()
    poll.register(file_number, select.POLLIN)
    return bool(poll.poll(0))
