"""Credentials of attempts: checked with PyJWT by the published keys, and dead as soon as another attempt begins."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import jwt
import pytest

from driftq import AsyncClient, AsyncContext, AsyncWorker, Client, Context, Retry, Worker
from driftq.testing import Server, run_until_idle, run_until_idle_async

ISSUER = "https://driftq.example"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("--issuer", ISSUER) as server:
        yield server


def checked(server: Server, credential: str, audience: str) -> dict[str, Any]:
    """What a credential says, as a service reads it that has never heard of DriftQ."""
    with urllib.request.urlopen(f"{server.url}/.well-known/openid-configuration") as answer:
        configuration = json.load(answer)
    assert configuration["issuer"] == ISSUER
    keys = jwt.PyJWKClient(f"{server.url}/.well-known/jwks.json")
    key = keys.get_signing_key_from_jwt(credential)
    algorithms = configuration["id_token_signing_alg_values_supported"]
    claims = jwt.decode(credential, key.key, algorithms=algorithms, audience=audience, issuer=ISSUER)
    return dict(claims)


def test_a_service_can_check_a_credential_and_it_ends_with_the_attempt(server: Server) -> None:
    seen: list[str] = []
    with Client(server.url) as client:
        client.create_topic("orders")
        client.send("orders", {"order": 7}, run_id="r1", step_id="charge", tenant_id="acme")

        worker = Worker(client, "billing")

        @worker.handler("orders")
        def handle(order: dict[str, int], ctx: Context) -> None:
            credential = ctx.credential("bank", ttl=30)
            claims = checked(server, credential, "bank")
            assert claims["attempt"] == ctx.attempt and claims["run"] == "r1" and claims["tenant"] == "acme"
            assert claims["exp"] - claims["iat"] <= 30
            with pytest.raises(jwt.InvalidAudienceError):
                checked(server, credential, "another")
            assert client.introspect(credential)["active"]
            for older in seen:
                assert not client.introspect(older)["active"]
            seen.append(credential)
            if ctx.attempt == 1:
                raise Retry(0, "once more")

        run_until_idle(worker)
        assert len(seen) == 2
        assert [client.introspect(credential) for credential in seen] == [{"active": False}] * 2
        fences = [jwt.decode(one, options={"verify_signature": False})["fence"] for one in seen]
        assert fences[0] < fences[1]


def test_tasks_have_credentials_too(server: Server) -> None:
    seen: list[str] = []

    async def play() -> None:
        async with AsyncClient(server.url) as client:
            await client.create_topic("letters")
            await client.send("letters", 1)

            worker = AsyncWorker(client, "post")

            @worker.handler("letters")
            async def handle(_: int, ctx: AsyncContext) -> None:
                credential = await ctx.credential("post")
                assert (await client.introspect(credential))["active"]
                seen.append(credential)

            await run_until_idle_async(worker)

    asyncio.run(play())
    assert len(seen) == 1
