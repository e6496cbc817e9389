"""Effects as code calls them: `effect(…)` and `guard(…)`, with threads and with asyncio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from ._current import effect_variable
from ._drive import begin, begin_async, end, end_async
from ._effects import Anchor, EffectFlow
from ._functions import bound_arguments, is_async, is_awaitable
from ._options import EffectOptions, Unset, terms_of
from ._spans import OpenSpan, carrying_out

if TYPE_CHECKING:
    from .async_client import AsyncClient
    from .client import Client

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


_Mark = tuple[Token["EffectFlow | None"], OpenSpan | None]


def _enter(flow: EffectFlow) -> _Mark:
    """The effect's own code runs."""
    attempt = 0 if flow.lease is None else flow.lease.attempt
    return effect_variable.set(flow), carrying_out(flow.terms.scope, attempt)


def _leave(mark: _Mark, error: BaseException | None) -> None:
    """It has ended."""
    token, span = mark
    if span is not None:
        span.end(error)
    try:
        effect_variable.reset(token)
    except ValueError:
        pass  # The loop has gone without this task, and its context with it.


class Guarded:
    """What `with … guard(…) as effect` gives. If it is not `done`, do it, and set `result`."""

    def __init__(self, effects: Effects, flow: EffectFlow, options: EffectOptions) -> None:
        client = effects._effect_client()
        self._effects = effects
        self._client = client
        self._flow = flow
        self._reconcile = options.get("reconcile")
        self._renewal: int | None = None
        self._mark: _Mark | None = None
        self.key = flow.key
        self.done = False
        self.result: Any = None

    def __enter__(self) -> Guarded:
        flow = self._flow
        begin(flow, self._client, self._reconcile)
        if flow.lease is None:
            self.done, self.result = True, flow.value
        else:
            self._renewal = self._client.renewals.keep(flow.lease)
            self._effects._effect_begins()
            self._mark = _enter(flow)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.done:
            return
        if self._mark is not None:
            _leave(self._mark, error)
        try:
            end(self._flow, self._client, self.result, error)
            self.result = self._flow.value
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
        """Runs the function once, or returns what it returned when it ran. The result is read from what is stored, also
        the first time: as `result=` says, else as the function is annotated, else as plain JSON."""
        if is_async(function):
            raise TypeError(
                "an effect that is not awaited cannot run a coroutine function: nothing was begun. Use an AsyncClient, "
                "or an `async def` handler, and await the effect"
            )
        client = self._effect_client()
        flow = _flow(self._effect_anchor(), scope, options, function, args)
        begin(flow, client, options.get("reconcile"))
        if flow.lease is not None:
            renewal = client.renewals.keep(flow.lease)
            self._effect_begins()
            try:
                mark, raised = _enter(flow), None
                try:
                    value = function(*args)
                except BaseException as error:
                    raised = error
                    end(flow, client, error=error)
                else:
                    end(flow, client, value)
                finally:
                    _leave(mark, raised)
            finally:
                client.renewals.drop(renewal)
                self._effect_ended()
        result: T = flow.value
        return result

    def guard(self, scope: str, **options: Unpack[EffectOptions]) -> Guarded:
        """The same as a block: `with … as effect: if not effect.done: effect.result = …`."""
        return Guarded(self, _flow(self._effect_anchor(), scope, options), options)


class AsyncGuarded:
    """What `async with … guard(…) as effect` gives. If it is not `done`, do it, and set `result`."""

    def __init__(self, effects: AsyncEffects, flow: EffectFlow, options: EffectOptions) -> None:
        client = effects._effect_client()
        self._effects = effects
        self._flow = flow
        self._reconcile = options.get("reconcile")
        self._client = client
        self._renewal: int | None = None
        self._mark: _Mark | None = None
        self.key = flow.key
        self.done = False
        self.result: Any = None

    async def __aenter__(self) -> AsyncGuarded:
        flow = self._flow
        await begin_async(flow, self._client, self._reconcile)
        if flow.lease is None:
            self.done, self.result = True, flow.value
        else:
            self._renewal = self._client.renewals.keep(flow.lease)
            self._effects._effect_begins()
            self._mark = _enter(flow)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.done:
            return
        if self._mark is not None:
            _leave(self._mark, error)
        try:
            ending = end_async(self._flow, self._client, self.result, error)
            if ending is not None:
                await ending
            self.result = self._flow.value
        except BaseException as raised:
            if raised is not error:
                raise
        finally:
            if self._renewal is not None:
                self._client.renewals.drop(self._renewal)
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
        """Runs the function once, or returns what it returned when it ran. A plain function runs in the event loop, and
        is awaited if it returns an awaitable. The result is read from what is stored, also the first time: as `result=`
        says, else as the function is annotated, else as plain JSON."""
        client = self._effect_client()
        flow = _flow(self._effect_anchor(), scope, options, function, args)
        await begin_async(flow, client, options.get("reconcile"))
        if flow.lease is not None:
            renewal: int | None = None
            self._effect_begins()
            try:
                mark, raised = _enter(flow), None
                try:
                    value = function(*args)
                    if is_awaitable(value):
                        # Only now: while a plain function runs, the loop stands still, and with it the renewals.
                        renewal = client.renewals.keep(flow.lease)
                        value = await value
                except BaseException as error:
                    raised = error
                    ending = end_async(flow, client, error=error)
                else:
                    ending = end_async(flow, client, value)
                finally:
                    _leave(mark, raised)
                if ending is not None:
                    if renewal is None:
                        renewal = client.renewals.keep(flow.lease)
                    await ending
            finally:
                if renewal is not None:
                    client.renewals.drop(renewal)
                self._effect_ended()
        return flow.value

    def guard(self, scope: str, **options: Unpack[EffectOptions]) -> AsyncGuarded:
        """The same as a block: `async with … as effect: if not effect.done: effect.result = …`."""
        return AsyncGuarded(self, _flow(self._effect_anchor(), scope, options), options)
