"""JSON pointers (RFC 6901) into bytes: what they point at is returned as the bytes that came.

Each level is decoded into its raw parts, and nothing below it is. So numbers keep their digits, and what is stored of a
pulled item is what its server sent.
"""

import re

import msgspec
from msgspec import Raw

Pointer = tuple[str, ...]
"""The parts of a pointer; without any, it points at the whole document."""

_ESCAPE = re.compile(r"~(?![01])")
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode


def pointer_problem(text: str) -> str | None:
    """What is wrong with `text` as a JSON pointer, as a reason that a person can act on."""
    if text and not text.startswith("/"):
        return "it does not begin with /; an empty text points at the whole document"
    return "it has a ~ that is neither ~0 (for ~) nor ~1 (for /)" if _ESCAPE.search(text) else None


def parse_pointer(text: str) -> Pointer:
    """A valid pointer in its parts."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:])


def find(document: bytes, pointer: Pointer) -> bytes | None:
    """The bytes of what a pointer points at in valid JSON; None where there is nothing."""
    found = document
    for part in pointer:
        inner = _inner(found, part)
        if inner is None:
            return None
        found = inner
    return found.strip(b" \t\r\n")


def elements(array: bytes) -> list[bytes]:
    """The elements of a valid array, each as the bytes that came."""
    return [bytes(each) for each in _decode_array(array)]


def _inner(document: bytes, part: str) -> bytes | None:
    first = document.lstrip(b" \t\r\n")[:1]
    if first == b"{":
        found = _decode_object(document).get(part)
        return None if found is None else bytes(found)
    if first == b"[" and _INDEX.fullmatch(part):
        inner = _decode_array(document)
        return bytes(inner[int(part)]) if int(part) < len(inner) else None
    return None
