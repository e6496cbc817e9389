"""Results of effects: the same for the one who ran it and for those who come later, and never a promise."""

from __future__ import annotations

import asyncio
import enum
import functools
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import pytest

import driftq
from driftq.testing import Server, assert_effects

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]


@pytest.fixture
def client(shared: Server) -> Iterator[driftq.Client]:
    with shared.client() as client:
        yield client


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Line:
    item: str
    colour: Colour = Colour.RED


@dataclass
class Receipt:
    id: str
    lines: list[Line] = field(default_factory=list)
    best: Line | None = None


class Slip(TypedDict):
    id: str


def receipt() -> Receipt:
    return Receipt("r", [Line("i")], Line("j"))


def receipts(sender: Unknown = None) -> list[Receipt]:
    return [receipt()]


def maybe() -> Receipt | None:
    return receipt()


def pair() -> tuple[int, Line]:
    return 1, Line("i")


def numbers() -> tuple[int, ...]:
    return 1, 2, 3


def slip() -> Slip:
    return {"id": "s"}


class Place(NamedTuple):
    name: str
    line: Line


def place() -> Place:
    return Place("p", Line("i"))


@functools.cache
def cached() -> Receipt:
    return receipt()


def named() -> dict[str, Line]:
    return {"a": Line("i")}


def liar() -> Receipt:
    return "no receipt"  # type: ignore[return-value]


def wordless():  # type: ignore[no-untyped-def]
    return receipt(), (1, 2)


class Caller:
    def __call__(self) -> Receipt:
        return receipt()


PLAIN = {"id": "r", "lines": [{"item": "i", "colour": "red"}], "best": {"item": "j", "colour": "red"}}
RESULTS: list[tuple[Any, Any]] = [
    (receipt, receipt()),
    (receipts, [receipt()]),
    (maybe, receipt()),
    (pair, (1, Line("i"))),
    (numbers, (1, 2, 3)),
    (slip, {"id": "s"}),
    (named, {"a": Line("i")}),
    (place, place()),
    (cached, receipt()),
    (liar, "no receipt"),
    (wordless, [PLAIN, [1, 2]]),
    (functools.partial(receipt), receipt()),
    (Caller(), receipt()),
]


@pytest.mark.parametrize(("function", "expected"), RESULTS)
def test_replays_give_the_same(shared: Server, client: driftq.Client, function: Any, expected: Any) -> None:
    scope = f"same-{RESULTS.index((function, expected))}"
    assert [client.effect(scope, function, key="k") for _ in range(2)] == [expected, expected]

    async def main() -> None:
        async with driftq.AsyncClient(shared.url) as async_client:
            found = [await async_client.effect(scope, function, key="tasks") for _ in range(2)]
            assert found == [expected, expected]

    asyncio.run(main())
    assert_effects(client, scope=scope, count=2)


def test_replays_of_guarded_functions_and_blocks(shared: Server, client: driftq.Client) -> None:
    @driftq.guarded("same-guarded")
    def charge(order: str) -> Receipt:
        return receipt()

    @driftq.guarded("same-guarded-task")
    async def charge_async(order: str) -> Receipt:
        return receipt()

    with client.run("run-1"):
        assert [charge("a"), charge("a")] == [receipt(), receipt()]
    for _ in range(2):
        with client.guard("same-block", key="k") as effect:
            if not effect.done:
                effect.result = (receipt(),)
        assert effect.result == [PLAIN]
        with client.guard("same-typed-block", key="k", result=Receipt) as effect:
            if not effect.done:
                effect.result = receipt()
        assert effect.result == receipt()

    async def main() -> None:
        async with driftq.AsyncClient(shared.url) as async_client:
            with async_client.run("run-1"):
                assert [await charge_async("a"), await charge_async("a")] == [receipt(), receipt()]
            async with async_client.guard("same-block", key="task") as effect:
                effect.result = (receipt(),)
            assert effect.result == [PLAIN]

    asyncio.run(main())


def test_models(client: driftq.Client) -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Receipt", id=(str, ...))

    def charge() -> Any:
        return model(id="r")

    charge.__annotations__["return"] = model
    assert [client.effect("model", charge, key="k") for _ in range(2)] == [model(id="r"), model(id="r")]


def test_a_result_of_another_type_is_told_at_once(client: driftq.Client) -> None:
    """And not only by the first replay, in production."""
    for _ in range(2):
        with pytest.raises(driftq.ResultNotKept, match="not what was expected"):
            client.effect("other-type", lambda: {"name": "r"}, key="k", result=Receipt)
    assert_effects(client, scope="other-type", count=1)


async def charge_later() -> str:
    pytest.fail("it ran, and nobody guarded it")


class LateCaller:
    async def __call__(self) -> str:
        return await charge_later()


@pytest.mark.parametrize("function", [charge_later, functools.partial(charge_later), LateCaller()])
def test_a_coroutine_function_is_refused_before_it_is_begun(client: driftq.Client, function: Any) -> None:
    with pytest.raises(TypeError, match="nothing was begun"):
        client.effect("refused", function, key="k")
    with client.run("run-1") as run, pytest.raises(TypeError, match="nothing was begun"):
        run.effect("refused", function)
    assert_effects(client, scope="refused", count=0)


@pytest.mark.filterwarnings("error")
def test_a_promise_is_no_success(client: driftq.Client) -> None:
    """It may have begun to happen, so that nobody knows; only `on_lapse="retry"` says that this does not matter."""
    with pytest.raises(TypeError, match="nobody awaits"):
        client.effect("promise", lambda: charge_later(), key="k")  # type: ignore[unused-coroutine]
    with pytest.raises(TypeError, match="nobody awaits"), client.guard("promise", key="block") as effect:
        effect.result = charge_later()
    assert_effects(client, scope="promise", count=2, state="unknown")
    with pytest.raises(TypeError, match="nobody awaits"):
        client.effect("promise-retry", lambda: charge_later(), key="k", on_lapse="retry")  # type: ignore[unused-coroutine]
    assert client.effect("promise-retry", lambda: "charged", key="k", on_lapse="retry") == "charged"


def test_a_plain_function_of_a_task_may_answer_an_awaitable(shared: Server) -> None:
    async def charge() -> Receipt:
        await asyncio.sleep(0)
        return receipt()

    def begin() -> Awaitable[Receipt]:
        return charge()

    async def nested() -> Any:
        return charge_later()

    async def main() -> None:
        async with driftq.AsyncClient(shared.url) as client:
            plain: Any = await client.effect("awaited", lambda: charge(), key="a")
            assert plain == PLAIN, "a lambda says nothing about its result"
            assert [await client.effect("awaited", begin, key="b") for _ in range(2)] == [receipt(), receipt()]
            with pytest.raises(TypeError, match="nobody awaits"):
                await client.effect("nested", nested, key="a")

    asyncio.run(main())
    assert_effects(shared, scope="awaited", count=2)
    assert_effects(shared, scope="nested", count=1, state="unknown")
