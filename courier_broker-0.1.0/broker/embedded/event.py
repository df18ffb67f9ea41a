"""An event as a program writes it, and the receipt for it."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from broker.errors import InvalidEnvelope

Envelope = Mapping[str, Any] | bytes
"""A whole envelope (003 §4.1): as a mapping, or as JSON, which is then kept byte for byte."""


class Receipt(NamedTuple):
    """The broker has the event; on a durable stream, it is on disk."""

    id: str
    seq: int
    """Its place in the ledger; that of the original, for a duplicate."""
    duplicate: bool
    """Whether an event with this id was on the stream already. Then nothing was added."""
    payload_conflict: bool = False
    """Whether the original has other bytes."""


def new_id() -> str:
    """An id that nobody else has, and that sorts by time."""
    return f"e-{time.time_ns():016x}-{os.urandom(4).hex()}"


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Event:
    """One event for `enqueue_many`. Its id and time are made with it, so it may be sent again without harm."""

    to: str
    """The stream."""
    payload: Any
    """What orjson can write as JSON; `orjson.Fragment(b"…")` for JSON that is to stay as it is."""
    type: str = "message"
    id: str = field(default_factory=new_id)
    sender: str | None = None
    """`from` in the envelope."""
    corr: str | None = None
    """What it belongs to."""
    tags: Sequence[str] = ()
    headers: Mapping[str, Any] | None = None
    refs: Sequence[str] = ()
    schema: str | None = None
    version: int | None = None
    partition_key: str | None = None
    """Events of a stream with the same key are delivered in order, one at a time."""
    ts: datetime = field(default_factory=_now)

    def encode(self) -> bytes:
        """The envelope as JSON; raise InvalidEnvelope for what cannot be written as JSON."""
        optional = {
            "from": self.sender,
            "schema": self.schema,
            "version": self.version,
            "corr": self.corr,
            "refs": list(self.refs) or None,
            "tags": list(self.tags) or None,
            "headers": self.headers,
            "partitionKey": self.partition_key,
        }
        return encode(
            {"id": self.id, "ts": self.ts, "to": self.to, "type": self.type}
            | {name: value for name, value in optional.items() if value is not None}
            | {"payload": self.payload}
        )


def encode(envelope: Envelope) -> bytes:
    """An envelope as JSON; bytes stay as they are."""
    if isinstance(envelope, bytes):
        return envelope
    try:
        return orjson.dumps(envelope, option=orjson.OPT_UTC_Z)
    except TypeError as error:
        raise InvalidEnvelope(f"the envelope cannot be written as JSON: {error}") from None
