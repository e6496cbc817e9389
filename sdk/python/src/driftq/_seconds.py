"""Lengths of time: a number is seconds, a timedelta is what it says."""

from __future__ import annotations

import math
import numbers
from datetime import timedelta

Seconds = float | timedelta


def in_seconds(value: Seconds, name: str, *, may_be_endless: bool = False) -> float:
    """The value in seconds; raises an error that names it if it is not a length of time."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}: it must be a number of seconds, or a timedelta")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if math.isnan(found) or (math.isinf(found) and not may_be_endless):
        raise ValueError(f"{name} is {value!r}: it must be a finite number of seconds")
    return found
