"""What is handed in, and the bytes that become of it."""

import json
from typing import Any

import pytest

from broker.clock import ManualClock
from edge.errors import EventInvalid, SettingsInvalid
from edge.event import Stamp
from edge.limits import EVENT_BYTES_MAX, EVENT_ID_BYTES_MAX

WHOLE = {
    "schema_version": 1,
    "event_id": "evt_1",
    "type": "door.opened",
    "ts": "2026-02-16T23:10:21Z",
    "session_id": "sess_1",
    "device_id": "pi-2",
    "payload": {"door": 3},
}


@pytest.fixture
def stamp() -> Stamp:
    return Stamp("pi-1", "sess_of_the_run", ManualClock())


def test_a_mapping_gets_what_it_lacks(stamp: Stamp) -> None:
    event = json.loads(stamp.event({"type": "t", "payload": {}}).payload_json)
    assert event["event_id"].startswith("evt_")
    assert len(event["event_id"]) == len("evt_") + 26
    assert event == {
        "schema_version": 1,
        "event_id": event["event_id"],
        "ts": "2026-02-19T18:30:00.000Z",
        "session_id": "sess_of_the_run",
        "device_id": "pi-1",
        "type": "t",
        "payload": {},
    }


def test_what_is_whole_is_not_touched(stamp: Stamp) -> None:
    given = json.dumps(WHOLE, indent=None).encode()
    assert stamp.event(given) == ("evt_1", given)
    assert json.loads(stamp.event(WHOLE).payload_json) == WHOLE


def test_bytes_keep_what_a_parser_would_alter(stamp: Stamp) -> None:
    body = b'"type":"t","payload":{"n":123456789012345678901234567890,"n":1.10,"e":"\\u00e9"}}'
    event = stamp.event(b" {  %b " % body)
    assert event.payload_json.endswith(b"," + body)
    assert json.loads(event.payload_json)["event_id"] == event.event_id


def test_an_event_is_one_line_and_always_the_same_line(stamp: Stamp) -> None:
    pretty = json.dumps(WHOLE, indent=2).replace("\n", "\r\n")
    event = stamp.event(pretty)
    assert b"\n" not in event.payload_json
    assert b"\r" not in event.payload_json
    assert json.loads(event.payload_json) == WHOLE
    assert stamp.event(event.payload_json) == event


def test_ids_sort_by_time_and_never_meet(stamp: Stamp) -> None:
    clock = ManualClock()
    made = []
    for _ in range(100):
        made.append(Stamp("pi-1", clock=clock).event({"type": "t", "payload": {}}).event_id)
        clock.advance(1)
    assert made == sorted(made)
    assert len(set(made)) == 100


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (b"not json", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"type":"t"', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        ({"payload": 1}, "no type"),
        ({"type": "t"}, "no payload"),
        ({"type": "t", "payload": [1]}, "payload is not an object"),
        ({"type": "t", "payload": {}, "ts": "yesterday"}, "no time"),
        ({"type": "t", "payload": {}, "ts": "2026-01-01T00:00:00"}, "no time"),
        ({"type": "", "payload": 1}, "type is empty"),
        ({"type": 1, "payload": 1}, "type is not a text"),
        ({"type": "t", "payload": 1, "event_id": "a\x00"}, "control character"),
        ({"type": "t", "payload": 1, "event_id": "e" * (EVENT_ID_BYTES_MAX + 1)}, "256 bytes"),
        ({"type": "t", "payload": {1: 2, "x": object()}}, "cannot be written as JSON"),
        ({"type": "t", "payload": {"x": "\ud800"}}, "cannot be written as JSON"),
        ({"type": "t", "payload": {"x": "x" * EVENT_BYTES_MAX}}, "at most 1048576"),
        (b'{"type":"t","payload":"' + b"x" * EVENT_BYTES_MAX, "at most 1048576"),
    ],
)
def test_what_is_no_event_is_refused_with_a_reason(given: Any, problem: str, stamp: Stamp) -> None:
    with pytest.raises(EventInvalid, match=problem):
        stamp.event(given)


def test_an_event_of_the_greatest_size_is_taken_and_one_byte_more_is_not(stamp: Stamp) -> None:
    empty = len(stamp.event(WHOLE | {"payload": {"x": ""}}).payload_json)
    fits = stamp.event(WHOLE | {"payload": {"x": "x" * (EVENT_BYTES_MAX - empty)}})
    assert len(fits.payload_json) == EVENT_BYTES_MAX
    with pytest.raises(EventInvalid):
        stamp.event(WHOLE | {"payload": {"x": "x" * (EVENT_BYTES_MAX - empty + 1)}})


def test_without_a_device_id_the_event_must_have_one() -> None:
    with pytest.raises(EventInvalid, match="device_id; give one to the outbox"):
        Stamp().event({"type": "t", "payload": {}})
    assert Stamp().event(WHOLE).event_id == "evt_1"


@pytest.mark.parametrize("device_id", ["", "a/b", "..", "pi 1", "é", "x" * 129])
def test_a_device_id_that_names_no_stream_is_refused_at_once(device_id: str) -> None:
    with pytest.raises(SettingsInvalid, match="device id"):
        Stamp(device_id)
