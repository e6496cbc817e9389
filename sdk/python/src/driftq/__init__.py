"""DriftQ for Python: a durable message broker that makes side effects safe to retry."""

from ._effects import NOT_DONE, UNKNOWN, Failed, Succeeded
from ._lineage import Trace
from ._payloads import BadPayload
from ._signal import Signal
from ._wire import Produced
from .async_client import AsyncClient
from .canonical import canonical, digest
from .client import Client
from .context import AsyncContext, Context
from .errors import *  # noqa: F403
from .errors import DriftQError, Refused
from .guarded import guarded
from .outcomes import Dead, Final, NotDone, Retry, Snooze
from .producer import AsyncProducer, Producer
from .worker import AsyncWorker, Worker

__version__ = "0.1.0"
