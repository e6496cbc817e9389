"""How a handler learns that it is to stop."""

from __future__ import annotations

import threading

from .errors import Interruption


class Signal:
    """Fires once, with a reason. Handlers in threads look at it; tasks are cancelled besides."""

    __slots__ = ("_event", "_reason")

    def __init__(self) -> None:
        self._event = threading.Event()
        self._reason: Interruption | None = None

    def __bool__(self) -> bool:
        return self._reason is not None

    @property
    def reason(self) -> Interruption | None:
        """`LeaseLost`, `Cancelled`, `DeadlinePassed` or `TimedOut`, if it has fired."""
        return self._reason

    def is_set(self) -> bool:
        return self._reason is not None

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it fires, or so many seconds; answers whether it has fired. Use it instead of `time.sleep`."""
        return self._event.wait(timeout)

    def check(self) -> None:
        """Raises the reason if it has fired."""
        if self._reason is not None:
            raise self._reason

    def fire(self, reason: Interruption) -> None:
        if self._reason is None:
            self._reason = reason
            self._event.set()
