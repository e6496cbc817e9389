"""SIGTERM and SIGINT stop the workers of a process, and are not taken from the application that they run in."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

_NUMBERS = (signal.SIGTERM, signal.SIGINT)
# How many turns of the event loop it may take until a main task that waits for a worker, or for a task that waits for
# one, goes on.
_TURNS = 5


class _Ears:
    """The workers of one event loop that listen, together.

    - A listener of the application's hears every signal at once, as before; what the second one means is up to it.
    - Without one, the second signal ends the process. That is not left to the event loop, which a handler may block, nor
      to tasks, which may refuse to end.
    - Without one, in a program of `asyncio.run` whose main task waits for something else than workers, the signal is
      passed on when they have drained: the program would otherwise go on as if no signal had come.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._before: dict[int, Any] = {number: signal.getsignal(number) for number in _NUMBERS}
        self._main_task = _main_task(self._before[signal.SIGINT])
        self._heard: list[int] = []
        self._stops: dict[object, Callable[[], None]] = {}
        # The tasks that workers run in, now and before.
        self._tasks: set[asyncio.Task[Any] | None] = set()
        # Whether the main task waited for workers, and for nothing else, when they were told to stop.
        self._is_awaited = False
        self._sleep = _wake_at_signals(self.loop)
        for number in _NUMBERS:
            signal.signal(number, self._heed)

    def join(self, stop: Callable[[], None]) -> Callable[[], None]:
        """Adds a worker; the function that it returns takes it out again."""
        key = object()
        self._stops[key] = stop
        self._tasks.add(asyncio.current_task())
        return lambda: self._leave(key)

    def _heed(self, number: int, frame: Any) -> None:
        listener = _listener(self._before[number])
        if listener is None:
            # The next signal of this kind needs no code of this package, which may not get a turn any more.
            signal.signal(number, signal.SIG_DFL)
            if self._heard:
                signal.raise_signal(number)
            self._heard.append(number)
        self.loop.call_soon_threadsafe(self._stop_all)
        if listener is not None:
            listener(number, frame)

    def _stop_all(self) -> None:
        waits_for = getattr(self._main_task, "_fut_waiter", None)
        # What `asyncio.gather` returns waits for several.
        parts = getattr(waits_for, "_children", None) or [waits_for]
        self._is_awaited = self._is_awaited or all(part in self._tasks for part in parts)
        for stop in list(self._stops.values()):
            stop()

    def _leave(self, key: object) -> None:
        global _ears
        self._stops.pop(key, None)
        if self._stops:
            return
        _ears = None
        self.end()
        is_part = self._main_task not in (None, asyncio.current_task())
        if self._heard and is_part and not self._is_awaited:
            self.loop.call_soon(self._pass_on, _TURNS)

    def end(self) -> None:
        """Leaves the signals to whoever had them before."""
        for number, handler in self._before.items():
            if handler is not None:
                signal.signal(number, handler)
        self._sleep()

    def _pass_on(self, turns: int) -> None:
        """Unless the main task goes on by itself: then it waited for the workers, and knows that they have ended."""
        main_task = self._main_task
        if main_task is None:
            return
        waits_for = getattr(main_task, "_fut_waiter", None)
        if main_task.done() or waits_for is None or waits_for.done():
            return
        if turns > 0:
            self.loop.call_soon(self._pass_on, turns - 1)
            return
        for number in self._heard:
            signal.raise_signal(number)


def _wake_at_signals(loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
    """Has every signal wake the loop, until the function that it returns is called. Python runs a handler in the main
    thread, and between two of its own steps: a loop that begins to wait just then, or while the kernel shows the signal
    to another thread, would hear of it only when something else happens."""
    before = signal.set_wakeup_fd(-1)
    if before != -1:
        # The loop is woken already: of Windows, or because the application has it listen for signals.
        signal.set_wakeup_fd(before)
        return lambda: None
    reading, writing = socket.socketpair()
    reading.setblocking(False)
    writing.setblocking(False)
    # What is written is of no interest, and if it does not fit, the loop has enough to wake up for.
    loop.add_reader(reading, reading.recv, 4096)
    signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)

    def sleep() -> None:
        current = signal.set_wakeup_fd(-1)
        if current not in (-1, writing.fileno()):
            signal.set_wakeup_fd(current)
        if not loop.is_closed():
            loop.remove_reader(reading)
        reading.close()
        writing.close()

    return sleep


_ears: _Ears | None = None


def listen(stop: Callable[[], None]) -> Callable[[], None] | None:
    """Stops a worker at a signal, where signals can be had: in the main thread. The function that it returns ends
    that."""
    global _ears
    if threading.current_thread() is not threading.main_thread():
        return None
    if _ears is None or _ears.loop is not asyncio.get_running_loop():
        if _ears is not None:
            # Its loop was given up with workers in it.
            _ears.end()
        _ears = _Ears()
    return _ears.join(stop)


def _main_task(handler: Any) -> asyncio.Task[Any] | None:
    """The task that `asyncio.run` cancels at SIGINT, if it is what listens."""
    task = getattr(handler, "keywords", {}).get("main_task")
    return task if isinstance(task, asyncio.Task) else None


def _listener(handler: Any) -> Callable[[int, Any], Any] | None:
    """The application's own. Neither Python's nor that of `asyncio.run`: both would end the worker before it has drained."""
    if not callable(handler) or handler is signal.default_int_handler or _main_task(handler) is not None:
        return None
    return handler  # type: ignore[no-any-return]
