"""What schemathesis must know about the broker; it loads this by name."""

import json
import zlib

import schemathesis
from schemathesis.core.failures import Failure

from _fuzz_rules import CANARY, KNOWN, SEMANTIC, SEMANTIC_DETAILS, SPARE, SPARED, capped


def part(case, name):
    """How the generator made a part of the request: `positive`, `negative`, or nothing."""
    for location, component in case.meta.components.items() if case.meta else ():
        if location.name == name:
            return component.mode.value
    return None


@schemathesis.serializer("application/x-ndjson")
def one_line(context, value):
    return value if isinstance(value, bytes) else json.dumps(value).encode()


@schemathesis.deserializer("application/x-ndjson")
def first_line(context, response):
    return json.loads(response.content.splitlines()[0])


def elsewhere(value):
    """The same value with the canary's name, which lists of topics tell, replaced."""
    if isinstance(value, str):
        return value.replace(CANARY, SPARE)
    if isinstance(value, list):
        return [elsewhere(item) for item in value]
    if isinstance(value, dict):
        return {name: elsewhere(item) for name, item in value.items()}
    return value


@schemathesis.hook
def before_call(context, case, kwargs):
    case.body = elsewhere(capped(case.body))
    if case.query and str(case.query.get("wait_ms")).isdigit():
        case.query = capped({**case.query, "wait_ms": int(case.query["wait_ms"])})
    names = case.path_parameters or {}
    names.update({name: elsewhere(value) for name, value in names.items()})
    is_escaped = any("%" in str(value) for value in names.values())
    if part(case, "PATH") == "positive" and not is_escaped:
        # Half of the names are ones that are there. What is changed is judged anew, by its escaped form: not those.
        for name in ("topic", "group"):
            if name in names and zlib.crc32(str(names[name]).encode()) % 2:
                names[name] = KNOWN[name]
    if names.get("topic") == KNOWN["topic"] and case.operation.definition.raw.get("operationId") in SPARED:
        names["topic"] = SPARE


@schemathesis.hook
def filter_query(context, query):
    # What is there stays there: deleting needs the name twice.
    return not (query and query.get("confirm") in KNOWN.values())


@schemathesis.check
def refused_for_a_reason(context, response, case):
    """A request that fits the document is only refused by a rule that no schema can say."""
    modes = {component.mode.value for component in case.meta.components.values()} if case.meta else {"negative"}
    if case.meta is None or case.meta.generation.mode.value != "positive" or modes - {"positive"}:
        return
    if response.status_code in (400, 422):
        problem = json.loads(response.content)
        is_named = any(word in problem["detail"] for word in SEMANTIC_DETAILS)
        if problem["code"] not in SEMANTIC and not is_named:
            raise Failure(operation=case.operation.label, title="Fitting request refused", message=problem["detail"])


@schemathesis.check
def problems_are_problems(context, response, case):
    """Every refusal is a problem document that says something."""
    if response.status_code < 400 or case.method.upper() == "HEAD":
        return
    kind = response.headers.get("content-type", [""])[0]
    problem = json.loads(response.content) if kind.startswith("application/problem+json") else {}
    if not (problem.get("detail") and problem.get("help") and problem.get("status") == response.status_code):
        raise Failure(operation=case.operation.label, title="Not a problem document", message=f"{kind}: {problem}")
