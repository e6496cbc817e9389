"""What a producer sends next: the one place for its rules, without any network in it."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol

from . import errors
from ._calls import BACKOFF_FIRST_S, Call
from ._json import written
from ._wire import MessageOptions, Produced, keyed_message, produce_call

BUFFER_MESSAGES = 10_000
BATCH_MESSAGES_MAX = 1_000
BATCH_BYTES_MAX = 1_048_576


class Sink(Protocol):
    """Where the result of a message goes: a future of either kind."""

    def done(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, exception: Any, /) -> None: ...


@dataclass(slots=True, eq=False)
class Record:
    """One message on its way."""

    topic: str
    body: bytes
    sink: Sink
    added_at: float = field(default_factory=time.monotonic)

    def end(self, result: Produced | errors.DriftQError) -> None:
        if self.sink.done():
            return  # The caller that waited has given up.
        if isinstance(result, Produced):
            self.sink.set_result(result)
        else:
            self.sink.set_exception(result)


@dataclass(slots=True)
class _Topic:
    waiting: deque[Record] = field(default_factory=deque)
    not_before: float = 0.0


def record_of(topic: str, payload: Any, options: MessageOptions, sink: Sink) -> Record:
    message = keyed_message(payload, options)
    return Record(topic, written(message), sink)


class Batches:
    """Messages by topic, and halves of batches that were refused as a whole. `open` counts what has no result yet."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._topics: dict[str, _Topic] = {}
        self._halves: deque[list[Record]] = deque()
        self.open = 0

    def add(self, record: Record) -> None:
        self._topics.setdefault(record.topic, _Topic()).waiting.append(record)
        self.open += 1

    def take(self) -> list[Record] | float | None:
        """The next batch; or seconds until there is one; or None if nothing waits."""
        if self._halves:
            return self._halves.popleft()
        soonest: float | None = None
        now = time.monotonic()
        for name in list(self._topics):
            topic = self._topics[name]
            if not topic.waiting:
                del self._topics[name]
            elif topic.not_before <= now:
                # To the end of the line: topics take turns.
                self._topics[name] = self._topics.pop(name)
                return _cut(topic.waiting)
            else:
                soonest = topic.not_before if soonest is None else min(soonest, topic.not_before)
        return None if soonest is None else soonest - now

    def answered(self, batch: list[Record], answers: Any) -> None:
        """Every message has its own result. What was refused for now goes back to the front of its line."""
        if not isinstance(answers, list) or len(answers) != len(batch):
            self.refused(batch, errors.NotDriftQ("the answer to a batch has not one result per message"))
            return
        again: list[Record] = []
        hint_s = BACKOFF_FIRST_S
        now = time.monotonic()
        for record, answer in zip(batch, answers, strict=True):
            if "error" not in answer:
                self._end(record, Produced.read(answer))
                continue
            error = errors.refusal(answer["error"])
            wait_s = BACKOFF_FIRST_S if error.retry_after_ms is None else error.retry_after_ms / 1000
            if error.retryable and now + wait_s <= record.added_at + self._patience_s:
                again.append(record)
                hint_s = max(hint_s, wait_s)
            else:
                self._end(record, error)
        if again:
            topic = self._topics.setdefault(again[0].topic, _Topic())
            topic.waiting.extendleft(reversed(again))
            topic.not_before = now + hint_s

    def refused(self, batch: list[Record], error: errors.DriftQError) -> None:
        """The whole batch was refused. If a single message is at fault, the halves tell which."""
        spoilt = (errors.InvalidArgument, errors.InvalidJson, errors.BodyTooLarge, errors.DeadlineExceeded)
        if len(batch) > 1 and isinstance(error, spoilt):
            middle = len(batch) // 2
            self._halves.extendleft([batch[middle:], batch[:middle]])
            return
        for record in batch:
            self._end(record, error)

    def _end(self, record: Record, result: Produced | errors.DriftQError) -> None:
        self.open -= 1
        record.end(result)


def batch_call(batch: list[Record]) -> Call:
    """A batch that gets no answer is repeated as it is: its messages have idempotency keys."""
    return produce_call(batch[0].topic, b"[" + b",".join(record.body for record in batch) + b"]")


def _cut(waiting: deque[Record]) -> list[Record]:
    batch: list[Record] = []
    size = 0
    while waiting and len(batch) < BATCH_MESSAGES_MAX:
        size += len(waiting[0].body) + 1
        if batch and size > BATCH_BYTES_MAX:
            break
        batch.append(waiting.popleft())
    return batch
