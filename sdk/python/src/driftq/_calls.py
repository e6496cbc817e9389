"""A call to the server: what is sent, what is read from an answer, and when it is repeated."""

from __future__ import annotations

import json
import os
import random
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2

from . import errors
from ._json import written
from ._outage import Outage

DEFAULT_URL = "http://127.0.0.1:8080"
CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 30.0
PATIENCE_S = 30.0
BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 5.0
# A running worker also waits for these to be put right: what answers is no DriftQ server, or its certificate is not
# trusted.
WAITED_FOR = (errors.NotDriftQ, errors.Untrusted)
CONNECTIONS_MAX = 1_000
CONNECTIONS_KEPT = 100
# Below the server's own idle limit, so that a kept connection is not closed under a request.
CONNECTION_IDLE_S = 15.0
USER_AGENT = b"driftq-python"
URLS_KEPT = 64
# The status of an answer that says where the serving server is.
REDIRECTED = 307

# What a gateway in front of the server answers while the server is away.
_GATEWAY_STATUSES = (429, 502, 503, 504)


@dataclass(slots=True)
class Call:
    """One call. `expects` are members that every DriftQ server answers with."""

    method: str
    path: str
    body: Any = None
    expects: tuple[str, ...] = ()
    # How long the server was asked to wait before it answers.
    wait_ms: int = 0
    patience_s: float | None = None
    answer_timeout_s: float = ANSWER_TIMEOUT_S
    # Reads from the bytes of an answer what it says, if that is clear without parsing all of it.
    glance: Callable[[bytes], Any] | None = None

    def answer_s(self) -> float:
        """How long nothing may come before the call is given up."""
        return self.answer_timeout_s + self.wait_ms / 1000

    def content(self) -> bytes | None:
        if self.body is None or isinstance(self.body, bytes):
            return self.body
        return written(self.body)


@dataclass(slots=True)
class Answer:
    """What came back."""

    status: int
    content: bytes
    request_id: str | None
    # Where a server that redirects says that the serving one is.
    location: str | None = None
    # Which of several servers it is from.
    server: str | None = None


class Address:
    """Where the server is, how it is trusted, and the URLs of its paths."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`tls`: what another server is trusted by, if this one is to be trusted alike."""
        self._base = httpx2.URL(url)
        self.host = self._base.raw_host.decode("ascii")
        self.tls = tls if tls is not None and self._base.scheme == "https" else certificates(self._base, ca_file)
        self.port = self._base.port or (443 if self.tls else 80)
        self._root = self._base.raw_path.rstrip(b"/")
        self._urls: dict[str, httpx2.URL] = {}
        self.headers = [(b"host", self._base.netloc), (b"accept", b"*/*"), (b"user-agent", USER_AGENT)]
        shown = shown_key(key)
        if shown is not None:
            self.headers.append((b"authorization", shown))

    def url(self, path: str) -> httpx2.URL:
        """The URL of a path. Kept, because the same few paths are asked for again and again, and parsing a URL is
        slow."""
        url = self._urls.get(path)
        if url is None:
            url = self._base.copy_with(raw_path=self._root + path.encode())
            if len(self._urls) >= URLS_KEPT:
                self._urls.clear()
            self._urls[path] = url
        return url

    def headers_for(self, content: bytes | None) -> list[tuple[bytes, bytes]]:
        if content is None:
            return self.headers
        length = str(len(content)).encode()
        return [*self.headers, (b"content-type", b"application/json"), (b"content-length", length)]


def shown_key(key: str | None) -> bytes | None:
    """What is shown to a server that asks for a key: the one that was given, else that of DRIFTQ_KEY. What it was is
    not repeated in the error: it may be the secret of something else."""
    chosen = (key if key is not None else os.environ.get("DRIFTQ_KEY", "")).strip()
    if not chosen:
        return None
    if not chosen.startswith("dq_") or not chosen.isascii() or not chosen.isprintable():
        raise errors.InvalidUrl("the key, or DRIFTQ_KEY, is not dq_, an id, _ and a secret")
    return b"Bearer " + chosen.encode()


def certificates(url: httpx2.URL, ca_file: str | os.PathLike[str] | None) -> ssl.SSLContext | None:
    """How certificates are checked: against the system's authorities, or those of SSL_CERT_FILE or SSL_CERT_DIR, and
    those of `ca_file`. For plain HTTP there is nothing to check, and loading them would only take time."""
    if url.scheme != "https":
        if ca_file is not None:
            raise errors.InvalidUrl(f"ca_file is for servers with TLS, and {url} is none: write https://")
        return None
    context = httpx2.create_ssl_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except OSError as error:
            raise errors.InvalidUrl(f"ca_file {os.fspath(ca_file)!r} is not a file with certificates in PEM: {error}") from error
    context.set_alpn_protocols(["http/1.1"])
    return context


def addresses(
    urls: list[str], key: str | None = None, ca_file: str | os.PathLike[str] | None = None
) -> list[Address]:
    """Those of several servers. Authorities are loaded once for all of them, because that takes time."""
    found: list[Address] = []
    tls: ssl.SSLContext | None = None
    for url in urls:
        found.append(Address(url, key, ca_file, tls))
        tls = tls or found[-1].tls
    return found


def segment(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")


# The system's own random numbers cost a system call each. A forked process must not repeat this one's.
_RANDOM = random.Random()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_RANDOM.seed)


def random_hex(size: int) -> str:
    """`size` random bytes in hex: for names, not for secrets."""
    return _RANDOM.getrandbits(8 * size).to_bytes(size, "big").hex()


def random_id(prefix: str) -> str:
    """A name for one call: 128 random bits."""
    return prefix + random_hex(16)


def failure(error: httpx2.HTTPError | httpx2.InvalidURL, url: str) -> errors.DriftQError:
    """The error for a call that got no answer."""
    if (flaw := _certificate_flaw(error)) is not None:
        return errors.Untrusted(
            f"the certificate of {url} is not trusted ({flaw}); nothing was sent. Name the authority that signed it in a "
            "file with ca_file or SSL_CERT_FILE, or ask the name that the certificate is for"
        )
    if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout)):
        return errors.Unreachable(
            f"nobody listens at {url} ({error or type(error).__name__}): "
            "start a server with `driftq serve`, or say where it is with DRIFTQ_SERVER"
        )
    text = str(error) or type(error).__name__
    if isinstance(error, httpx2.RemoteProtocolError) and "disconnected" not in text and "closed" not in text:
        return errors.NotDriftQ(f"what listens at {url} does not speak HTTP ({text})")
    return errors.ConnectionLost(f"no answer from {url}: {text}")


def _certificate_flaw(error: BaseException) -> str | None:
    """What is wrong with the other side's certificate, if that is what the error comes from."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return cause.verify_message
        cause = cause.__cause__ or cause.__context__
    return None


def answer_of(call: Call, url: str, answered: Answer) -> Any:
    """The JSON of an answer; raises what was refused, and what is no answer of a DriftQ server."""
    status, raw, url = answered.status, answered.content, answered.server or url
    if 200 <= status < 300:
        if status == 204:
            return None
        if call.glance is not None and (seen := call.glance(raw)) is not None:
            return seen
        try:
            answer = json.loads(raw)
        except ValueError:
            raise _stranger(call, url, status, "its answer is not JSON") from None
        for name in call.expects:
            if not isinstance(answer, dict) or name not in answer:
                raise _stranger(call, url, status, f"its answer has no {name}")
        return answer
    try:
        problem = json.loads(raw)
    except ValueError:
        problem = None
    if not isinstance(problem, dict) or not isinstance(problem.get("code"), str):
        raise _stranger(call, url, status, "its refusal has no code")
    raise errors.refusal(problem, status, answered.request_id)


def _stranger(call: Call, url: str, status: int, why: str) -> errors.NotDriftQ:
    return errors.NotDriftQ(
        f"what answers at {url} is no DriftQ server: {call.method} {call.path} gave {status}, and {why}",
        passing=status in _GATEWAY_STATUSES,
    )


class Repeats:
    """When a call that failed is sent again: after the server's hint, else after a growing wait with jitter."""

    def __init__(self, patience_s: float, started: float | None = None, outage: Outage | None = None) -> None:
        self._patience_s = patience_s
        self._until = (time.monotonic() if started is None else started) + patience_s
        self._wait_s = BACKOFF_FIRST_S
        # Logs at once that no server answers, where the caller would see nothing until patience is over.
        self._outage = outage
        self._has_waited = False

    def next(self, error: errors.DriftQError) -> float:
        """Seconds until the next try; raises the error if there is none."""
        if not error.retryable:
            raise error
        hint_ms = getattr(error, "retry_after_ms", None)
        if hint_ms is None:
            delay_s = self._wait_s * random.uniform(0.5, 1.0)
            self._wait_s = min(self._wait_s * 2, BACKOFF_MAX_S)
        else:
            # All callers got the same hint: without a little extra they would all come back at once.
            delay_s = hint_ms / 1000 * random.uniform(1.0, 1.1)
        if time.monotonic() + delay_s > self._until:
            if self._outage is not None and self._has_waited:
                self._outage.left()
            raise error
        if self._outage is not None:
            self._has_waited = True
            self._outage.began(error, self._patience_s)
        return delay_s
