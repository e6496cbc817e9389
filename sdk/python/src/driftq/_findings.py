"""What a reconciler answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Succeeded:
    """A reconciler's answer: it happened, and this is its result."""

    value: Any = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A reconciler's answer: it did not happen, and is not to be tried again."""

    reason: str


class Word:
    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


NOT_DONE = Word("driftq.NOT_DONE")
UNKNOWN = Word("driftq.UNKNOWN")
Reconciled = Succeeded | Failed | Word
