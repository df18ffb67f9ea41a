"""What a reader was handed: an object for each delivery, and many of them acknowledged at once."""

import gc
import sys
import weakref
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import _fast
from _fast import Counters, Entry, Handed, Histogram, Leases, hold, lease_out
from tests.fast import handed_model as model
from tests.fast.test_reentrancy import MOMENTS, collecting


class Delivery(Handed[Any, Any, Any]):
    __slots__ = ()


class Place:
    """Who holds events."""

    def __init__(self, streams: int = 1) -> None:
        self.leases: Leases[Any] = Leases(1_000)
        self.held: dict[int, Any] = {}
        self.streams = [f"stream {number}" for number in range(streams)]
        self.leased = 0

    def lease(self, *seqs: int) -> list[Entry[Any, Any]]:
        """New events, leased to this place."""
        streams = [self.streams[seq % len(self.streams)] for seq in seqs]
        fresh = [Entry(stream, seq, f"e-{seq}", b"{}", 0, None) for stream, seq in zip(streams, seqs, strict=True)]
        return self.lease_again(fresh)

    def lease_again(self, entries: list[Entry[Any, Any]]) -> list[Entry[Any, Any]]:
        """Events leased to this place, for one attempt more."""
        lease_out(entries, [self] * len(entries), self.leases, self.leased + 1, 100, 0, Histogram(), Counters())
        self.leased += len(entries)
        hold(self.held, entries)
        return entries

    def lose(self, entry: Entry[Any, Any]) -> None:
        """The lease of an event runs out."""
        self.leases.release(entry.lease, entry.attempt)
        del self.held[entry.seq]
        entry.holder = None


@pytest.fixture(params=[pytest.param(_fast, id="compiled"), pytest.param(model, id="model")])
def handed(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_a_delivery_has_its_event_under_the_attempt_of_its_time(handed: Any) -> None:
    place = Place()
    entries = place.lease(1, 2)
    first, second = handed.hand_out(Delivery, "tap", place, entries)
    assert type(first) is Delivery
    assert (first._tap, first._place, first._entry, first.attempt) == ("tap", place, entries[0], 1)
    assert (first.settled, first.held, first._envelope) == (False, True, None)
    assert handed.entries_handed([second, first]) == [entries[1], entries[0]]
    place.lose(entries[0])
    assert not first.held
    place.lease_again([entries[0]])
    assert (first.held, first.attempt, second.held) == (False, 1, True)
    assert handed.hand_out(Delivery, "tap", place, [entries[0]])[0].attempt == 2


@pytest.mark.parametrize("kind", [dict, object, Entry])
def test_a_delivery_is_made_of_what_is_handed(kind: type) -> None:
    with pytest.raises(TypeError, match="made of Handed"):
        _fast.hand_out(kind, "tap", Place(), [])


def test_what_is_no_entry_and_what_is_no_delivery_are_refused() -> None:
    with pytest.raises(TypeError):
        _fast.hand_out(Delivery, "tap", Place(), [None])
    with pytest.raises(TypeError):
        _fast.still_held([None])
    with pytest.raises(TypeError):
        _fast.entries_handed([None])
    with pytest.raises(TypeError):
        Delivery("tap", Place(), None)


def test_one_that_was_made_without_its_fields_is_not_held() -> None:
    bare = Delivery.__new__(Delivery)
    assert not bare.held
    assert _fast.still_held([bare]) == []
    assert _fast.let_go_handed({}, [bare], Place(), Leases(1)) is None


def test_what_is_still_held_is_the_same_list_while_that_is_all_of_it(handed: Any) -> None:
    place = Place()
    deliveries = handed.hand_out(Delivery, "tap", place, place.lease(1, 2, 3))
    assert handed.still_held(deliveries) is deliveries
    place.lose(deliveries[1]._entry)
    assert handed.still_held(deliveries) == [deliveries[0], deliveries[2]]
    assert handed.still_held([]) == []


def test_what_is_let_go_is_told_by_stream_and_what_was_lost_by_delivery(handed: Any) -> None:
    place = Place(streams=2)
    entries = place.lease(1, 2, 3, 4, 5)
    deliveries = handed.hand_out(Delivery, "tap", place, entries)
    place.lose(entries[2])
    again = place.lease_again([entries[2]])
    place.lose(entries[3])
    by_stream, lost = handed.let_go_handed(place.held, deliveries, place, place.leases)
    assert by_stream == {"stream 1": [entries[0], entries[4]], "stream 0": [entries[1]]}
    assert lost == [deliveries[2], deliveries[3]]
    assert [each.settled for each in deliveries] == [True, True, False, False, True]
    assert (place.held, len(place.leases)) == ({3: again[0]}, 1)
    assert [each.holder for each in entries] == [None, None, place, None, None]
    assert handed.let_go_handed(place.held, deliveries[:1], place, place.leases) == ({}, deliveries[:1])


def test_a_delivery_that_is_named_twice_is_lost_the_second_time(handed: Any) -> None:
    place = Place()
    (delivery,) = handed.hand_out(Delivery, "tap", place, place.lease(1))
    by_stream, lost = handed.let_go_handed(place.held, [delivery, delivery], place, place.leases)
    assert (by_stream, lost) == ({"stream 0": [delivery._entry]}, [delivery])


def test_what_is_of_another_place_or_is_none_changes_nothing(handed: Any) -> None:
    place, other = Place(), Place()
    deliveries = handed.hand_out(Delivery, "tap", place, place.lease(1, 2))
    foreign = handed.hand_out(Delivery, "tap", other, other.lease(1))
    for mixed in ([*deliveries, *foreign], [deliveries[0], "none"]):
        assert handed.let_go_handed(place.held, mixed, place, place.leases) is None
    assert (len(place.held), len(other.held), len(place.leases)) == (2, 1, 2)
    assert not any(each.settled for each in deliveries)


def test_an_event_that_another_one_has_replaced_is_lost_and_the_other_one_stays(handed: Any) -> None:
    place = Place()
    (delivery,) = handed.hand_out(Delivery, "tap", place, place.lease(1))
    other = place.held[1] = Entry("stream 0", 1, "other", b"", 0, None)
    assert handed.let_go_handed(place.held, [delivery], place, place.leases) == ({}, [delivery])
    assert place.held == {1: other}


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["deliver", "lose", "again", "ack"]), st.lists(st.integers(0, 12), max_size=6)),
    max_size=25,
)


def run(side: Any, actions: list[tuple[str, list[int]]]) -> list[Any]:
    """What is seen of a place and its deliveries, after each action."""
    place = Place(streams=3)
    entries: dict[int, Entry[Any, Any]] = {}
    deliveries: list[Any] = []
    seen: list[Any] = []
    for name, numbers in actions:
        found: Any = None
        if name == "deliver":
            fresh = [number for number in dict.fromkeys(numbers) if number not in entries]
            entries |= zip(fresh, made := place.lease(*fresh), strict=True)
            deliveries += side.hand_out(Delivery, "tap", place, made)
        elif name == "lose":
            for number in numbers:
                if number in place.held:
                    place.lose(place.held[number])
        elif name == "again":
            known = [entries[number] for number in dict.fromkeys(numbers) if number in entries]
            back = [entry for entry in known if entry.holder is None]
            deliveries += side.hand_out(Delivery, "tap", place, place.lease_again(back))
        elif deliveries:
            chosen = [deliveries[number % len(deliveries)] for number in numbers]
            by_stream, lost = side.let_go_handed(place.held, chosen, place, place.leases)
            found = (
                {stream: [each.seq for each in ended] for stream, ended in by_stream.items()},
                [(each._entry.seq, each.attempt) for each in lost],
            )
        held = [(each._entry.seq, each.attempt) for each in side.still_held(deliveries)]
        seen.append((found, held, list(place.held), len(place.leases), [each.settled for each in deliveries]))
    return seen


@given(ACTIONS)
def test_whatever_happens_the_compiled_one_and_the_model_agree(actions: list[tuple[str, list[int]]]) -> None:
    assert run(_fast, actions) == run(model, actions)


def test_deliveries_own_a_reference_to_their_event_and_give_it_up() -> None:
    place = Place()
    (entry,) = place.lease(1)
    alone, places = sys.getrefcount(entry), sys.getrefcount(place)
    deliveries = _fast.hand_out(Delivery, "tap", place, [entry] * 50)
    assert (sys.getrefcount(entry), sys.getrefcount(place)) == (alone + 50, places + 50)
    del deliveries
    assert (sys.getrefcount(entry), sys.getrefcount(place)) == (alone, places)


def test_a_cycle_through_a_delivery_is_collected() -> None:
    place = Place()
    place.kept = _fast.hand_out(Delivery, "tap", place, place.lease(1))
    alive = weakref.ref(place)
    del place
    gc.collect()
    assert alive() is None


def come_and_go() -> None:
    place = Place()
    entries = place.lease(*range(50))
    deliveries = _fast.hand_out(Delivery, ["tap"], place, entries)
    place.lose(entries[3])
    assert len(_fast.still_held(deliveries)) == 49
    assert _fast.let_go_handed(place.held, [*deliveries, None], place, place.leases) is None
    assert len(_fast.let_go_handed(place.held, deliveries, place, place.leases)[1]) == 1


def test_deliveries_that_come_and_go_leave_no_trace() -> None:
    for _ in range(20):
        come_and_go()
    gc.collect()
    blocks, objects = sys.getallocatedblocks(), len(gc.get_objects())
    for _ in range(500):
        come_and_go()
    gc.collect()
    assert abs(sys.getallocatedblocks() - blocks) < 200
    assert abs(len(gc.get_objects()) - objects) < 50


@pytest.mark.parametrize("number", [0, 5, 59])
def test_a_lease_that_ends_in_a_destructor_meanwhile_is_lost_or_let_go_and_never_both(number: int) -> None:
    for moment in MOMENTS:
        place = Place(streams=7)
        entries = place.lease(*range(60))
        deliveries = _fast.hand_out(Delivery, "tap", place, entries)

        def end(place: Place = place, entry: Any = entries[number]) -> None:
            if entry.seq in place.held:
                place.lose(entry)

        by_stream, lost = collecting(
            partial(_fast.let_go_handed, place.held, deliveries, place, place.leases), moment, end
        )
        ended = [entry for each in by_stream.values() for entry in each]
        assert len(ended) + len(lost) == 60
        assert len({id(entry) for entry in ended}) == len(ended)
        assert [each._entry for each in lost] in ([], [entries[number]])
        assert (len(place.held), len(place.leases)) == (0, 0)


def test_deliveries_are_handed_out_while_the_collector_runs() -> None:
    for moment in MOMENTS:
        place = Place()
        entries = place.lease(*range(60))
        deliveries = collecting(partial(_fast.hand_out, Delivery, "tap", place, entries), moment, entries.clear)
        assert [each._entry.seq for each in deliveries] == list(range(len(deliveries)))
