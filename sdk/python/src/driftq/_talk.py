"""HTTP/1.1 on one connection, one request at a time, without the connection: what to send, and what was said."""

from __future__ import annotations

import select

import h11
import httpx2

from . import errors
from ._calls import REDIRECTED, Address, Answer, Call

# The largest head of an answer that is read.
HEAD_BYTES_MAX = 100 * 1024
# The largest answer: what a worker with the default settings borrows at once may be this large.
ANSWER_BYTES_MAX = 1 << 30
REQUEST_ID = b"x-request-id"
LOCATION = b"location"
# What is said to a server of a cluster that is not to pass the call on, but to say where the serving one is.
PREFER_REDIRECT = (b"prefer", b"redirect")

# A head, and what is sent with it.
Request = tuple[h11.Request, bytes | None]


def request_of(address: Address, call: Call, prefers_redirect: bool = False) -> Request:
    content = call.content()
    headers = [*address.headers_for(content), (b"accept-encoding", b"identity")]
    if prefers_redirect:
        headers.append(PREFER_REDIRECT)
    target = address.url(call.path).raw_path
    try:
        return h11.Request(method=call.method, target=target, headers=headers), content
    except h11.LocalProtocolError as error:
        raise httpx2.LocalProtocolError(str(error)) from error


class Talk:
    """Raises errors of httpx2 for invalid answers, and NotDriftQ for one that is too large."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._head: h11.Response | None = None
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def has_begun(self) -> bool:
        """Whether the head of an answer is here, and not yet all of it."""
        return self._head is not None

    def sent(self, request: Request) -> bytes:
        """The bytes of a request."""
        head, content = request
        http = self._http
        parts = [http.send(head), http.send(h11.Data(data=content)) if content else None, http.send(h11.EndOfMessage())]
        return b"".join(part for part in parts if part)

    def read(self, data: bytes) -> Answer | None:
        """The answer, when it is complete. No data is the end of the connection."""
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
                    return self._end()
                elif not isinstance(event, h11.InformationalResponse):
                    return None  # There is more to come.
        except h11.RemoteProtocolError as error:
            raise httpx2.RemoteProtocolError(str(error)) from error

    def next_is_possible(self) -> bool:
        """Whether another request can follow the answer; if so, it is prepared for."""
        http = self._http
        # A server that says more than it was asked is not asked again here.
        if http.trailing_data[0] or http.our_state is not h11.DONE or http.their_state is not h11.DONE:
            return False
        http.start_next_cycle()
        return True

    def _add(self, data: bytes | bytearray) -> None:
        self._size += len(data)
        if self._size > ANSWER_BYTES_MAX:
            raise errors.NotDriftQ(
                f"an answer of more than {ANSWER_BYTES_MAX} bytes is not read: ask for fewer at once"
            )
        self._parts.append(bytes(data))

    def _end(self) -> Answer:
        head = self._head
        assert head is not None, "h11 gives the head first"
        request_id = next((value.decode("latin-1") for name, value in head.headers if name == REQUEST_ID), None)
        answer = Answer(head.status_code, b"".join(self._parts), request_id)
        if head.status_code == REDIRECTED:
            answer.location = next((value.decode("latin-1") for name, value in head.headers if name == LOCATION), None)
        self._head, self._parts, self._size = None, [], 0
        return answer


def is_readable(file_number: int) -> bool:
    """An idle connection has nothing to say but that it is closed."""
    if not hasattr(select, "poll"):  # Windows, where select takes any number.
        return bool(select.select([file_number], [], [], 0)[0])
    poll = select.poll()
    poll.register(file_number, select.POLLIN)
    return bool(poll.poll(0))
