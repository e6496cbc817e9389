"""Every error of this package. What the server refuses has the class of its code."""

from __future__ import annotations

from typing import Any, ClassVar


class DriftQError(Exception):
    """The base of all errors that this package raises."""

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later."""
        return False


class HandlersStuck(DriftQError):
    """Too many handlers do not end although they were told to. The worker has ended: start it in a new process."""


class InvalidUrl(DriftQError, ValueError):
    """The server's URL cannot be used: it must look like `http://host:port`."""


class Unreachable(DriftQError):
    """Nothing listens at that address."""

    @property
    def retryable(self) -> bool:
        return True


class Untrusted(DriftQError):
    """The server that answers there has no certificate that is trusted here. Nothing was sent, and nothing is
    repeated."""


class ConnectionLost(DriftQError):
    """The connection broke, or no answer came in time. Whether the call was carried out is not known."""

    @property
    def retryable(self) -> bool:
        return True


class NotDriftQ(DriftQError):
    """What answers there is no DriftQ server."""

    def __init__(self, text: str, *, passing: bool = False) -> None:
        super().__init__(text)
        self._passing = passing

    @property
    def retryable(self) -> bool:
        """True where a gateway in between may have answered for a server that is away."""
        return self._passing


class Refused(DriftQError):
    """The server said no. Codes that this version does not know are of this class itself."""

    CODE: ClassVar[str] = ""

    def __init__(self, problem: dict[str, Any], status: int = 0, request_id: str | None = None) -> None:
        self.code = str(problem.get("code", ""))
        self.status = int(problem.get("status") or status)
        self.title = str(problem.get("title", ""))
        self.detail = str(problem.get("detail", ""))
        self.help = str(problem.get("help", ""))
        self.retry_after_ms: int | None = problem.get("retry_after_ms")
        self.part: str | None = problem.get("part")
        self.reason: str | None = problem.get("reason")
        self.attempt: int | None = problem.get("attempt")
        self.entity: str | None = problem.get("entity")
        self.version: int | None = problem.get("version")
        self.request_id = request_id or problem.get("instance")
        self._retryable = bool(problem.get("retryable", False))
        text = f"{self.code}: {self.detail}"
        super().__init__(f"{text} ({self.help})" if self.help else text)

    @property
    def retryable(self) -> bool:
        return self._retryable or self.status in (429, 503)


class InvalidArgument(Refused):
    """A value is missing or not allowed."""

    CODE = "INVALID_ARGUMENT"


class InvalidJson(Refused):
    """The body is not the JSON that this call takes."""

    CODE = "INVALID_JSON"


class DeadlineExceeded(Refused):
    """The message's deadline has passed."""

    CODE = "DEADLINE_EXCEEDED"


class ConfirmationRequired(Refused):
    """This call must be confirmed."""

    CODE = "CONFIRMATION_REQUIRED"


class TopicUnknown(Refused):
    """There is no topic of that name."""

    CODE = "TOPIC_UNKNOWN"


class GroupUnknown(Refused):
    """The topic has no group of that name."""

    CODE = "GROUP_UNKNOWN"


class LeaseUnknown(Refused):
    """There is no lease with that token."""

    CODE = "LEASE_UNKNOWN"


class MessageUnknown(Refused):
    """There is no message at that place."""

    CODE = "MESSAGE_UNKNOWN"


class EffectUnknown(Refused):
    """There is no effect with that scope and key."""

    CODE = "EFFECT_UNKNOWN"


class OutputUnknown(Refused):
    """There is no such output."""

    CODE = "OUTPUT_UNKNOWN"


class RunUnknown(Refused):
    """There is no run of that name."""

    CODE = "RUN_UNKNOWN"


class EntityUnknown(Refused):
    """No entity has that name."""

    CODE = "ENTITY_UNKNOWN"


class EndpointUnknown(Refused):
    """There is no such endpoint."""

    CODE = "ENDPOINT_UNKNOWN"


class CommitUnknown(Refused):
    """No commit under that key is remembered."""

    CODE = "COMMIT_UNKNOWN"


class JobUnknown(Refused):
    """There is no job of that name."""

    CODE = "JOB_UNKNOWN"


class Unauthenticated(Refused):
    """The server asks for a key, and was shown none that opens anything: set DRIFTQ_KEY, or give `key`."""

    CODE = "UNAUTHENTICATED"


class Forbidden(Refused):
    """The key does not allow this."""

    CODE = "FORBIDDEN"


class AccessKeyUnknown(Refused):
    """No access key has that id."""

    CODE = "ACCESS_KEY_UNKNOWN"


class ForeignOrigin(Refused):
    """A web page of another origin may not ask this server."""

    CODE = "FOREIGN_ORIGIN"


class ForeignHost(Refused):
    """This server does not go by the name that was asked for."""

    CODE = "FOREIGN_HOST"


class NotFound(Refused):
    """There is nothing at this path."""

    CODE = "NOT_FOUND"


class MethodNotAllowed(Refused):
    """This path does not take this method."""

    CODE = "METHOD_NOT_ALLOWED"


class RequestTimeout(Refused):
    """The body did not arrive in time."""

    CODE = "REQUEST_TIMEOUT"


class NotOwner(Refused):
    """Somebody else holds the message."""

    CODE = "NOT_OWNER"


class NotInFlight(Refused):
    """The message is not on loan to this group."""

    CODE = "NOT_IN_FLIGHT"


class StaleLease(Refused):
    """The lease is no longer valid."""

    CODE = "STALE_LEASE"


class SettingsDiffer(Refused):
    """The topic exists with other settings."""

    CODE = "SETTINGS_DIFFER"


class TenantDiffers(Refused):
    """The topic belongs to another tenant."""

    CODE = "TENANT_DIFFERS"


class KeyInFlight(Refused):
    """An operation with this idempotency key is under way."""

    CODE = "KEY_IN_FLIGHT"


class EffectRunning(Refused):
    """The effect is being carried out."""

    CODE = "EFFECT_RUNNING"


class EffectFinished(Refused):
    """The effect has its final outcome."""

    CODE = "EFFECT_FINISHED"


class AttemptsExhausted(Refused):
    """The effect has used up its attempts."""

    CODE = "ATTEMPTS_EXHAUSTED"


class OutputModeDiffers(Refused):
    """The output was begun in the other mode."""

    CODE = "OUTPUT_MODE_DIFFERS"


class VersionDiffers(Refused):
    """Another version is current."""

    CODE = "VERSION_DIFFERS"


class VersionInUse(Refused):
    """The version is the current one."""

    CODE = "VERSION_IN_USE"


class VersionSealed(Refused):
    """The version is sealed: nothing in it moves any more."""

    CODE = "VERSION_SEALED"


class PreconditionFailed(Refused):
    """An entity has another version than was expected: `entity` says which, `version` the one that it has. Another
    caller changed it before: read again what it stands for, and decide anew."""

    CODE = "PRECONDITION_FAILED"


class LimitReached(Refused):
    """A limit of this broker is reached."""

    CODE = "LIMIT_REACHED"


class BodyTooLarge(Refused):
    """The body is larger than the server takes."""

    CODE = "BODY_TOO_LARGE"


class ResultTooLarge(Refused):
    """The result is larger than the server keeps."""

    CODE = "RESULT_TOO_LARGE"


class UrlTooLong(Refused):
    """The URL is longer than the server takes."""

    CODE = "URL_TOO_LONG"


class KeyReused(Refused):
    """The idempotency key was used for another request."""

    CODE = "KEY_REUSED"


class UnsupportedMediaType(Refused):
    """This call does not take that content type."""

    CODE = "UNSUPPORTED_MEDIA_TYPE"


class QuotaExceeded(Refused):
    """A quota of the key is used up; `reason` names it."""

    CODE = "QUOTA_EXCEEDED"


class Overloaded(Refused):
    """More work is waiting than may wait."""

    CODE = "OVERLOADED"


class DiskFull(Refused):
    """The broker's disk is full."""

    CODE = "DISK_FULL"


class RouterRefused(Refused):
    """The router has no good answer."""

    CODE = "ROUTER_REFUSED"


class Unavailable(Refused):
    """The broker cannot answer now."""

    CODE = "UNAVAILABLE"


class Internal(Refused):
    """The server made a mistake."""

    CODE = "INTERNAL"


BY_CODE: dict[str, type[Refused]] = {kind.CODE: kind for kind in Refused.__subclasses__()}


def refusal(problem: dict[str, Any], status: int = 0, request_id: str | None = None) -> Refused:
    """The error for a problem, of the class of its code."""
    return BY_CODE.get(str(problem.get("code")), Refused)(problem, status, request_id)


class EffectError(DriftQError):
    """An effect that gave no result. `record` is what the ledger said about it."""

    def __init__(
        self, scope: str, key: str, text: str, record: dict[str, Any] | None = None, tenant_id: str | None = None
    ) -> None:
        super().__init__(f"{scope}/{key}: {text}")
        self.scope = scope
        self.key = key
        self.tenant_id = tenant_id
        self.reason = text
        self.record: dict[str, Any] = record or {}


class EffectBusy(EffectError):
    """Another holder is carrying it out."""

    def __init__(
        self, scope: str, key: str, text: str, record: dict[str, Any] | None = None, tenant_id: str | None = None
    ) -> None:
        super().__init__(scope, key, text, record, tenant_id)
        self.retry_after_ms: int | None = self.record.get("retry_after_ms")

    @property
    def retryable(self) -> bool:
        return True


class EffectUncertain(EffectError):
    """It may have happened; its outcome is unknown. Find out, then resolve it; or give a `reconcile` callback."""


class EffectFailed(EffectError):
    """It failed for good, now or in an earlier attempt."""


class EffectExhausted(EffectError):
    """It failed as often as it may."""


class ResultNotKept(EffectError):
    """It happened, and its result is not in the ledger because it was too large or could not be written as JSON."""


class StsError(DriftQError):
    """AWS's STS gave no credentials for a credential of an attempt."""


class StsRefused(StsError):
    """STS said no: `code` and `detail` are STS's own, such as `AccessDenied` or `InvalidIdentityToken`."""

    def __init__(self, code: str, detail: str, status: int, request_id: str | None = None, passing: bool = False) -> None:
        super().__init__(f"STS refused: {code}: {detail}")
        self.code = code
        self.detail = detail
        self.status = status
        # STS's name for the call.
        self.request_id = request_id
        self._passing = passing

    @property
    def retryable(self) -> bool:
        return self._passing


class StsUnanswered(StsError):
    """There is no answer, or none of STS's: nothing listens there, it did not answer in time, or something else did."""

    def __init__(self, text: str, *, passing: bool = False) -> None:
        super().__init__(text)
        self._passing = passing

    @property
    def retryable(self) -> bool:
        return self._passing


class NoContext(DriftQError):
    """A guarded function was called outside of a handler and of a run."""


class Interruption(DriftQError):
    """Why a handler is told to stop. `lease_token` says of which delivery, where that is known."""

    lease_token: str | None = None


class LeaseLost(Interruption):
    """The message is not this worker's any more: another worker has it, or will get it."""


class Cancelled(Interruption):
    """The message was cancelled, or the worker stops."""


class DeadlinePassed(Interruption):
    """The message's deadline has passed: it is of no use any more."""


class TimedOut(Interruption):
    """The handler took longer than its own `timeout`."""
