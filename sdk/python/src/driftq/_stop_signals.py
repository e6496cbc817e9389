"""SIGTERM and SIGINT stop a worker, and are not taken from the application that it runs in."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from typing import Any

_NUMBERS = (signal.SIGTERM, signal.SIGINT)


def listen(stop: Callable[[], None]) -> Callable[[], None] | None:
    """Stops the worker at a signal, where signals can be had: in the main thread. What it returns ends that.

    - A listener of the application's hears every signal at once, as before; what the second one means is its matter.
    - Without one, the second signal ends the process. That is not left to the event loop, which a handler may block, nor
      to tasks, which may refuse to end.
    - Without one, in a program of `asyncio.run` whose main task waits for more than the worker, the signal is passed on
      when the worker has drained: the program would otherwise go on as if nobody had asked it to end.
    """
    if threading.current_thread() is not threading.main_thread():
        return None
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    main_task = _main_task(before[signal.SIGINT])
    is_part = main_task is not None and main_task is not asyncio.current_task()
    heard: list[int] = []

    def heed(number: int, frame: Any) -> None:
        listener = _listener(before[number])
        if listener is None:
            # The next one of this kind needs no code of ours, which may have no turn any more.
            signal.signal(number, signal.SIG_DFL)
            if heard:
                signal.raise_signal(number)
            heard.append(number)
        loop.call_soon_threadsafe(stop)
        if listener is not None:
            listener(number, frame)

    for number in _NUMBERS:
        signal.signal(number, heed)

    def restore() -> None:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
        if is_part:
            for number in heard:
                signal.raise_signal(number)

    return restore


def _main_task(handler: Any) -> asyncio.Task[Any] | None:
    """The task that `asyncio.run` cancels at SIGINT, if it is what listens."""
    task = getattr(handler, "keywords", {}).get("main_task")
    return task if isinstance(task, asyncio.Task) else None


def _listener(handler: Any) -> Callable[[int, Any], Any] | None:
    """The application's own. Neither Python's nor that of `asyncio.run`: both would end the worker before it has drained."""
    if not callable(handler) or handler is signal.default_int_handler or _main_task(handler) is not None:
        return None
    return handler  # type: ignore[no-any-return]
