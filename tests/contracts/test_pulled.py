"""What a mapping takes out of somebody else's documents: its bounds, and what comes of any bytes."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contracts.inbound import InboundEvent
from broker.contracts.pulled import Mapping, parse, read_page
from broker.errors import CourierError, InvalidEnvelope, InvalidRequest, TooLarge
from broker.limits import (
    ENVELOPE_BYTES_MAX,
    EVENT_ID_BYTES_MAX,
    JSON_DEPTH_MAX,
    SOURCE_CURSOR_BYTES_MAX,
    SOURCE_PAGE_ITEMS_MAX,
)

MAPPING = Mapping("feed", "s", "message", ("id",), ("items",), ("seq",), ("meta", "time"), ("type",), None, ("next",))


def event(raw: bytes) -> InboundEvent:
    return parse(raw, MAPPING, 1)


def test_a_page_may_have_so_many_items_and_no_more() -> None:
    page = b'{"items":[%b]}'
    assert len(read_page(page % b",".join([b"1"] * SOURCE_PAGE_ITEMS_MAX), MAPPING).items) == SOURCE_PAGE_ITEMS_MAX
    with pytest.raises(TooLarge):
        read_page(page % b",".join([b"1"] * (SOURCE_PAGE_ITEMS_MAX + 1)), MAPPING)


@pytest.mark.parametrize(
    ("document", "items", "cursor"),
    [
        (b"{}", [], None),
        (b'{"items": null, "next": null}', [], None),
        (b'{"items": [], "next": ""}', [], None),
        (b'{"items": {"id": 1}, "next": 0}', [b'{"id": 1}'], "0"),
        (b'{"items": [1, 2], "next": 1.50}', [b"1", b"2"], "1.50"),
        (b'{"next": {"a": 1}}', [], None),
        (b'{"next": true}', [], None),
        (b"[]", [], None),
        (b"null", [], None),
    ],
)
def test_what_a_page_does_not_say_it_does_not_have(document: bytes, items: list[bytes], cursor: str | None) -> None:
    assert read_page(document, MAPPING) == (items, cursor)


def test_a_document_without_a_place_for_items_is_one_or_an_array_of_them() -> None:
    mapping = MAPPING._replace(items=None, next_cursor=None, cursor=("seq",))
    assert read_page(b' {"seq": 5} ', mapping) == ([b'{"seq": 5}'], "5")
    assert read_page(b'[{"seq": 5}, {"seq": 4}, {}]', mapping).cursor == "4", "of the last that says one"


def test_a_cursor_may_be_so_long_and_no_longer() -> None:
    page = b'{"next": "%b"}'
    assert read_page(page % (b"x" * SOURCE_CURSOR_BYTES_MAX), MAPPING).cursor == "x" * SOURCE_CURSOR_BYTES_MAX
    for bad in (b"x" * (SOURCE_CURSOR_BYTES_MAX + 1), b"a\\u0000b", b"\\ud800"):
        with pytest.raises(InvalidRequest):
            read_page(page % bad, MAPPING)


def test_an_item_may_be_as_large_and_as_deep_as_the_bounds_and_its_id_as_long() -> None:
    head, tail = b'{"id":"a","x":"', b'"}'
    event(head + b"x" * (ENVELOPE_BYTES_MAX - len(head + tail)) + tail)
    with pytest.raises(TooLarge):
        event(head + b"x" * (ENVELOPE_BYTES_MAX - len(head + tail) + 1) + tail)
    event(b'{"id":"a","x":%b}' % (b"[" * (JSON_DEPTH_MAX - 1) + b"]" * (JSON_DEPTH_MAX - 1)))
    with pytest.raises(InvalidRequest):
        event(b'{"id":"a","x":%b}' % (b"[" * JSON_DEPTH_MAX + b"]" * JSON_DEPTH_MAX))
    event(b'{"id":"%b"}' % (b"x" * EVENT_ID_BYTES_MAX))
    with pytest.raises(InvalidEnvelope):
        event(b'{"id":"%b"}' % (b"x" * (EVENT_ID_BYTES_MAX + 1)))


def test_a_key_that_counts_may_not_be_there_twice_and_another_may() -> None:
    event(b'{"id":"a","other":1,"other":2}')
    for key in ("id", "seq", "meta", "type"):
        with pytest.raises(InvalidEnvelope, match="is there twice"):
            event(b'{"id":"a","%b":1,"%b":2}' % (key.encode(), key.encode()))


@given(st.binary(max_size=60) | st.text(max_size=40).map(str.encode))
def test_bytes_of_any_kind_are_an_event_or_a_refusal(raw: bytes) -> None:
    with suppress(CourierError):
        for item in read_page(raw, MAPPING).items:
            event(item)
    with suppress(CourierError):
        event(raw)


JSON = st.recursive(
    st.sampled_from([b"null", b"true", b"0", b"-1", b"1e999", b'""', b'"a"', b'"2026-02-16T23:10:21Z"', b"9" * 400]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: b"[" + b",".join(parts) + b"]")
        | st.lists(st.tuples(st.sampled_from([b"id", b"seq", b"meta", b"time", b"type"]), inner), max_size=4).map(
            lambda pairs: b"{" + b",".join(b'"%b":%b' % pair for pair in pairs) + b"}"
        )
    ),
    max_leaves=10,
)


@given(JSON)
def test_json_of_any_shape_is_an_event_with_its_own_bytes_or_a_refusal(raw: bytes) -> None:
    try:
        found = event(raw)
    except CourierError:
        return
    assert (found.envelope, found.source_system, found.stream) == (raw, "source:feed", "s")
    assert found.source_event_id
