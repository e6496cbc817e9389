"""One server, or the servers of a cluster: which of them is asked.

In a cluster one server serves, and the others pass on to it what they are asked. A client that knows several of them
finds the one that serves, and stays with it; when it is gone, the client asks the next.
"""

from __future__ import annotations

import os
import threading
from urllib.parse import urlsplit

import httpx2

from . import errors
from ._calls import DEFAULT_URL, REDIRECTED, Answer, failure

SERVERS_MAX = 16
_AWAY = 503

# How a server is spoken to, where it is, and what its paths begin with: the same for one that is written in two ways.
Place = tuple[str, bytes, int, bytes]


def server_url(url: str | None) -> str:
    """The URL that was given, else that of the environment, else the default. Of several servers their URLs with commas
    in between, each once."""
    given = url or os.environ.get("DRIFTQ_SERVER") or DEFAULT_URL
    named: dict[Place, str] = {}
    for part in given.split(","):
        one = part.strip().rstrip("/")
        # Not repeated if there is an @: what is in front of it may be a password, and torn apart by a comma.
        _check(one, "what was given" if "@" in given else repr(one))
        named.setdefault(_place(httpx2.URL(one)), one)
    if len(named) > SERVERS_MAX:
        raise errors.InvalidUrl(f"{len(named)} servers are named, and a client takes {SERVERS_MAX} at most")
    return ",".join(named.values())


def _check(url: str, shown: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        httpx2.URL(url)
    except (ValueError, httpx2.InvalidURL):
        usable = False
    if usable and "@" in parts.netloc:
        raise errors.InvalidUrl(
            f"the server's URL for {parts.hostname} names a user: a DriftQ server knows no users, and nothing would be "
            f"done with the name or the password. Leave them out, as in {DEFAULT_URL}"
        )
    if not usable:
        raise errors.InvalidUrl(f"{shown} is not a server's URL: it must look like {DEFAULT_URL}")


def _place(url: httpx2.URL) -> Place:
    port = url.port or (443 if url.scheme == "https" else 80)
    return url.scheme, url.raw_host, port, url.raw_path.rstrip(b"/")


class Servers:
    """The servers of a cluster, of which all calls of a client ask the same one: the current. Safe to use from many
    threads."""

    def __init__(self, url: str) -> None:
        """`url`: as `server_url` gives it."""
        self.named = url
        self.urls = url.split(",")
        self._places = [_place(httpx2.URL(one)) for one in self.urls]
        self._lock = threading.Lock()
        self.current = 0
        # Whether servers are asked to say where the one is that serves, instead of passing on to it.
        self.prefers_redirect = len(self.urls) > 1

    def go(self, before: int, after: int) -> None:
        """From one server to another. Of many calls that find out at the same time that the first is of no use, one
        counts."""
        with self._lock:
            if self.current == before:
                self.current = after

    def leave(self, number: int) -> None:
        """That server is of no use now: the next one is asked from now on."""
        self.go(number, (number + 1) % len(self.urls))

    def beyond(self, unreached: set[int]) -> int:
        """Passes over servers that were not reached; there must be others."""
        with self._lock:
            while self.current in unreached:
                self.current = (self.current + 1) % len(self.urls)
            return self.current

    def find(self, location: str | None) -> int | None:
        """Which of the servers has this URL; None if no server that was named has."""
        try:
            scheme, host, port, path = _place(httpx2.URL(location or ""))
        except httpx2.InvalidURL:
            return None
        found = [
            number
            for number, (*origin, root) in enumerate(self._places)
            if origin == [scheme, host, port] and (path + b"/").startswith(root + b"/")
        ]
        # One may be at a path below another's.
        return max(found, key=lambda number: len(self._places[number][3]), default=None)


class Turn:
    """One try of a call: which server it is sent to, and which one after that. Every server that is tried was named by
    the user."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self.number = servers.current
        self.prefers_redirect = servers.prefers_redirect
        self._hops = 0
        self._unreached: set[int] = set()

    def ends_with(self, answer: Answer) -> bool:
        """Whether the answer counts. If not, the call is to be sent again, at once."""
        if answer.status == REDIRECTED and self.prefers_redirect:
            self._follow(answer.location)
            return False
        if answer.status == _AWAY:
            self._servers.leave(self.number)
        answer.server = self._servers.urls[self.number]
        return True

    def fails_with(self, error: httpx2.HTTPError) -> errors.DriftQError | None:
        """What the try has failed with, if there is no answer. None if nothing was sent and there is another server: the
        call is to be sent again, at once."""
        servers = self._servers
        problem = failure(error, servers.urls[self.number])
        if isinstance(problem, errors.Unreachable):
            self._unreached.add(self.number)
            if len(self._unreached) < len(servers.urls):
                self.number = servers.beyond(self._unreached)
                return None
            problem = failure(error, servers.named)
        # A request that cannot be written is no fault of the server's.
        if not isinstance(error, httpx2.LocalProtocolError):
            servers.leave(self.number)
        return problem

    def _follow(self, location: str | None) -> None:
        """To the server that serves, if the user has named it: a key must not go to a host that was not named. If not,
        calls are passed on from now on, as those of a client with one server are."""
        servers = self._servers
        target = servers.find(location)
        if target is None:
            servers.prefers_redirect = self.prefers_redirect = False
            return
        here, there = servers.urls[self.number], servers.urls[target]
        if target in self._unreached:
            # It does not know yet that the other one is gone. A server that passes a call on keeps it until another serves.
            self.prefers_redirect = False
            return
        if self._hops == len(servers.urls):
            servers.leave(self.number)
            raise errors.ConnectionLost(f"none of {servers.named} serves: the last one asked, {here}, names {there}")
        self._hops += 1
        servers.go(self.number, target)
        self.number = target
