"""From the bytes of a message, or a stored result, to the type that the handler or the caller asked for."""

from __future__ import annotations

import base64
import dataclasses
import enum
import inspect
import json
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from ._wire import described
from .errors import DriftQError


class BadPayload(DriftQError):
    """The payload is not what the handler takes."""


def raw_payload(item: Mapping[str, Any]) -> bytes:
    """The payload as bytes."""
    text = item.get("value")
    if text is not None:
        return str(text).encode()
    return base64.b64decode(item.get("value_b64") or "")


Raw = str | bytes


def payload_of(item: Mapping[str, Any]) -> Raw:
    """The payload as it came: text, or bytes that are no text."""
    text: str | None = item.get("value")
    return raw_payload(item) if text is None else text


def parser(kind: Any) -> Callable[[Raw], Any]:
    """How a payload becomes this type: a model, a data class, a TypedDict, a plain type, something with `parse`, or any
    callable that takes the decoded JSON. Only `bytes` takes it as it came."""
    if kind is None or kind is Any or kind is inspect.Parameter.empty:
        return json.loads
    if kind is bytes:
        return lambda raw: raw.encode() if isinstance(raw, str) else raw
    if hasattr(kind, "model_validate_json"):
        return typing.cast("Callable[[Raw], Any]", kind.model_validate_json)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return lambda raw: _data_class(kind, json.loads(raw))
    if typing.is_typeddict(kind):
        return lambda raw: _typed_dict(kind, json.loads(raw))
    if hasattr(kind, "parse"):
        return lambda raw: kind.parse(json.loads(raw))
    plain = typing.get_origin(kind) or kind
    if plain in (dict, list, int, float, bool, str):
        return lambda raw: as_type(kind, _plain(plain, json.loads(raw)))
    if callable(kind):
        return lambda raw: kind(json.loads(raw))
    raise TypeError(f"{kind!r} cannot be a payload type: give a model, a data class, a TypedDict or a callable")


def parse(parse_with: Callable[[Raw], Any], raw: Raw) -> Any:
    """The payload; whatever a parser raises becomes `BadPayload`."""
    try:
        return parse_with(raw)
    except Exception as error:
        raise BadPayload(f"the payload does not parse: {described(error)}") from error


def annotated_type(function: Callable[..., Any]) -> Any:
    """The type of the first parameter, if it says one that payloads can have."""
    try:
        hints = typing.get_type_hints(inspect.unwrap(function))
        first = next(iter(inspect.signature(function).parameters.values()), None)
    except (TypeError, ValueError, NameError):
        return None
    if first is None:
        return None
    kind = hints.get(first.name)
    try:
        parser(kind)
    except TypeError:
        return None
    return kind


def _plain(kind: Any, value: Any) -> Any:
    wanted = (int, float) if kind is float else kind
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"it is {type(value).__name__}, not {kind.__name__}")
    return value


def _object(value: Any, known: set[str], required: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"it is {type(value).__name__}, not an object")
    missing = required - value.keys()
    if missing:
        raise ValueError(f"{', '.join(sorted(missing))} missing")
    return {name: member for name, member in value.items() if name in known}


def _typed_dict(kind: Any, value: Any) -> Any:
    known = set(kind.__required_keys__) | set(kind.__optional_keys__)
    _object(value, known, set(kind.__required_keys__))
    return value


def _data_class(kind: Any, value: Any) -> Any:
    """Members that the class does not know are left out, so that a sender may be newer than its reader."""
    fields = [field for field in dataclasses.fields(kind) if field.init]
    required = {
        field.name
        for field in fields
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    members = _object(value, {field.name for field in fields}, required)
    hints = typing.get_type_hints(kind)
    return kind(**{name: _member(hints.get(name), member) for name, member in members.items()})


def _member(kind: Any, value: Any) -> Any:
    if kind in (int, float, bool, str) and value is not None:
        return _plain(kind, value)
    return as_type(kind, value)


def as_type(kind: Any, value: Any) -> Any:
    """Decoded JSON as data classes, models, enumerations, tuples, named ones too, and lists and dicts of them; anything else as it is."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        others = [one for one in inner if one is not type(None)]
        return as_type(others[0], value) if len(others) == 1 and value is not None else value
    if origin is list and isinstance(value, list):
        return [as_type(inner[0], item) for item in value]
    if (origin is tuple or kind is tuple) and isinstance(value, list):
        kinds = inner[:1] * len(value) if inner[1:] == (...,) else inner
        return tuple(map(as_type, kinds, value)) if len(kinds) == len(value) else tuple(value)
    if origin is dict and isinstance(value, dict):
        return {name: as_type(inner[1], member) for name, member in value.items()}
    if not isinstance(kind, type):
        return value
    if dataclasses.is_dataclass(kind):
        return _data_class(kind, value)
    if issubclass(kind, enum.Enum):
        return kind(value)
    if issubclass(kind, tuple) and hasattr(kind, "_fields") and isinstance(value, list):
        hints = typing.get_type_hints(kind)
        return kind(*(as_type(hints.get(name), item) for name, item in zip(kind._fields, value, strict=True)))
    if hasattr(kind, "model_validate_json"):
        return kind.model_validate_json(json.dumps(value))
    return value
