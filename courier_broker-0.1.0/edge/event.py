"""What a program hands in, as the bytes that will be sent (000 §4).

A mapping is encoded once, here. JSON that comes as bytes is kept as it is: fields that it lacks are written in front
of those that it has. Decoding and encoding it again would alter integers past 64 bits and repeated keys. The one
change is that line breaks, which JSON allows between its tokens only, become spaces: so an event is always one line, in
the outbox, in a file and on the wire, and always the same line.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

import orjson

from edge.clock import Clock, SystemClock
from edge.errors import EventInvalid, SettingsInvalid
from edge.ids import new_id, timestamp
from edge.limits import (
    DEVICE_ID_BYTES_MAX,
    EVENT_BYTES_MAX,
    EVENT_ID_BYTES_MAX,
    EVENT_TYPE_BYTES_MAX,
    SESSION_ID_BYTES_MAX,
)

SCHEMA_VERSION: Final = 1

_UNWANTED = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_DEVICE_ID = re.compile(r"[A-Za-z0-9._-]+")
_LINE_BREAKS = bytes.maketrans(b"\r\n", b"  ")
_TEXTS: Final = {
    "event_id": EVENT_ID_BYTES_MAX,
    "type": EVENT_TYPE_BYTES_MAX,
    "ts": 64,
    "session_id": SESSION_ID_BYTES_MAX,
    "device_id": DEVICE_ID_BYTES_MAX,
}


class Event(NamedTuple):
    """An event that may go into the outbox."""

    event_id: str
    payload_json: bytes


def text_problem(text: object, bytes_max: int) -> str | None:
    """What is wrong with a value as an id or a type; None when it is good."""
    if not isinstance(text, str):
        return "is not a text"
    if not text:
        return "is empty"
    if _UNWANTED.search(text) is not None:
        return "has a control character or a lone surrogate"
    size = len(text.encode())
    return None if size <= bytes_max else f"is {size} bytes long; at most {bytes_max} are allowed"


def checked_device_id(device_id: str) -> str:
    """A device id that the broker can put into the name of a stream; raise SettingsInvalid for any other."""
    problem = text_problem(device_id, DEVICE_ID_BYTES_MAX)
    if problem is None and (_DEVICE_ID.fullmatch(device_id) is None or device_id in (".", "..")):
        problem = 'may have only A-Z a-z 0-9 . _ - and is neither "." nor ".."'
    if problem is not None:
        raise SettingsInvalid(f"the device id {device_id!r} {problem}")
    return device_id


@dataclass
class Stamp:
    """Fills in what an event lacks: who sends it, in which session, and when."""

    device_id: str | None = None
    session_id: str = ""
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        if self.device_id is not None:
            checked_device_id(self.device_id)
        self.session_id = self.session_id or new_id("sess", self.clock)

    def event(self, given: Mapping[str, Any] | bytes | str) -> Event:
        """The event as it will be sent; raise EventInvalid for one that could never be stored."""
        if isinstance(given, Mapping):
            return self._from_mapping(given)
        return self._from_json(given)

    def _missing(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The fields to add, in the order of the document."""
        made: dict[str, Any] = {"schema_version": SCHEMA_VERSION}
        if "event_id" not in given:
            made["event_id"] = new_id("evt", self.clock)
        if "ts" not in given:
            made["ts"] = timestamp(self.clock)
        made["session_id"] = self.session_id
        if self.device_id is not None:
            made["device_id"] = self.device_id
        return {name: value for name, value in made.items() if name not in given}

    def _from_mapping(self, given: Mapping[str, Any]) -> Event:
        event = self._missing(given) | dict(given)
        try:
            encoded = orjson.dumps(event)
        except (TypeError, ValueError) as error:
            raise EventInvalid(f"the event cannot be written as JSON: {error}") from None
        return _checked(event, encoded)

    def _from_json(self, given: bytes | str) -> Event:
        line, read = _encoded(given)
        missing = self._missing(read)
        if missing:
            rest = line[1:].lstrip()
            line = orjson.dumps(missing)[:-1] + (b"" if rest == b"}" else b",") + rest
        return _checked({**missing, **read}, line)


class PluginStamp:
    """Takes the envelopes of plugins (001) as they are. The broker tells them by their `idempotency_key`."""

    def event(self, given: Mapping[str, Any] | bytes | str) -> Event:
        """The envelope as it will be sent; raise EventInvalid for one without a key."""
        encoded, read = _encoded(given)
        for name in ("idempotency_key", "event_id", "event_name"):
            problem = text_problem(read.get(name), EVENT_ID_BYTES_MAX)
            if problem is not None:
                raise EventInvalid(f"the envelope's {name} {problem}")
        return Event(read["idempotency_key"], encoded)


def _encoded(given: Mapping[str, Any] | bytes | str) -> tuple[bytes, Mapping[str, Any]]:
    """An event as one line of JSON, and what it says."""
    if isinstance(given, Mapping):
        try:
            line = orjson.dumps(dict(given))
        except (TypeError, ValueError) as error:
            raise EventInvalid(f"the event cannot be written as JSON: {error}") from None
    else:
        line = (given.encode() if isinstance(given, str) else bytes(given)).translate(_LINE_BREAKS).strip()
    if len(line) > EVENT_BYTES_MAX:
        raise EventInvalid(f"the event is {len(line)} bytes long; at most {EVENT_BYTES_MAX} are allowed")
    try:
        read = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise EventInvalid(f"the event is not JSON: {error}") from None
    if not isinstance(read, dict):
        raise EventInvalid("the event is not a JSON object")
    return line, read


def _checked(event: Mapping[str, Any], encoded: bytes) -> Event:
    for name, bytes_max in _TEXTS.items():
        if name not in event:
            hint = "; give one to the outbox, or to the event" if name == "device_id" else ""
            raise EventInvalid(f"the event has no {name}{hint}")
        problem = text_problem(event[name], bytes_max)
        if problem is not None:
            raise EventInvalid(f"the event's {name} {problem}")
    if "payload" not in event:
        raise EventInvalid("the event has no payload")
    if not isinstance(event["payload"], Mapping):
        raise EventInvalid("the event's payload is not an object")
    if not _is_time(event["ts"]):
        raise EventInvalid(f"the event's ts is no time with its zone, as in 2026-02-16T23:10:21Z: {event['ts']!r}")
    if len(encoded) > EVENT_BYTES_MAX:
        raise EventInvalid(f"the event is {len(encoded)} bytes long; at most {EVENT_BYTES_MAX} are allowed")
    return Event(event["event_id"], encoded)


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
