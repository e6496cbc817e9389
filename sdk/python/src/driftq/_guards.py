"""Effects as code calls them: `effect(…)` and `guard(…)`, with threads and with asyncio."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from ._drive import AsyncDrive, Drive
from ._effects import Anchor, EffectFlow, Lease, bound_arguments
from ._functions import is_async
from ._options import EffectOptions, Unset, terms_of
from .errors import DriftQError, Refused

if TYPE_CHECKING:
    from .async_client import AsyncClient
    from .client import Client

log = logging.getLogger("driftq")
T = TypeVar("T")


def _flow(
    anchor: Anchor,
    scope: str,
    options: EffectOptions,
    function: Callable[..., Any] | None = None,
    args: tuple[Any, ...] = (),
) -> EffectFlow:
    arguments: Any = Unset
    if args and function is not None and "arguments" not in options:
        arguments = bound_arguments(function, args, {})
    return EffectFlow(terms_of(scope, options, arguments, function), anchor)


class Guarded:
    """What `with … guard(…) as effect` gives. If it is not `done`, do it, and set `result`."""

    def __init__(self, effects: Effects, flow: EffectFlow, options: EffectOptions) -> None:
        client = effects._effect_client()
        self._effects = effects
        self._client = client
        self._drive = Drive(flow, client.call, options.get("reconcile"))
        self._renewal: int | None = None
        self.key = flow.key
        self.done = False
        self.result: Any = None

    def __enter__(self) -> Guarded:
        self.done = self._drive.advance()
        if self.done:
            self.result = self._drive.value
        elif self._drive.flow.lease is not None:
            self._renewal = self._client.renewals.keep(self._drive.flow.lease)
            self._effects._effect_begins()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.done:
            return
        try:
            if self._drive.advance(self.result, error):
                self.result = self._drive.value
        except BaseException as raised:
            if raised is not error:
                raise
        finally:
            if self._renewal is not None:
                self._client.renewals.drop(self._renewal)
                self._effects._effect_ended()


class Effects:
    """Effects in code that runs in threads."""

    def _effect_client(self) -> Client:
        raise NotImplementedError

    def _effect_begins(self) -> None:
        """An effect is being carried out."""

    def _effect_ended(self) -> None:
        """How it went is written down."""

    def _effect_anchor(self) -> Anchor:
        raise NotImplementedError

    def effect(self, scope: str, function: Callable[..., T], *args: Any, **options: Unpack[EffectOptions]) -> T:
        """Runs the function once, or answers what it gave when it ran. The result is read from what is stored, also the
        first time: as `result=` says, else as the function is annotated, else as plain JSON."""
        if is_async(function):
            raise TypeError(
                "an effect that is not awaited cannot run a coroutine function: nothing was begun. Use an AsyncClient, "
                "or an `async def` handler, and await the effect"
            )
        client = self._effect_client()
        flow = _flow(self._effect_anchor(), scope, options, function, args)
        drive = Drive(flow, client.call, options.get("reconcile"))
        if not drive.advance():
            assert flow.lease is not None
            renewal = client.renewals.keep(flow.lease)
            self._effect_begins()
            try:
                try:
                    value = function(*args)
                except BaseException as error:
                    drive.advance(error=error)
                else:
                    drive.advance(value)
            finally:
                client.renewals.drop(renewal)
                self._effect_ended()
        result: T = drive.value
        return result

    def guard(self, scope: str, **options: Unpack[EffectOptions]) -> Guarded:
        """The same as a block: `with … as effect: if not effect.done: effect.result = …`."""
        return Guarded(self, _flow(self._effect_anchor(), scope, options), options)


class AsyncGuarded:
    """What `async with … guard(…) as effect` gives. If it is not `done`, do it, and set `result`."""

    def __init__(self, effects: AsyncEffects, flow: EffectFlow, options: EffectOptions) -> None:
        client = effects._effect_client()
        self._effects = effects
        self._drive = AsyncDrive(flow, client.call, options.get("reconcile"))
        self._renewal = AsyncRenewal(client)
        self.key = flow.key
        self.done = False
        self.result: Any = None

    async def __aenter__(self) -> AsyncGuarded:
        self.done = await self._drive.advance()
        if self.done:
            self.result = self._drive.value
        elif self._drive.flow.lease is not None:
            self._renewal.keep(self._drive.flow.lease)
            self._effects._effect_begins()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.done:
            return
        try:
            await self._drive.end(self.result, error)
            self.result = self._drive.value
        except BaseException as raised:
            if raised is not error:
                raise
        finally:
            self._renewal.drop()
            self._effects._effect_ended()


class AsyncEffects:
    """Effects in code that runs in tasks."""

    def _effect_client(self) -> AsyncClient:
        raise NotImplementedError

    def _effect_begins(self) -> None:
        """An effect is being carried out."""

    def _effect_ended(self) -> None:
        """How it went is written down."""

    def _effect_anchor(self) -> Anchor:
        raise NotImplementedError

    @overload
    async def effect(
        self, scope: str, function: Callable[..., Awaitable[T]], *args: Any, **options: Unpack[EffectOptions]
    ) -> T: ...

    @overload
    async def effect(
        self, scope: str, function: Callable[..., T], *args: Any, **options: Unpack[EffectOptions]
    ) -> T: ...

    async def effect(
        self, scope: str, function: Callable[..., Any], *args: Any, **options: Unpack[EffectOptions]
    ) -> Any:
        """Runs the function once, or answers what it gave when it ran. A plain function runs in the event loop, and is
        awaited if it answers an awaitable. The result is read from what is stored, also the first time: as `result=`
        says, else as the function is annotated, else as plain JSON."""
        client = self._effect_client()
        flow = _flow(self._effect_anchor(), scope, options, function, args)
        drive = AsyncDrive(flow, client.call, options.get("reconcile"))
        if not await drive.advance():
            assert flow.lease is not None
            renewal = AsyncRenewal(client)
            renewal.keep(flow.lease)
            self._effect_begins()
            try:
                try:
                    value = function(*args)
                    if inspect.isawaitable(value):
                        value = await value
                except BaseException as error:
                    await drive.end(error=error)
                else:
                    await drive.end(value)
            finally:
                renewal.drop()
                self._effect_ended()
        return drive.value

    def guard(self, scope: str, **options: Unpack[EffectOptions]) -> AsyncGuarded:
        """The same as a block: `async with … as effect: if not effect.done: effect.result = …`."""
        return AsyncGuarded(self, _flow(self._effect_anchor(), scope, options), options)


class AsyncRenewal:
    """Keeps the lease of one effect while its function runs."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def keep(self, lease: Lease) -> None:
        self._timer = asyncio.get_running_loop().call_later(lease.renew_every_s(), self._begin, lease)

    def drop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin(self, lease: Lease) -> None:
        self._task = asyncio.ensure_future(self._renew(lease))

    async def _renew(self, lease: Lease) -> None:
        asked_at = time.monotonic()
        try:
            await self._client.call(lease.renew_call())
            lease.renewed(asked_at)
        except Refused as error:
            if not error.retryable:
                log.warning("an effect was overtaken while it ran: %s", error)
                return
        except DriftQError as error:
            log.warning("an effect's lease could not be renewed: %s", error)
        self._task = None
        self.keep(lease)
