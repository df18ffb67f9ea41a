"""A view in memory: what is in it, its bounds, and that the frames of any reader come to the view itself."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.limits import WRITE_BYTES_MAX
from broker.streams.entry import MEMORY_SEQ_FIRST
from broker.views.latest_per_agent import LATEST_PER_AGENT
from broker.views.live import PENDING_VIEWS_MAX, Deltas
from broker.views.view import View
from tests.support.views import Folded, agent, inbound


def view_of(entries_max: int = 1_000, bytes_max: int = 1 << 20) -> View:
    return View(LATEST_PER_AGENT, entries_max, bytes_max)


def put(view: View, seq: int, *names: str, envelope: bytes = b"{}") -> None:
    view.take([(seq + place, inbound(agent(name), envelope)) for place, name in enumerate(names)])


def shown(view: View) -> dict[str, object]:
    return {key: json.loads(held.envelope) for key, held in view.items()}


async def frames_of(deltas: Deltas, folded: Folded) -> None:
    """Take frames until there is nothing to tell."""
    while deltas._pending or deltas._anew:
        folded.take(await deltas.take())


@pytest.mark.parametrize(
    ("stream", "is_agent"),
    [
        ("agents/Jen/inbox", True),
        ("agents/inbox/inbox", True),
        ("agents/Jen/outbox", False),
        ("agents/Jen/inbox/more", False),
        ("agents/inbox", False),
        ("agents//inbox", True),  # no stream has this name
        ("more/agents/Jen/inbox", False),
        ("Agents/Jen/inbox", False),
    ],
)
def test_only_the_inboxes_of_agents_are_in_the_view_by_their_address(stream: str, is_agent: bool) -> None:
    assert LATEST_PER_AGENT.key_of(stream, "t") == (stream if is_agent else None)


def test_the_last_envelope_of_a_batch_wins_and_other_streams_move_the_sequence() -> None:
    view = view_of()
    view.take([(1, inbound(agent("a"), b"1")), (2, inbound("jobs", b"2")), (3, inbound(agent("a"), b"3"))])
    assert (shown(view), view.seq) == ({agent("a"): 3}, 3)
    view.take([(4, inbound("jobs", b"4"))])
    assert (shown(view), view.seq) == ({agent("a"): 3}, 4)
    view.take([])
    assert view.seq == 4


def test_an_event_in_memory_is_in_the_view_and_does_not_move_the_sequence() -> None:
    view = view_of()
    view.take([(7, inbound(agent("a"), b"1"))])
    view.take([(MEMORY_SEQ_FIRST, inbound(agent("b"), b"2"))])
    assert (shown(view), view.seq) == ({agent("a"): 1, agent("b"): 2}, 7)


def test_what_is_read_back_does_not_replace_what_is_newer() -> None:
    view = view_of()
    put(view, 7, "a", envelope=b"7")
    view.restore([(agent("a"), 5, b"5"), (agent("a"), 7, b"6"), (agent("b"), 6, b"6"), (agent("a"), 6, None)])
    assert shown(view) == {agent("a"): 7, agent("b"): 6}
    view.restore([(agent("a"), 8, b"8"), (agent("b"), 9, None)])
    assert shown(view) == {agent("a"): 8}


@pytest.mark.parametrize(("names", "kept"), [("ab", "ab"), ("abc", "abc"), ("abcd", "bcd"), ("abcad", "cad")])
def test_past_its_number_of_entries_the_quietest_is_forgotten_and_counted(names: str, kept: str) -> None:
    view = view_of(entries_max=3)
    put(view, 1, *names)
    assert list(view.keys()) == [agent(name) for name in kept]
    assert view.forgotten == len(set(names)) - len(kept)


@pytest.mark.parametrize(("size", "kept"), [(9, "ab"), (10, "ab"), (11, "b")])
def test_past_its_bytes_the_quietest_is_forgotten(size: int, kept: str) -> None:
    view = view_of(bytes_max=20)
    put(view, 1, "a", "b", envelope=b"1" * 10)
    put(view, 3, "b", envelope=b"1" * size)
    assert list(view.keys()) == [agent(name) for name in kept]
    assert view.bytes == sum(len(held.envelope) for _, held in view.items())


async def test_the_frames_of_a_reader_are_a_snapshot_and_then_what_changed() -> None:
    view = view_of()
    put(view, 1, "a")
    deltas = Deltas(view, 1_000)
    assert await deltas.take() == b'{"snapshot":{"agents/a/inbox":{}},"seq":1}'
    put(view, 2, "b", envelope=b' {"x" : 1.0} ')
    assert await deltas.take() == b'{"delta":{"agents/b/inbox": {"x" : 1.0} },"seq":2}'
    waiting = asyncio.ensure_future(deltas.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    put(view, 3, "a", envelope=b"3")
    assert await waiting == b'{"delta":{"agents/a/inbox":3},"seq":3}'
    deltas.close()
    assert not view.listeners


async def test_an_empty_view_is_an_empty_snapshot() -> None:
    assert await Deltas(view_of(), 10).take() == b'{"snapshot":{},"seq":0}'


async def test_a_slow_reader_is_given_the_newest_envelope_of_each_address_and_costs_one_name_for_each() -> None:
    view = view_of()
    deltas = Deltas(view, 1_000)
    await deltas.take()
    for seq in range(1, 10_001):
        put(view, seq, "ab"[seq % 2], envelope=b"%d" % seq)
    assert (len(deltas._pending), deltas.coalesced) == (2, 9_998)
    frame = json.loads(await deltas.take())
    assert frame == {"delta": {agent("b"): 9_999, agent("a"): 10_000}, "seq": 10_000}


@pytest.mark.parametrize(("forgotten", "anew"), [(0, False), (1, True)])
async def test_a_reader_with_more_pending_than_its_bound_starts_over_with_a_snapshot(
    forgotten: int, anew: bool
) -> None:
    keys_max = 5
    view = view_of(entries_max=keys_max)
    deltas = Deltas(view, keys_max)
    await deltas.take()
    names = [f"n{number}" for number in range(PENDING_VIEWS_MAX * keys_max + forgotten)]
    put(view, 1, *names)
    assert len(deltas._pending) <= PENDING_VIEWS_MAX * keys_max
    folded = Folded()
    folded.frames.append(folded.take(b'{"snapshot":{},"seq":0}'))
    frame = folded.take(await deltas.take())
    assert (frame.kind == "snapshot", deltas.resets) == (anew, int(anew))
    assert folded.entries == shown(view)


async def test_a_large_view_comes_in_several_frames_and_the_last_says_so() -> None:
    view = view_of(bytes_max=1 << 30)
    envelope = b'"%b"' % (b"x" * (WRITE_BYTES_MAX // 2))
    put(view, 1, "a", "b", "c", "d", "e", envelope=envelope)
    deltas, folded = Deltas(view, 1_000), Folded()
    frame = folded.take(await deltas.take())
    assert (frame.kind, frame.more, len(frame.entries)) == ("snapshot", True, 2)
    put(view, 6, "a", envelope=b'"newer"')
    await frames_of(deltas, folded)
    assert [frame.more for frame in folded.frames] == [True, True, False]
    assert folded.entries == shown(view)
    assert folded.seq == 6


names = st.sampled_from("abcdefg")
steps = st.one_of(
    st.lists(st.tuples(names, st.integers(0, 30)), min_size=1, max_size=6).map(lambda events: ("commit", events)),
    st.lists(names, min_size=1, max_size=3).map(lambda events: ("memory", events)),
    st.tuples(st.just("read"), st.integers(0, 2)),
    st.tuples(st.just("join"), st.just(0)),
)


@settings(deadline=None)
@given(st.lists(steps, max_size=40), st.integers(1, 6), st.integers(30, 80))
async def test_whatever_happens_a_reader_that_was_told_all_knows_the_view(
    program: list[tuple[str, object]], entries_max: int, bytes_max: int
) -> None:
    view = view_of(entries_max, bytes_max)
    readers = [(Deltas(view, entries_max), Folded())]
    seq, memory_seq = 0, MEMORY_SEQ_FIRST
    for kind, argument in program:
        if kind == "commit":
            events = []
            for name, size in argument:  # type: ignore[attr-defined]
                seq += 1
                events.append((seq, inbound(agent(name), b'"%d%b"' % (seq, b"x" * min(size, bytes_max - 10)))))
            view.take(events)
        elif kind == "memory":
            for name in argument:  # type: ignore[attr-defined]
                view.take([(memory_seq, inbound(agent(name), b"%d" % memory_seq))])
                memory_seq += 1
        elif kind == "join":
            readers.append((Deltas(view, entries_max), Folded()))
        else:
            deltas, folded = readers[argument % len(readers)]  # type: ignore[operator]
            await frames_of(deltas, folded)
            assert (folded.entries, folded.seq) == (shown(view), view.seq)
        assert len(view) <= entries_max
        assert view.bytes == sum(len(held.envelope) for _, held in view.items()) <= bytes_max
    for deltas, folded in readers:
        await frames_of(deltas, folded)
        assert folded.entries == shown(view)
