"""Versions of entities: expected by effects, and by the commits of handlers."""

from __future__ import annotations

from typing import Any

import pytest

import driftq
from driftq.testing import Server, run_until_idle


def version(client: driftq.Client, entity: str, tenant: str = "") -> int:
    found: dict[str, Any] = client.request("GET", f"/v2/entities/{entity}?tenant_id={tenant}")
    return int(found["version"])


def test_an_effect_is_begun_only_at_a_version(shared: Server) -> None:
    with shared.client() as client:
        assert client.effect("ship", lambda: "shipped", key="order-1", expect={"order-1": 0}) == "shipped"
        with pytest.raises(driftq.PreconditionFailed) as caught:
            client.effect("cancel", lambda: "cancelled", key="order-1", expect={"order-1": 0})
        assert (caught.value.entity, caught.value.version, caught.value.retryable) == ("order-1", 1, False)
        # A replay compares nothing.
        assert client.effect("ship", lambda: "again", key="order-1", expect={"order-1": 0}) == "shipped"
        assert version(client, "order-1") == 1


def test_a_commit_is_done_only_at_a_version(shared: Server) -> None:
    with shared.client() as client:
        client.create_topic("preconditions")
        client.send("preconditions", "order-2", tenant_id="acme")
        worker = driftq.Worker(client, "g")
        refusals: list[driftq.PreconditionFailed] = []

        @worker.handler("preconditions")
        def handle(order: str, ctx: driftq.Context) -> None:
            ctx.expect(order, 0 if ctx.attempt == 1 else refusals[-1].version or 0)
            with pytest.raises(ValueError, match="already"):
                ctx.expect(order, 5)
            if ctx.attempt == 1:
                client.request("POST", "/v2/commit", {"expect": [{"entity": order, "version": 0}], "tenant_id": "acme"})
            try:
                ctx.commit()
            except driftq.PreconditionFailed as refused:
                refusals.append(refused)
                raise driftq.Retry(after=0.0, reason="somebody was there before") from refused

        run_until_idle(worker)
        assert [(refused.entity, refused.version) for refused in refusals] == [("order-2", 1)]
        assert (version(client, "order-2", "acme"), version(client, "order-2")) == (2, 0)


def test_a_run_shows_which_versions_its_work_has_read(shared: Server) -> None:
    with shared.client() as client:
        client.create_topic("readers")
        client.send("readers", "prices", run_id="nightly", tenant_id="acme")
        worker = driftq.Worker(client, "g")

        @worker.handler("readers")
        def handle(dataset: str, ctx: driftq.Context) -> None:
            ctx.read_version(dataset=dataset, version="v7")

        run_until_idle(worker)
        run: dict[str, Any] = client.request("GET", "/v2/runs/nightly?tenant_id=acme")
        reads = [message["reads"] for step in run["steps"] for message in step["messages"]]
        assert reads == [[{"dataset": "prices", "version": "v7"}]]
