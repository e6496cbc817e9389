"""The canonical form of a document, and the digests and keys that are made of it."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import math
from collections.abc import Mapping
from typing import Any

from . import _json

# What can be nothing but JSON.
SCALARS = frozenset({str, int, float, bool, type(None)})
_ESCAPES = {code: f"\\u00{code:02x}" for code in range(0x20)} | {ord('"'): '\\"', ord("\\"): "\\\\"}


def document(value: Any) -> Any:
    """The value as plain JSON data: models and data classes become objects, tuples become arrays."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, Mapping):
        return {_name(name): document(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [document(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: document(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return document(value.model_dump(mode="json"))
    if isinstance(value, enum.Enum):
        return document(value.value)
    return _json.refuse(value)


def canonical(value: Any) -> str:
    """The one text that every SDK writes for the same document."""
    parts: list[str] = []
    _write(document(value), parts)
    return "".join(parts)


def digest(value: Any) -> str:
    """SHA-256 of the canonical form, in hex."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def request_hash(arguments: Any) -> str:
    """What an effect is asked to do, in a few bytes."""
    return f"sha256:{digest(arguments)}"


def derived_key(anchor: list[Any], arguments: Any) -> str:
    """The key of an effect that was given none: where it runs, and what it is asked to do."""
    return f"auto-{digest([anchor, arguments])}"


def to_json(value: Any) -> str:
    """The value as compact JSON, for payloads and results; the order of members stays."""
    return _json.text(value if _is_simple(value) else document(value))


def _is_simple(value: Any) -> bool:
    """Whether it is plain data at first sight. Most payloads and results are small, and looking into all of a document
    takes longer than writing it."""
    if type(value) is dict:
        for name, member in value.items():
            if type(name) is not str or type(member) not in SCALARS:
                return False
        return True
    return type(value) in SCALARS


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"member names must be texts, not {type(name).__name__}")
    return name


def _write(value: Any, parts: list[str]) -> None:
    if value is None:
        parts.append("null")
    elif value is True:
        parts.append("true")
    elif value is False:
        parts.append("false")
    elif isinstance(value, str):
        parts.append(_text(value))
    elif isinstance(value, int):
        parts.append(str(int(value)))
    elif isinstance(value, float):
        parts.append(_number(value))
    elif isinstance(value, list):
        _write_array(value, parts)
    else:
        _write_object(value, parts)


def _write_array(items: list[Any], parts: list[str]) -> None:
    parts.append("[")
    for index, item in enumerate(items):
        if index:
            parts.append(",")
        _write(item, parts)
    parts.append("]")


def _write_object(members: dict[str, Any], parts: list[str]) -> None:
    parts.append("{")
    # Python orders texts by code points, which is the order of their bytes in UTF-8.
    for index, name in enumerate(sorted(members)):
        if index:
            parts.append(",")
        parts.append(_text(name))
        parts.append(":")
        _write(members[name], parts)
    parts.append("}")


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair has no canonical form") from None
    return f'"{value.translate(_ESCAPES)}"'


def _number(value: float) -> str:
    """As ECMAScript writes it. Both pick the shortest digits, only the layout differs."""
    if not math.isfinite(value):
        raise ValueError(f"{value} has no canonical form")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent_text = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    # The value is 0.DIGITS times ten to the power of `point`.
    leading = len(whole + fraction) - len(digits)
    point = len(whole) - leading + int(exponent_text or 0)
    digits = digits.rstrip("0")
    return sign + _layout(digits, point)


def _layout(digits: str, point: int) -> str:
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    exponent = f"e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return f"{digits[0]}.{digits[1:]}{exponent}" if count > 1 else f"{digits}{exponent}"
