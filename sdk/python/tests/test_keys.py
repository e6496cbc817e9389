"""What effects and messages are known by: keys that a function is told, anchors, and hashes of requests."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from typing import Any

import pytest

import driftq
from driftq import _settlements
from driftq._lineage import Trace, anchor, follow_up, plain_follow_up
from driftq._wire import wire_message
from driftq.canonical import to_json
from driftq.testing import Server, run_until_idle

PLACE = {"topic": "orders", "partition": 3, "offset": 12}
ORIGIN = {"topic": "drafts", "incarnation": 7, "partition": 0, "offset": 5}


def test_a_function_is_told_its_key(shared: Server) -> None:
    told: list[tuple[str, str, int]] = []

    def tell() -> None:
        effect = driftq.current_effect()
        told.append((effect.scope, effect.key, effect.attempt))

    @driftq.guarded("told-guarded")
    def guarded() -> None:
        tell()

    with shared.client() as client, client.run("run-1", step="told") as run:
        run.effect("told", tell)
        run.effect("told", lambda: client.effect("told-inside", tell, key="inside") or tell(), key="outside")
        guarded()
        with run.guard("told-block") as block:
            tell()
        keys = {(one["scope"], one["key"]) for one in client.effects() if one["scope"].startswith("told")}
        assert block.key == told[-1][1]
    assert {(scope, key) for scope, key, _ in told} == keys
    assert [key for _, key, _ in told][1:3] == ["inside", "outside"]
    assert {attempt for *_, attempt in told} == {1}
    with pytest.raises(driftq.NoContext):
        driftq.current_effect()


def test_a_coroutine_is_told_its_key(shared: Server) -> None:
    async def tell() -> str:
        await asyncio.sleep(0)
        return driftq.current_effect().key

    async def tell_in_thread() -> str:
        return await asyncio.to_thread(lambda: driftq.current_effect().key)

    @driftq.guarded("async-told")
    async def guarded() -> str:
        return await tell()

    async def main() -> None:
        async with driftq.AsyncClient(shared.url) as client:
            one, two = await asyncio.gather(
                client.effect("async-told", tell, key="one"), client.effect("async-told", tell_in_thread, key="two")
            )
            assert (one, two) == ("one", "two")
            with client.run("run-1"):
                assert (await guarded()).startswith("auto-")
            async with client.guard("async-told", key="three") as effect:
                effect.result = driftq.current_effect().key
            assert effect.result == "three"
        with pytest.raises(driftq.NoContext):
            driftq.current_effect()

    asyncio.run(main())


def test_the_attempts_of_an_effect_are_counted(shared: Server) -> None:
    with shared.client() as client:
        for expected in (1, 2):
            with pytest.raises(driftq.NotDone), client.guard("counted", key="k"):
                assert driftq.current_effect().attempt == expected
                raise driftq.NotDone("closed")


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({**PLACE, "origin": ORIGIN}, ["message", "drafts", 7, 0, 5]),
        ({**PLACE, "origin": ORIGIN, "envelope": {"idempotency_key": "k"}}, ["message", "drafts", 7, "k"]),
        ({**PLACE, "origin": ORIGIN, "envelope": {"run_id": "r", "step_id": "s"}}, ["run", "r", "s"]),
        (PLACE, ["message", "orders", 0, 3, 12]),
        ({**PLACE, "envelope": {"idempotency_key": "k"}}, ["message", "orders", 0, "k"]),
    ],
)
def test_the_anchor_of_a_message_is_its_origin(item: dict[str, Any], expected: list[Any]) -> None:
    assert anchor(item) == expected


def test_a_redriven_message_is_what_it_was(shared: Server) -> None:
    """Made by somebody who gave no key: it has another place when it is redriven, and is not charged again."""
    charged: list[int] = []
    attempts: list[int] = []
    with shared.client() as client:
        client.create_topic("redriven", retry_policy={"max_attempts": 1})
        client.request("POST", "/v2/topics/redriven/messages", {"value": "1"})
        worker = driftq.Worker(client, "g")

        @worker.handler("redriven")
        def handle(payload: int, ctx: driftq.Context) -> None:
            ctx.effect("redriven", lambda: charged.append(payload))
            attempts.append(ctx.offset)
            if len(attempts) == 1:
                raise driftq.Dead("after the charge")

        run_until_idle(worker)
        (letter,) = client.dead_letters("redriven")
        assert letter["origin"]["offset"] == 0
        place = {"partition": letter["partition"], "offset": letter["offset"]}
        client.request("POST", "/v2/dlq/redriven/redrive", {"letters": [place]})
        while client.group("redriven", "g")["lag"] == 0:
            pass  # A job does it.
        run_until_idle(worker)
    assert charged == [1] and len(attempts) == 2


def test_a_topic_that_was_made_anew_has_effects_of_its_own(shared: Server) -> None:
    charged: list[int] = []
    with shared.client() as client:
        for number in range(2):
            client.create_topic("anew")
            client.request("POST", "/v2/topics/anew/messages", {"value": str(number)})
            worker = driftq.Worker(client, "g")

            @worker.handler("anew")
            def handle(payload: int, ctx: driftq.Context) -> None:
                ctx.effect("anew", lambda: charged.append(payload))

            run_until_idle(worker)
            client.delete_topic("anew")
    assert charged == [0, 1]


@pytest.mark.parametrize(
    ("payload", "stored"), [({"a": 1}, b'{"a":1}'), (b"\xff\x00", b"\xff\x00"), (driftq.raw("text"), b"text")]
)
def test_a_key_of_the_caller_has_a_hash_with_it(payload: Any, stored: bytes) -> None:
    envelope = wire_message(payload, {"idempotency_key": "k"})["envelope"]
    assert envelope["request_hash"] == f"sha256:{hashlib.sha256(stored).hexdigest()}"
    assert wire_message(payload, {"idempotency_key": "k", "request_hash": "own"})["envelope"]["request_hash"] == "own"
    assert "envelope" not in wire_message(payload, {"priority": 3})


def test_one_key_with_another_payload_is_refused(shared: Server) -> None:
    with shared.client() as client, driftq.Producer(client) as producer:
        client.create_topic("hashed")
        assert not client.send("hashed", {"cents": 500}, idempotency_key="order-1").duplicate
        assert client.send("hashed", {"cents": 500}, idempotency_key="order-1").duplicate
        with pytest.raises(driftq.KeyReused):
            client.send("hashed", {"cents": 501}, idempotency_key="order-1")
        with pytest.raises(driftq.KeyReused):
            producer.send("hashed", {"cents": 501}, idempotency_key="order-1").result(30)


def test_waiting_for_an_effect_is_not_failing() -> None:
    busy = driftq.EffectBusy("s", "k", "somebody else is at it", {"retry_after_ms": 7}, "t")
    effect = {"scope": "s", "key": "k", "tenant_id": "t"}
    settlement = _settlements.settlement_of(busy)
    assert (settlement.verb, settlement.fields) == ("release", {"delay_ms": 7, "effect": effect})
    uncertain = driftq.EffectUncertain("s", "k", "nobody knows")
    settlement = _settlements.settlement_of(uncertain)
    assert settlement.fields == {"delay_ms": 300_000, "effect": {"scope": "s", "key": "k"}}


def test_what_was_not_sent_is_free_at_once(shared: Server) -> None:
    with shared.client() as client:
        for _ in range(2):
            with pytest.raises(driftq.NotSent), client.guard("not-sent", key="k", lease_ms=60_000, max_attempts=1):
                assert driftq.current_effect().attempt == 1
                raise driftq.NotSent("no route to the provider")
        assert client.effect("not-sent", lambda: "sent", key="k", wait=0.0, max_attempts=1) == "sent"


def test_what_may_have_happened_is_known_to_be_unknown_at_once(shared: Server) -> None:
    with shared.client() as client:
        with pytest.raises(RuntimeError):
            client.effect("may-have", _time_out, key="k", lease_ms=60_000)
        with pytest.raises(driftq.EffectUncertain):
            client.effect("may-have", _time_out, key="k", wait=0.0)


def test_a_message_waits_until_its_effect_is_resolved(shared: Server) -> None:
    """It does not become a dead letter meanwhile, and comes at once when a person has found out."""
    attempts: list[int] = []
    results: list[str] = []
    with shared.client() as client:
        client.create_topic("waits", retry_policy={"max_attempts": 2, "backoff_ms": 1, "jitter": "none"})
        client.send("waits", 1)
        worker = driftq.Worker(client, "g")

        @worker.handler("waits")
        def handle(payload: int, ctx: driftq.Context) -> None:
            attempts.append(ctx.attempt)
            try:
                results.append(ctx.effect("waits", _time_out, key="k"))
            except driftq.EffectUncertain:
                said = {"scope": "waits", "key": "k", "status": "succeeded", "body": '"found"', "by": "ann", "why": "seen"}
                # A person finds out, a moment later.
                threading.Timer(0.2, lambda: client.request("POST", "/v2/effects/resolve", said)).start()
                raise

        run_until_idle(worker)
    assert results == ["found"] and attempts == [1, 2, 2]


def _time_out() -> str:
    raise RuntimeError("time-out")


@pytest.mark.parametrize("envelope", [{}, {"run_id": 'r"1', "step_id": "s", "tenant_id": "t\n"}])
@pytest.mark.parametrize("payload", [{"n": 1}, "té\"xt", None])
def test_a_follow_up_without_options_is_written_as_any_other(envelope: dict[str, str], payload: Any) -> None:
    trace = Trace.of({})
    message = plain_follow_up(envelope, trace, 'to"pic', to_json(payload))
    assert json.loads(message) == wire_message(payload, follow_up(envelope, trace, 'to"pic', {}))
