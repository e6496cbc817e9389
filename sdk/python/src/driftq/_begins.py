"""Begins of effects. Those that come while a call is under way go together in the next one, with threads and with tasks."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from . import errors
from ._calls import Call

log = logging.getLogger("driftq")
BEGINS_MAX = 1_000
BEGIN_BYTES_MAX = 1_048_576

# The answer to a caller that asked together with others: a decision, an error, or None if it must ask alone.
Answer = dict[str, Any] | Exception | None


def begin_alone(written: bytes) -> Call:
    return Call("POST", "/v2/effects/begin", written, expects=("decision",))


def _begin_together(batch: list[bytes]) -> Call:
    body = b'{"effects":[' + b",".join(batch) + b"]}"
    return Call("POST", "/v2/effects/begin", body, expects=("results",))


def _answers(answer: dict[str, Any], count: int) -> list[Answer]:
    """One answer each. What was refused for now is asked for again by each caller alone: each has its own patience."""
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


def _fitting(sizes: Iterable[int]) -> int:
    """How many of those that wait go into one call: at least one."""
    count = size = 0
    for one in sizes:
        size += one + 1
        if count and size > BEGIN_BYTES_MAX:
            break
        count += 1
    return min(count, BEGINS_MAX)


class _Asked:
    """A thread that asked."""

    __slots__ = ("answer", "is_answered", "next", "turn", "written")

    def __init__(self, written: bytes) -> None:
        self.written = written
        self.answer: Answer = None
        self.is_answered = False
        # The thread that goes on after this one.
        self.next: _Asked | None = None
        # Held until it is answered, or is to ask for all threads that wait.
        self.turn = threading.Lock()
        self.turn.acquire()


class Begins:
    """With threads: a thread that finds no call under way asks, and then one of those that came meanwhile asks for all
    of them.

    Threads that are answered wake each other one by one: woken all at once, they would fight for the interpreter. The
    last of them wakes the one that asks next: by then most are back with another effect, and go together again.
    """

    def __init__(self, call: Callable[[Call], Any]) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._waiting: deque[_Asked] = deque()
        # A call is under way, or the threads that it answered are being woken.
        self._is_under_way = False

    def begin(self, written: bytes) -> dict[str, Any]:
        asked = _Asked(written)
        with self._lock:
            self._waiting.append(asked)
            leads = not self._is_under_way
            self._is_under_way = True
        if not leads:
            try:
                asked.turn.acquire()
            except BaseException:
                # Ctrl-C. Other threads wait for this one's turn, and must not do so for ever.
                threading.Thread(target=self._stand_in, args=(asked,), daemon=True).start()
                raise
        self._take_turn(asked)
        answer = asked.answer
        if answer is None:
            answer = self._call(begin_alone(written))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _stand_in(self, asked: _Asked) -> None:
        asked.turn.acquire()
        self._take_turn(asked)

    def _take_turn(self, asked: _Asked) -> None:
        try:
            if not asked.is_answered:
                self._ask_for_all()
        finally:
            self._wake_next(asked)

    def _wake_next(self, asked: _Asked) -> None:
        following = asked.next
        if following is None:
            with self._lock:
                following = self._waiting[0] if self._waiting else None
                self._is_under_way = following is not None
        if following is not None:
            following.turn.release()

    def _ask_for_all(self) -> None:
        """The caller is the first of the threads that wait."""
        with self._lock:
            count = _fitting(len(asked.written) for asked in self._waiting)
            batch = [self._waiting.popleft() for _ in range(count)]
        answers: list[Answer] = [None] * len(batch)
        try:
            if len(batch) == 1:
                answers = [self._call(begin_alone(batch[0].written))]
            else:
                answers = _answers(self._call(_begin_together([asked.written for asked in batch])), len(batch))
        except errors.Refused as refused:
            # One of them is at fault: each asks alone.
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


class AsyncBegins:
    """With tasks."""

    def __init__(self, call: Callable[[Call], Awaitable[Any]]) -> None:
        self._call = call
        self._waiting: deque[tuple[bytes, asyncio.Future[Any]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_under_way = False

    def begin(self, written: bytes) -> asyncio.Future[dict[str, Any]]:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((written, future))
        if not self._is_under_way:
            self._is_under_way = True
            self._start(self._ask_for_all())
        return future

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask_for_all(self) -> None:
        try:
            while self._waiting:
                count = _fitting(len(written) for written, _ in self._waiting)
                batch = [self._waiting.popleft() for _ in range(count)]
                if len(batch) == 1:
                    await self._ask_alone(*batch[0])
                else:
                    await self._ask_together(batch)
        finally:
            self._is_under_way = False

    async def _ask_alone(self, written: bytes, future: asyncio.Future[Any]) -> None:
        answer: Answer
        try:
            answer = await self._call(begin_alone(written))
        except asyncio.CancelledError:
            future.cancel()
            raise
        except Exception as error:
            answer = error
        self._answer(written, future, answer)

    async def _ask_together(self, batch: list[tuple[bytes, asyncio.Future[Any]]]) -> None:
        answers: list[Answer] = [None] * len(batch)
        try:
            answers = _answers(await self._call(_begin_together([written for written, _ in batch])), len(batch))
        except errors.Refused:
            pass  # One of them is at fault: each asks alone.
        except errors.DriftQError as error:
            answers = [error] * len(batch)
        finally:
            for (written, future), answer in zip(batch, answers, strict=True):
                if type(answer) is dict and not future.done():
                    future.set_result(answer)
                else:
                    self._answer(written, future, answer)

    def _answer(self, written: bytes, future: asyncio.Future[Any], answer: Answer) -> None:
        if future.done():
            if isinstance(answer, dict) and answer["decision"] == "execute":
                self._start(self._give_up(answer["lease"]["token"]))
        elif answer is None:
            self._start(self._ask_alone(written, future))
        elif isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)

    async def _give_up(self, token: str) -> None:
        """The task that asked was cancelled meanwhile: nothing was carried out, and no other caller is to wait for
        it."""
        try:
            await self._call(Call("POST", "/v2/effects/release", {"token": token}, patience_s=0.0))
        except errors.DriftQError as error:
            log.info("the lease of an effect that nobody waits for any more could not be given up: %s", error)
