"""What must hold of JSON bytes besides their grammar: valid UTF-8, not too deep, no field that is there twice."""

import re
from collections.abc import Collection

import msgspec

from _fast import deeper_than
from broker.errors import InvalidRequest
from broker.limits import JSON_DEPTH_MAX, JSON_KEYS_BYTES_MAX, JSON_VALUE_BYTES_CUT


def is_utf8(data: bytes) -> bool:
    """Whether it is text."""
    try:
        check_utf8(data)
    except InvalidRequest:
        return False
    return True


def check_utf8(data: bytes) -> None:
    """Raise InvalidRequest for bytes that are not UTF-8 (the decoder does not look into what it skips)."""
    if data.isascii():
        return
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"the body is not valid UTF-8 at byte {error.start}; send JSON as UTF-8") from None


def check_depth(data: bytes, levels_around: int = 0) -> None:
    """Raise InvalidRequest for JSON that is nested deeper than the bound, with so many levels around it."""
    depth_max = JSON_DEPTH_MAX - levels_around
    if (place := deeper_than(data, depth_max)) >= 0:
        raise InvalidRequest(f"the JSON is nested deeper than {depth_max} levels at byte {place}; flatten it")


_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_KEYS_AND_BRACKETS = re.compile(rb'("(?:[^"\\]++|\\.)*+")(\s*+:)?|([\[{])|([\]}])', re.DOTALL)


def repeated_key(data: bytes, names: Collection[str]) -> str | None:
    """One of these keys of an object that is there twice, however it is spelled; None if all are there once at most.

    Which of two values counts is for each parser to say, so two readers of the same bytes could see two events.
    The object has been decoded, so its grammar is known to be right. Few need more than a count of each name.
    Raise InvalidRequest for an object that is too large to be looked through, because it is large without its values.
    """
    if b"\\u" not in data and all(data.count(b'"%b"' % name.encode()) <= 1 for name in names):
        return None
    seen = set()
    depth = 0
    for match in _KEYS_AND_BRACKETS.finditer(_without_values(data)):
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


def _without_values(data: bytes) -> bytes:
    """An object without its large values: to look through those takes long, and no key that counts is in them.

    Of a key that is there twice only the last value is known, so a large object of small parts, or a value that was
    overridden, may remain; past the bound it is refused rather than looked through on the loop.
    """
    for value in _decode_object(data).values():
        text = bytes(value)
        if len(text) >= JSON_VALUE_BYTES_CUT:
            data = data.replace(text, b"0", 1)
    if len(data) > JSON_KEYS_BYTES_MAX:
        raise InvalidRequest(
            f"the object has {len(data)} bytes besides its large values, and may have keys that are there twice; "
            f"at most {JSON_KEYS_BYTES_MAX} are looked through"
        )
    return data


def _key(quoted: bytes) -> str:
    """A key as text; one that cannot be read is none that anybody asks for."""
    try:
        return msgspec.json.decode(quoted, type=str)
    except msgspec.MsgspecError:
        return ""
