"""The Pixel contract (001): `{"envelope", "transport"}` of a game-server plugin in, a typed acknowledgement out.

Everything is read once, by msgspec, and what it read is what the JSON Schemas check. The envelope's values are decoded
but for `payload` and `metadata`: of these the schema of the envelope sees only whether they are objects, and PHP's `[]`
counts as one. The envelope is stored as the bytes that came.
"""

import hashlib
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec
import orjson
from msgspec import Raw

from broker.contracts.inbound import InboundEvent
from broker.contracts.json_bytes import check_depth, check_utf8, repeated_key
from broker.contracts.names import stream_name_problem, text_problem
from broker.contracts.pixel_schemas import BUILT_IN, PixelSchemas, Violation
from broker.contracts.times import shown_seconds
from broker.errors import (
    CourierError,
    Forbidden,
    InvalidEnvelope,
    InvalidRequest,
    InvalidTransport,
    TooLarge,
    Unauthorized,
    UnsupportedSchemaVersion,
)
from broker.limits import ENVELOPE_BYTES_MAX, EVENT_ID_BYTES_MAX, EVENT_TYPE_BYTES_MAX, HEADER_NOTE_BYTES_MAX, SEQ_MAX

CONTRACT = "pixel"
PayloadSchemas = Literal["enforce", "off", "warn"]

_SECONDS_MAX = 253_402_300_799
"""The last second of the calendar, 9999-12-31T23:59:59Z."""

_WORDS: tuple[tuple[type[CourierError], str], ...] = (
    (UnsupportedSchemaVersion, "schema_version_unsupported"),
    (InvalidEnvelope, "envelope_invalid"),
    (InvalidTransport, "transport_invalid"),
    (InvalidRequest, "request_invalid"),
    (TooLarge, "payload_too_large"),
    (Unauthorized, "unauthorized"),
    (Forbidden, "unauthorized"),
)
"""What the contract calls a refusal; the first that fits."""

_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_any = msgspec.json.Decoder().decode
_decode_text = msgspec.json.Decoder(str).decode


class Told(NamedTuple):
    """What the headers of a request say about the plugin; None for what they do not say."""

    server_login: str | None = None
    plugin_version: str | None = None


class Parsed(NamedTuple):
    """An event, and how its payload breaks the operator's schema, if it does."""

    event: InboundEvent
    violation: Violation | None


def header_note(value: str | None) -> str | None:
    """A header as text that can be kept: control characters and bytes that are no UTF-8 replaced, cut to its bound."""
    if not value:
        return None
    text = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
    return shown.encode()[:HEADER_NOTE_BYTES_MAX].decode(errors="ignore")


def dedupe_key(scope: str, idempotency_key: str) -> str:
    """The identity of an event as one text. A scope has no `:`, so no two pairs share one."""
    return hashlib.sha256(f"{scope}:{idempotency_key}".encode()).hexdigest()


def parse(
    body: bytes, schemas: PixelSchemas, payloads: PayloadSchemas, scope: str, received_at: int, told: Told
) -> Parsed:
    """The event in a request: steps 2 to 4 of the algorithm. Raise the error that the request deserves."""
    envelope, attempt = _request(body, schemas)
    if len(envelope) > ENVELOPE_BYTES_MAX:
        raise TooLarge(f"the envelope has {len(envelope)} bytes; at most {ENVELOPE_BYTES_MAX} are accepted")
    values, payload = _envelope(envelope, schemas)
    version = values["schema_version"]
    name = _text(values, "event_name", EVENT_TYPE_BYTES_MAX)
    key = _text(values, "idempotency_key", EVENT_ID_BYTES_MAX)
    violation = None if payloads == "off" else _payload_violation(schemas, version, name, payload)
    if violation is not None and payloads == "enforce":
        raise _violated(InvalidEnvelope, violation)
    notes: dict[str, Any] = {field: value for field, value in told._asdict().items() if value is not None}
    if violation is not None:
        notes["payload_violation"] = f"{violation.pointer}: {violation.message}"
    event = InboundEvent(
        CONTRACT,
        _stream(values),
        name,
        scope,
        key,
        received_at,
        envelope,
        hashlib.sha256(envelope).digest(),
        _integer(values, "source_sequence", 1),
        _emitted_at(_integer(values, "source_time", 0)),
        None,
        event_id=_text(values, "event_id", EVENT_ID_BYTES_MAX),
        dedupe_key=dedupe_key(scope, key),
        schema_version=version,
        transport_attempt=attempt,
        notes=orjson.dumps(notes).decode() if notes else None,
    )
    return Parsed(event, violation)


def _request(body: bytes, schemas: PixelSchemas) -> tuple[bytes, int]:
    """The envelope of a request, still as bytes, and which attempt this is."""
    check_utf8(body)
    check_depth(body)
    try:
        request = _decode_object(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(f'the body is not {{"envelope": {{…}}, "transport": {{…}}}}: {error}') from None
    if (name := repeated_key(body, request)) is not None:
        raise InvalidRequest(f"the key {name!r} is there twice; send it once", pointer=f"/{name}")
    shown: dict[str, Any] = dict.fromkeys(request)
    if "transport" in request:
        shown["transport"] = _transport(bytes(request["transport"]))
    if (violation := schemas.request.violation(shown)) is not None:
        raise _violated(InvalidTransport if violation.pointer.startswith("/transport") else InvalidRequest, violation)
    return bytes(request["envelope"]), shown["transport"]["attempt"]


def _transport(raw: bytes) -> Any:
    try:
        transport = _decode_any(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidTransport(f"/transport: {error}", pointer="/transport") from None
    if isinstance(transport, dict):
        if (name := repeated_key(raw, transport)) is not None:
            raise InvalidTransport(f"/transport/{name}: it is there twice; send it once", pointer=f"/transport/{name}")
        for name, value in transport.items():
            if isinstance(value, int | float) and (isinstance(value, float) or abs(value) > SEQ_MAX):
                raise InvalidTransport(
                    f"/transport/{name}: not a whole number below 2^63", pointer=f"/transport/{name}"
                )
    return transport


def _envelope(raw: bytes, schemas: PixelSchemas) -> tuple[dict[str, Any], bytes]:
    """The checked values of an envelope, and the bytes of its payload."""
    if not raw.startswith(b"{"):
        raise InvalidEnvelope("/envelope: it is not an object", pointer="/envelope")
    fields = _decode_object(raw)
    if (name := repeated_key(raw, fields)) is not None:
        raise InvalidEnvelope(f"/envelope/{name}: it is there twice; send it once", pointer=f"/envelope/{name}")
    values = {name: _value(name, bytes(field)) for name, field in fields.items()}
    version = values.get("schema_version")
    if isinstance(version, str) and version not in schemas.envelopes:
        raise UnsupportedSchemaVersion(f"schema_version {version[:100]} is not supported")
    schema = schemas.envelopes[version if isinstance(version, str) else BUILT_IN]
    if (violation := schema.violation(values, "/envelope")) is not None:
        raise _violated(InvalidEnvelope, violation)
    if not isinstance(version, str):
        raise InvalidEnvelope("/envelope/schema_version: it is missing", pointer="/envelope/schema_version")
    return values, bytes(fields.get("payload", b"{}"))


def _value(name: str, raw: bytes) -> Any:
    """A field of the envelope. Of payload and metadata, only what they are."""
    if name in ("payload", "metadata"):
        if raw.startswith(b"{"):
            return {}
        if raw.startswith(b"["):
            return [] if not raw[1:-1].strip() else [None]
    try:
        return _decode_any(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidEnvelope(f"/envelope/{name}: {error}", pointer=f"/envelope/{name}") from None


def _payload_violation(schemas: PixelSchemas, version: str, event_name: str, raw: bytes) -> Violation | None:
    schema = schemas.payload(version, event_name)
    if schema is None:
        return None
    try:
        payload = _decode_any(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        return Violation("/envelope/payload", f"it cannot be read: {error}")
    return schema.violation({} if payload == [] else payload, "/envelope/payload")


def _violated(kind: type[InvalidRequest], violation: Violation) -> InvalidRequest:
    return kind(f"{violation.pointer or '/'}: {violation.message}", pointer=violation.pointer)


def _text(values: dict[str, Any], name: str, bytes_max: int) -> str:
    """A text that the ledger can hold; an operator's schema may know no such bound."""
    value = values.get(name)
    problem = text_problem(value, bytes_max) if isinstance(value, str) else "it is not text"
    if not isinstance(value, str) or problem is not None:
        raise InvalidEnvelope(f"/envelope/{name}: {problem}", pointer=f"/envelope/{name}")
    return value


def _integer(values: dict[str, Any], name: str, low: int) -> int:
    value = values.get(name)
    if type(value) is not int or not low <= value <= SEQ_MAX:
        raise InvalidEnvelope(
            f"/envelope/{name}: not a whole number from {low} to {SEQ_MAX}", pointer=f"/envelope/{name}"
        )
    return value


def _stream(values: dict[str, Any]) -> str:
    stream = f"pixel/{_text(values, 'event_category', EVENT_TYPE_BYTES_MAX)}"
    if (problem := stream_name_problem(stream)) is not None:
        pointer = "/envelope/event_category"
        raise InvalidEnvelope(f"{pointer}: no stream can be named for it: {problem}", pointer=pointer)
    return stream


def _emitted_at(seconds: int) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds <= _SECONDS_MAX else None


def accepted(event: InboundEvent, *, duplicate: bool) -> dict[str, Any]:
    """The acknowledgement; its time is that of this receipt."""
    return {
        "ack": {
            "status": "accepted",
            "disposition": "duplicate" if duplicate else "processed",
            "event_id": event.event_id,
            "idempotency_key": event.source_event_id,
            "dedupe_key": event.dedupe_key,
            "received_at": shown_seconds(event.received_at),
        }
    }


def word_of(error: CourierError) -> str:
    """The code of a refusal in the words of the contract; its own code where the contract has none."""
    return next((word for kind, word in _WORDS if isinstance(error, kind)), error.code)


def rejected(error: CourierError) -> dict[str, Any]:
    """The refusal, with the JSON pointer of the first violation where there is one."""
    ack = {
        "status": "rejected",
        "code": word_of(error),
        "message": error.message,
        "retryable": error.retryable,
        "retry_after_seconds": error.retry_after_seconds,
    }
    if "pointer" in error.detail:
        ack["pointer"] = error.detail["pointer"]
    return {"ack": ack}


class Facts(NamedTuple):
    """What can be read of a request that is refused; None for the rest."""

    event_id: str | None = None
    event_name: str | None = None
    schema_version: str | None = None
    idempotency_key: str | None = None
    attempt: int | None = None


def facts(body: bytes) -> Facts:
    """Read what can be read, for the receipt of a refusal. Whatever is there twice is not believed."""
    request = _known(body)
    envelope = _known(bytes(request.get("envelope", b"")))
    texts = {name: _readable(envelope.get(name)) for name in Facts._fields[:-1]}
    try:
        attempt = _decode_any(bytes(_known(bytes(request.get("transport", b""))).get("attempt", b"null")))
    except (msgspec.MsgspecError, RecursionError):
        attempt = None
    return Facts(**texts, attempt=attempt if type(attempt) is int and abs(attempt) <= SEQ_MAX else None)


def _known(raw: bytes) -> dict[str, Raw]:
    try:
        check_utf8(raw)
        check_depth(raw)
        fields = _decode_object(raw)
        is_repeated = repeated_key(raw, fields) is not None
    except (msgspec.MsgspecError, RecursionError, CourierError):
        return {}
    return {} if is_repeated else fields


def _readable(raw: Raw | None) -> str | None:
    try:
        text = None if raw is None else _decode_text(bytes(raw))
    except (msgspec.MsgspecError, RecursionError):
        return None
    return text if text is not None and text_problem(text, EVENT_ID_BYTES_MAX) is None else None
