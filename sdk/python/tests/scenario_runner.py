"""Runs a scenario of tests/scenarios with handlers in threads and as tasks, and checks what it expects."""

from __future__ import annotations

import asyncio
import inspect
import json
import pathlib
import time
from collections import Counter
from typing import Any

import driftq
from driftq.testing import Server, run_until_idle, run_until_idle_async
from front import Front

SIGNAL_TIMEOUT_S = 30.0
LAPSE_TIMEOUT_S = 30.0


class Surprise(Exception):
    """Something that the scenario does not expect; the message is nacked, and the test fails."""


class Scenario:
    """One run of one file."""

    def __init__(self, document: dict[str, Any], server: Server, certificates: pathlib.Path | None = None) -> None:
        self.document = document
        # What the runner asks and checks goes to the server itself; the worker may have a front before it.
        self.client = server.client()
        self.front = Front(server.url, document["front"], certificates) if "front" in document else None
        self.url = self.front.url if self.front is not None else server.url
        self.attempts: list[int] = []
        self.executions: Counter[str] = Counter()
        self.reconciled: Counter[str] = Counter()
        self.surprises: list[str] = []
        self.lease_ms = int(document["worker"]["lease_ms"])
        # For effects of no message.
        self.outside: Any = None

    def prepare(self) -> None:
        for topic, settings in self.document["topics"].items():
            self.client.create_topic(topic, **settings)
        for entry in self.document["produce"]:
            self.client.request("POST", f"/v2/topics/{entry['topic']}/messages", entry["message"])

    def run(self) -> None:
        spec = self.document["worker"]
        with driftq.Client(self.url) as client:
            self.outside = client
            worker = driftq.Worker(client, spec["group"], **self._options(spec))
            register = worker.handler(spec["topic"], payload=self._payload, timeout=_seconds(spec.get("timeout_ms")))
            register(self._handle)
            run_until_idle(worker)

    def run_async(self) -> None:
        async def main() -> None:
            spec = self.document["worker"]
            async with driftq.AsyncClient(self.url) as client:
                self.outside = client
                worker = driftq.AsyncWorker(client, spec["group"], **self._options(spec))
                register = worker.handler(
                    spec["topic"], payload=self._payload, timeout=_seconds(spec.get("timeout_ms"))
                )
                register(self._handle_async)
                await run_until_idle_async(worker)

        asyncio.run(main())

    def _options(self, spec: dict[str, Any]) -> Any:
        return {
            "lease_ms": self.lease_ms,
            "heartbeat": spec.get("heartbeat", True),
            "concurrency": spec.get("concurrency", 1),
        }

    def _payload(self, value: Any) -> Any:
        for name in self.document["worker"].get("required", []):
            if name not in value:
                raise ValueError(f"{name} is missing")
        return value

    def _actions(self, ctx: Any) -> list[dict[str, Any]]:
        self.attempts.append(ctx.attempt)
        handler = self.document["handler"]
        # With `second_call` the attempt stays the same, and only the first call has a list.
        number = len(self.attempts) if "second_call" in self.document["needs"] else ctx.attempt
        actions: list[dict[str, Any]] = handler.get(str(number), handler.get("*", []))
        return actions

    def _handle(self, _: Any, ctx: driftq.Context) -> None:
        for action in self._actions(ctx):
            try:
                steps = self._act(action, ctx)
                try:
                    value: Any = next(steps)
                    while True:
                        value = steps.send(value)
                except StopIteration:
                    pass
            except Surprise as surprise:
                self.surprises.append(str(surprise))
                raise

    async def _handle_async(self, _: Any, ctx: driftq.AsyncContext) -> None:
        for action in self._actions(ctx):
            try:
                await self._act_async(action, ctx)
            except Surprise as surprise:
                self.surprises.append(str(surprise))
                raise

    def _act(self, action: dict[str, Any], ctx: Any) -> Any:
        """A generator, so that the rare step that waits can be taken by either kind of handler: it yields what to
        await, or in threads what came of the call."""
        name, spec = next(iter(action.items()))
        if name == "effect":
            yield from self._effect(spec, ctx)
        elif name == "commit":
            yield from self._commit(spec, ctx)
        elif name == "retry":
            raise driftq.Retry(spec["after_ms"] / 1000, spec["reason"])
        elif name == "dead":
            raise driftq.Dead(spec)
        elif name == "snooze":
            raise driftq.Snooze(spec["for_ms"] / 1000)
        elif name == "raise":
            raise RuntimeError(spec)
        elif name == "send":
            ctx.send(spec["topic"], spec["payload"], step_id=spec.get("step_id"))
        elif name == "output":
            ctx.output(**spec)
        elif name == "cancel_message":
            self.client.cancel(ctx.topic, ctx.partition, ctx.offset)
        elif name == "leave":
            self._leave(spec)
        elif name == "outlive":
            time.sleep(self._leases_s(spec))
        elif name == "await_signal":
            if not ctx.cancelled.wait(SIGNAL_TIMEOUT_S):
                raise Surprise("the signal did not fire")
            self._check_reason(spec, ctx)
        else:
            raise Surprise(f"unknown action {name}")

    async def _act_async(self, action: dict[str, Any], ctx: driftq.AsyncContext) -> None:
        name, spec = next(iter(action.items()))
        if name == "outlive":
            await asyncio.sleep(self._leases_s(spec))
        elif name == "leave":
            await asyncio.to_thread(self._leave, spec)
        elif name == "cancel_message":
            await asyncio.to_thread(self.client.cancel, ctx.topic, ctx.partition, ctx.offset)
        elif name == "await_signal":
            try:
                await asyncio.sleep(SIGNAL_TIMEOUT_S)
            except asyncio.CancelledError as error:
                if spec["reason"] not in str(error):
                    raise Surprise(f"the task was cancelled with {error}") from None
                self._check_reason(spec, ctx)
                raise
            raise Surprise("the task was not cancelled")
        else:
            await self._drive(self._act(action, ctx))

    async def _drive(self, steps: Any) -> None:
        try:
            value = next(steps)
            while True:
                try:
                    value = await value if inspect.isawaitable(value) else value
                except Exception as error:
                    value = steps.throw(error)
                else:
                    value = steps.send(value)
        except StopIteration:
            return

    def _check_reason(self, spec: dict[str, Any], ctx: Any) -> None:
        if type(ctx.cancelled.reason).__name__ != spec["reason"]:
            raise Surprise(f"the signal fired with {ctx.cancelled.reason!r}")

    def _effect(self, spec: dict[str, Any], ctx: Any) -> Any:
        given = ("key", "on_lapse", "max_attempts", "lease_ms")
        options: dict[str, Any] = {name: spec[name] for name in given if name in spec}
        if "args" in spec:
            options["arguments"] = spec["args"]
        if "wait_ms" in spec:
            options["wait"] = spec["wait_ms"] / 1000
        if "reconcile" in spec:
            options["reconcile"] = lambda record: self._reconciled(spec)
        where = self.outside if spec.get("outside") else ctx
        is_task = isinstance(ctx, driftq.AsyncContext)
        function = self._slow(spec) if is_task and "outlives" in spec else self._function(spec)
        try:
            value = yield where.effect(spec["scope"], function, **options)
        except Exception as error:
            _expect(spec, error)
            if spec.get("caught"):
                return
            raise
        if "raises" in spec:
            raise Surprise(f"no {spec['raises']}, but {value!r}")
        if "value" in spec and value != spec["value"]:
            raise Surprise(f"{value!r} instead of {spec['value']!r}")

    def _commit(self, spec: dict[str, Any], ctx: Any) -> Any:
        try:
            yield ctx.commit()
        except Exception as error:
            _expect(spec, error)
            raise
        if "raises" in spec:
            raise Surprise(f"no {spec['raises']}")

    def _function(self, spec: dict[str, Any]) -> Any:
        def function() -> Any:
            self.executions[spec["scope"]] += 1
            if "outlives" in spec:
                time.sleep(self._leases_s(spec["outlives"]))
            kind = spec.get("fail")
            if kind == "not_done":
                raise driftq.NotDone(spec["error"])
            if kind == "not_sent":
                raise driftq.NotSent(spec["error"])
            if kind == "final":
                raise driftq.Final(spec["error"])
            if kind == "error":
                raise RuntimeError(spec["error"])
            return spec.get("result")

        return function

    def _slow(self, spec: dict[str, Any]) -> Any:
        async def function() -> Any:
            return await asyncio.to_thread(self._function(spec))

        return function

    def _leases_s(self, spec: dict[str, Any]) -> float:
        return float(spec["leases"] * self.lease_ms / 1000)

    def _leave(self, spec: dict[str, Any]) -> None:
        """Somebody else begins the effect, and is not heard of again."""
        name = {"scope": spec["scope"], "key": spec["key"]}
        begun = self.client.request(
            "POST", "/v2/effects/begin", {**name, "lease_ms": spec.get("lease_ms", 1), "reacquire": True}
        )
        if begun["decision"] != "execute":
            raise Surprise(f"somebody else was told {begun}")
        ends_at = time.monotonic() + LAPSE_TIMEOUT_S
        while "lease_ms" not in spec and self.client.request("POST", "/v2/effects/get", name)["state"] != "unknown":
            if time.monotonic() > ends_at:
                raise Surprise("what was left does not become unknown")
            time.sleep(0.005)

    def _reconciled(self, effect: dict[str, Any]) -> Any:
        self.reconciled[effect["scope"]] += 1
        spec = effect["reconcile"]
        if spec == "taken":
            said = {"status": "failed_retryable", "by": "somebody", "why": "a scenario"}
            name = {"scope": effect["scope"], "key": effect["key"]}
            self.client.request("POST", "/v2/effects/resolve", {**name, **said})
            self._leave(effect)
            return driftq.NOT_DONE
        if spec == "not_done":
            return driftq.NOT_DONE
        if spec == "unknown":
            return driftq.UNKNOWN
        return driftq.Succeeded(spec["succeeded"]) if "succeeded" in spec else driftq.Failed(spec["failed"])

    def check(self) -> None:
        expect = self.document["expect"]
        assert self.surprises == []
        assert self.attempts == expect["attempts"]
        assert dict(self.executions) == expect["executions"]
        if "reconciled" in expect:
            assert dict(self.reconciled) == expect["reconciled"]
        for count in expect.get("requests", []):
            assert self.front is not None
            has = count.get("body_has", "").encode()
            found = len([body for body in self.front.posts(count["post"]) if has in body])
            assert count["at_least"] <= found <= count["at_most"], f"{found} calls of {count['post']}"
        for question in expect["server"]:
            assert question.get("status", 200) == 200, "this runner knows only answers with 200"
            answer = self.client.request("GET", question["get"])
            assert matches(question["has"], answer), f"{question['get']}: {json.dumps(answer)}"


def matches(shape: Any, value: Any) -> bool:
    if isinstance(shape, dict):
        if "$any" in shape:
            return True
        if "$starts" in shape:
            return isinstance(value, str) and value.startswith(shape["$starts"])
        return isinstance(value, dict) and all(
            name in value and matches(member, value[name]) for name, member in shape.items()
        )
    if isinstance(shape, list):
        return isinstance(value, list) and len(shape) == len(value) and all(map(matches, shape, value))
    return bool(shape == value)


def _expect(spec: dict[str, Any], error: Exception) -> None:
    name = spec.get("raises")
    if name is None or (name != "Error" and type(error).__name__ != name):
        raise Surprise(f"{error!r} instead of {name}") from error


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
