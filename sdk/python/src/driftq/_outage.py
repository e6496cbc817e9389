"""A server that goes away is waited for, and the log says so: once when it goes, and once when it is back."""

from __future__ import annotations

import logging
import time

from .errors import Refused

log = logging.getLogger("driftq")
FOREVER = float("inf")
# A server that refuses now and then is not logged each time.
REFUSALS_QUIET_S = 10.0


class Outage:
    """Whether the server is away. Shared by all callers that use one client."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.is_on = False
        self._refused_at = -REFUSALS_QUIET_S

    def began(self, error: BaseException, patience_s: float = FOREVER) -> None:
        """A call failed, and is repeated for `patience_s`."""
        if self.is_on:
            return
        now = time.monotonic()
        if isinstance(error, Refused):
            if now < self._refused_at + REFUSALS_QUIET_S:
                return
            self._refused_at = now
        self.is_on = True
        what = "refuses for now" if isinstance(error, Refused) else "is away"
        limit = "" if patience_s == FOREVER else f" ({patience_s:g} s at the most)"
        reason = str(error) or "no answer in time"
        log.warning("the server at %s %s, and is waited for%s: %s", self._url, what, limit, reason)

    def ended(self) -> None:
        if self.is_on:
            self.is_on = False
            log.info("the server at %s is back", self._url)

    def left(self) -> None:
        """The caller has given up waiting: if the next one fails too, that is logged again."""
        self.is_on = False
