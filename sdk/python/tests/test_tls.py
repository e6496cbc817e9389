"""TLS by the client for tasks: certificates are checked, and so is whose they are."""

from __future__ import annotations

import asyncio
import pathlib
import shutil
import socket
import ssl
import subprocess
import threading
from typing import Any

import pytest
from strangers import http_server, raw_server

import driftq
from driftq import _transport

STATUS: tuple[int, dict[str, str], Any] = (200, {}, {"version": "1", "epoch": 1})
SIGNAL_S = 30.0


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A certificate for localhost that nobody has signed, with its key."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    key, made, both = folder / "key.pem", folder / "certificate.pem", folder / "both.pem"
    command = [program, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(made)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    both.write_text(key.read_text() + made.read_text())
    return both


def server_context(certificate: pathlib.Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def statuses(url: str, count: int) -> None:
    async def main() -> None:
        async with driftq.AsyncClient(url, patience=0.0) as client:
            for _ in range(count):
                assert (await client.status())["version"] == "1"

    asyncio.run(asyncio.wait_for(main(), SIGNAL_S))


def test_a_certificate_that_is_trusted(certificate: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with http_server([STATUS], server_context(certificate)) as (url, asked):
        secure = url.replace("127.0.0.1", "localhost")
        statuses(secure, 3)
        with driftq.Client(secure.replace("https", "HTTPS")) as client:
            client.status()
    assert len(asked) == 4


def test_a_certificate_that_nobody_signed(certificate: pathlib.Path) -> None:
    with http_server([STATUS], server_context(certificate)) as (url, asked):
        secure = url.replace("127.0.0.1", "localhost")
        with pytest.raises(driftq.Untrusted, match="self.signed certificate.*SSL_CERT_FILE"):
            statuses(secure, 1)
        # With all the patience in the world it is said at once, by the other client as well.
        with driftq.Client(secure) as client, pytest.raises(driftq.Untrusted, match="self.signed certificate"):
            client.status()
        assert not asked


def test_a_certificate_of_somebody_else(certificate: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with http_server([STATUS], server_context(certificate)) as (url, asked):
        with pytest.raises(driftq.Untrusted, match="(?i)IP address mismatch"):
            statuses(url, 1)
        assert not asked


def test_a_server_without_tls() -> None:
    with http_server([STATUS]) as (url, asked):
        with pytest.raises(driftq.Unreachable):
            statuses(url.replace("http:", "https:"), 1)
        assert not asked


def test_nobody_shakes_hands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transport, "CONNECT_TIMEOUT_S", 0.2)
    is_over = threading.Event()

    def answer(_: socket.socket) -> None:
        is_over.wait(SIGNAL_S)

    with raw_server(answer) as url:
        try:
            with pytest.raises(driftq.Unreachable, match="within 0.2 s"):
                statuses(url.replace("http:", "https:"), 1)
        finally:
            is_over.set()
