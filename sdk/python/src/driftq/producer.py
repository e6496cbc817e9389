"""Producers: `send` returns at once, and what collects while a call is under way goes out in the next one."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import Future
from types import TracebackType
from typing import Unpack

from . import errors
from ._batches import BUFFER_MESSAGES, Batches, Record, batch_call, record_of
from ._wire import MessageOptions, Produced
from .async_client import AsyncClient
from .client import Client

log = logging.getLogger("driftq")


class Producer:
    """For programs of threads. Use it in a `with` block, or `close` it: what still waits would be lost otherwise."""

    def __init__(self, client: Client, *, buffer: int = BUFFER_MESSAGES) -> None:
        if buffer < 1:
            raise ValueError(f"buffer is {buffer}: it must be at least 1")
        self._client = client
        self._buffer = buffer
        self._batches = Batches(client.patience)
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, topic: str, payload: object, **options: Unpack[MessageOptions]) -> Future[Produced]:
        """Hands the message over; the future says where it is stored, or why it is not. Waits while the buffer is
        full."""
        future: Future[Produced] = Future()
        record = record_of(topic, payload, options, future)
        with self._changed:
            while self._batches.open >= self._buffer and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                raise RuntimeError("the producer is closed")
            self._batches.add(record)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="driftq-producer", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return future

    def flush(self) -> None:
        """Waits until every message that was handed over has its result."""
        with self._changed:
            while self._batches.open:
                self._changed.wait()

    def close(self) -> None:
        """Flushes, and takes no more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self.flush()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while (batch := self._next()) is not None:
            self._send(batch)

    def _next(self) -> list[Record] | None:
        with self._changed:
            while True:
                found = self._batches.take()
                if isinstance(found, list):
                    return found
                if found is None and self._is_closed:
                    return None
                self._changed.wait(found)

    def _send(self, batch: list[Record]) -> None:
        try:
            answers = self._client.call(batch_call(batch))
        except Exception as error:
            with self._changed:
                self._batches.refused(batch, _known(error))
                self._changed.notify_all()
        else:
            with self._changed:
                self._batches.answered(batch, answers)
                self._changed.notify_all()


class AsyncProducer:
    """For programs of tasks. Use it in an `async with` block, or `close` it."""

    def __init__(self, client: AsyncClient, *, buffer: int = BUFFER_MESSAGES) -> None:
        if buffer < 1:
            raise ValueError(f"buffer is {buffer}: it must be at least 1")
        self._client = client
        self._buffer = buffer
        self._batches = Batches(client.patience)
        self._changed = asyncio.Condition()
        self._is_closed = False
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> AsyncProducer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def send(
        self, topic: str, payload: object, **options: Unpack[MessageOptions]
    ) -> asyncio.Future[Produced]:
        """Hands the message over; the future says where it is stored, or why it is not. Waits while the buffer is
        full."""
        future: asyncio.Future[Produced] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_look)
        record = record_of(topic, payload, options, future)
        while self._batches.open >= self._buffer and not self._is_closed:
            async with self._changed:
                await self._changed.wait()
        if self._is_closed:
            raise RuntimeError("the producer is closed")
        self._batches.add(record)
        if self._task is None:
            self._task = asyncio.ensure_future(self._work())
        return future

    async def flush(self) -> None:
        """Waits until every message that was handed over has its result."""
        async with self._changed:
            while self._batches.open:
                await self._changed.wait()

    async def close(self) -> None:
        """Flushes, and takes no more."""
        self._is_closed = True
        await self.flush()

    async def _work(self) -> None:
        """Runs while something waits."""
        try:
            while (found := self._batches.take()) is not None:
                if isinstance(found, float):
                    await asyncio.sleep(found)
                    continue
                try:
                    answers = await self._client.call(batch_call(found))
                except Exception as error:
                    self._batches.refused(found, _known(error))
                else:
                    self._batches.answered(found, answers)
                async with self._changed:
                    self._changed.notify_all()
        finally:
            self._task = None


def _look(future: asyncio.Future[Produced]) -> None:
    """Logs every failure, so that the event loop does not complain of one that the caller never asks for."""
    if not future.cancelled() and future.exception() is not None:
        log.error("a message was not stored: %s", future.exception())


def _known(error: Exception) -> errors.DriftQError:
    if isinstance(error, errors.DriftQError):
        return error
    wrapped = errors.DriftQError(f"{type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped
