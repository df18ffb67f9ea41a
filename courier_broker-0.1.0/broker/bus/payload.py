"""A payload as JSON, or a reason why it is none, with the place in it.

orjson alone would write `NaN` as `null`, and times or dataclasses as something else than what a handler is to get.
"""

import math
from typing import Any

import orjson

from broker.errors import InvalidRequest
from broker.limits import JSON_DEPTH_MAX, JSON_INTEGER_MAX, JSON_INTEGER_MIN


def encode(payload: Any) -> bytes:
    """The JSON of a payload; raise InvalidRequest for what is not a dict of JSON values."""
    if not isinstance(payload, dict):
        raise InvalidRequest(f"payload must be a dict, not {_kind(payload)}")
    _check(payload, "payload", 1)
    try:
        return orjson.dumps(payload)
    except (TypeError, ValueError) as error:  # a lone surrogate
        raise InvalidRequest(f"payload cannot be written as JSON: {error}") from None


def _check(value: Any, path: str, depth: int) -> None:
    if value is None or isinstance(value, (bool, str)):
        return
    if isinstance(value, int):
        if not JSON_INTEGER_MIN <= value <= JSON_INTEGER_MAX:
            raise InvalidRequest(f"{path} is an integer that does not fit into 64 bits; write it as text")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidRequest(f"{path} is {value}, which JSON does not have; leave it out, or write null")
    elif isinstance(value, dict):
        _check_depth(path, depth)
        for key, inner in value.items():
            if not isinstance(key, str):
                raise InvalidRequest(f"{path} has the key {key!r:.80}, which is {_kind(key)}; keys must be str")
            _check(inner, f"{path}.{key}", depth + 1)
    elif isinstance(value, (list, tuple)):
        _check_depth(path, depth)
        for index, inner in enumerate(value):
            _check(inner, f"{path}[{index}]", depth + 1)
    else:
        raise InvalidRequest(f"{path} is {_kind(value)}, which JSON does not have; write it as text or as a number")


def _check_depth(path: str, depth: int) -> None:
    if depth > JSON_DEPTH_MAX:
        raise InvalidRequest(f"{path[:80]}… is nested deeper than {JSON_DEPTH_MAX} levels, or contains itself")


def _kind(value: Any) -> str:
    return f"of the type {type(value).__name__}"
