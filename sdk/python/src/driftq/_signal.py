"""How a handler learns that it is to stop."""

from __future__ import annotations

import threading

from .errors import Interruption


class Signal:
    """Fires once, with a reason. Handlers in threads look at it; tasks are cancelled as well."""

    __slots__ = ("_event", "_reason")
    _lock = threading.Lock()

    def __init__(self) -> None:
        # Most handlers never wait for it: the event is made by the first one that does.
        self._event: threading.Event | None = None
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
        """Waits until it fires, or for `timeout` seconds; returns whether it has fired. Use it instead of
        `time.sleep`."""
        with self._lock:
            if self._reason is not None:
                return True
            if self._event is None:
                self._event = threading.Event()
            event = self._event
        return event.wait(timeout)

    def check(self) -> None:
        """Raises the reason if it has fired."""
        if self._reason is not None:
            raise self._reason

    def fire(self, reason: Interruption) -> None:
        with self._lock:
            if self._reason is None:
                self._reason = reason
                if self._event is not None:
                    self._event.set()
