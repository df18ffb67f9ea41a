"""The Skyra contract: which envelopes are events, and what is said of the others."""

import hashlib
import json
from typing import Any

import pytest

from broker.contracts import skyra
from broker.errors import CourierError, InvalidEnvelope, InvalidRequest, TooLarge, UnsupportedSchemaVersion
from broker.limits import (
    ARRAY_EVENTS_MAX,
    ENVELOPE_BYTES_MAX,
    EVENT_ID_BYTES_MAX,
    JSON_DEPTH_MAX,
    STREAM_NAME_BYTES_MAX,
)
from tests.support.skyra import DEVICE, event, raw

NOW = 1_771_283_422_000_000
REQUIRED = ("event_id", "type", "ts", "session_id", "device_id", "payload")
WRONG_TYPES: dict[str, list[Any]] = {
    "schema_version": ["1", 1.0, True, None, [1]],
    "event_id": [1, None, True, ["a"], {}],
    "type": [1, None, True, ["a"], {}],
    "ts": [1771283422, None, "yesterday", "2026-02-16", "2026-02-16T23:10:21", "", {}],
    "session_id": [1, None, True, ["a"], {}],
    "device_id": [1, None, True, ["a"], {}],
    "payload": [1, None, "text", True, [], ["a"]],
}


def parsed(envelope: bytes) -> Any:
    return skyra.parse(envelope, "livingroom", NOW)


def refusal(envelope: bytes) -> CourierError:
    with pytest.raises(CourierError) as refused:
        parsed(skyra.split(envelope)[0][0])
    return refused.value


def test_an_envelope_becomes_an_event_with_its_own_bytes() -> None:
    envelope = raw("evt_9")
    event = parsed(envelope)
    assert (event.contract, event.stream, event.type) == ("skyra", f"devices/{DEVICE}/events", "proposal.task")
    assert (event.source_system, event.source_event_id, event.received_at) == ("livingroom", "evt_9", NOW)
    assert (event.envelope, event.payload_sha256) == (envelope, hashlib.sha256(envelope).digest())
    assert (event.source_emitted_at, event.correlation_id) == ("2026-02-16T23:10:21+00:00", "sess_1")
    assert skyra.device_of(event) == DEVICE


def test_fields_that_nobody_knows_and_a_missing_schema_version_are_fine() -> None:
    assert parsed(raw(schema_version=..., colour="blue")).source_event_id == "evt_1"


@pytest.mark.parametrize("field", REQUIRED)
def test_a_missing_field_is_named(field: str) -> None:
    error = refusal(raw(**{field: ...}))
    assert type(error) is InvalidEnvelope
    assert error.message == f"envelope: Object missing required field `{field}`"


@pytest.mark.parametrize(("field", "value"), [(name, value) for name, each in WRONG_TYPES.items() for value in each])
def test_a_field_of_the_wrong_type_is_named(field: str, value: Any) -> None:
    error = refusal(raw(**{field: value}))
    assert type(error) is InvalidEnvelope
    assert field in error.message


@pytest.mark.parametrize("version", [0, 2, -1, 10**30])
def test_another_schema_version_has_a_code_of_its_own(version: int) -> None:
    error = refusal(raw(schema_version=version))
    assert type(error) is UnsupportedSchemaVersion
    assert error.message == f"schema_version {version} is not supported; send 1"


@pytest.mark.parametrize("field", ["event_id", "type", "session_id"])
def test_a_text_may_be_as_long_as_the_bound_and_no_longer(field: str) -> None:
    parsed(raw(**{field: "x" * EVENT_ID_BYTES_MAX}))
    assert field in refusal(raw(**{field: "x" * (EVENT_ID_BYTES_MAX + 1)})).message
    assert refusal(raw(**{field: ""})).message == f"{field}: it is empty"
    assert "control character" in refusal(raw(**{field: "a\nb"})).message


@pytest.mark.parametrize("device", ["", ".", "..", "a b", "pi/", "/pi", "a//b", "é", "pi*", "a/b/c/d/e/f/g"])
def test_a_device_that_cannot_be_part_of_a_streams_name_is_refused_by_that_name(device: str) -> None:
    error = refusal(raw(device_id=device))
    assert type(error) is InvalidEnvelope
    assert error.message.startswith("device_id: ")


def test_a_device_may_be_several_segments_and_as_long_as_its_stream_allows() -> None:
    assert skyra.device_of(parsed(raw(device_id="kitchen/pi-1"))) == "kitchen/pi-1"
    longest = STREAM_NAME_BYTES_MAX - len("devices//events")
    assert len(parsed(raw(device_id="x" * longest)).stream) == STREAM_NAME_BYTES_MAX
    assert "at most 255" in refusal(raw(device_id="x" * (longest + 1))).message


@pytest.mark.parametrize("field", [*REQUIRED, "schema_version"])
@pytest.mark.parametrize("escaped", [False, True])
def test_a_field_that_is_there_twice_is_refused_however_it_is_spelled(field: str, escaped: bool) -> None:
    spelled = "".join(f"\\u{ord(letter):04x}" for letter in field) if escaped else field
    once = raw()
    error = refusal(once[:-1] + f', "{spelled}": {json.dumps(event()[field])}}}'.encode())
    assert error.message == f"the key {field!r} is there twice; send it once"
    assert skyra.event_id_in(once) == "evt_1"


def test_the_names_of_fields_may_be_repeated_inside_a_payload_and_in_texts() -> None:
    payload = '{"event_id": 1, "event_id": 2, "a": [{"ts": "type"}], "t": "\\"event_id\\": \\u00e9"}'
    parsed(raw(payload="PAYLOAD").replace(b'"PAYLOAD"', payload.encode()))


def test_a_later_time_sorts_behind_an_earlier_one_whatever_their_zones() -> None:
    times = [
        "2026-01-01T10:00:00.5+02:00",
        "2026-01-01T08:00:01Z",
        "2026-01-01T09:00:02+01:00",
        "2026-01-01T08:00:02.1Z",
    ]
    stored = [parsed(raw(ts=time)).source_emitted_at for time in times]
    assert stored == sorted(stored)


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00"])
def test_a_time_outside_the_calendar_is_refused(time: str) -> None:
    assert refusal(raw(ts=time)).message == "ts: it is outside the calendar once it is in UTC"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", InvalidEnvelope),
        (b"null", InvalidEnvelope),
        (b"5", InvalidEnvelope),
        (b'"text"', InvalidEnvelope),
        (b"{}", InvalidEnvelope),
        (raw()[:-1], InvalidEnvelope),
        (raw() + b"}", InvalidEnvelope),
        (raw(payload={"n": 1}).replace(b"1}}", b"NaN}}"), InvalidEnvelope),
        (raw(payload={"n": 1}).replace(b"1}}", b"Infinity}}"), InvalidEnvelope),
        (raw(event_id="E").replace(b'"E"', b"123456789012345678901234567890"), InvalidEnvelope),
        (raw().replace(b"proposal", b"propo\xffsal"), InvalidRequest),
        (raw(payload={"a": "B"}).replace(b'"B"', b'"\xed\xa0\x80"'), InvalidRequest),
        (raw(event_id="E").replace(b'"E"', b'"\\ud800"'), InvalidEnvelope),
        (b"\x1f\x8b\x08\x00", InvalidRequest),
        (b"event_id=evt_1&type=t", InvalidEnvelope),
        (b"[]", InvalidRequest),
        (b"[" + raw(), InvalidRequest),
    ],
)
def test_what_is_no_envelope_is_refused(body: bytes, kind: type[CourierError]) -> None:
    assert type(refusal(body)) is kind


def test_huge_integers_inside_a_payload_are_kept_as_they_are() -> None:
    envelope = raw(payload={"n": 10**40})
    assert parsed(envelope).envelope == envelope


def test_nesting_is_bounded_and_may_reach_the_bound() -> None:
    def nested(levels: int) -> bytes:
        return raw(payload="P").replace(b'"P"', b'{"a":' * levels + b"1" + b"}" * levels)

    (envelope,), _ = skyra.split(nested(JSON_DEPTH_MAX - 1))
    parsed(envelope)
    assert "nested deeper" in refusal(nested(JSON_DEPTH_MAX)).message


def test_an_envelope_may_be_as_large_as_the_bound_and_no_larger() -> None:
    padding = ENVELOPE_BYTES_MAX - len(raw(payload={"p": ""}))
    assert len(parsed(raw(payload={"p": "x" * padding})).envelope) == ENVELOPE_BYTES_MAX
    assert type(refusal(raw(payload={"p": "x" * (padding + 1)}))) is TooLarge


def test_an_array_holds_as_many_as_the_bound_and_no_more() -> None:
    envelopes, is_array = skyra.split(b"[" + b",".join([b"{}"] * ARRAY_EVENTS_MAX) + b"]")
    assert (len(envelopes), is_array) == (ARRAY_EVENTS_MAX, True)
    with pytest.raises(TooLarge):
        skyra.split(b"[" + b",".join([b"{}"] * (ARRAY_EVENTS_MAX + 1)) + b"]")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"5", b"[]", b"{}", b'{"event_id": 5}', b'{"event_id": ""}', b'{"event_id": "a\\u0000"}',
             b'{"event_id": "a", "event_id": "b"}', b'{"event_id": "%b"}' % (b"x" * 256)],
)  # fmt: skip
def test_an_id_that_cannot_be_repeated_is_not_guessed(body: bytes) -> None:
    assert skyra.event_id_in(body) is None


def test_an_acknowledgement_says_when_the_event_was_first_received() -> None:
    taken = parsed(raw())
    first = {"event_id": "evt_1", "ack_ts": "2026-02-16T23:10:22Z", "status": "stored"}
    assert skyra.ack(taken, 7, None) == first
    later = taken._replace(received_at=NOW + 10**9)
    assert skyra.ack(later, -7, (NOW + 999_999, False)) == first | {"duplicate": True}
    assert skyra.ack(later, -7, (NOW, True)) == first | {"duplicate": True, "payload_conflict": True}
