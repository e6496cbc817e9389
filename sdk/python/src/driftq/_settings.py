"""What a worker is told, and the handlers that it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from ._functions import check_takes, is_async
from ._payloads import annotated_type, parser
from ._seconds import Seconds, in_seconds
from ._wire import LEASES_MAX

LEASE_MS = 30_000
CONCURRENCY_MAX = 1_000


class WorkerOptions(TypedDict, total=False):
    """`concurrency`: handlers at once, one if not given. `prefetch`: messages that wait here in addition; as many again
    if not given. `lease_ms`: how long a message is this worker's without a heartbeat. `heartbeat`: off only in tests.
    Times in seconds, or timedeltas."""

    concurrency: int
    prefetch: int | None
    lease_ms: int
    heartbeat: bool
    drain_timeout: Seconds
    start_timeout: Seconds
    owner: str | None


@dataclass(slots=True)
class Settings:
    """The options, checked."""

    group: str
    concurrency: int = 1
    prefetch: int | None = None
    lease_ms: int = LEASE_MS
    heartbeat: bool = True
    drain_timeout: Seconds = 30.0
    start_timeout: Seconds = 10.0
    owner: str | None = None
    drain_timeout_s: float = field(init=False)
    start_timeout_s: float = field(init=False)

    def __post_init__(self) -> None:
        if not self.group:
            raise ValueError("a worker needs the name of its group")
        if not 1 <= self.concurrency <= CONCURRENCY_MAX:
            raise ValueError(f"concurrency is {self.concurrency}: it must be from 1 to {CONCURRENCY_MAX}")
        if self.prefetch is not None and self.prefetch < 0:
            raise ValueError(f"prefetch is {self.prefetch}: it cannot be negative")
        if self.lease_ms < 1:
            raise ValueError(f"lease_ms is {self.lease_ms}: it must be at least 1")
        self.drain_timeout_s = in_seconds(self.drain_timeout, "drain_timeout", may_be_endless=True)
        self.start_timeout_s = in_seconds(self.start_timeout, "start_timeout", may_be_endless=True)
        for name, value in (("drain_timeout", self.drain_timeout_s), ("start_timeout", self.start_timeout_s)):
            if value < 0:
                raise ValueError(f"{name} is {value}: it cannot be negative")

    def capacity(self) -> int:
        """The most messages that the worker holds."""
        ahead = self.concurrency if self.prefetch is None else self.prefetch
        return self.concurrency + min(ahead, LEASES_MAX)

    def heartbeat_every_s(self) -> float:
        return self.lease_ms / 3000


@dataclass(slots=True)
class Route:
    """The handler of a topic."""

    topic: str
    function: Callable[..., Any]
    parse: Callable[[str | bytes], Any]
    is_async: bool
    timeout: float | None = None
    batch: int = 0
    retry_bad_payload: bool = False
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = getattr(self.function, "__qualname__", repr(self.function))
        if self.timeout is not None and self.timeout <= 0:
            raise ValueError(f"the timeout of {self.name} is {self.timeout}: it must be more than 0")

    def per_job(self) -> int:
        return self.batch or 1


def make_route(
    topic: str,
    function: Callable[..., Any],
    payload: Any,
    timeout: Seconds | None,
    batch: int,
    bad_payload: Literal["dead", "retry"],
) -> Route:
    if bad_payload not in ("dead", "retry"):
        raise ValueError(f"bad_payload is {bad_payload!r}: it must be 'dead' or 'retry'")
    if batch < 0 or batch > LEASES_MAX:
        raise ValueError(f"batch is {batch}: it must be from 1 to {LEASES_MAX}")
    if batch:
        check_takes(function, f"the batch handler of {topic!r}", "items")
    else:
        check_takes(function, f"the handler of {topic!r}", "payload", "ctx")
    kind = payload if payload is not None or batch else annotated_type(function)
    timeout_s = None if timeout is None else in_seconds(timeout, "timeout")
    return Route(topic, function, parser(kind), is_async(function), timeout_s, batch, bad_payload == "retry")
