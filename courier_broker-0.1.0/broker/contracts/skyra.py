"""The Skyra contract (000): an event envelope of a device in, `{"event_id", "ack_ts", "status"}` out.

Only the fields that admission needs are decoded. The envelope itself stays the bytes that the device sent, and
is delivered as such. Whose event it is follows from the token: two devices with tokens of their own may use the
same `event_id`.
"""

import hashlib
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from broker.contracts.inbound import InboundEvent
from broker.contracts.json_bytes import check_depth, check_utf8, repeated_key
from broker.contracts.names import stream_name_problem, text_problem
from broker.contracts.times import comparable, shown_seconds
from broker.errors import CourierError, InvalidEnvelope, InvalidRequest, TooLarge, UnsupportedSchemaVersion
from broker.limits import (
    ARRAY_EVENTS_MAX,
    ENVELOPE_BYTES_MAX,
    EVENT_ID_BYTES_MAX,
    EVENT_TYPE_BYTES_MAX,
    SESSION_ID_BYTES_MAX,
)

CONTRACT = "skyra"
SCHEMA_VERSION = 1

_STREAM_HEAD, _STREAM_TAIL = "devices/", "/events"


class DeviceEvent(msgspec.Struct):
    """The fields of 000 §4. Unknown ones are kept, because the envelope's own bytes are."""

    event_id: str
    type: str
    ts: Annotated[datetime, Meta(tz=True)]
    session_id: str
    device_id: str
    payload: Raw
    schema_version: int | UnsetType = UNSET


class _Named(msgspec.Struct):
    event_id: str


_decode_event = msgspec.json.Decoder(DeviceEvent).decode
_decode_named = msgspec.json.Decoder(_Named).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode
_FIELDS = DeviceEvent.__struct_fields__


def split(body: bytes) -> tuple[list[bytes], bool]:
    """The envelopes of a frame or a body, each still as bytes, and whether they came as an array."""
    check_bytes(body)
    if not body.lstrip(b" \t\r\n").startswith(b"["):
        return [body], False
    try:
        envelopes = _decode_array(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(f"this is not an array of envelopes: {error}") from None
    check_count(len(envelopes))
    return [bytes(envelope) for envelope in envelopes], True


def check_bytes(body: bytes) -> None:
    """Raise the CourierError of bytes that are read no further: no UTF-8, or nested too deep."""
    check_utf8(body)
    check_depth(body)


def check_count(envelopes: int) -> None:
    """Raise the CourierError of a frame with no envelope, or too many."""
    if not envelopes:
        raise InvalidRequest("the array is empty; send at least one envelope")
    if envelopes > ARRAY_EVENTS_MAX:
        raise TooLarge(f"the array has {envelopes} envelopes; at most {ARRAY_EVENTS_MAX} are taken at once")


def parse(raw: bytes, principal: str, received_at: int) -> InboundEvent:
    """An envelope, whose bytes have passed `check_bytes`; raise the InvalidEnvelope or TooLarge that it deserves."""
    if len(raw) > ENVELOPE_BYTES_MAX:
        raise TooLarge(f"the envelope has {len(raw)} bytes; at most {ENVELOPE_BYTES_MAX} are accepted")
    try:
        event = _decode_event(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidEnvelope(f"envelope: {error}") from None
    if (name := repeated_key(raw, _FIELDS)) is not None:
        raise InvalidEnvelope(f"the key {name!r} is there twice; send it once")
    if event.schema_version is not UNSET and event.schema_version != SCHEMA_VERSION:
        raise UnsupportedSchemaVersion(f"schema_version {event.schema_version} is not supported; send {SCHEMA_VERSION}")
    for name, text, bytes_max in (
        ("event_id", event.event_id, EVENT_ID_BYTES_MAX),
        ("type", event.type, EVENT_TYPE_BYTES_MAX),
        ("session_id", event.session_id, SESSION_ID_BYTES_MAX),
    ):
        if (problem := text_problem(text, bytes_max)) is not None:
            raise InvalidEnvelope(f"{name}: {problem}")
    if not bytes(event.payload).startswith(b"{"):
        raise InvalidEnvelope("payload: it is not an object")
    if (emitted_at := comparable(event.ts)) is None:
        raise InvalidEnvelope("ts: it is outside the calendar once it is in UTC")
    return InboundEvent(
        CONTRACT,
        stream_of(event.device_id),
        event.type,
        principal,
        event.event_id,
        received_at,
        raw,
        hashlib.sha256(raw).digest(),
        None,
        emitted_at,
        event.session_id,
        schema_version=str(SCHEMA_VERSION),
    )


def stream_of(device_id: str) -> str:
    """The stream of a device's events; raise InvalidEnvelope for an id that cannot be part of a stream's name."""
    stream = f"{_STREAM_HEAD}{device_id}{_STREAM_TAIL}"
    if (problem := stream_name_problem(device_id)) is not None:
        raise InvalidEnvelope(f"device_id: {problem}")
    if (problem := stream_name_problem(stream)) is not None:
        raise InvalidEnvelope(f"device_id: its stream {_STREAM_HEAD}…{_STREAM_TAIL} cannot be named: {problem}")
    return stream


def device_of(event: InboundEvent) -> str:
    """The device that an event is of."""
    return event.stream.removeprefix(_STREAM_HEAD).removesuffix(_STREAM_TAIL)


def event_id_in(raw: bytes) -> str | None:
    """The `event_id` of an envelope that is otherwise refused, if it can be read and repeated."""
    try:
        event_id = _decode_named(raw).event_id
        is_repeated = repeated_key(raw, ("event_id",)) is not None
    except (msgspec.MsgspecError, RecursionError, CourierError):
        return None
    if is_repeated:
        return None
    return event_id if text_problem(event_id, EVENT_ID_BYTES_MAX) is None else None


def ack(event: InboundEvent, seq: int, duplicate: tuple[int, bool] | None) -> dict[str, Any]:
    """The acknowledgement. Its time is when the event was first received, as the ledger has it.

    So a duplicate gets the same one again, with `duplicate`, and `payload_conflict` if its bytes differ.
    """
    received_at = event.received_at if duplicate is None else duplicate[0]
    answer: dict[str, Any] = {
        "event_id": event.source_event_id,
        "ack_ts": shown_seconds(received_at),
        "status": "stored",
    }
    if seq < 0:
        answer["duplicate"] = True
        if duplicate is not None and duplicate[1]:
            answer["payload_conflict"] = True
    return answer


def nack(event_id: str | None, error: CourierError) -> dict[str, Any]:
    """The refusal: `rejected` for good, or `error` for one that a retry can mend."""
    named = {} if event_id is None else {"event_id": event_id}
    return {**named, "status": "error" if error.retryable else "rejected", "error": error.as_dict()}
