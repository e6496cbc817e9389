"""What a handler or an effect raises to say how it went."""

from __future__ import annotations

from ._seconds import Seconds, in_seconds


class Outcome(Exception):
    """Raised by a handler on purpose: it is a decision about the message, not a mistake."""


class Retry(Outcome):
    """Try again, after this many seconds (or a timedelta), or when the retry policy says so.

    Raised inside an effect's function it also says that the effect did not happen.
    """

    def __init__(self, after: Seconds | None = None, reason: object = "") -> None:
        self.after = None if after is None else in_seconds(after, "after")
        self.reason = ("" if reason is None else str(reason)) or "to be tried again"
        super().__init__(self.reason)


class Dead(Outcome):
    """Give the message up: it becomes a dead letter with this reason, an error's text included."""

    def __init__(self, reason: object) -> None:
        self.reason = str(reason)
        super().__init__(self.reason)


class Snooze(Outcome):
    """Put the message off for this many seconds (or a timedelta). The attempt does not count."""

    def __init__(self, seconds: Seconds) -> None:
        self.seconds = in_seconds(seconds, "seconds")
        super().__init__(f"put off for {self.seconds:g} s")


class NotDone(Outcome):
    """The effect did not happen, and may be tried again. Any error class can be marked by deriving from this one."""


class NotSent(NotDone):
    """Nothing was sent: the effect's lease is given up, and the next caller carries it out at once. This attempt of the
    effect does not count."""


class Final(Outcome):
    """The effect did not happen, and never will. The caller gets `EffectFailed`."""

    def __init__(self, reason: object) -> None:
        self.reason = str(reason)
        super().__init__(self.reason)
