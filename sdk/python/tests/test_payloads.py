"""Payload types: models, data classes, TypedDicts, callables; and what happens to a payload that is none of them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, TypedDict

import pytest

import driftq
from driftq._payloads import BadPayload, annotated_type, parse, parser
from driftq.testing import Server, run_until_idle


@dataclasses.dataclass
class Line:
    item: str
    count: int = 1


@dataclasses.dataclass
class Order:
    id: str
    line: Line
    note: str | None = None


class Slip(TypedDict):
    id: str


class Parsed:
    @staticmethod
    def parse(value: Any) -> str:
        return f"parsed {value['id']}"


class Model:
    """Looks like a model of pydantic, which is not needed for it."""

    @classmethod
    def model_validate_json(cls, raw: str | bytes) -> str:
        return f"model {json.loads(raw)['id']}"


GOOD: list[tuple[Any, Any, Any]] = [
    (None, {"a": [1]}, {"a": [1]}),
    (dict, {"a": 1}, {"a": 1}),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (int, 7, 7),
    (float, 7, 7),
    (str, "just text", "just text"),
    (list[Line], [{"item": "i"}], [Line("i")]),
    (bytes, 1, b"1"),
    (Order, {"id": "o", "line": {"item": "i"}, "new": 1}, Order("o", Line("i"))),
    (Slip, {"id": "s"}, {"id": "s"}),
    (Parsed, {"id": "p"}, "parsed p"),
    (Model, {"id": "m"}, "model m"),
    (lambda value: value["id"] * 2, {"id": "c"}, "cc"),
]


@pytest.mark.parametrize(("kind", "sent", "expected"), GOOD)
def test_types(kind: Any, sent: Any, expected: Any) -> None:
    text = json.dumps(sent)
    assert parse(parser(kind), text) == expected
    assert parse(parser(kind), text.encode()) == expected


BAD: list[tuple[Any, Any]] = [
    (None, "not json"),
    (dict, "[]"),
    (int, '"7"'),
    (int, "true"),
    (str, b"\xff"),
    (str, "no quotes"),
    (str, "7"),
    (Order, '{"id":"o"}'),
    (Order, '{"id":"o","line":{"item":"i","count":"many"}}'),
    (Order, "[]"),
    (Slip, "{}"),
    (Parsed, "{}"),
    (Model, "{}"),
    (lambda value: value["id"], "{}"),
]


@pytest.mark.parametrize(("kind", "raw"), BAD)
def test_what_does_not_parse(kind: Any, raw: Any) -> None:
    with pytest.raises(BadPayload, match="does not parse"):
        parse(parser(kind), raw)


def test_pydantic() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Order", id=(str, ...), cents=(int, 0))
    assert parse(parser(model), '{"id":"o"}').cents == 0
    with pytest.raises(BadPayload):
        parse(parser(model), '{"cents":"x"}')
    assert driftq.canonical(model(id="o")) == '{"cents":0,"id":"o"}'


def test_annotation() -> None:
    def handle(order: Order, ctx: driftq.Context) -> None: ...

    assert annotated_type(handle) is Order
    assert annotated_type(lambda payload, ctx: None) is None


def test_texts_are_json_too(driftq_client: driftq.Client) -> None:
    """One rule: what is sent is JSON, bytes and raw texts excepted."""
    driftq_client.create_topic("t")
    worker = driftq.Worker(driftq_client, "g")
    seen: list[Any] = []

    @worker.handler("t")
    def handle(payload: str, ctx: driftq.Context) -> None:
        seen.append((payload, ctx.raw))

    for payload in ("hello", driftq.raw('"quoted by hand"'), b'"bytes"', driftq.raw(b'"more bytes"')):
        driftq_client.send("t", payload)
    driftq_client.send_many("t", ["many"])
    with driftq.Producer(driftq_client) as producer:
        producer.send("t", "produced")
    run_until_idle(worker)
    assert seen == [
        ("hello", b'"hello"'),
        ("quoted by hand", b'"quoted by hand"'),
        ("bytes", b'"bytes"'),
        ("more bytes", b'"more bytes"'),
        ("many", b'"many"'),
        ("produced", b'"produced"'),
    ]
    with pytest.raises(TypeError, match="raw takes"):
        driftq.raw(1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is not JSON"):
        driftq_client.send("t", {"nested": driftq.raw("text")})


def test_follow_ups_are_json_too(driftq_client: driftq.Client) -> None:
    driftq_client.create_topic("t")
    driftq_client.create_topic("next")
    driftq_client.send("t", b"\xff as it is")
    worker = driftq.Worker(driftq_client, "g")

    @worker.handler("t")
    def handle(payload: bytes, ctx: driftq.Context) -> None:
        assert payload == b"\xff as it is"
        ctx.send("next", "text \u2713")
        ctx.send("next", driftq.raw("text"))
        ctx.output(dataset="d", version="v", partition_key="p", mode="replace", location="l", digest="x")

    run_until_idle(worker)
    assert [item["value"] for item in driftq_client.messages("next")] == ['"text \u2713"', "text"]


def test_bad_payload_can_be_retried(driftq_server: Server, driftq_client: driftq.Client) -> None:
    driftq_client.create_topic("t", retry_policy={"max_attempts": 2, "backoff_ms": 1, "jitter": "none"})
    driftq_client.send("t", b"\xff\xfe")
    worker = driftq.Worker(driftq_client, "g")
    worker.handler("t", payload=Order, bad_payload="retry")(lambda order, ctx: pytest.fail("it was called"))
    run_until_idle(worker)
    (letter,) = driftq_client.dead_letters("t")
    attempts = letter["envelope"]["dead_letter"]
    assert "does not parse" in attempts["last_error"] and attempts["attempts"] == 2
