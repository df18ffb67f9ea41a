"""Events as the requests that `courier pub` sends: payloads or envelopes as they stand, in what surrounds them."""

import os
import time
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import orjson

from broker.contracts.names import text_problem
from broker.limits import EVENT_ID_BYTES_MAX


class NotAnEvent(Exception):
    """What cannot be sent, and why."""


def exact(text: bytes) -> orjson.Fragment:
    """JSON as it stands: decoding and encoding it would alter large integers and repeated keys."""
    try:
        return orjson.Fragment(bytes(msgspec.json.decode(text.decode(), type=msgspec.Raw)))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotAnEvent(f"not JSON: {error}") from None


class Template(NamedTuple):
    """What the events of one call have in common."""

    stream: str
    event_type: str
    sender: str | None
    ts: str | None
    """The time of every event; None for the time at which it is made."""
    id_prefix: str | None
    """What ids begin with before the number of the line; None for new ids."""
    are_envelopes: bool

    def request(self, text: bytes, number: int = 0, event_id: str | None = None) -> bytes:
        """The request for one payload, or one envelope; raise NotAnEvent for what is not JSON."""
        content = exact(text)
        if self.are_envelopes:
            return orjson.dumps({"to": self.stream, "envelope": content})
        if event_id is None:
            event_id = new_id() if self.id_prefix is None else f"{self.id_prefix}{number}"
        if (problem := text_problem(event_id, EVENT_ID_BYTES_MAX)) is not None:
            raise NotAnEvent(f"its id {event_id[:40]!r} is none: {problem}")
        envelope: dict[str, Any] = {
            "id": event_id,
            "ts": self.ts or now(),
            "to": self.stream,
            "type": self.event_type,
            "payload": content,
        }
        if self.sender is not None:
            envelope["from"] = self.sender
        return orjson.dumps({"to": self.stream, "envelope": envelope})


class _Line(msgspec.Struct):
    to: str
    envelope: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decode_line = msgspec.json.Decoder(_Line).decode


class Recorded:
    """Lines that say themselves where they go: envelopes, or requests of `/v1/enqueue` with an envelope in each."""

    def request(self, text: bytes, number: int) -> bytes:  # noqa: ARG002 - the ids of recorded events are their own
        """The request for a line; raise NotAnEvent for what is neither."""
        content = exact(text)
        try:
            line = _decode_line(text)
        except (msgspec.MsgspecError, RecursionError):
            raise NotAnEvent("neither an envelope nor a request: it has no stream as its 'to'") from None
        if line.envelope is not msgspec.UNSET:
            return bytes(text)
        return orjson.dumps({"to": line.to, "envelope": content})


def now() -> str:
    """This moment, as RFC 3339 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_OF_THIS_PROCESS = os.urandom(2).hex()
_last_ns = 0


def new_id() -> str:
    """An id that no other event has: the time, never the same twice here, and digits that tell processes apart."""
    global _last_ns
    _last_ns = max(_last_ns + 1, time.time_ns())
    return f"e-{_last_ns:016x}{_OF_THIS_PROCESS}"
