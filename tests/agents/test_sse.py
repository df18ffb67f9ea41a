"""Server-sent events come out the same, however their bytes are cut."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.agents.sse import SseCutter, SseTooLong
from broker.limits import AGENT_SSE_EVENT_BYTES_MAX

TEXT = b": hello\ndata: one\r\n\ndata: two\r\ndata:three\r\n\r\nevent: x\rdata: four\r\revent: only\n\ndata: unfinished"
EVENTS = [b"one", b"two\nthree", b"four"]


@example(list(range(len(TEXT))))
@given(st.lists(st.integers(min_value=0, max_value=len(TEXT)), max_size=20))
def test_the_events_do_not_depend_on_where_the_bytes_are_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(TEXT)]
    cutter = SseCutter()
    found = [event for begin, end in pairwise(places) for event in cutter.feed(TEXT[begin:end])]
    assert found == EVENTS


def test_an_event_as_long_as_allowed_passes_and_a_longer_one_does_not() -> None:
    cutter = SseCutter()
    line = b"data: " + b"x" * (AGENT_SSE_EVENT_BYTES_MAX - 6)
    assert [len(event) for event in cutter.feed(line + b"\n\n")] == [AGENT_SSE_EVENT_BYTES_MAX - 6]
    with pytest.raises(SseTooLong):
        list(cutter.feed(line + b"x"))


def test_many_short_lines_of_one_event_are_bounded_together() -> None:
    cutter = SseCutter()
    line = b"data: " + b"x" * 994 + b"\n"
    for _ in range(AGENT_SSE_EVENT_BYTES_MAX // 1000):
        assert list(cutter.feed(line)) == []
    with pytest.raises(SseTooLong):
        list(cutter.feed(line))
