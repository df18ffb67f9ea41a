"""Whatever is sent, each contract gives an event that the ledger can hold, or a refusal, and nothing else."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.contracts import cloudevents, pixel, skyra
from broker.contracts.inbound import InboundEvent
from broker.contracts.pixel_schemas import load_schemas
from broker.errors import CourierError
from tests.support.pixel import TRANSPORT, envelope
from tests.support.skyra import event

FIXED = settings(derandomize=True, database=None, deadline=None, max_examples=400)
SCHEMAS = load_schemas()
CLOUDEVENT = {
    "specversion": "1.0",
    "id": "1",
    "source": "/s",
    "type": "t",
    "subject": "a/b",
    "time": "2026-01-01T00:00:00Z",
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def of_skyra(body: bytes) -> list[InboundEvent]:
    envelopes, _ = skyra.split(body)
    return [skyra.parse(each, "p", 1) for each in envelopes]


def of_pixel(body: bytes) -> list[InboundEvent]:
    pixel.facts(body)
    return [pixel.parse(body, SCHEMAS, "warn", "p", 1, pixel.Told()).event]


def of_cloudevents(body: bytes) -> list[InboundEvent]:
    return [cloudevents.parse(body, None, 1)]


CONTRACTS: list[tuple[Callable[[bytes], list[InboundEvent]], dict[str, Any]]] = [
    (of_skyra, event()),
    (of_pixel, {"envelope": envelope(), "transport": TRANSPORT}),
    (of_cloudevents, CLOUDEVENT),
]
EACH = pytest.mark.parametrize(("read", "whole"), CONTRACTS, ids=lambda each: getattr(each, "__name__", ""))


def assert_storable(read: Callable[[bytes], list[InboundEvent]], body: bytes) -> bool:
    try:
        events = read(body)
    except CourierError:
        return False
    for each in events:
        for value in each:
            assert value is None or type(value) in (str, bytes) or (type(value) is int and abs(value) < 2**63)
            if isinstance(value, str):
                value.encode()
        assert len(each.payload_sha256) == 32
        assert each.envelope in body
    return True


@EACH
@FIXED
@given(sent=st.binary(max_size=60))
@example(sent=b"\xef\xbb\xbf{}")
def test_bytes_of_any_kind_are_no_event(read: Any, whole: dict[str, Any], sent: bytes) -> None:
    assert not assert_storable(read, sent)


@EACH
@FIXED
@given(data=st.data())
def test_anything_in_place_of_a_value_is_taken_or_refused(
    read: Any, whole: dict[str, Any], data: st.DataObject
) -> None:
    changed = json.loads(json.dumps(whole))
    place = changed
    if "envelope" in whole and data.draw(st.booleans()):
        place = changed[data.draw(st.sampled_from(sorted(changed)))]
    place[data.draw(st.sampled_from(sorted(place)) | st.text(max_size=5))] = data.draw(VALUES)
    assert_storable(read, json.dumps(changed, ensure_ascii=data.draw(st.booleans())).encode(errors="surrogatepass"))


@EACH
@FIXED
@given(data=st.data())
def test_an_event_with_some_bytes_changed_is_taken_or_refused(
    read: Any, whole: dict[str, Any], data: st.DataObject
) -> None:
    body = json.dumps(whole).encode()
    at = data.draw(st.integers(0, len(body) - 1))
    assert_storable(read, body[:at] + data.draw(st.binary(max_size=3)) + body[at + data.draw(st.integers(0, 3)) :])


@EACH
def test_the_valid_event_is_one(read: Any, whole: dict[str, Any]) -> None:
    assert assert_storable(read, json.dumps(whole).encode())


@FIXED
@given(
    headers=st.dictionaries(st.sampled_from([*CLOUDEVENT, "ext", "e_x"]), st.text(max_size=12), max_size=8),
    kind=st.none() | st.sampled_from(["application/json", "text/plain"]) | st.text(max_size=12),
    body=st.binary(max_size=30),
)
def test_an_event_in_binary_mode_is_taken_or_refused(headers: dict[str, str], kind: str | None, body: bytes) -> None:
    named = [(f"ce-{name}", value) for name, value in (CLOUDEVENT | headers).items()]
    try:
        made = cloudevents.structured(named, kind, body)
    except CourierError:
        return
    json.loads(made)
    assert_storable(of_cloudevents, made)
