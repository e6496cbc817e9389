"""Effects outside of handlers: blocks, decorators, runs, results, renewals."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import driftq
from driftq.canonical import derived_key
from driftq.testing import Server, assert_effects


@pytest.fixture
def client(shared: Server) -> Iterator[driftq.Client]:
    with shared.client() as client:
        yield client


def one(client: driftq.Client, scope: str) -> dict[str, Any]:
    (effect,) = client.effects(scope=scope)
    return client.request("POST", "/v2/effects/get", {"scope": scope, "key": effect["key"]})  # type: ignore[no-any-return]


def test_arguments_are_bound_by_name(client: driftq.Client) -> None:
    def charge(order: str, cents: int = 500) -> str:
        return f"{order} {cents}"

    with client.run("run-7", step="charge") as run:
        assert run.effect("by-name", charge, "order-1") == "order-1 500"
    record = one(client, "by-name")
    assert record["key"] == derived_key(["run", "run-7", "charge"], {"cents": 500, "order": "order-1"})
    assert record["request_hash"] == "sha256:" + driftq.digest({"cents": 500, "order": "order-1"})
    assert (record["run_id"], record["step_id"]) == ("run-7", "charge")
    assert record["outcome"]["code"] == 200
    assert record["outcome"]["headers"] == {"content-type": "application/json"}


def test_block(client: driftq.Client) -> None:
    for expected in (False, True):
        with client.guard("block", key="k") as effect:
            assert effect.done is expected
            if not effect.done:
                effect.result = {"id": 1}
        assert effect.result == {"id": 1}
    assert_effects(client, scope="block", count=1)


def test_block_that_fails(client: driftq.Client) -> None:
    with pytest.raises(driftq.NotDone), client.guard("block-fails", key="k"):
        raise driftq.NotDone("closed")
    assert one(client, "block-fails")["state"] == "failed_retryable"
    with pytest.raises(driftq.EffectFailed, match="stolen"), client.guard("block-fails", key="k") as effect:
        assert not effect.done
        raise driftq.Final("stolen")
    with pytest.raises(driftq.EffectFailed, match="stolen"), client.guard("block-fails", key="k"):
        pytest.fail("a replay of a failure has no block")


@pytest.mark.parametrize("error", [driftq.Retry(reason="later"), driftq.Snooze(1.0), driftq.NotDone("closed")])
def test_what_says_that_it_did_not_happen(client: driftq.Client, error: Exception) -> None:
    scope = f"not-{type(error).__name__}"
    with pytest.raises(type(error)), client.guard(scope, key="k"):
        raise error
    assert one(client, scope)["state"] == "failed_retryable"


def test_decorator(client: driftq.Client) -> None:
    calls: list[tuple[str, int]] = []

    @driftq.guarded("tool")
    def tool(order: str, *, cents: int = 5) -> int:
        """Says how often it ran."""
        calls.append((order, cents))
        return len(calls)

    with pytest.raises(driftq.NoContext, match="outside of a handler"):
        tool("a")
    assert calls == [] and tool.__doc__ == "Says how often it ran."
    with client.run("run-1", step="plan"):
        assert [tool("a"), tool("a", cents=5), tool("b"), tool(order="a")] == [1, 1, 2, 1]
    with client.run("run-2", step="plan"):
        assert tool("a") == 3
    with pytest.raises(driftq.NoContext):
        tool("a")
    assert_effects(client, scope="tool", count=3)


def test_decorator_with_a_key_and_a_method(client: driftq.Client) -> None:
    class Till:
        def __init__(self) -> None:
            self.calls = 0

        @driftq.guarded("till", key=lambda self, order, cents: order)
        def charge(self, order: str, cents: int) -> int:
            self.calls += 1
            return cents

    till = Till()
    with client.run("run-1"):
        assert [till.charge("a", 5), Till().charge("a", 5)] == [5, 5]
        with pytest.raises(driftq.KeyReused):
            till.charge("a", 6)
    assert till.calls == 1


def test_decorator_for_tasks(shared: Server) -> None:
    calls: list[str] = []

    @driftq.guarded("async-tool")
    async def tool(order: str) -> int:
        await asyncio.sleep(0)
        calls.append(order)
        return len(calls)

    @driftq.guarded("async-tool-plain")
    def plain() -> None:
        pytest.fail("it would block the event loop")

    async def main() -> None:
        async with driftq.AsyncClient(shared.url) as client:
            with pytest.raises(driftq.NoContext):
                await tool("a")
            with client.run("run-1", step="plan"):
                assert [await tool("a"), await tool("a"), await tool("b")] == [1, 1, 2]
                with pytest.raises(driftq.NoContext, match="block the event loop"):
                    plain()
            for expected in (False, True):
                async with client.guard("async-block", key="k") as effect:
                    assert effect.done is expected
                    if not effect.done:
                        effect.result = [1]
                assert effect.result == [1]
            assert await client.effect("async-plain", lambda: 1, key="k") == 1

    asyncio.run(main())


def test_without_key_and_run_there_is_no_effect(client: driftq.Client) -> None:
    with pytest.raises(driftq.NoContext, match="no key"):
        client.effect("no-key", lambda: pytest.fail("it ran unguarded"))


@pytest.mark.parametrize("options", [{"on_lapse": "maybe"}, {"kye": "k"}])
def test_options_that_cannot_be(client: driftq.Client, options: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        client.effect("options", lambda: pytest.fail("it ran"), **options)


@dataclass
class Receipt:
    id: str


def test_types_of_results(client: driftq.Client) -> None:
    for _ in range(2):
        assert client.effect("typed", lambda: Receipt("r"), key="k", result=Receipt) == Receipt("r")
        assert client.effect("nothing", lambda: None, key="k") is None


def test_result_that_is_too_large() -> None:
    with Server("--effect-result-bytes-max", "1000") as server, server.client() as client:
        assert client.effect("large", lambda: "x" * 2_000, key="k") == "x" * 2_000
        with pytest.raises(driftq.ResultNotKept):
            client.effect("large", lambda: pytest.fail("it ran twice"), key="k")
        assert_effects(server, scope="large", count=1)


def test_result_that_is_not_json(client: driftq.Client) -> None:
    thing = object()
    assert client.effect("not-json", lambda: thing, key="k") is thing
    with pytest.raises(driftq.ResultNotKept):
        client.effect("not-json", lambda: pytest.fail("it ran twice"), key="k")


def test_somebody_else_is_at_it(client: driftq.Client) -> None:
    begun, end = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        assert end.wait(30)
        return "first"

    results: list[str] = []
    thread = threading.Thread(target=lambda: results.append(client.effect("busy", slow, key="k")))
    thread.start()
    assert begun.wait(30)
    with pytest.raises(driftq.EffectBusy) as caught:
        client.effect("busy", lambda: pytest.fail("it ran twice"), key="k", wait=0.0)
    assert caught.value.retry_after_ms and caught.value.retry_after_ms > 0
    waiting = threading.Thread(target=lambda: results.append(client.effect("busy", lambda: "second", key="k")))
    waiting.start()
    end.set()
    thread.join(30)
    waiting.join(30)
    assert results == ["first", "first"]


def outlive(seconds: float) -> str:
    time.sleep(seconds)
    return "done"


def test_a_long_effect_keeps_its_lease(shared: Server, client: driftq.Client) -> None:
    """Without renewals it would be `unknown` before it ends, and the second one would not wait for it."""
    second: list[Any] = []

    def ask() -> None:
        with shared.client() as other:
            second.append(other.effect("long", lambda: "again", key="k", on_lapse="retry"))

    def slow() -> str:
        thread.start()
        return outlive(1.2)

    thread = threading.Thread(target=ask)
    assert client.effect("long", slow, key="k", lease_ms=500, on_lapse="retry") == "done"
    thread.join(30)
    assert second == ["done"]
    assert_effects(client, scope="long", count=1)


def test_a_long_effect_of_a_task_keeps_its_lease(shared: Server) -> None:
    async def main() -> None:
        begun = asyncio.Event()

        async def slow() -> str:
            begun.set()
            await asyncio.sleep(1.2)
            return "done"

        async with driftq.AsyncClient(shared.url) as client:
            first = asyncio.ensure_future(client.effect("long-task", slow, key="k", lease_ms=500, on_lapse="retry"))
            await begun.wait()
            assert await client.effect("long-task", lambda: "again", key="k", on_lapse="retry") == "done"
            assert await first == "done"

    asyncio.run(main())
    assert_effects(shared, scope="long-task", count=1)


def test_the_server_restarts_while_an_effect_runs(on_disk: Server) -> None:
    def charge() -> str:
        on_disk.restart()
        return "charged"

    with on_disk.client() as client:
        assert client.effect("restart", charge, key="k") == "charged"
        assert client.effect("restart", lambda: pytest.fail("it ran twice"), key="k") == "charged"
    assert_effects(on_disk, scope="restart", count=1)


def test_a_task_that_is_cancelled_after_its_effect_still_says_so(shared: Server) -> None:
    async def main() -> None:
        async with driftq.AsyncClient(shared.url) as client:
            async def charge() -> str:
                task.cancel()  # The next await of the task is that of the finish.
                return "charged"

            task = asyncio.ensure_future(client.effect("cancelled", charge, key="k"))
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    assert_effects(shared, scope="cancelled", count=1)


def test_reconciler_that_answers_nonsense(client: driftq.Client) -> None:
    with pytest.raises(RuntimeError):
        client.effect("nonsense", _fails, key="k", lease_ms=1)
    with pytest.raises(TypeError, match="driftq.NOT_DONE"):
        client.effect("nonsense", _fails, key="k", reconcile=lambda record: True)  # type: ignore[arg-type, return-value]


def _fails() -> None:
    raise RuntimeError("time-out")


@pytest.mark.parametrize(
    ("answer", "raises"), [(driftq.Succeeded("found"), None), (driftq.Failed("no"), driftq.EffectFailed)]
)
def test_reconciler(client: driftq.Client, answer: Any, raises: Any) -> None:
    scope = f"reconciled-{type(answer).__name__}"
    with pytest.raises(RuntimeError):
        client.effect(scope, _fails, key="k", lease_ms=1)
    asked: list[str] = []

    def reconcile(record: dict[str, Any]) -> Any:
        asked.append(record["key"])
        return answer

    if raises is None:
        assert client.effect(scope, _fails, key="k", reconcile=reconcile) == "found"
    else:
        with pytest.raises(raises):
            client.effect(scope, _fails, key="k", reconcile=reconcile)
    assert asked == ["k"]
