"""Members of a JSON object changed in its bytes; everything else stays as it is, byte for byte.

Decoding and encoding again would alter large integers and repeated keys. Of a repeated key the last one
counts, as it does for the decoder that admission uses. The bytes have been decoded once by then, so they are JSON.
"""

import re
from typing import NamedTuple

import msgspec
from msgspec import Raw

_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SCALAR = re.compile(rb"[^,\]} \t\r\n]++")
_BRACKETS_OUTSIDE_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"|([\[{])|([\]}])', re.DOTALL)

_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode


class _Span(NamedTuple):
    start: int
    end: int


def set_member(data: bytes, key: str, value: bytes) -> bytes:
    """An object with a member set to a value in JSON: in its place if it is there, else as the last one."""
    spans, closing = _members(data)
    if key in spans:
        start, end = spans[key]
        return data[:start] + value + data[end:]
    comma = b"," if spans else b""
    return data[:closing] + comma + msgspec.json.encode(key) + b":" + value + data[closing:]


def append_items(data: bytes, items: list[bytes]) -> bytes:
    """An array with more items at its end."""
    if not items:
        return data
    closing = data.rindex(b"]")
    is_empty = not data[data.index(b"[") + 1 : closing].strip()
    return data[:closing] + (b"" if is_empty else b",") + b",".join(items) + data[closing:]


def _members(data: bytes) -> tuple[dict[str, _Span], int]:
    """Where the value of each member of an object is, and where the object closes."""
    values = _decode_members(data)
    spans: dict[str, _Span] = {}
    at = _after_space(data, data.index(b"{") + 1)
    while data[at] != ord("}"):
        key_end = _string_end(data, at)
        key = _decode_text(data[at:key_end])
        start = _after_space(data, data.index(b":", key_end) + 1)
        end = _value_end(data, start, bytes(values[key]))
        spans[key] = _Span(start, end)
        at = _after_space(data, end)
        if data[at] == ord(","):
            at = _after_space(data, at + 1)
    return spans, at


def _value_end(data: bytes, start: int, guess: bytes) -> int:
    """Where a value ends. Mostly it is the one that the decoder found under this key, which one comparison shows."""
    end = start + len(guess)
    if data.startswith(guess, start) and data[_after_space(data, end)] in b",}":
        return end
    first = data[start]
    if first == ord('"'):
        return _string_end(data, start)
    if first in b"[{":
        depth = 0
        for token in _BRACKETS_OUTSIDE_STRINGS.finditer(data, start):
            depth += bool(token[1]) - bool(token[2])
            if depth == 0:
                return token.end()
    scalar = _SCALAR.match(data, start)
    assert scalar is not None, "the bytes were decoded, so a value is here"
    return scalar.end()


def _string_end(data: bytes, start: int) -> int:
    string = _STRING.match(data, start)
    assert string is not None, "the bytes were decoded, so a string is here"
    return string.end()


def _after_space(data: bytes, at: int) -> int:
    space = _SPACE.match(data, at)
    assert space is not None
    return space.end()
