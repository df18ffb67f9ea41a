"""The Courier contract: which bodies are events, and which are not."""

import contextlib
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.contracts import courier
from broker.contracts.inbound import InboundEvent
from broker.errors import CourierError, InvalidEnvelope, InvalidRequest
from broker.limits import (
    ENVELOPE_BYTES_MAX,
    EVENT_ID_BYTES_MAX,
    EVENT_TYPE_BYTES_MAX,
    JSON_DEPTH_MAX,
    PARTITION_KEY_BYTES_MAX,
)
from tests.support.events import STREAM, body, envelope, raw_body, raw_envelope
from tests.support.refusals import NOT_JSON, REFUSALS, Refusal, sized_envelope

FIXED = settings(derandomize=True, database=None, deadline=None, max_examples=300)


def parsed(sent: bytes) -> InboundEvent:
    return courier.parse_enqueue(sent, 42)


def test_every_field_of_the_event_comes_from_the_body() -> None:
    sent = raw_envelope("e-1").replace(b'"type"', b'"corr": "c-42", "type"')
    assert parsed(raw_body(sent)) == InboundEvent(
        contract="courier",
        stream=STREAM,
        type="t",
        source_system=f"stream:{STREAM}",
        source_event_id="e-1",
        received_at=42,
        envelope=sent,
        payload_sha256=None,
        source_emitted_at="2025-10-18T19:55:00+00:00",
        correlation_id="c-42",
    )


def test_what_the_specification_shows_is_an_event() -> None:
    fields = {
        "from": "architect",
        "schema": "xeno/sprint-assign@v1",
        "version": 1,
        "corr": "c-42",
        "refs": ["T1102"],
        "tags": ["sprint"],
        "headers": {"priority": "normal", "n": 1},
        "partitionKey": "Jen",
        "unknown": {"kept": True},
    }
    assert json.loads(parsed(body(**fields)).envelope) == envelope(**fields)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_what_is_not_an_event_is_refused_with_a_reason(refusal: Refusal) -> None:
    with pytest.raises(CourierError) as refused:
        parsed(refusal.body)
    error = refused.value
    assert (error.status, error.code, error.message) == (refusal.status, refusal.code, refusal.message)


@pytest.mark.parametrize("sent", NOT_JSON)
def test_what_is_not_json_is_refused(sent: bytes) -> None:
    with pytest.raises(InvalidRequest, match="the body is not"):
        parsed(sent)


@pytest.mark.parametrize(
    "fields",
    [
        {"event_id": "i" * EVENT_ID_BYTES_MAX},
        {"event_id": "é" * (EVENT_ID_BYTES_MAX // 2)},
        {"event_id": "an id: with 'quotes', spaces & \"more\" 🐎"},
        {"type": "t" * EVENT_TYPE_BYTES_MAX},
        {"to": "s" * 255},
        {"to": "1/2/3/4/5/6/7/8"},
        {"ts": "2025-10-18T19:55:00.123456+02:00"},
        {"ts": "2025-10-18t19:55:00z"},
        {"payload": False},
        {"version": 2**70},
    ],
)
def test_what_is_just_within_the_bounds_is_taken(fields: dict[str, object]) -> None:
    assert parsed(body(**fields)).stream == fields.get("to", STREAM)


def test_an_envelope_of_just_the_allowed_size_is_taken() -> None:
    assert len(parsed(raw_body(sized_envelope(ENVELOPE_BYTES_MAX))).envelope) == ENVELOPE_BYTES_MAX


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_of_just_the_allowed_depth_is_taken(opening: bytes, closing: bytes) -> None:
    depth = JSON_DEPTH_MAX - 2  # the body and the envelope are two levels
    parsed(raw_body(raw_envelope(payload=opening * depth + b"0" + closing * depth)))


@given(st.text(alphabet=st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=60))
@FIXED
def test_any_printable_id_survives_in_any_spelling(event_id: str) -> None:
    for ascii_only in (False, True):
        sent = json.dumps({"to": STREAM, "envelope": envelope(event_id)}, ensure_ascii=ascii_only).encode()
        assert parsed(sent).source_event_id == event_id


@given(st.binary(max_size=200) | st.text(alphabet='{}[]":,\\ toenvlp1', max_size=200).map(str.encode))
@FIXED
def test_any_bytes_are_an_event_or_refused(sent: bytes) -> None:
    with contextlib.suppress(InvalidRequest):
        parsed(sent)


@pytest.mark.parametrize(
    "sent",
    [
        b"[]" * 65 + b'"' + b'\\"' * 2_000_000,
        b"[]" * 65 + b'\\"' * 2_000_000,
        b"[]" * 65 + b'""' * 2_000_000,
        b"[]" * 65 + b'"' + b"\\" * 4_000_000,
        b"[]" * 2_000_000,
        b"[" * 4_000_000,
    ],
    ids=["an open string of escaped quotes", "escaped quotes", "empty strings", "backslashes", "flat", "deep"],
)
def test_no_body_of_the_allowed_size_takes_long_to_refuse(sent: bytes) -> None:
    started = time.process_time()
    with pytest.raises(InvalidRequest):
        parsed(sent)
    assert time.process_time() - started < 2.0


def with_partition(key: str) -> bytes:
    return raw_body(raw_envelope("e-1").replace(b'"type"', b'"partitionKey": %b, "type"' % json.dumps(key).encode()))


def test_the_partition_key_is_kept_up_to_its_bound() -> None:
    assert parsed(raw_body(raw_envelope("e-1"))).partition_key is None
    assert parsed(with_partition("room-7")).partition_key == "room-7"
    assert parsed(with_partition("k" * PARTITION_KEY_BYTES_MAX)).partition_key == "k" * PARTITION_KEY_BYTES_MAX


@pytest.mark.parametrize("key", ["", "k" * (PARTITION_KEY_BYTES_MAX + 1), "a\0b"])
def test_a_partition_key_out_of_bounds_is_refused(key: str) -> None:
    with pytest.raises(InvalidEnvelope, match=r"envelope\.partitionKey: it "):
        parsed(with_partition(key))


@pytest.mark.parametrize(
    ("seq", "duplicate", "expected"),
    [
        (7, None, {"id": "e", "seq": 7, "duplicate": False}),
        (-7, (1, False), {"id": "e", "seq": 7, "duplicate": True}),
        (-7, (1, True), {"id": "e", "seq": 7, "duplicate": True, "payload_conflict": True}),
    ],
)
def test_the_reply_says_what_became_of_the_event(
    seq: int, duplicate: tuple[int, bool] | None, expected: dict[str, object]
) -> None:
    assert courier.reply("e", seq, duplicate) == expected
