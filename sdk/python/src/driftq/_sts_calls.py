"""Asks STS, by threads and by tasks. One try: what may pass is told by the error, and the message's own retries follow."""

from __future__ import annotations

import asyncio
import time

import httpx2

from . import errors
from ._calls import CONNECT_TIMEOUT_S, failure
from ._sts import ANSWER_BYTES_MAX, TIMEOUT_S, AwsCredentials, Role, read_answer, too_large

# Not compressed: what is bounded is what comes.
_HEADERS = {"content-type": "application/x-www-form-urlencoded", "accept-encoding": "identity"}
_TIMEOUT = httpx2.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
_LATE = f"nothing within {TIMEOUT_S:g} s"


class _Body:
    """As much of an answer as is read."""

    def __init__(self, role: Role, status: int) -> None:
        self._role = role
        self._status = status
        self._bytes = bytearray()

    def add(self, part: bytes) -> None:
        self._bytes += part
        if len(self._bytes) > ANSWER_BYTES_MAX:
            raise too_large(self._role.url, self._status)

    def read(self, credential: str) -> AwsCredentials:
        return read_answer(self._role.url, self._status, bytes(self._bytes), credential)


def assume(role: Role, credential: str) -> AwsCredentials:
    until = time.monotonic() + TIMEOUT_S
    form = role.form(credential)
    try:
        with (
            httpx2.Client(timeout=_TIMEOUT) as http,
            http.stream("POST", role.url, content=form, headers=_HEADERS) as answer,
        ):
            body = _Body(role, answer.status_code)
            for part in answer.iter_raw():
                body.add(part)
                if time.monotonic() > until:
                    raise httpx2.ReadTimeout(_LATE)
    except httpx2.HTTPError as error:
        problem = _unanswered(role, error)
    else:
        return body.read(credential)
    # Not from within: the error of the transport holds the request, and the request holds the credential.
    raise problem


async def assume_async(role: Role, credential: str) -> AwsCredentials:
    form = role.form(credential)
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            httpx2.AsyncClient(timeout=_TIMEOUT) as http,
            http.stream("POST", role.url, content=form, headers=_HEADERS) as answer,
        ):
            body = _Body(role, answer.status_code)
            async for part in answer.aiter_raw():
                body.add(part)
    except (httpx2.HTTPError, TimeoutError) as error:
        problem = _unanswered(role, error)
    else:
        return body.read(credential)
    raise problem


def _unanswered(role: Role, error: httpx2.HTTPError | TimeoutError) -> errors.StsUnanswered:
    known = None if isinstance(error, TimeoutError) else failure(error, role.url)
    why = str(error) or (_LATE if known is None else type(error).__name__)
    if isinstance(known, errors.Untrusted):
        return errors.StsUnanswered(f"the certificate of {role.url} is not trusted ({why}); nothing was sent")
    return errors.StsUnanswered(f"no answer of STS at {role.url} ({why}); it is safe to ask again", passing=True)
