"""What is written plainly is read in one walk, as the contract's own parser reads it; the rest is left to that one."""

import gc
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _fast import RequestReader
from broker.contracts import courier
from broker.contracts.inbound import InboundEvent
from broker.contracts.names import stream_name_problem, text_problem
from tests.fast import request_model as model

TEMPLATE = InboundEvent("courier", "", "", "", "", 0, b"", None)
PLAIN = (
    b'{"to":"agents/Jen/inbox","envelope":{"id":"e-91a","ts":"2025-10-18T19:55:00Z","from":"architect",'
    b'"to":"agents/Jen/inbox","type":"sprint.assign","schema":"a","version":-1,"corr":"c-42","refs":["T","U"],"tags":[],'
    b'"headers":{"a":[1,2.5,{"b":null}]},"partitionKey":"k","other":[[]],'
    b'"payload":{"t":[1,-0.5e+3,true,false,null,"\\u00e9x\\n\\"",{}],"":0}}}'
)
SMALL = b'{"to":"s","envelope":{"id":"e","ts":"2024-02-29T23:59:59.120Z","to":"s","type":"t","payload":1}}'
SPACED = (
    b' \t\r\n{ "x" : {"y":[ [ ] ]} , "envelope" : { "payload" : "" , "id":"e2","ts":"2024-02-29T23:59:59Z","to":"s" ,'
    b'"type" : "t"} , "to" : "s" } \n'
)


def source_of(stream: str) -> str | None:
    return None if stream_name_problem(stream) else f"stream:{stream}"


def type_of(text: str) -> str | None:
    return None if text_problem(text, 255) else text


def new_reader(**more: Any) -> RequestReader[InboundEvent]:
    bounds = {"envelope_bytes_max": 1 << 20, "requests_max": 5_000, "levels": 64, **more}
    return RequestReader(TEMPLATE, source_of, type_of, **bounds)


READER = new_reader()


def request(**fields: str) -> bytes:
    """A small request, with other texts of JSON for some fields of its envelope; None leaves one out."""
    envelope = {
        "id": '"e"',
        "ts": '"2025-10-18T19:55:00Z"',
        "to": '"s"',
        "type": '"t"',
        "payload": "1",
        **fields,
    }
    inside = ",".join(f'"{name}":{value}' for name, value in envelope.items() if value)
    return f'{{"to":"s","envelope":{{{inside}}}}}'.encode()


def test_every_field_is_in_its_place() -> None:
    (event,) = READER.read(PLAIN, 42) or []
    assert type(event) is InboundEvent
    assert event == InboundEvent(
        contract="courier",
        stream="agents/Jen/inbox",
        type="sprint.assign",
        source_system="stream:agents/Jen/inbox",
        source_event_id="e-91a",
        received_at=42,
        envelope=PLAIN[PLAIN.index(b'{"id"') : -1],
        payload_sha256=None,
        source_emitted_at="2025-10-18T19:55:00+00:00",
        correlation_id="c-42",
        partition_key="k",
    )


@pytest.mark.parametrize(
    "frame", [PLAIN, SMALL, SPACED, b"[" + SMALL + b"]", b" [ " + SPACED + b" , " + PLAIN + b" ] "]
)
def test_what_is_plain_is_read_as_the_contract_reads_it(frame: bytes) -> None:
    assert READER.read(frame, 7) == model.read(frame, 7) is not None


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("2025-10-18T19:55:00Z", "2025-10-18T19:55:00+00:00"),
        ("2025-10-18T19:55:00.5Z", "2025-10-18T19:55:00.500000+00:00"),
        ("2025-10-18T19:55:00.000001Z", "2025-10-18T19:55:00.000001+00:00"),
        ("2025-10-18T19:55:00.000Z", "2025-10-18T19:55:00+00:00"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00+00:00"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+00:00"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999+00:00"),
    ],
)
def test_a_time_in_utc_is_kept_as_python_writes_it(written: str, kept: str) -> None:
    event = READER.read_one(request(ts=f'"{written}"'), 1)
    assert event is not None
    assert event.source_emitted_at == kept
    assert event == model.read_one(request(ts=f'"{written}"'), 1)


@pytest.mark.parametrize(
    "ts",
    [
        "2025-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2025-04-31T00:00:00Z", "2025-13-01T00:00:00Z",
        "2025-00-01T00:00:00Z", "2025-01-00T00:00:00Z", "0000-01-01T00:00:00Z", "2025-01-01T24:00:00Z",
        "2025-01-01T00:60:00Z", "2025-01-01T00:00:60Z", "2025-01-01T00:00:00", "2025-01-01 00:00:00Z",
        "2025-01-01T00:00:00.Z", "2025-01-01T00:00:00.1234567Z", "2025-01-01T00:00:00+00:00", "2025-01-01T00:00:0xZ",
        "", "Z", "+025-01-01T00:00:00Z",
    ],
)  # fmt: skip
def test_any_other_time_is_left_to_the_parser(ts: str) -> None:
    assert READER.read_one(request(ts=f'"{ts}"'), 1) is None


@pytest.mark.parametrize(
    "frame",
    [
        b"", b" ", b"[]", b"{}", b"1", b"[1]", SMALL + SMALL, SMALL + b",", b"[" + SMALL, b"[" + SMALL + b",]",
        SMALL[:-1],
        b"[" + SMALL + b"] x",
        SMALL.replace(b'"to":"s","env', b'"to":"s","to":"s","env'), request(id='"e","id":"e"'),
        request(id='"\\u0065"'), request(id='"\u00e9"'), request(id='""'), request(id=f'"{"e" * 256}"'),
        request(id='"\x7f"'), request(type='"a\\nb"'), request(type='""'), request(to='"other"'),
        request(to='"s\\u0073"'),
        request(payload=""), request(ts=""), request(type="1"), request(version="1.0"), request(version="1e3"),
        request(version='"1"'), request(refs="[1]"), request(refs='"a"'), request(tags='["a",]'), request(headers="[]"),
        request(headers='{"a":"\\n"}'), request(headers='{"a":1e999}'), request(**{"from": "null"}), request(corr="1"),
        request(partitionKey='""'), request(payload="01"), request(payload="1."), request(payload="-"),
        request(payload=".5"), request(payload="+1"), request(payload="1e"), request(payload="nul"),
        request(payload="NaN"), request(payload='"\t"'), request(payload='"\\x"'), request(payload='"\\u12g4"'),
        request(payload='"\\ud800"'), request(payload="[1,]"), request(payload="[1}"), request(payload='{"a"}'),
        request(payload='{"a":1,}'), request(payload="{1:2}"), SMALL.replace(b'"s"', b'"a//b"'),
        SMALL.replace(b'"payload":1', b'"payload":"\xff"'),
    ],
)  # fmt: skip
def test_what_is_not_plain_or_is_wrong_is_left_to_the_parser(frame: bytes) -> None:
    assert READER.read(frame, 1) is None


def nested(levels: int) -> bytes:
    return request(payload="[" * levels + "]" * levels)


def test_the_bound_of_nesting_is_that_of_the_parser_alone_and_in_an_array() -> None:
    for around, frame in ((2, b"%b"), (3, b"[%b]")):
        assert READER.read(frame % nested(64 - around), 1) == model.read(frame % nested(64 - around), 1) is not None
        assert READER.read(frame % nested(65 - around), 1) is model.read(frame % nested(65 - around), 1) is None


def test_an_envelope_and_an_array_may_be_as_large_as_their_bounds_and_no_larger() -> None:
    size = len(SMALL) - len(b'{"to":"s","envelope":}')
    assert new_reader(envelope_bytes_max=size).read(SMALL, 1) is not None
    assert new_reader(envelope_bytes_max=size - 1).read(SMALL, 1) is None
    assert len(new_reader(requests_max=2).read(b"[%b,%b]" % (SMALL, SMALL), 1) or []) == 2
    assert new_reader(requests_max=2).read(b"[%b,%b,%b]" % (SMALL, SMALL, SMALL), 1) is None


def test_one_request_is_no_array() -> None:
    assert READER.read_one(b"[%b]" % SMALL, 1) is None


PIECES = st.sampled_from(
    [
        b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"0", b"-", b".", b"e", b"E5", b"null", b"\x7f", b"\xc3\xa9",
        b"\xff",
        b" ", b"\n", b"\0", b"Z", b"+00:00", b'"to":"s",', b'"id":"x",', b"\\u0041", b"\\ud800", b"1e999",
        b"12345678901234567",
    ]
)  # fmt: skip


@given(
    st.sampled_from([PLAIN, SMALL, SPACED, b"[%b,%b]" % (SMALL, PLAIN)]),
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 4), PIECES | st.just(b"")), max_size=3),
)
def test_whatever_is_changed_in_a_frame_it_is_read_as_the_contract_reads_it_or_left_to_it(
    frame: bytes, changes: list[tuple[int, int, bytes]]
) -> None:
    for somewhere, length, piece in changes:
        place = somewhere % (len(frame) + 1)
        frame = frame[:place] + piece + frame[place + length :]
    found = READER.read(frame, 7)
    assert found is None or found == model.read(frame, 7)


def test_a_name_is_the_same_object_each_time_however_many_others_come_between() -> None:
    reader = new_reader()
    first = reader.read_one(SMALL, 1)
    again = reader.read_one(SMALL, 1)
    assert first is not None
    assert again is not None
    assert first.stream is again.stream
    assert first.source_system is again.source_system
    for number in random.Random(1).sample(range(100_000), 3_000):
        name = b"s%d" % number
        event = reader.read_one(SMALL.replace(b'"s"', b'"%b"' % name), 1)
        assert event is not None
        assert (event.stream, event.source_system) == (name.decode(), f"stream:{name.decode()}")


def test_events_are_not_searched_for_cycles() -> None:
    events = READER.read(b"[%b,%b]" % (SMALL, PLAIN), 1) or []
    assert len(events) == 2
    assert not any(gc.is_tracked(event) for event in events)


@pytest.mark.parametrize("levels", [2, 65])
def test_levels_have_bounds(levels: int) -> None:
    with pytest.raises(ValueError, match="levels must be from 3 to 64"):
        new_reader(levels=levels)


def test_a_template_has_the_fields_of_an_event() -> None:
    with pytest.raises(ValueError, match="18 fields"):
        RequestReader(TEMPLATE[:5], source_of, type_of, 1, 1, 64)


def test_what_a_grammar_raises_is_raised_and_nothing_is_remembered() -> None:
    broken = True

    def source(stream: str) -> str:
        if broken:
            raise ZeroDivisionError
        return stream

    reader = RequestReader(TEMPLATE, source, type_of, 1000, 1, 64)
    with pytest.raises(ZeroDivisionError):
        reader.read(SMALL, 1)
    broken = False
    assert len(reader.read(SMALL, 1) or []) == 1


def test_the_parser_of_the_contract_asks_the_reader_first() -> None:
    assert courier.parse_enqueue(SMALL, 9) == model.read_one(SMALL, 9)
    assert not gc.is_tracked(courier.parse_enqueue(SMALL, 9))
