"""Webhooks as they leave a connector, checked by the published library of Standard Webhooks."""

from __future__ import annotations

import base64
import os
import pathlib
import queue
import secrets
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from driftq import Client
from driftq.testing import Server

WITHIN_S = 30.0
# A body and its headers.
Received = tuple[bytes, dict[str, str]]


def secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


OLD, NEW, FOREIGN = secret(), secret(), secret()


class Receiver:
    """Takes whatever comes, and hands it on."""

    def __init__(self) -> None:
        self.received: queue.Queue[Received] = queue.Queue()
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                received.put((body, dict(self.headers.items())))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hooks"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Of a server beside which a connector runs, as an operator starts it."""
    file: pathlib.Path = tmp_path_factory.mktemp("connect") / "connect.toml"
    file.write_text('[deliveries]\nallow = ["127.0.0.0/8"]\n')
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DRIFTQ_")}
    environment |= {"OLD_SECRET": OLD, "NEW_SECRET": NEW}
    with Server() as server, server.client() as client:
        command = [os.environ.get("DRIFTQ_BIN") or "driftq", "connect", "run", str(file), "--server", server.url]
        connector = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        try:
            yield client
        finally:
            connector.terminate()
            try:
                assert connector.wait(WITHIN_S) == 0, "the connector drains"
            finally:
                connector.kill()


def sent(client: Client, receiver: Receiver, endpoint: str, body: Any, *names: str) -> Received:
    """What is received of a delivery to an endpoint with these secrets."""
    listed = [{"env": name} for name in names]
    client.request("PUT", f"/v2/endpoints/{endpoint}", {"kind": "webhook", "url": receiver.url, "secrets": listed})
    delivery = {"delivery_id": f"{endpoint}-{'-'.join(names)}", "endpoint": endpoint, "body": body}
    client.request("POST", "/v2/deliveries", delivery)
    return receiver.received.get(timeout=WITHIN_S)


@pytest.mark.parametrize(
    "endpoint, body",
    [("plain", {"type": "order.paid", "order": 7}), ("unicode", {"type": "order.paid", "name": "Zoë 🦊 \u2028 \"é\""})],
)
def test_the_library_takes_what_is_sent_and_nothing_else(
    client: Client, receiver: Receiver, endpoint: str, body: Any
) -> None:
    data, headers = sent(client, receiver, endpoint, body, "OLD_SECRET")
    assert Webhook(OLD).verify(data, headers) == body
    with pytest.raises(WebhookVerificationError):
        Webhook(FOREIGN).verify(data, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(OLD).verify(data.replace(b"order.paid", b"order.lost"), headers)
    # The id and the time are signed as well.
    for name in ("webhook-id", "webhook-timestamp"):
        changed = {key.lower(): value for key, value in headers.items()}
        changed[name] = changed[name][:-1] + ("1" if changed[name][-1] != "1" else "2")
        with pytest.raises(WebhookVerificationError):
            Webhook(OLD).verify(data, changed)


def test_while_secrets_are_exchanged_both_sign(client: Client, receiver: Receiver) -> None:
    body = {"type": "order.paid", "order": 8}
    data, headers = sent(client, receiver, "rotated", body, "NEW_SECRET", "OLD_SECRET")
    assert [Webhook(secret).verify(data, headers) for secret in (OLD, NEW)] == [body, body]
    data, headers = sent(client, receiver, "rotated", body, "NEW_SECRET")
    assert Webhook(NEW).verify(data, headers) == body
    with pytest.raises(WebhookVerificationError):
        Webhook(OLD).verify(data, headers)
