"""Begins of effects that go together, with threads and with tasks."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

import driftq
from driftq import _begins, errors
from driftq._begins import AsyncBegins, Begins
from driftq._calls import Call, written

FULL = {"code": "OVERLOADED", "status": 429, "detail": "there are many", "retryable": True}
REUSED = {"code": "KEY_REUSED", "status": 422, "detail": "another request"}


class Fake:
    """Answers with the key that was asked for, except where told otherwise. Calls are its keys, in order."""

    def __init__(self, **results: Any) -> None:
        self.calls: list[list[str]] = []
        self.released: list[str] = []
        self._results = results
        self.before: Callable[[], None] = lambda: None
        self.spoilt = False

    def call(self, call: Call) -> Any:
        body = json.loads(call.content() or b"")
        if call.path == "/v2/effects/release":
            self.released.append(body["token"])
            return {"result": "released"}
        together = "effects" in body
        keys = [one["key"] for one in (body["effects"] if together else [body])]
        self.calls.append(keys)
        self.before()
        if not together:
            return self._result(keys[0])
        if self.spoilt:
            raise errors.refusal({"code": "BODY_TOO_LARGE", "detail": "too much at once"}, 413)
        refused = {key: self._results[key] for key in keys if key in self._results}
        return {
            "results": [
                {"decision": "refused", "problem": refused[key]} if key in refused else self._result(key) for key in keys
            ]
        }

    def _result(self, key: str) -> Any:
        return {"decision": "execute", "lease": {"token": key}}


def asked(key: str) -> bytes:
    return written({"scope": "s", "key": key})


class Slow:
    """A Fake for tasks, whose first call ends when it is told to."""

    def __init__(self, fake: Fake) -> None:
        self.fake = fake
        self.go = asyncio.Event()

    async def call(self, call: Call) -> Any:
        answer = self.fake.call(call)
        if len(self.fake.calls) == 1:
            await self.go.wait()
        return answer


def ask_tasks(fake: Fake, keys: list[str], *, cancel: str = "") -> list[Any]:
    """The first one is under way while the others come."""

    async def main() -> list[Any]:
        slow = Slow(fake)
        begins = AsyncBegins(slow.call)
        tasks = {key: asyncio.ensure_future(begins.begin(asked(key))) for key in keys[:1]}
        await asyncio.sleep(0.01)
        tasks |= {key: asyncio.ensure_future(begins.begin(asked(key))) for key in keys[1:]}
        await asyncio.sleep(0.01)
        if cancel:
            tasks[cancel].cancel()
        slow.go.set()
        answers = await asyncio.gather(*tasks.values(), return_exceptions=True)
        await asyncio.sleep(0.01)
        return answers

    return asyncio.run(main())


def ask_threads(fake: Fake, keys: list[str]) -> list[Any]:
    answers: dict[str, Any] = {}
    begins = Begins(fake.call)

    def ask(key: str) -> None:
        try:
            answers[key] = begins.begin(asked(key))
        except errors.DriftQError as error:
            answers[key] = error

    threads = {key: threading.Thread(target=ask, args=(key,)) for key in keys}

    def before() -> None:
        if len(fake.calls) == 1:
            for key in keys[1:]:
                threads[key].start()
                while len(begins._waiting) < keys.index(key):
                    pass

    fake.before = before
    threads[keys[0]].start()
    for key in keys:
        while not threads[key].ident:
            pass
        threads[key].join(30)
    return [answers.get(key) for key in keys]


ASK = pytest.mark.parametrize("ask", [ask_threads, ask_tasks], ids=["threads", "tasks"])


@ASK
def test_those_who_come_while_a_call_is_under_way_go_together(ask: Any) -> None:
    fake = Fake()
    keys = [str(number) for number in range(50)]
    assert [answer["lease"]["token"] for answer in ask(fake, keys)] == keys
    assert fake.calls == [["0"], keys[1:]]


@ASK
def test_one_that_is_refused_is_refused_alone(ask: Any) -> None:
    fake = Fake(b=REUSED)
    _, a, b, c = ask(fake, ["first", "a", "b", "c"])
    assert (a["lease"]["token"], c["lease"]["token"]) == ("a", "c")
    assert isinstance(b, driftq.KeyReused)


@ASK
def test_one_that_is_refused_for_now_asks_again_alone(ask: Any) -> None:
    fake = Fake(b=FULL)
    answers = ask(fake, ["first", "a", "b"])
    assert [answer["lease"]["token"] for answer in answers] == ["first", "a", "b"]
    assert fake.calls == [["first"], ["a", "b"], ["b"]]


@ASK
def test_a_call_that_is_refused_as_a_whole_is_made_by_each_alone(ask: Any) -> None:
    fake = Fake()
    fake.spoilt = True
    answers = ask(fake, ["first", "a", "b"])
    assert [answer["lease"]["token"] for answer in answers] == ["first", "a", "b"]
    assert sorted(fake.calls[2:]) == [["a"], ["b"]]


def test_nobody_asks_while_those_who_were_answered_are_being_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of them are back by then, and go together: whoever came first would else go alone, time and again."""
    fake = Fake()
    begins = Begins(fake.call)
    threads = {key: threading.Thread(target=begins.begin, args=(asked(key),)) for key in "abcdef"}
    wake_next = begins._wake_next

    def come(keys: str) -> None:
        for number, key in enumerate(keys, 1):
            threads[key].start()
            while len(begins._waiting) < number and len(fake.calls) < 3:
                pass

    def wake_next_slowly(one: Any) -> None:
        if one.written == asked("c"):  # The last of those who went together.
            come("def")
        wake_next(one)

    monkeypatch.setattr(begins, "_wake_next", wake_next_slowly)
    fake.before = lambda: come("bc") if len(fake.calls) == 1 else None
    threads["a"].start()
    for key in "abcdef":
        while not threads[key].ident:
            pass
        threads[key].join(30)
    assert fake.calls == [["a"], ["b", "c"], ["d", "e", "f"]]


class Interrupted:
    """A lock whose first wait ends as with Ctrl-C."""

    def __init__(self, lock: threading.Lock) -> None:
        self.release = lock.release
        self._acquire = lock.acquire
        self._has_waited = False

    def acquire(self) -> None:
        if not self._has_waited:
            self._has_waited = True
            raise KeyboardInterrupt
        self._acquire()


def test_one_that_is_interrupted_while_it_waits_keeps_nobody_from_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    class Asked(_begins._Asked):
        def __init__(self, written: bytes) -> None:
            super().__init__(written)
            if written == asked("b"):
                self.turn = Interrupted(self.turn)  # type: ignore[assignment]

    monkeypatch.setattr(_begins, "_Asked", Asked)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    fake = Fake()
    _, a, b, c = ask_threads(fake, ["first", "a", "b", "c"])
    assert (a["lease"]["token"], b, c["lease"]["token"]) == ("a", None, "c")
    assert fake.calls == [["first"], ["a", "b", "c"]]


def test_whoever_was_cancelled_meanwhile_leaves_no_lease_behind() -> None:
    fake = Fake()
    answers = ask_tasks(fake, ["first", "a", "b"], cancel="a")
    assert isinstance(answers[1], asyncio.CancelledError) and answers[2]["lease"]["token"] == "b"
    assert fake.released == ["a"]
