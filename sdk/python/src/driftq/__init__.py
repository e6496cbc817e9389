"""DriftQ for Python: a durable message broker that makes side effects safe to retry."""

from . import errors
from ._current import CurrentEffect, current_effect
from ._findings import NOT_DONE, UNKNOWN, Failed, Succeeded
from ._lineage import Trace
from ._payloads import BadPayload
from ._signal import Signal
from ._sts import AwsCredentials
from ._wire import Produced, raw
from .async_client import AsyncClient
from .canonical import canonical, digest
from .client import Client
from .context import AsyncContext, Context
from .errors import (
    Cancelled,
    ConnectionLost,
    DeadlinePassed,
    DriftQError,
    EffectBusy,
    EffectError,
    EffectExhausted,
    EffectFailed,
    EffectUncertain,
    HandlersStuck,
    Interruption,
    InvalidUrl,
    KeyReused,
    LeaseLost,
    NoContext,
    NotDriftQ,
    Overloaded,
    PreconditionFailed,
    Refused,
    ResultNotKept,
    StaleLease,
    StsError,
    StsRefused,
    StsUnanswered,
    TimedOut,
    TopicUnknown,
    Unreachable,
    Untrusted,
)
from .guarded import guarded
from .outcomes import Dead, Final, NotDone, NotSent, Retry, Snooze
from .producer import AsyncProducer, Producer
from .worker import AsyncWorker, Worker

__version__ = "0.1.0"

__all__ = [
    "NOT_DONE",
    "UNKNOWN",
    "AsyncClient",
    "AsyncContext",
    "AsyncProducer",
    "AsyncWorker",
    "AwsCredentials",
    "BadPayload",
    "Cancelled",
    "Client",
    "ConnectionLost",
    "Context",
    "CurrentEffect",
    "Dead",
    "DeadlinePassed",
    "DriftQError",
    "EffectBusy",
    "EffectError",
    "EffectExhausted",
    "EffectFailed",
    "EffectUncertain",
    "Failed",
    "Final",
    "HandlersStuck",
    "Interruption",
    "InvalidUrl",
    "KeyReused",
    "LeaseLost",
    "NoContext",
    "NotDone",
    "NotDriftQ",
    "NotSent",
    "Overloaded",
    "Produced",
    "PreconditionFailed",
    "Producer",
    "Refused",
    "ResultNotKept",
    "Retry",
    "Signal",
    "Snooze",
    "StaleLease",
    "StsError",
    "StsRefused",
    "StsUnanswered",
    "Succeeded",
    "TimedOut",
    "TopicUnknown",
    "Trace",
    "Unreachable",
    "Untrusted",
    "Worker",
    "canonical",
    "current_effect",
    "digest",
    "errors",
    "guarded",
    "raw",
]
