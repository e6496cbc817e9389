"""A server that goes away is waited for, and the log says so: once when it goes, and once when it is back."""

from __future__ import annotations

import logging

from ._wire import text_of
from .errors import Refused

log = logging.getLogger("driftq")


class Outage:
    def __init__(self, url: str) -> None:
        self._url = url
        self._is_on = False

    def began(self, error: BaseException) -> None:
        if not self._is_on:
            self._is_on = True
            what = "refuses for now" if isinstance(error, Refused) else "is away"
            reason = text_of(error) or "no answer in time"
            log.warning("the server at %s %s, and is waited for: %s", self._url, what, reason)

    def ended(self) -> None:
        if self._is_on:
            self._is_on = False
            log.info("the server at %s is back", self._url)
