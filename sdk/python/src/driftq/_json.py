"""JSON as it is written to the server: compact, and quickly. A worker writes several texts per message."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from json import encoder
from typing import Any

# One text, with its quotes.
quoted: Callable[[str], str] = encoder.encode_basestring


def refuse(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} is not JSON: give a text, number, list, dict, data class or model instead")


def _encoder() -> Callable[[Any], str]:
    make = getattr(encoder, "c_make_encoder", None)
    if make is None:
        return json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=refuse).encode
    # What the encoder of the standard library makes anew for every text, which takes longer than most of them.
    encode = make(None, refuse, quoted, None, ":", ",", False, False, False)
    return lambda value: "".join(encode(value, 0))


# Plain data as compact JSON; the order of members stays.
text: Callable[[Any], str] = _encoder()


def expected(versions: Mapping[str, int]) -> str:
    """What is expected of entities, as the server takes it."""
    return text([{"entity": entity, "version": version} for entity, version in versions.items()])


def written(value: Any) -> bytes:
    """The same as bytes."""
    return text(value).encode()
