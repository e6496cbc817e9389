"""What a handler gets beside the payload."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from . import errors
from ._commits import Commits, Entry, commit_call
from ._current import within
from ._effects import Anchor
from ._endings import Ending, Name
from ._guards import AsyncEffects, Effects
from ._json import expected, quoted, text, written
from ._lineage import Trace, follow_up, plain_follow_up
from ._payloads import raw_payload
from ._seconds import Seconds
from ._signal import Signal
from ._sts import CREDENTIAL_TTL_S, AwsCredentials, AwsOptions, Role, role_of
from ._sts_calls import assume, assume_async
from ._wire import NOT_JSON, MessageOptions, read_moment, wire_message
from .canonical import to_json
from .outcomes import Outcome

if TYPE_CHECKING:
    from .async_client import AsyncClient
    from .client import Client

# How many the server takes per commit.
COLLECTED_MAX = 1_000
_NO_ENVELOPE: Mapping[str, Any] = {}


class Delivery:
    """One delivery of a message: what it is, where it belongs, and what is to go out with its ack."""

    # A handler may have effects in several threads at once. One lock for all: it is held for a moment only.
    _effects_lock = threading.Lock()
    # What most deliveries never have is not stored for each of them.
    payload: Any = None
    # In a batch: how this message ended, if not like the others.
    outcome: Outcome | errors.DriftQError | None = None
    # Whether this delivery has been committed by the handler itself, or is just about to be.
    _is_committing = False
    _is_committed = False
    # How many effects are being carried out; and what is to be done when there are none any more.
    _effects_running = 0
    _after_effects: Callable[[], None] | None = None
    _trace: Trace | None = None
    # What was collected, written at once: a mistake in it is the handler's, and must be found while the handler can
    # still be told.
    _produce: list[bytes] | None = None
    _outputs: list[bytes] | None = None
    _reads: list[bytes] | None = None
    _expect: dict[str, int] | None = None
    # How effects ended that the server has not heard of yet: the commit tells it.
    _endings: list[Ending] | None = None
    # When the lease is over, by this machine's monotonic clock.
    _ends_at = 0.0

    def __init__(self, item: dict[str, Any], group: str, owner: str, desk: Commits | None = None) -> None:
        self._item = item
        self._desk = desk
        self._envelope: Mapping[str, Any] = item.get("envelope") or _NO_ENVELOPE
        self._owner = owner
        self.group = group
        self.cancelled = Signal()

    @property
    def topic(self) -> str:
        return str(self._item["topic"])

    @property
    def partition(self) -> int:
        return int(self._item["partition"])

    @property
    def offset(self) -> int:
        return int(self._item["offset"])

    @property
    def key(self) -> str | None:
        return self._item.get("key")

    @property
    def attempt(self) -> int:
        """1-based count of deliveries to this group."""
        return int(self._item["lease"]["attempt"])

    @property
    def last_error(self) -> str | None:
        """Why the attempt before failed."""
        return self._item.get("last_error")

    @property
    def run_id(self) -> str | None:
        return self._envelope.get("run_id")

    @property
    def step_id(self) -> str | None:
        return self._envelope.get("step_id")

    @property
    def parent_step_id(self) -> str | None:
        return self._envelope.get("parent_step_id")

    @property
    def tenant_id(self) -> str | None:
        return self._envelope.get("tenant_id")

    @property
    def labels(self) -> Mapping[str, str]:
        return self._envelope.get("labels") or {}

    @property
    def idempotency_key(self) -> str | None:
        return self._envelope.get("idempotency_key")

    @property
    def deadline(self) -> datetime | None:
        text = self._envelope.get("deadline")
        return read_moment(text) if text else None

    @property
    def trace(self) -> Trace:
        if self._trace is None:
            self._trace = Trace.of(self.labels)
        return self._trace

    @property
    def message(self) -> Mapping[str, Any]:
        """The message as the server sent it."""
        return self._item

    @property
    def _token(self) -> str:
        return str(self._item["lease"]["token"])

    @property
    def raw(self) -> bytes:
        """The payload as bytes."""
        return raw_payload(self._item)

    def within(self) -> AbstractContextManager[Self]:
        """`with item.within():` names the message of a batch that guarded functions belong to."""
        return within(self)

    def check(self) -> None:
        """Raises `LeaseLost`, `Cancelled`, `DeadlinePassed` or `TimedOut` if the handler is to stop."""
        self.cancelled.check()

    def send(self, topic: str, payload: Any, **options: Unpack[MessageOptions]) -> None:
        """Collects a follow-up; it is stored in one commit with the ack. It carries run, tenant, step and trace of
        this message unless it is given its own."""
        self._check_open()
        if not options and not isinstance(payload, NOT_JSON):
            message = plain_follow_up(self._envelope, self.trace, topic, to_json(payload))
        else:
            message = text(wire_message(payload, follow_up(self._envelope, self.trace, topic, options)))
        self._produce = _added(self._produce, f'{{"topic":{quoted(topic)},"message":{message}}}'.encode())

    def output(
        self,
        *,
        dataset: str,
        version: str,
        partition_key: str,
        mode: Literal["replace", "append"],
        location: str,
        digest: str,
        dedupe_key: str | None = None,
    ) -> None:
        """Collects a pointer to a result that lies elsewhere; it is registered in one commit with the ack."""
        self._check_open()
        output = {
            "dataset": dataset,
            "version": version,
            "partition_key": partition_key,
            "mode": mode,
            "location": location,
            "digest": digest,
        }
        named = output if dedupe_key is None else {**output, "dedupe_key": dedupe_key}
        self._outputs = _added(self._outputs, written(named))

    def read_version(self, *, dataset: str, version: str) -> None:
        """Notes, in one commit with the ack, which version of a dataset this work has read: the run shows it."""
        self._check_open()
        self._reads = _added(self._reads, written({"dataset": dataset, "version": version}))

    def expect(self, entity: str, version: int) -> None:
        """The commit of this message is done only if the entity, of the message's tenant, has this version; it is raised by
        one together with the ack. Otherwise nothing of the commit happens, and it is `PreconditionFailed`."""
        self._check_open()
        known = {} if self._expect is None else self._expect
        if entity in known:
            raise ValueError(f"a version of {entity!r} is expected already")
        self._expect = {**known, entity: version}

    def _check_open(self) -> None:
        if self._is_committed:
            raise RuntimeError("this message has been committed: what is collected now would never go out")

    def _has_more_than_an_ack(self) -> bool:
        return bool(self._produce or self._outputs or self._reads or self._expect or self._endings)

    def _commit_body(self) -> bytes:
        parts = [b'{"ack":[', quoted(self._item["lease"]["token"]).encode(), b"]"]
        if self._endings and (unheard := [ending.written() for ending in self._endings if not ending.is_heard]):
            parts += (b',"effects":[', b",".join(unheard), b"]")
        if self._produce:
            parts += (b',"produce":[', b",".join(self._produce), b"]")
        if self._outputs or self._reads or self._expect:
            self._add_named(parts)
        parts.append(b"}")
        return b"".join(parts)

    def _add_named(self, parts: list[bytes]) -> None:
        if self._outputs:
            parts += (b',"outputs":[', b",".join(self._outputs), b"]")
        if self._reads:
            parts += (b',"reads":[', b",".join(self._reads), b"]")
        if self._expect:
            parts += (b',"expect":', expected(self._expect).encode())
        # Whose entities and datasets these are; for anything else it does not matter.
        if tenant_id := self.tenant_id:
            parts += (b',"tenant_id":', quoted(tenant_id).encode())

    def _begin_commit(self) -> Entry:
        """The commit that the handler itself asks for."""
        if self._is_committed:
            raise RuntimeError("this message has been committed already")
        self.check()
        self._is_committing = True
        endings = self._unheard()
        for ending in endings:
            ending.is_riding = True
        return Entry(self._commit_body, endings, self._end_commit)

    def _end_commit(self, error: Exception | None) -> None:
        self._is_committing = False
        if error is None:
            self._is_committed = True
            return
        self._expect_endings()
        if is_stale(error):
            lost = errors.LeaseLost("somebody else has the message: nothing of the commit happened")
            lost.lease_token = self._item["lease"]["token"]
            raise lost from error
        raise error

    # How its effects ended, see `Endings`.

    def _take_ending(self, ending: Ending) -> bool:
        """Only while the commit can come, and the message is this worker's as far as is known here: if the commit is
        refused, the server hears of it later than need be."""
        desk = self._desk
        if desk is None or self._is_committing or self._is_committed or self.cancelled:
            return False
        if self._ends_at <= time.monotonic():
            return False
        if self._endings is None:
            self._endings = [ending]
        else:
            self._endings.append(ending)
        desk.expect(self, ending)
        return True

    def _unheard_ending(self, name: Name) -> Ending | None:
        if self._endings is None:
            return None
        return next((ending for ending in self._unheard() if ending.name == name), None)

    def _unheard(self) -> list[Ending]:
        if self._endings is None:
            return []
        return [ending for ending in self._endings if not ending.is_heard]

    def _expect_endings(self) -> None:
        """Puts the endings back that were to go with a commit that failed."""
        for ending in self._unheard():
            ending.is_riding = False
            if self._desk is not None:
                self._desk.expect(self, ending)

    def _forget_endings(self) -> None:
        self._endings = None

    def _aws_role(self, role_arn: str, options: AwsOptions) -> Role:
        return role_of(role_arn, (self.topic, self.partition, self.offset, self.attempt), options)

    def _anchor(self) -> Anchor:
        # Which run it belongs to is known by the lease.
        item = self._item
        tenant_id = self._envelope.get("tenant_id")
        return Anchor(self._owner, tenant_id, None, None, item, item["lease"]["token"], self.cancelled, self)

    def _effect_begins(self) -> None:
        with self._effects_lock:
            self._effects_running += 1

    def _effect_ended(self) -> None:
        with self._effects_lock:
            self._effects_running -= 1
        if not self._effects_running and self._after_effects is not None:
            self._after_effects()


def is_stale(error: BaseException) -> bool:
    """Whether a refusal means that the delivery is not this worker's any more."""
    return isinstance(error, (errors.StaleLease, errors.LeaseUnknown))


def _added(collected: list[bytes] | None, item: bytes) -> list[bytes]:
    collected = [] if collected is None else collected
    if len(collected) >= COLLECTED_MAX:
        raise ValueError(f"a commit has room for {COLLECTED_MAX} of them")
    collected.append(item)
    return collected


class Context(Delivery, Effects):
    """The context of a handler that runs in a thread. `cancelled` is its signal: look at it in long work, or call
    `check()`."""

    def __init__(
        self, item: dict[str, Any], group: str, owner: str, client: Client, desk: Commits | None = None
    ) -> None:
        super().__init__(item, group, owner, desk)
        self._client = client

    def credential(self, audience: str, *, ttl: Seconds | None = None) -> str:
        """A JSON Web Token for the service `audience`, about this attempt. It ends with the lease at the latest, and is
        dead as soon as another attempt begins."""
        return self._client.credential(self._token, audience, ttl=ttl)

    def aws_credentials(self, role_arn: str, **options: Unpack[AwsOptions]) -> AwsCredentials:
        """Credentials of AWS for a role that trusts the server as its identity provider. They are good until their own
        `expiration`, for 15 minutes at least, also if the lease ends before. Raises `StsRefused` and `StsUnanswered`."""
        role = self._aws_role(role_arn, options)
        return assume(role, self.credential(role.audience, ttl=CREDENTIAL_TTL_S))

    def commit(self) -> None:
        """Acks now, with everything that was collected, all or nothing. What the handler does then settles nothing."""
        entry = self._begin_commit()
        error: errors.DriftQError | None = None
        try:
            self._client.call(commit_call(entry.write()))
        except errors.DriftQError as raised:
            error = raised
        if isinstance(error, errors.Refused) and entry.leaves_out(error):
            self._is_committing = False
            self.commit()
            return
        entry.end(error)

    def _effect_client(self) -> Client:
        return self._client

    def _effect_anchor(self) -> Anchor:
        return self._anchor()


class AsyncContext(Delivery, AsyncEffects):
    """The context of a handler that runs as a task. When it is to stop, the task is cancelled; `cancelled.reason` says
    why."""

    def __init__(
        self, item: dict[str, Any], group: str, owner: str, client: AsyncClient, desk: Commits | None = None
    ) -> None:
        super().__init__(item, group, owner, desk)
        self._client = client

    async def credential(self, audience: str, *, ttl: Seconds | None = None) -> str:
        """A JSON Web Token for the service `audience`, about this attempt. It ends with the lease at the latest, and is
        dead as soon as another attempt begins."""
        return await self._client.credential(self._token, audience, ttl=ttl)

    async def aws_credentials(self, role_arn: str, **options: Unpack[AwsOptions]) -> AwsCredentials:
        """Credentials of AWS for a role that trusts the server as its identity provider. They are good until their own
        `expiration`, for 15 minutes at least, also if the lease ends before. Raises `StsRefused` and `StsUnanswered`."""
        role = self._aws_role(role_arn, options)
        return await assume_async(role, await self.credential(role.audience, ttl=CREDENTIAL_TTL_S))

    async def commit(self) -> None:
        """Acks now, with everything that was collected, all or nothing. What the handler does then settles nothing."""
        entry = self._begin_commit()
        error: errors.DriftQError | None = None
        try:
            await self._client.call(commit_call(entry.write()))
        except errors.DriftQError as raised:
            error = raised
        except BaseException:
            self._is_committing = False
            self._expect_endings()
            raise
        if isinstance(error, errors.Refused) and entry.leaves_out(error):
            self._is_committing = False
            await self.commit()
            return
        entry.end(error)

    # All in one thread.

    def _effect_begins(self) -> None:
        self._effects_running += 1

    def _effect_ended(self) -> None:
        self._effects_running -= 1
        if not self._effects_running and self._after_effects is not None:
            self._after_effects()

    def _effect_client(self) -> AsyncClient:
        return self._client

    def _effect_anchor(self) -> Anchor:
        return self._anchor()
