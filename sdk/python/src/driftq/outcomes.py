"""What a handler or an effect raises to say how it went."""

from __future__ import annotations


class Outcome(Exception):
    """Raised by a handler on purpose: it is a decision about the message, not a mistake."""


class Retry(Outcome):
    """Try again, after so many seconds, or when the retry policy says so.

    Raised inside an effect's function it also says that the effect did not happen.
    """

    def __init__(self, after: float | None = None, reason: str = "") -> None:
        super().__init__(reason or "to be tried again")
        self.after = after
        self.reason = reason or "to be tried again"


class Dead(Outcome):
    """Give the message up: it becomes a dead letter with this reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Snooze(Outcome):
    """Put the message off for so many seconds. The attempt does not count."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"put off for {seconds} s")
        self.seconds = seconds


class NotDone(Outcome):
    """The effect did not happen, and may be tried again. Any error class can be marked by deriving from this one."""


class Final(Outcome):
    """The effect did not happen, and never will. The caller gets `EffectFailed`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
