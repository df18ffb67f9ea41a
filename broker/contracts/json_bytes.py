"""What must hold of JSON bytes besides their grammar: valid UTF-8, not too deep, no field that is there twice."""

import re
from collections.abc import Collection

import msgspec

from broker.errors import InvalidRequest
from broker.limits import JSON_DEPTH_MAX

# A string that does not end is taken to the end of the bytes, and nothing is ever tried again (the `+` behind
# a quantifier): else a body of escaped quotes, of the allowed size, would keep the loop busy for hours.
_BRACKETS_OUTSIDE_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|([\[{])|([\]}])', re.DOTALL)


def check_utf8(data: bytes) -> None:
    """Raise InvalidRequest for bytes that are not UTF-8 (the decoder does not look into what it skips)."""
    if data.isascii():
        return
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"the body is not valid UTF-8 at byte {error.start}; send JSON as UTF-8") from None


def check_depth(data: bytes) -> None:
    """Raise InvalidRequest for JSON that is nested deeper than the bound.

    Few documents have as many brackets as the bound allows levels: those are done after two counts.
    """
    if data.count(b"{") + data.count(b"[") <= JSON_DEPTH_MAX:
        return
    depth = 0
    for match in _BRACKETS_OUTSIDE_STRINGS.finditer(data):
        if match[1]:
            depth += 1
            if depth > JSON_DEPTH_MAX:
                raise InvalidRequest(
                    f"the JSON is nested deeper than {JSON_DEPTH_MAX} levels at byte {match.start()}; flatten it"
                )
        elif match[2]:
            depth -= 1


_KEYS_AND_BRACKETS = re.compile(rb'("(?:[^"\\]++|\\.)*+")(\s*+:)?|([\[{])|([\]}])', re.DOTALL)


def repeated_key(data: bytes, names: Collection[str]) -> str | None:
    """One of these keys of an object that is there twice, however it is spelled; None if all are there once at most.

    Which of two values counts is for each parser to say, so two readers of the same bytes could see two events.
    The object has been decoded, so its grammar is known to be right. Few need more than a count of each name.
    """
    if b"\\u" not in data and all(data.count(b'"%b"' % name.encode()) <= 1 for name in names):
        return None
    seen = set()
    depth = 0
    for match in _KEYS_AND_BRACKETS.finditer(data):
        if match[3]:
            depth += 1
        elif match[4]:
            depth -= 1
        elif depth == 1 and match[2]:
            name = _key(match[1])
            if name in seen and name in names:
                return name
            seen.add(name)
    return None


def _key(quoted: bytes) -> str:
    """A key as text; one that cannot be read is none that anybody asks for."""
    try:
        return msgspec.json.decode(quoted, type=str)
    except msgspec.MsgspecError:
        return ""
