"""The client for code that runs in threads."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Unpack

import httpx2

from . import _api, errors
from ._begins import Begins
from ._calls import PATIENCE_S, Call, Repeats, answer_of, failure
from ._current import current, within
from ._effects import Anchor
from ._guards import Effects
from ._lines import lines_to
from ._outage import Outage
from ._renewals import Renewals
from ._seconds import Seconds, in_seconds
from ._servers import server_url
from ._wire import OWNER_BYTES_MAX, MessageOptions, Produced, clipped


def own_name() -> str:
    """The name of this client, for people who look: host and process."""
    return clipped(f"{socket.gethostname()}-{os.getpid()}", OWNER_BYTES_MAX)


class Run(Effects):
    """A run that was named: guarded functions that are called within it belong to it."""

    def __init__(self, client: Client, run_id: str, step_id: str | None, tenant_id: str | None) -> None:
        self._client = client
        self.run_id = run_id
        self.step_id = step_id
        self.tenant_id = tenant_id

    def _effect_client(self) -> Client:
        return self._client

    def _effect_anchor(self) -> Anchor:
        return Anchor(self._client.owner, self.tenant_id, self.run_id, self.step_id)


class Client(Effects):
    """Calls to a DriftQ server. Safe to use from many threads; every call may be repeated, and is if that helps.

    `url`: where the server is; else `DRIFTQ_SERVER`, else `http://127.0.0.1:8080`. Of a cluster it may name up to 16
    servers, with commas in between: the client finds the one that serves, and goes on with another when that one is
    gone. `patience`: how many seconds a call is repeated that may succeed later. `key`: what is shown to a server that
    asks for one; else `DRIFTQ_KEY`. `ca_file`: a file with authorities, in PEM, to trust besides those of the system.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        patience: Seconds = PATIENCE_S,
        owner: str | None = None,
        key: str | None = None,
        ca_file: str | os.PathLike[str] | None = None,
    ) -> None:
        self.url = server_url(url)
        self.patience = in_seconds(patience, "patience", may_be_endless=True)
        self.owner = owner or own_name()
        # As they were given: a worker makes a client of the other kind beside this one.
        self.key, self.ca_file = key, ca_file
        self.outage = Outage(self.url)
        self._lines = lines_to(self.url, key, ca_file)
        self.renewals = Renewals(self.call)
        self.begins = Begins(self.call)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.renewals.close()
        self._lines.close()

    def call(self, call: Call) -> Any:
        """Sends a call, and sends it again as long as that may help and patience lasts."""
        repeats: Repeats | None = None
        while True:
            started = time.monotonic()
            try:
                answer = answer_of(call, self.url, self._lines.send(call))
                if self.outage.is_on:
                    self.outage.ended()
                return answer
            except httpx2.HTTPError as error:
                problem: errors.DriftQError = failure(error, self.url)
                problem.__cause__ = error
            except errors.DriftQError as error:
                problem = error
            if repeats is None:
                patience_s = self.patience if call.patience_s is None else call.patience_s
                repeats = Repeats(patience_s, started, self.outage)
            time.sleep(repeats.next(problem))

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Any call of the API that has no method of its own here, such as `request("GET", "/v2/runs")`."""
        return self.call(Call(method, path, body))

    def status(self) -> dict[str, Any]:
        """What the server says about itself."""
        return dict(self.call(Call("GET", "/v2/status", expects=("version", "epoch"))))

    def create_topic(self, topic: str, **settings: Any) -> dict[str, Any]:
        """Creates a topic, or confirms that it exists with exactly these settings."""
        return dict(self.call(_api.create_topic(topic, settings)))

    def delete_topic(self, topic: str) -> None:
        """Deletes a topic with everything in it."""
        self.call(_api.delete_topic(topic))

    def group(self, topic: str, group: str) -> dict[str, Any]:
        """How far a group has got."""
        return dict(self.call(_api.group(topic, group)))

    def cancel(self, topic: str, partition: int, offset: int) -> None:
        """No further attempt of this message begins; a worker that is handling it is told."""
        self.call(_api.cancel(topic, partition, offset))

    def credential(self, token: str, audience: str, *, ttl: Seconds | None = None) -> str:
        """A JSON Web Token for the service `audience`, about the delivery that `token` is the lease of. It ends with the
        lease at the latest."""
        return str((self.call(_api.credential(token, audience, ttl)))["credential"])

    def introspect(self, credential: str) -> dict[str, Any]:
        """Whether a credential is still good (`active`), and what it says if so."""
        return dict(self.call(_api.introspect(credential)))

    def send(self, topic: str, payload: Any, **options: Unpack[MessageOptions]) -> Produced:
        """Stores one message; it is on disk when this returns. For many, use a `Producer`."""
        return Produced.read(self.call(_api.send(topic, payload, options)))

    def send_many(
        self, topic: str, payloads: Iterable[Any], **options: Unpack[MessageOptions]
    ) -> list[Produced | errors.Refused]:
        """Stores up to 10,000 messages with one call; each has its own result."""
        return _api.produced(self.call(_api.send_many(topic, payloads, options)))

    def messages(self, topic: str, **filters: Any) -> Iterator[dict[str, Any]]:
        """The messages that are kept, without a group."""
        return self._pages(lambda cursor: _api.messages(topic, cursor, filters), "messages")

    def dead_letters(self, topic: str) -> Iterator[dict[str, Any]]:
        """The dead letters of a topic."""
        return self._pages(lambda cursor: _api.dead_letters(topic, cursor), "letters")

    def effects(
        self, *, scope: str | None = None, state: str | None = None, tenant_id: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """What the ledger remembers, oldest first."""
        return self._pages(lambda cursor: _api.effects(scope, state, tenant_id, cursor), "effects")

    def _pages(self, call: Any, member: str) -> Iterator[dict[str, Any]]:
        cursor: str | None = None
        while True:
            page = self.call(call(cursor))
            yield from page[member]
            cursor = page.get("cursor")
            if cursor is None:
                return

    def run(
        self, run_id: str, *, step: str | None = None, tenant_id: str | None = None
    ) -> AbstractContextManager[Run]:
        """`with client.run("run-7", step="plan"):` names the run that guarded functions belong to."""
        return within(Run(self, run_id, step, tenant_id))

    def _effect_client(self) -> Client:
        return self

    def _effect_anchor(self) -> Anchor:
        run = current()
        if isinstance(run, Run):
            return run._effect_anchor()
        return Anchor(self.owner)
