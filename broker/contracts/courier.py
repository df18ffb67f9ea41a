"""The Courier contract (003): `{"to": stream, "envelope": {…}}` in, `{"id", "seq", "duplicate"}` out.

Only the fields that admission needs are decoded. The envelope itself stays the bytes that the producer
sent: decoding and encoding it again would alter large integers and repeated keys.

What is written plainly, which is nearly everything, is read by `_fast.RequestReader` in one walk. The parser here is
for the rest, and the only one that says what is wrong.
"""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from _fast import RequestReader
from broker.contracts.inbound import InboundEvent
from broker.contracts.json_bytes import check_depth, check_utf8
from broker.contracts.names import stream_name_problem, text_problem
from broker.errors import InvalidEnvelope, InvalidRequest, TooLarge
from broker.limits import (
    ENVELOPE_BYTES_MAX,
    EVENT_ID_BYTES_MAX,
    EVENT_TYPE_BYTES_MAX,
    JSON_DEPTH_MAX,
    PARTITION_KEY_BYTES_MAX,
    REQUESTS_PER_FRAME_MAX,
    STREAM_NAME_BYTES_MAX,
)

CONTRACT = "courier"


class _Request(msgspec.Struct):
    to: str
    envelope: Raw


class _Named(msgspec.Struct):
    id: str


class _NamedRequest(msgspec.Struct):
    envelope: _Named


class Envelope(msgspec.Struct):
    """The fields of 003 §4.1. Unknown ones are kept, because the envelope's own bytes are."""

    id: str
    ts: Annotated[datetime, Meta(tz=True)]
    to: str
    type: str
    payload: Raw
    from_: str | UnsetType = msgspec.field(name="from", default=UNSET)
    schema: str | UnsetType = UNSET
    version: int | UnsetType = UNSET
    corr: str | UnsetType = UNSET
    refs: list[str] | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    headers: dict[str, Any] | UnsetType = UNSET
    partition_key: str | UnsetType = msgspec.field(name="partitionKey", default=UNSET)


_decode_request = msgspec.json.Decoder(_Request).decode
_decode_named = msgspec.json.Decoder(_NamedRequest).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode
_decode_envelope = msgspec.json.Decoder(Envelope).decode


def source_system(stream: str) -> str:
    """The first half of an event's identity: ids are unique within their stream."""
    return f"stream:{stream}"


def _type_of(text: str) -> str | None:
    return text if text_problem(text, EVENT_TYPE_BYTES_MAX) is None else None


def _source_of(stream: str) -> str | None:
    return source_system(stream) if stream_name_problem(stream) is None else None


_reader = RequestReader(
    InboundEvent(CONTRACT, "", "", "", "", 0, b"", None),
    _source_of,
    _type_of,
    ENVELOPE_BYTES_MAX,
    REQUESTS_PER_FRAME_MAX,
    JSON_DEPTH_MAX,
)


def parse_plain(frame: bytes, received_at: int) -> list[InboundEvent] | None:
    """The events of a frame of `WS /v1/publish`; None for one that is not plain, and is to be split and parsed."""
    return _reader.read(frame, received_at)


def parse_plain_frames(frames: list[bytes], received_at: int) -> tuple[list[InboundEvent], int]:
    """The events of the frames before the first one that is not plain; and how many frames that is."""
    return _reader.read_frames(frames, received_at)


def parse_plain_one(body: bytes, received_at: int) -> InboundEvent | None:
    """The event of a body with one request; None for one that is not plain, and is to be parsed."""
    return _reader.read_one(body, received_at)


def parse_enqueue(body: bytes, received_at: int) -> InboundEvent:
    """The event in the body of `POST /v1/enqueue`; raise InvalidRequest or InvalidEnvelope for one that is not."""
    event = _reader.read_one(body, received_at)
    return parse_strictly(body, received_at) if event is None else event


def parse_strictly(body: bytes, received_at: int) -> InboundEvent:
    """The same, by the parser that knows what is wrong; `parse_enqueue` asks the reader of what is plain first."""
    check_utf8(body)
    check_depth(body)
    try:
        request = _decode_request(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(f'the body is not {{"to": stream, "envelope": {{…}}}}: {error}') from None
    return parse_envelope(request.to, bytes(request.envelope), received_at)


def split_frame(frame: bytes) -> list[bytes]:
    """The requests in a frame of `WS /v1/publish`: one, or an array of them, each still as bytes."""
    check_utf8(frame)
    check_depth(frame)
    if not frame.lstrip(b" \t\r\n").startswith(b"["):
        return [frame]
    try:
        requests = _decode_array(frame)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(f"the frame is not an array of requests: {error}") from None
    if not requests:
        raise InvalidRequest("the array is empty; send at least one request")
    if len(requests) > REQUESTS_PER_FRAME_MAX:
        raise TooLarge(
            f"the array has {len(requests)} requests; at most {REQUESTS_PER_FRAME_MAX} are taken in one frame: split it"
        )
    return [bytes(request) for request in requests]


def id_of(request: bytes) -> str | None:
    """The id in a request that was refused, so that the refusal can name it; None if it has none that is one."""
    try:
        event_id = _decode_named(request).envelope.id
    except (msgspec.MsgspecError, RecursionError):
        return None
    return event_id if text_problem(event_id, EVENT_ID_BYTES_MAX) is None else None


def parse_bare(to: str, raw: bytes, received_at: int) -> InboundEvent:
    """The event of an envelope that comes without a request around it; raise InvalidRequest or InvalidEnvelope."""
    event = _reader.read_envelope(to, raw, received_at)
    if event is not None:
        return event
    check_utf8(raw)
    check_depth(raw, levels_around=1)  # what may come in one way must be able to come in by the other
    return parse_envelope(to, raw, received_at)


def parse_plain_pairs(pairs: list[Any], received_at: int) -> tuple[list[InboundEvent], list[str]] | None:
    """The events of pairs of a stream and an envelope, and their streams; None when one of them is not plain."""
    return _reader.read_pairs(pairs, received_at)


def parse_envelope(to: str, raw: bytes, received_at: int) -> InboundEvent:
    """An envelope for the stream `to`. Its bytes have passed `check_utf8` and `check_depth`."""
    if len(raw) > ENVELOPE_BYTES_MAX:
        raise TooLarge(f"the envelope has {len(raw)} bytes; at most {ENVELOPE_BYTES_MAX} are accepted")
    try:
        envelope = _decode_envelope(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidEnvelope(f"envelope: {error}") from None
    if (problem := stream_name_problem(to)) is not None:
        raise InvalidRequest(f"to: {problem}")
    if envelope.to != to:
        shown = envelope.to[:STREAM_NAME_BYTES_MAX]
        raise InvalidEnvelope(f"envelope.to is {shown!r}, but to is {to!r}; they must agree")
    if (problem := text_problem(envelope.id, EVENT_ID_BYTES_MAX)) is not None:
        raise InvalidEnvelope(f"envelope.id: {problem}")
    if (problem := text_problem(envelope.type, EVENT_TYPE_BYTES_MAX)) is not None:
        raise InvalidEnvelope(f"envelope.type: {problem}")
    return InboundEvent(
        CONTRACT,
        to,
        envelope.type,
        source_system(to),
        envelope.id,
        received_at,
        raw,
        None,
        None,
        envelope.ts.isoformat(),
        envelope.corr if envelope.corr is not UNSET else None,
        partition_key=_partition_key(envelope),
    )


def _partition_key(envelope: Envelope) -> str | None:
    if envelope.partition_key is UNSET:
        return None
    if (problem := text_problem(envelope.partition_key, PARTITION_KEY_BYTES_MAX)) is not None:
        raise InvalidEnvelope(f"envelope.partitionKey: {problem}")
    return envelope.partition_key


def reply(event_id: str, seq: int, duplicate: tuple[int, bool] | None) -> dict[str, Any]:
    """`{"id", "seq", "duplicate"}`, and `payload_conflict` when the duplicate's bytes differ from its original's."""
    answer: dict[str, Any] = {"id": event_id, "seq": abs(seq), "duplicate": seq < 0}
    if duplicate is not None and duplicate[1]:
        answer["payload_conflict"] = True
    return answer
