"""What pulled sources bring (002): documents of somebody else's shape, from which a mapping takes items and facts.

An item is an object, and is stored and delivered as the bytes that came. Its identity is (`source:NAME`, its id): no
token's name has a colon, so nobody else can store an event under it. The id is all that an item must have. Another
fact that is there and cannot be used leaves a note on the receipt: to refuse the item for it would lose it, because
the cursor goes on.
"""

import hashlib
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

import msgspec
import orjson
from msgspec import Meta, Raw

from broker.contracts.inbound import InboundEvent
from broker.contracts.json_bytes import check_depth, check_utf8, repeated_key
from broker.contracts.json_pointer import Pointer, elements, find
from broker.contracts.names import text_problem
from broker.contracts.times import comparable
from broker.errors import InvalidEnvelope, InvalidRequest, TooLarge
from broker.limits import (
    ENVELOPE_BYTES_MAX,
    EVENT_ID_BYTES_MAX,
    EVENT_TYPE_BYTES_MAX,
    SEQ_MAX,
    SOURCE_CURSOR_BYTES_MAX,
    SOURCE_PAGE_ITEMS_MAX,
)

CONTRACT = "source"
SOURCE_PREFIX = "source:"

_decode_raw = msgspec.json.Decoder(Raw).decode
_decode_id = msgspec.json.Decoder(str | int).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_integer = msgspec.json.Decoder(int).decode
_decode_time = msgspec.json.Decoder(Annotated[datetime, Meta(tz=True)]).decode
_decode_seconds = msgspec.json.Decoder(int | float).decode


class Mapping(NamedTuple):
    """Where the items of a source are, and the facts within them."""

    name: str
    stream: str
    event_type: str
    """The type of an event whose item does not say one."""
    id: Pointer
    items: Pointer | None = None
    """Where in a document the items are, an array or a single one; None: the document is an item."""
    sequence: Pointer | None = None
    time: Pointer | None = None
    type: Pointer | None = None
    cursor: Pointer | None = None
    """Where in an item the cursor behind it is."""
    next_cursor: Pointer | None = None
    """Where in a document the cursor behind it is."""

    @property
    def source_system(self) -> str:
        """The first half of the identity of its events."""
        return f"{SOURCE_PREFIX}{self.name}"

    @property
    def keys(self) -> set[str]:
        """The keys of an item that count, none of which may be there twice."""
        pointers = (self.id, self.sequence, self.time, self.type, self.cursor)
        return {pointer[0] for pointer in pointers if pointer}


class Page(NamedTuple):
    """What one document brings."""

    items: list[bytes]
    cursor: str | None
    """Where to go on behind it; None if it does not say."""


def read_page(document: bytes, mapping: Mapping) -> Page:
    """The items and the cursor of a document; raise InvalidRequest or TooLarge for one that is read no further."""
    check_utf8(document)
    try:
        _decode_raw(document)
        items = _items(document, mapping)
        cursor = _cursor(document, items, mapping)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(f"this is not JSON: {error}") from None
    return Page(items, cursor)


def _items(document: bytes, mapping: Mapping) -> list[bytes]:
    found = document.strip(b" \t\r\n") if mapping.items is None else find(document, mapping.items)
    if found is None or found == b"null":
        return []
    items = elements(found) if found.startswith(b"[") else [found]
    if len(items) > SOURCE_PAGE_ITEMS_MAX:
        raise TooLarge(
            f"there are {len(items)} items in one document; at most {SOURCE_PAGE_ITEMS_MAX} are taken: ask for fewer"
        )
    return items


def _cursor(document: bytes, items: list[bytes], mapping: Mapping) -> str | None:
    """What the document says; else what the last item says that says something."""
    if mapping.next_cursor is not None:
        return _as_cursor(find(document, mapping.next_cursor))
    if mapping.cursor is not None:
        for item in reversed(items):
            cursor = _as_cursor(find(item, mapping.cursor))
            if cursor is not None:
                return cursor
    return None


def _as_cursor(raw: bytes | None) -> str | None:
    """A text, or a number as it is written; anything else says nothing."""
    if raw is None or raw[:1] not in b'"-0123456789':
        return None
    cursor = _decode_text(raw) if raw.startswith(b'"') else raw.decode()
    if not cursor:
        return None
    if (problem := text_problem(cursor, SOURCE_CURSOR_BYTES_MAX)) is not None:
        raise InvalidRequest(f"the cursor: {problem}")
    return cursor


def parse(item: bytes, mapping: Mapping, received_at: int) -> InboundEvent:
    """An item as an event; raise the CourierError that says why it is none."""
    if len(item) > ENVELOPE_BYTES_MAX:
        raise TooLarge(f"the item has {len(item)} bytes; at most {ENVELOPE_BYTES_MAX} are accepted")
    check_utf8(item)
    check_depth(item)
    if not item.startswith(b"{"):
        raise InvalidEnvelope("the item is not an object")
    try:
        if (name := repeated_key(item, mapping.keys)) is not None:
            raise InvalidEnvelope(f"the key {name!r} is there twice in the item")
        event_id = _id(item, mapping)
        notes: dict[str, str] = {}
        event_type = _type(item, mapping, notes)
        sequence = _sequence(item, mapping, notes)
        emitted_at = _time(item, mapping, notes)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidEnvelope(f"the item is not JSON: {error}") from None
    return InboundEvent(
        CONTRACT,
        mapping.stream,
        event_type,
        mapping.source_system,
        event_id,
        received_at,
        item,
        hashlib.sha256(item).digest(),
        sequence,
        emitted_at,
        notes=orjson.dumps(notes).decode() if notes else None,
    )


def _id(item: bytes, mapping: Mapping) -> str:
    found = find(item, mapping.id)
    if found is None:
        raise InvalidEnvelope(f"the item has no id at {_shown(mapping.id)}")
    try:
        event_id = str(_decode_id(found))
    except msgspec.ValidationError:
        raise InvalidEnvelope(f"the id at {_shown(mapping.id)} is neither text nor an integer") from None
    if (problem := text_problem(event_id, EVENT_ID_BYTES_MAX)) is not None:
        raise InvalidEnvelope(f"the id at {_shown(mapping.id)}: {problem}")
    return event_id


def _type(item: bytes, mapping: Mapping, notes: dict[str, str]) -> str:
    found = None if mapping.type is None else find(item, mapping.type)
    if found is None or found == b"null":
        return mapping.event_type
    try:
        event_type = _decode_text(found)
    except msgspec.ValidationError:
        notes["type"] = "it is not text"
        return mapping.event_type
    if (problem := text_problem(event_type, EVENT_TYPE_BYTES_MAX)) is not None:
        notes["type"] = problem
        return mapping.event_type
    return event_type


def _sequence(item: bytes, mapping: Mapping, notes: dict[str, str]) -> int | None:
    found = None if mapping.sequence is None else find(item, mapping.sequence)
    if found is None or found == b"null":
        return None
    try:
        sequence = _decode_integer(found)
    except msgspec.ValidationError:
        notes["sequence"] = "it is not an integer"
        return None
    if abs(sequence) > SEQ_MAX:
        notes["sequence"] = "it has more than 64 bits"
        return None
    return sequence


def _time(item: bytes, mapping: Mapping, notes: dict[str, str]) -> str | None:
    """A time of RFC 3339 with its zone, or seconds since 1970, as text that sorts like the time."""
    found = None if mapping.time is None else find(item, mapping.time)
    if found is None or found == b"null":
        return None
    try:
        if found.startswith(b'"'):
            emitted_at = comparable(_decode_time(found))
        else:
            emitted_at = datetime.fromtimestamp(_decode_seconds(found), UTC).isoformat()
    except msgspec.ValidationError:
        notes["time"] = "it is neither a time of RFC 3339 with a zone nor a number of seconds"
        return None
    except (ValueError, OverflowError, OSError):
        emitted_at = None
    if emitted_at is None:
        notes["time"] = "it is outside the calendar; a number counts seconds since 1970"
    return emitted_at


def _shown(pointer: Pointer) -> str:
    return repr("".join("/" + part.replace("~", "~0").replace("/", "~1") for part in pointer))
