"""CloudEvents 1.0 over HTTP: structured, batched and binary; answered like the Courier contract.

What is stored and delivered is the event in its JSON format. A structured event has that already, and stays the bytes
that came. Of one in binary mode it is made, once: its attributes from the headers, in a fixed order, and its data as
the bytes that came if they are JSON, else in base64.

The identity is (`source`, `id`), as the specification has it. `ce:` stands before the source, because a source may be
any text, also one that is the name of a token or of a stream, whose identities are another contract's.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from email.message import Message
from typing import Annotated, Any, Literal
from urllib.parse import unquote_to_bytes

import msgspec
import orjson
from msgspec import UNSET, Meta, Raw, UnsetType

from broker.contracts.inbound import InboundEvent
from broker.contracts.json_bytes import check_depth, check_utf8, repeated_key
from broker.contracts.names import stream_name_problem, text_problem
from broker.contracts.times import comparable
from broker.errors import InvalidEnvelope, InvalidRequest, TooLarge
from broker.limits import (
    ARRAY_EVENTS_MAX,
    ENVELOPE_BYTES_MAX,
    EVENT_ID_BYTES_MAX,
    EVENT_TYPE_BYTES_MAX,
    PARTITION_KEY_BYTES_MAX,
    SOURCE_SYSTEM_BYTES_MAX,
)

CONTRACT = "cloudevents"
STRUCTURED = "application/cloudevents+json"
BATCHED = "application/cloudevents-batch+json"
HEADER_PREFIX = "ce-"
SOURCE_PREFIX = "ce:"

_DATA, _BASE64 = "data", "data_base64"
_ATTRIBUTE = re.compile(r"[a-z0-9]+")
_JSON_TYPE = re.compile(r"(application|text)/json|[^/\s]+/[^/\s]+\+json")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


class CloudEvent(msgspec.Struct):
    """The attributes that the specification names. Others are extensions, whose names are `a-z` and `0-9`."""

    id: Annotated[str, Meta(min_length=1)]
    source: Annotated[str, Meta(min_length=1)]
    specversion: Literal["1.0"]
    type: Annotated[str, Meta(min_length=1)]
    subject: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    time: Annotated[datetime, Meta(tz=True)] | UnsetType = UNSET
    datacontenttype: str | UnsetType = UNSET
    dataschema: str | UnsetType = UNSET
    data: Any | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET


_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode
_decode_any = msgspec.json.Decoder().decode
_decode_raw = msgspec.json.Decoder(Raw).decode
_decode_time = msgspec.json.Decoder(Annotated[datetime, Meta(tz=True)]).decode


def split_batch(body: bytes) -> list[bytes]:
    """The events of a batch, each still as bytes. A batch may be empty."""
    check_utf8(body)
    check_depth(body)
    try:
        events = _decode_array(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(f"the body is not an array of events: {error}") from None
    if len(events) > ARRAY_EVENTS_MAX:
        raise TooLarge(f"the batch has {len(events)} events; at most {ARRAY_EVENTS_MAX} are taken at once: split it")
    return [bytes(event) for event in events]


def parse(raw: bytes, default_stream: str | None, received_at: int) -> InboundEvent:
    """An event in its JSON format; raise InvalidEnvelope or TooLarge for one that is not."""
    check_utf8(raw)
    check_depth(raw)
    if len(raw) > ENVELOPE_BYTES_MAX:
        raise TooLarge(f"the event has {len(raw)} bytes; at most {ENVELOPE_BYTES_MAX} are accepted")
    try:
        fields = _decode_object(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidEnvelope(f"the event: {error}") from None
    if (name := repeated_key(raw, fields)) is not None:
        raise InvalidEnvelope(f"the attribute {name!r} is there twice; send it once")
    attributes = {name: _attribute(name, bytes(value)) for name, value in fields.items() if name != _DATA}
    _check_data(fields, attributes.pop(_BASE64, None))
    if attributes.get("specversion") != "1.0":
        raise InvalidEnvelope("specversion: it is not '1.0'")
    event_type = _text(attributes, "type", EVENT_TYPE_BYTES_MAX)
    source = _text(attributes, "source", SOURCE_SYSTEM_BYTES_MAX - len(SOURCE_PREFIX))
    for name in ("datacontenttype", "dataschema"):
        if attributes.get(name) is not None:
            _text(attributes, name, ENVELOPE_BYTES_MAX)
    return InboundEvent(
        CONTRACT,
        _stream(attributes, default_stream),
        event_type,
        f"{SOURCE_PREFIX}{source}",
        _text(attributes, "id", EVENT_ID_BYTES_MAX),
        received_at,
        raw,
        hashlib.sha256(raw).digest(),
        None,
        _time(fields) if attributes.get("time") is not None else None,
        None,
        schema_version="1.0",
        partition_key=_partition_key(attributes),
    )


def _attribute(name: str, raw: bytes) -> Any:
    """The value of an attribute: text, a whole number, true, false or null."""
    if name != _BASE64 and not _ATTRIBUTE.fullmatch(name):
        raise InvalidEnvelope(f"{name[:100]!r} is not the name of an attribute; those have a-z and 0-9 only")
    try:
        value = None if raw[:1] in b"{[" else _decode_any(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidEnvelope(f"{name}: {error}") from None
    if raw[:1] in b"{[" or isinstance(value, float):
        raise InvalidEnvelope(f"{name}: an attribute is text, a whole number, true or false")
    return value


def _check_data(fields: Mapping[str, Raw], data_base64: Any) -> None:
    if data_base64 is None:
        return
    if _DATA in fields:
        raise InvalidEnvelope("data and data_base64 are both there; send one of them")
    try:
        base64.b64decode(data_base64, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise InvalidEnvelope("data_base64: it is not base64") from None


def _text(attributes: Mapping[str, Any], name: str, bytes_max: int) -> str:
    value = attributes.get(name)
    if value is None:
        raise InvalidEnvelope(f"{name}: it is missing")
    problem = text_problem(value, bytes_max) if isinstance(value, str) else "it is not text"
    if not isinstance(value, str) or problem is not None:
        raise InvalidEnvelope(f"{name}: {problem}")
    return value


def _stream(attributes: Mapping[str, Any], default: str | None) -> str:
    """The stream that the subject names; else the configured one."""
    subject = attributes.get("subject")
    problem = "it is missing"
    if subject is not None:
        if not isinstance(subject, str) or not subject:
            raise InvalidEnvelope("subject: it is not text, or empty")
        found = stream_name_problem(subject)
        if found is None:
            return subject
        problem = found
    if default is None:
        raise InvalidEnvelope(f"subject: it names no stream ({problem}), and cloudevents.stream is not configured")
    return default


def _time(fields: Mapping[str, Raw]) -> str:
    try:
        time = _decode_time(bytes(fields["time"]))
    except msgspec.MsgspecError as error:
        raise InvalidEnvelope(f"time: {error}") from None
    if (emitted_at := comparable(time)) is None:
        raise InvalidEnvelope("time: it is outside the calendar once it is in UTC")
    return emitted_at


def _partition_key(attributes: Mapping[str, Any]) -> str | None:
    return (
        None if attributes.get("partitionkey") is None else _text(attributes, "partitionkey", PARTITION_KEY_BYTES_MAX)
    )


def structured(headers: Iterable[tuple[str, str]], content_type: str | None, data: bytes) -> bytes:
    """An event in binary mode as one in JSON: the same headers and data give the same bytes, whatever their order."""
    attributes: dict[str, str] = {}
    for header, value in headers:
        name = header.lower().removeprefix(HEADER_PREFIX)
        if name in attributes:
            raise InvalidEnvelope(f"the header {HEADER_PREFIX}{name} is there twice; send it once")
        if name in (_DATA, _BASE64, "datacontenttype"):
            raise InvalidEnvelope(
                f"the header {HEADER_PREFIX}{name} has no meaning; send the body, and its Content-Type"
            )
        attributes[name] = _header_value(name, value)
    if content_type is not None:
        attributes["datacontenttype"] = content_type
    try:
        parts = [b"%b:%b" % (orjson.dumps(name), orjson.dumps(attributes[name])) for name in sorted(attributes)]
    except orjson.JSONEncodeError:
        raise InvalidEnvelope("a header is not UTF-8; percent-encode what is not ASCII") from None
    if data and content_type is not None and _is_json(content_type):
        check_utf8(data)
        check_depth(data)
        try:
            _decode_raw(data)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidEnvelope(f"the data is declared as {content_type[:100]!r}, but is not JSON: {error}") from None
        parts.append(b'"data":' + data)
    elif data:
        parts.append(b'"data_base64":"%b"' % base64.b64encode(data))
    return b"{" + b",".join(parts) + b"}"


def _header_value(name: str, value: str) -> str:
    """The value of a header, without the quotes and the percent-encoding of the HTTP binding."""
    text = value.strip()
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        text = re.sub(r"\\(.)", r"\1", quoted[1], flags=re.DOTALL)
    if _PERCENT.search(text):
        raise InvalidEnvelope(
            f"the header {HEADER_PREFIX}{name} has a % without two hexadecimal digits; write it as %25"
        )
    try:
        return unquote_to_bytes(text).decode()
    except (UnicodeDecodeError, UnicodeEncodeError):
        raise InvalidEnvelope(f"the header {HEADER_PREFIX}{name} is not UTF-8") from None


def _is_json(content_type: str) -> bool:
    message = Message()
    message["Content-Type"] = content_type
    charset = str(message.get_param("charset", "utf-8")).lower()
    return charset in ("utf-8", "us-ascii") and _JSON_TYPE.fullmatch(message.get_content_type()) is not None
