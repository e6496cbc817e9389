"""What AWS's STS is asked for a role by a credential of an attempt (`AssumeRoleWithWebIdentity`), and how its answer is
read. Nothing is sent here."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree

from . import errors
from ._seconds import Seconds, in_seconds
from ._wire import clipped, read_moment

AUDIENCE = "sts.amazonaws.com"
VERSION = "2011-06-15"
# STS reads the credential at once: one that leaks on the way is of no use a minute later.
CREDENTIAL_TTL_S = 60.0
TIMEOUT_S = 10.0
# STS's own answers have a few KiB.
ANSWER_BYTES_MAX = 64 * 1024
DETAIL_BYTES_MAX = 1_000
# What STS takes.
DURATION_S_MIN = 900
DURATION_S_MAX = 43_200
SESSION_NAME_MAX = 64
_SESSION_NAME = re.compile(r"[A-Za-z0-9_+=,.@-]{2,64}")
_NOT_IN_SESSION_NAME = re.compile(r"[^A-Za-z0-9_+=,.@-]")
_REGION = re.compile(r"[a-z0-9-]{1,32}")
# STS could not read the issuer's keys, or has too much to do.
_PASSING_CODES = ("IDPCommunicationError", "Throttling", "ThrottlingException", "RequestLimitExceeded")


class AwsOptions(TypedDict, total=False):
    """`audience`: what the identity provider in AWS calls its client; `sts.amazonaws.com` if not given. `session_name`: how
    CloudTrail calls the session; topic, partition, offset and attempt if not given. `duration`: how long the credentials
    are good for, 15 minutes at least; an hour if not given. `region`: else `AWS_REGION` or `AWS_DEFAULT_REGION`.
    `endpoint`: the URL of STS; else `AWS_ENDPOINT_URL_STS`, else that of the region."""

    audience: str
    session_name: str | None
    duration: Seconds | None
    region: str | None
    endpoint: str | None


@dataclass(frozen=True, slots=True)
class AwsCredentials:
    """Credentials of AWS for a role. They end at `expiration` and not with the lease. Neither the secret nor the token is
    shown by `repr`."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(repr=False)
    expiration: datetime


@dataclass(frozen=True, slots=True)
class Role:
    """What is asked for, checked before anything is sent."""

    audience: str
    url: str
    fields: dict[str, str]

    def form(self, credential: str) -> bytes:
        return urlencode({**self.fields, "WebIdentityToken": credential}).encode()


def role_of(role_arn: str, place: tuple[str, int, int, int], options: AwsOptions) -> Role:
    """`place`: topic, partition, offset and attempt."""
    name = options.get("session_name") or session_name(*place)
    if not _SESSION_NAME.fullmatch(name):
        raise ValueError(f"session_name is {name!r}: it must be 2 to 64 of A-Z, a-z, 0-9 and _+=,.@-")
    fields = {"Action": "AssumeRoleWithWebIdentity", "Version": VERSION, "RoleArn": role_arn, "RoleSessionName": name}
    duration = options.get("duration")
    if duration is not None:
        duration_s = round(in_seconds(duration, "duration"))
        if not DURATION_S_MIN <= duration_s <= DURATION_S_MAX:
            raise ValueError(f"duration is {duration_s} s: STS takes {DURATION_S_MIN} to {DURATION_S_MAX} s")
        fields["DurationSeconds"] = str(duration_s)
    return Role(options.get("audience", AUDIENCE), endpoint_of(options.get("region"), options.get("endpoint")), fields)


def session_name(topic: str, partition: int, offset: int, attempt: int) -> str:
    """`driftq-orders-0-17-1`: what a person needs to find the attempt. A long topic is cut."""
    tail = f"-{partition}-{offset}-{attempt}"
    head = _NOT_IN_SESSION_NAME.sub("-", f"driftq-{topic}")
    return head[: SESSION_NAME_MAX - len(tail)] + tail


def endpoint_of(region: str | None, endpoint: str | None) -> str:
    given = endpoint or os.environ.get("AWS_ENDPOINT_URL_STS")
    if given:
        return _checked_url(given)
    named = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not named:
        return "https://sts.amazonaws.com/"
    if not _REGION.fullmatch(named):
        raise ValueError(f"{named!r} is not a region of AWS: it must look like eu-central-1")
    return f"https://sts.{named}.amazonaws.com{'.cn' if named.startswith('cn-') else ''}/"


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    # Not repeated in the error: what is in front of an @, or in a query, may be a secret.
    if not usable or "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("the endpoint of STS cannot be used: it must look like https://sts.eu-central-1.amazonaws.com")
    return parts._replace(path=parts.path or "/").geturl()


def read_answer(url: str, status: int, body: bytes, credential: str) -> AwsCredentials:
    """The credentials; raises what STS refused, and what is no answer of STS's."""
    # STS sends no document type, and what one can declare is of no good here.
    root = None if b"<!DOCTYPE" in body else _parsed(body)
    if root is None:
        raise strange(url, status, "its answer is not XML")
    if status == 200:
        return _read_credentials(url, root)
    refused = root if _name(root) == "Error" else root.find(".//{*}Error")
    code = "" if refused is None else _text(refused, "Code")
    if refused is None or not code:
        raise strange(url, status, "its refusal has no code")
    detail = clipped(_text(refused, "Message").replace(credential, "[credential]"), DETAIL_BYTES_MAX)
    request_id = _text(root, "RequestId") or None
    raise errors.StsRefused(code, detail, status, request_id, is_passing(status) or code in _PASSING_CODES)


def is_passing(status: int) -> bool:
    return status == 429 or status >= 500


def strange(url: str, status: int, why: str) -> errors.StsUnanswered:
    text = f"what answers at {url} does not speak STS: it gave {status}, and {why}; check the endpoint"
    return errors.StsUnanswered(text, passing=is_passing(status))


def too_large(url: str, status: int) -> errors.StsUnanswered:
    return strange(url, status, f"its answer has more than {ANSWER_BYTES_MAX} bytes")


def _read_credentials(url: str, root: ElementTree.Element) -> AwsCredentials:
    found = root.find("{*}AssumeRoleWithWebIdentityResult/{*}Credentials")
    if found is None:
        raise strange(url, 200, "its answer has no credentials")
    parts = [_text(found, name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")]
    try:
        expiration = read_moment(parts[3])
    except ValueError:
        expiration = None
    if not all(parts) or expiration is None or expiration.tzinfo is None:
        raise strange(url, 200, "its credentials are not complete")
    return AwsCredentials(parts[0], parts[1], parts[2], expiration)


def _parsed(body: bytes) -> ElementTree.Element | None:
    try:
        return ElementTree.fromstring(body)
    except (ElementTree.ParseError, ValueError, LookupError):
        return None


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _text(element: ElementTree.Element, name: str) -> str:
    return (element.findtext("{*}" + name) or "").strip()
