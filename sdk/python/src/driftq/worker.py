"""Workers: `Worker` blocks and is for programs of threads, `AsyncWorker` is for programs of tasks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Literal, TypeVar, Unpack

from ._engine import Engine
from ._seconds import Seconds
from ._settings import Route, Settings, WorkerOptions, make_route
from ._stop_signals import listen
from .async_client import AsyncClient
from .client import Client

Handler = TypeVar("Handler", bound=Callable[..., Any])


class _Handlers:
    """The handlers of a worker, one per topic. A plain function runs in a thread, a coroutine function as a task."""

    def __init__(self, group: str, options: WorkerOptions) -> None:
        self.settings = Settings(group, **options)
        self._routes: dict[str, Route] = {}

    def handler(
        self,
        topic: str,
        *,
        payload: Any = None,
        timeout: Seconds | None = None,
        bad_payload: Literal["dead", "retry"] = "dead",
    ) -> Callable[[Handler], Handler]:
        """Decorates `def handle(payload, ctx)`. The payload's type is `payload`, else what the first parameter is
        annotated with, else plain JSON. `timeout` in seconds, or a timedelta."""

        def register(function: Handler) -> Handler:
            self._add(make_route(topic, function, payload, timeout, 0, bad_payload))
            return function

        return register

    def batch_handler(
        self,
        topic: str,
        *,
        batch: int,
        payload: Any = None,
        timeout: Seconds | None = None,
        bad_payload: Literal["dead", "retry"] = "dead",
    ) -> Callable[[Handler], Handler]:
        """Decorates `def handle(items)`, called with up to `batch` contexts that were there at once; each has its
        `payload`, and an `outcome` that can be set to `Retry(…)`, `Dead(…)` or `Snooze(…)` for it alone."""
        if batch < 1:
            raise ValueError(f"batch is {batch}: it must be at least 1")

        def register(function: Handler) -> Handler:
            self._add(make_route(topic, function, payload, timeout, batch, bad_payload))
            return function

        return register

    def _add(self, route: Route) -> None:
        if route.topic in self._routes:
            raise ValueError(f"the topic {route.topic} has a handler already")
        self._routes[route.topic] = route

    def topics(self) -> list[str]:
        return list(self._routes)

    def _checked_routes(self) -> list[Route]:
        if not self._routes:
            raise ValueError("the worker has no handler: decorate a function with @worker.handler(topic)")
        return list(self._routes.values())


class AsyncWorker(_Handlers):
    """Borrows messages of a group, runs their handlers, and settles."""

    def __init__(self, client: AsyncClient, group: str, **options: Unpack[WorkerOptions]) -> None:
        super().__init__(group, options)
        self.client = client
        self._sync_client: Client | None = None
        self._engine: Engine | None = None
        self._stops = 0

    async def run(self, *, signals: bool = True) -> None:
        """Works until `stop()`, SIGTERM or SIGINT; then drains. Raises what no repeat mends.

        Code that listened to these signals before goes on hearing them. Where the worker is one task among others, a
        signal that no other code listens to does after the drain what it would have done without a worker: SIGINT
        cancels the main task. With `signals=False` they are the application's alone.
        """
        owner = self.settings.owner or self.client.owner
        engine = Engine(self.settings, self._checked_routes(), self.client, self._threads_client, owner)
        self._engine = engine
        restore = listen(engine.stop) if signals else None
        for _ in range(self._stops):
            engine.stop()
        try:
            await engine.run()
        finally:
            self._engine, self._stops = None, 0
            if restore is not None:
                restore()
            if self._sync_client is not None:
                self._sync_client.close()
                self._sync_client = None

    def stop(self) -> None:
        """Drains: borrows no more, gives back what was not begun, waits for what runs. The second time it no longer
        waits for handlers, but what they have done is settled. A worker that was stopped before it ran ends as soon as
        it runs."""
        self._stops += 1
        if self._engine is not None:
            self._engine.stop()

    def _threads_client(self) -> Client:
        if self._sync_client is None:
            client = self.client
            self._sync_client = Client(
                client.url, patience=client.patience, owner=client.owner, key=client.key, ca_file=client.ca_file
            )
        return self._sync_client


class Worker(_Handlers):
    """The same for a program of threads: `run()` blocks."""

    def __init__(self, client: Client, group: str, **options: Unpack[WorkerOptions]) -> None:
        super().__init__(group, options)
        self.client = client
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engine: Engine | None = None
        self._stops = 0

    def run(self, *, signals: bool = True) -> None:
        """Works until `stop()`, or SIGTERM or SIGINT if this is the main thread; then drains. Raises what no repeat
        mends. Code that listened to these signals before goes on hearing them."""
        asyncio.run(self._run(signals))

    def stop(self) -> None:
        """From any thread. Drains: borrows no more, gives back what was not begun, waits for what runs. The second time
        it no longer waits for handlers, but what they have done is settled. A worker that was stopped before it ran
        ends as soon as it runs."""
        with self._lock:
            self._stops += 1
            if self._engine is not None and self._loop is not None:
                self._loop.call_soon_threadsafe(self._engine.stop)

    async def _run(self, signals: bool) -> None:
        owner = self.settings.owner or self.client.owner
        given = self.client
        async with AsyncClient(
            given.url, patience=given.patience, owner=owner, key=given.key, ca_file=given.ca_file
        ) as client:
            engine = Engine(self.settings, self._checked_routes(), client, lambda: self.client, owner)
            with self._lock:
                self._engine, self._loop = engine, asyncio.get_running_loop()
                for _ in range(self._stops):
                    engine.stop()
            restore = listen(engine.stop) if signals else None
            try:
                await engine.run()
            finally:
                with self._lock:
                    self._engine, self._stops = None, 0
                if restore is not None:
                    restore()
