"""Begins of effects. Those that come while a call is under way go together in the next one, with threads and with tasks."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from . import errors
from ._calls import Call

log = logging.getLogger("driftq")
BEGINS_MAX = 1_000
BEGIN_BYTES_MAX = 1_048_576
# How long a thread that asks waits for others, if others came before.
LINGER_S = 0.002

# The answer to one who asked together with others: a decision, an error, or that it must ask alone.
Answer = dict[str, Any] | errors.DriftQError | None


def begin_alone(written: bytes) -> Call:
    return Call("POST", "/v2/effects/begin", written, expects=("decision",))


def _begin_together(batch: list[bytes]) -> Call:
    body = b'{"effects":[' + b",".join(batch) + b"]}"
    return Call("POST", "/v2/effects/begin", body, expects=("results",))


def _answers(answer: dict[str, Any], count: int) -> list[Answer]:
    """One for each. What was refused for now is asked for again, by each for itself: it has its own patience."""
    results: list[dict[str, Any]] = answer["results"]
    if len(results) != count:
        return [errors.NotDriftQ("the answer to begins that went together has not one result for each")] * count
    answers: list[Answer] = []
    for result in results:
        if result["decision"] == "refused":
            refused = errors.refusal(result["problem"])
            answers.append(None if refused.retryable else refused)
        else:
            answers.append(result)
    return answers


def _cut(waiting: deque[Any], written: Callable[[Any], bytes]) -> list[Any]:
    batch: list[Any] = []
    size = 0
    while waiting and len(batch) < BEGINS_MAX:
        size += len(written(waiting[0])) + 1
        if batch and size > BEGIN_BYTES_MAX:
            break
        batch.append(waiting.popleft())
    return batch


class _Asked:
    """A thread that asked."""

    __slots__ = ("answer", "is_answered", "next", "turn", "written")

    def __init__(self, written: bytes) -> None:
        self.written = written
        self.answer: Answer = None
        self.is_answered = False
        # Who goes on after this one.
        self.next: _Asked | None = None
        # Held until it is answered, or is to ask for all who wait.
        self.turn = threading.Lock()
        self.turn.acquire()


class Begins:
    """With threads: whoever finds no call under way asks, and then one of those who came meanwhile, for all of them.

    Those who are answered wake each other one by one: woken all at once, they would fight for the interpreter. And as
    they come back one by one, whoever asks next waits a moment for as many as there were.
    """

    def __init__(self, call: Callable[[Call], Any]) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._waiting: deque[_Asked] = deque()
        self._is_under_way = False
        # How many went together the last time; and what the one who asks next waits for.
        self._usual = 1
        self._is_enough: threading.Lock | None = None

    def begin(self, written: bytes) -> dict[str, Any]:
        asked = _Asked(written)
        with self._lock:
            self._waiting.append(asked)
            leads = not self._is_under_way
            self._is_under_way = True
            if self._is_enough is not None and len(self._waiting) >= self._usual:
                self._is_enough.release()
                self._is_enough = None
        if not leads:
            asked.turn.acquire()
        try:
            if not asked.is_answered:
                self._ask_for_all()
        finally:
            if asked.next is not None:
                asked.next.turn.release()
        answer = asked.answer
        if answer is None:
            answer = self._call(begin_alone(written))
        if isinstance(answer, errors.DriftQError):
            raise answer
        return answer

    def _linger(self) -> None:
        with self._lock:
            if len(self._waiting) >= self._usual:
                return
            is_enough = threading.Lock()
            is_enough.acquire()
            self._is_enough = is_enough
        is_enough.acquire(timeout=LINGER_S)
        with self._lock:
            self._is_enough = None

    def _ask_for_all(self) -> None:
        """The caller is the first of those who wait."""
        self._linger()
        with self._lock:
            batch: list[_Asked] = _cut(self._waiting, lambda asked: asked.written)
        answers: list[Answer] = [None] * len(batch)
        try:
            if len(batch) == 1:
                answers = [self._call(begin_alone(batch[0].written))]
            else:
                answers = _answers(self._call(_begin_together([asked.written for asked in batch])), len(batch))
        except errors.Refused as refused:
            # One of them spoils the call: each for itself.
            answers = [refused] if len(batch) == 1 else answers
        except errors.DriftQError as error:
            answers = [error] * len(batch)
        finally:
            before: _Asked | None = None
            for asked, answer in zip(batch, answers, strict=True):
                asked.answer = answer
                asked.is_answered = True
                if before is not None:
                    before.next = asked
                before = asked
            with self._lock:
                self._usual = len(batch)
                following = self._waiting[0] if self._waiting else None
                self._is_under_way = following is not None
            if following is not None:
                following.turn.release()


class AsyncBegins:
    """With tasks."""

    def __init__(self, call: Callable[[Call], Awaitable[Any]]) -> None:
        self._call = call
        self._waiting: deque[tuple[bytes, asyncio.Future[Answer]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_under_way = False

    async def begin(self, written: bytes) -> dict[str, Any]:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((written, future))
        if not self._is_under_way:
            self._is_under_way = True
            self._start(self._ask_for_all())
        answer = await future
        if answer is None:
            answer = await self._call(begin_alone(written))
        if isinstance(answer, errors.DriftQError):
            raise answer
        return answer

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask_for_all(self) -> None:
        try:
            while self._waiting:
                await self._ask(_cut(self._waiting, lambda asked: asked[0]))
        finally:
            self._is_under_way = False

    async def _ask(self, batch: list[tuple[bytes, asyncio.Future[Answer]]]) -> None:
        answers: list[Answer] = [None] * len(batch)
        try:
            if len(batch) == 1:
                answers = [await self._call(begin_alone(batch[0][0]))]
            else:
                answers = _answers(await self._call(_begin_together([written for written, _ in batch])), len(batch))
        except errors.Refused as refused:
            answers = [refused] if len(batch) == 1 else answers
        except errors.DriftQError as error:
            answers = [error] * len(batch)
        finally:
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)
                elif isinstance(answer, dict) and answer["decision"] == "execute":
                    self._start(self._give_up(answer["lease"]["token"]))

    async def _give_up(self, token: str) -> None:
        """Whoever asked was cancelled meanwhile: nothing was carried out, and nobody is to wait for it."""
        try:
            await self._call(Call("POST", "/v2/effects/release", {"token": token}, patience_s=0.0))
        except errors.DriftQError as error:
            log.info("the lease of an effect that nobody waits for any more could not be given up: %s", error)
