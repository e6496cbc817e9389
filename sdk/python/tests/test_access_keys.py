"""A server that asks for keys: without a good one nothing is answered. The scenarios with a key are in
test_scenarios.py."""

from __future__ import annotations

import asyncio
import pathlib

import pytest

from driftq import AsyncClient, AsyncWorker, Client, Context, Worker, errors
from driftq.testing import Server, assert_effects, run_until_idle, run_until_idle_async
from secured import Secured

ROOT = "dq_root_" + "5a" * 32


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """How a server is started that asks for keys."""
    file = tmp_path_factory.mktemp("keys") / "root"
    file.write_text(ROOT)
    return ("--keys", "required", "--root-key-file", str(file))


def test_without_a_key_nothing_is_answered(flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRIFTQ_KEY", raising=False)
    with Server(*flags) as server, Client(server.url, patience=0) as client:
        with pytest.raises(errors.Unauthenticated):
            client.create_topic("orders")
        with Client(server.url, key=ROOT) as root:
            root.create_topic("orders")


def test_tasks_show_their_key_too(flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRIFTQ_KEY", raising=False)

    async def play(url: str) -> None:
        async with AsyncClient(url, key=ROOT) as root:
            await root.create_topic("orders")
        async with AsyncClient(url, key=ROOT[:-1] + "b", patience=0) as forged:
            with pytest.raises(errors.Unauthenticated):
                await forged.create_topic("orders")

    with Server(*flags) as server:
        asyncio.run(play(server.url))


def test_a_worker_shows_the_key_of_its_client(flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRIFTQ_KEY", raising=False)

    def handle(payload: int, ctx: Context) -> None:
        ctx.effect("charge", lambda: payload, key=ctx.group)

    async def play(url: str) -> None:
        async with AsyncClient(url, key=ROOT) as root:
            worker = AsyncWorker(root, "of-tasks")
            worker.handler("orders")(handle)
            await root.send("orders", 2)
            await run_until_idle_async(worker)

    with Server(*flags) as server, Client(server.url, key=ROOT) as root:
        root.create_topic("orders")
        root.send("orders", 1)
        worker = Worker(root, "of-threads")
        worker.handler("orders")(handle)
        run_until_idle(worker)
        asyncio.run(play(server.url))
        assert_effects(root, scope="charge", count=2)


def test_what_is_no_key_is_refused_and_not_repeated() -> None:
    for key in ("hunter2", "dq_1_\nhunter2", "dq_é_hunter2"):
        with pytest.raises(errors.DriftQError) as refused:
            Client("http://127.0.0.1:1", key=key)
        assert "hunter2" not in str(refused.value)


def test_an_authority_of_one_s_own_is_trusted_if_it_is_named(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("DRIFTQ_KEY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(variable, raising=False)
    secured = Secured(tmp_path)

    async def play(url: str) -> None:
        async with AsyncClient(url, key=secured.root, ca_file=secured.authority) as client:
            await client.create_topic("mail")
        async with AsyncClient(url, key=secured.root, patience=0) as client:
            with pytest.raises(errors.Untrusted):
                await client.create_topic("mail")

    with Server(*secured.flags) as server:
        with Client(server.url, key=secured.root, ca_file=str(secured.authority)) as client:
            client.create_topic("orders")
        with Client(server.url, key=secured.root, patience=0) as client, pytest.raises(errors.Untrusted):
            client.create_topic("orders")
        asyncio.run(play(server.url))
        empty = tmp_path / "empty.pem"
        empty.write_text("no certificate")
        for file in (empty, tmp_path / "nowhere.pem"):
            with pytest.raises(errors.DriftQError, match=file.name):
                Client(server.url, ca_file=file)
    with pytest.raises(errors.DriftQError, match="https://"):
        Client("http://127.0.0.1:1", ca_file=secured.authority)
