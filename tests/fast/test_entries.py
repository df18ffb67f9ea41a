"""Entries, and what is done with many at once, but for their frames: on the compiled module and on its model."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

import _fast
from broker.contracts.inbound import InboundEvent
from tests.fast.entries_cases import Desk, entry, event, pairs, seen, some
from tests.fast.outcome import outcome, raised

ATTEMPT_MAX = 2**31 - 1
NUMBER_MAX = 2**63 - 1
STRANGERS = [None, "text", 7, object(), ("entry", 1)]
WIDE = [2**63, -(2**63) - 1, 2**100]


def no_origin(event):
    raise AssertionError(f"nobody asks for the origin of {event}")


def test_the_places_of_the_fields_are_those_of_an_inbound_event():
    path = Path(__file__).parents[2] / "_fast" / "fields.pxd"
    if not path.exists():
        pytest.skip("only the sources have it, and this is a wheel")
    text = path.read_text(encoding="utf-8")
    places = {name.lower(): int(place) for name, place in re.findall(r"^    (\w+) = (\d+)$", text, re.MULTILINE)}
    assert places.pop("fields") == len(InboundEvent._fields)
    assert len(places) >= 9
    assert places == {name: InboundEvent._fields.index(name) for name in places}


def test_what_is_in_the_ledger_and_what_is_in_memory_never_meet(entries):
    assert entries.MEMORY_SEQ_FIRST == 2**52
    assert entry(entries, 2**52 - 1).in_ledger
    assert not entry(entries, 2**52).in_ledger


# Entries.


def test_an_entry_shows_what_it_was_made_of_and_waits(entries):
    made = entries.Entry("s", 7, "e-7", b"{}", 12, "key", 3, "origin")
    assert seen(made) == {
        "stream": "s", "seq": 7, "id": "e-7", "envelope": b"{}", "received_at": 12, "partition": "key", "attempt": 3,
        "origin": "origin", "lease": 0, "holder": None, "first_attempt_at": None, "unsent": False, "uncounted": 0,
    }  # fmt: skip
    made.uncounted = 2
    assert made.failures == 1


@pytest.mark.parametrize(
    ("place", "value", "error"),
    [
        (1, None, TypeError), (1, "1", TypeError), (1, 1.0, TypeError), (1, True, TypeError), (1, -1, ValueError),
        (1, 2**63, OverflowError), (3, None, TypeError), (3, "text", TypeError), (3, bytearray(b"x"), TypeError),
        (4, None, TypeError), (4, 1.5, TypeError), (4, 2**63, OverflowError), (6, 2**63, OverflowError),
        (6, None, TypeError),
    ],
)  # fmt: skip
def test_an_entry_is_not_made_of_something_else(entries, place, value, error):
    arguments = ["s", 1, "e-1", b"{}", 5, None, 0, None]
    arguments[place] = value
    assert raised(entries.Entry, *arguments) is error


def test_an_entry_that_nobody_filled_is_empty_and_does_no_harm():
    blank = _fast.Entry.__new__(_fast.Entry)
    assert (blank.seq, blank.envelope, blank.received_at) == (0, b"", 0)
    assert _fast.envelope_bytes([blank]) == 0
    assert _fast.delivery_frames([(blank, 0)], 0, 100)[0].endswith(b'{"deliver":,"attempt":0,"seq":0}')
    assert Desk(_fast).lease_out([blank], ["holder"]) == {"holder": [blank]}


def test_what_says_which_event_it_is_cannot_be_changed():
    for name in ("stream", "seq", "id", "envelope", "received_at", "partition", "origin"):
        with pytest.raises(AttributeError):
            setattr(entry(_fast), name, 1)


def test_an_entry_is_not_made_of_a_pickle():
    with pytest.raises(TypeError):
        entry(_fast).__reduce__()


@pytest.mark.parametrize("number", WIDE)
@pytest.mark.parametrize("name", ["attempt", "lease", "uncounted"])
def test_a_wide_number_is_no_attribute_of_an_entry(name, number):
    made = entry(_fast)
    with pytest.raises(OverflowError):
        setattr(made, name, number)
    assert getattr(made, name) == 0


# Events into entries.


@pytest.mark.parametrize("streams", ["", "a", "aaa", "ab", "aabba", "abab"])
def test_runs_are_cut_where_the_stream_changes(entries, streams):
    events = pairs(*streams)
    runs = entries.stream_runs(events)
    assert [pair for _, run in runs for pair in run] == events
    assert all(pair[1].stream == name for name, run in runs for pair in run)
    assert all(one[0] != other[0] for one, other in pairwise(runs))


def test_a_name_that_is_another_object_is_the_same_stream(entries):
    events = pairs("".join(["a", "b"]), "".join(["a", "b"]))
    assert events[0][1].stream is not events[1][1].stream
    assert entries.stream_runs(events) == [("ab", events)]


def test_the_runs_are_lists_of_their_own(entries):
    events = pairs("a", "a")
    ((_, run),) = entries.stream_runs(events)
    run.clear()
    assert len(events) == 2


def test_an_entry_is_made_of_each_event_and_those_of_the_contract_get_their_origin(entries):
    plain, bus = event("p", envelope=b"plain", partition_key="k"), event("b", contract="bus", received_at=9)
    first, second = entries.entries_of("s", [(3, plain), (4, bus)], "bus", lambda given: ("origin of", given))
    assert (first.stream, first.seq, first.id, first.envelope, first.partition) == ("s", 3, "p", b"plain", "k")
    assert (first.received_at, first.origin, first.attempt, first.holder) == (5, None, 0, None)
    assert (second.seq, second.id, second.received_at, second.origin) == (4, "b", 9, ("origin of", bus))


def test_an_origin_that_cannot_be_told_makes_nothing(entries):
    def origin_of(event):
        raise ValueError(event)

    assert raised(entries.entries_of, "s", [(1, event()), (2, event(contract="bus"))], "bus", origin_of) is ValueError


@pytest.mark.parametrize(
    "pair", [None, 1, (1,), (1, event(), 2), [1, event()], (1, None), (1, (1, 2)), (1, list(event()))]
)
def test_what_is_no_event_with_its_sequence_is_refused(entries, pair):
    assert raised(entries.stream_runs, [(1, event()), pair]) is TypeError
    assert raised(entries.entries_of, "s", [(1, event()), pair], "bus", no_origin) is TypeError


@pytest.mark.parametrize(
    ("pair", "error"),
    [
        ((None, event()), TypeError), (("1", event()), TypeError), ((-1, event()), ValueError),
        ((2**63, event()), OverflowError), ((1, event(received_at=2**63)), OverflowError),
        ((1, event(envelope=None)), TypeError), ((1, event(envelope="x")), TypeError),
        ((1, event(received_at=None)), TypeError),
    ],
)  # fmt: skip
def test_an_event_that_no_entry_can_be_made_of_is_refused(entries, pair, error):
    assert raised(entries.entries_of, "s", [(1, event()), pair], "bus", no_origin) is error


def test_a_plain_tuple_is_an_event_too(entries):
    (made,) = entries.entries_of("s", [(1, tuple(event("e")))], "bus", no_origin)
    assert made.id == "e"
    assert entries.stream_runs([(1, tuple(event()))]) == [("s", [(1, tuple(event()))])]


# Entries, looked at.


def test_envelopes_are_measured_together(entries):
    assert entries.envelope_bytes([]) == 0
    assert entries.envelope_bytes([entry(entries, envelope=b"x" * size) for size in (0, 1, 70_000)]) == 70_001


def test_one_partition_key_is_found_among_many_entries(entries):
    keyed = entries.Entry("s", 1, "e", b"{}", 5, "")
    assert not entries.any_partition([])
    assert not entries.any_partition(some(entries, 3))
    assert entries.any_partition([*some(entries, 3), keyed])


@pytest.mark.parametrize("stranger", STRANGERS)
def test_a_stranger_among_entries_is_refused_and_nothing_is_done(entries, stranger):
    desk, given, held = Desk(entries), some(entries, 2), {}
    before = desk.seen(given)
    mixed = [*given, stranger]
    for call in (
        lambda: entries.envelope_bytes(mixed),
        lambda: entries.any_partition(mixed),
        lambda: entries.hold(held, mixed),
        lambda: entries.changes_of(mixed, 1, 1),
        lambda: entries.waiting_of(mixed),
        lambda: desk.lease_out(mixed, ["holder"] * 3),
    ):
        assert raised(call) is TypeError
    assert (desk.seen(given), held) == (before, {})


def test_a_change_of_state_is_made_for_what_the_ledger_has(entries):
    given = [
        entry(entries, 4, attempt=2),
        entry(entries, 2**52),
        entry(entries, 2**52 - 1, attempt=1),
        entry(entries, NUMBER_MAX),
    ]
    assert entries.changes_of(given, 1, 99) == [(4, 1, 99, 2, None, None), (2**52 - 1, 1, 99, 1, None, None)]


def test_what_waits_is_marked_and_comes_with_its_attempt(entries):
    given = [entry(entries, 1, attempt=3), entry(entries, 2, attempt=ATTEMPT_MAX)]
    assert entries.waiting_of(given) == [(given[0], 3), (given[1], ATTEMPT_MAX)]
    assert [each.unsent for each in given] == [True, True]
    assert entries.waiting_of([]) == []


# Leases.


@pytest.mark.parametrize("holders", ["a", "aaaa", "ab", "abab", "abcabc", "aabb"])
def test_each_holder_gets_its_entries_in_their_order(entries, holders):
    desk, given = Desk(entries), some(entries, len(holders))
    shares = desk.lease_out(given, list(holders), first_lease=40)
    assert list(shares) == list(dict.fromkeys(holders))
    assert all(
        shares[name] == [each for each, holder in zip(given, holders, strict=True) if holder == name] for name in shares
    )
    assert [each.holder for each in given] == list(holders)
    assert [each.lease for each in given] == list(range(40, 40 + len(given)))
    assert desk.leases.release_many([each.lease for each in given], [1] * len(given)) == given


def test_the_first_attempt_is_timed_and_the_others_are_not(entries):
    desk, given = Desk(entries), [entry(entries, 1), entry(entries, 2, attempt=1), entry(entries, 3, attempt=4)]
    given[1].first_attempt_at = 17
    desk.lease_out(given, ["a"] * 3, now_us=30)
    assert [(each.attempt, each.first_attempt_at) for each in given] == [(1, 30), (2, 17), (5, 30)]
    assert (desk.latency.count, desk.latency.total) == (1, 25)
    assert (desk.counters.delivered, desk.counters.redelivered) == (3, 2)


def test_a_delivery_that_begins_has_not_left_and_is_marked_by_who_keeps_it(entries):
    desk, (one,) = Desk(entries), some(entries, 1)
    one.unsent = True
    desk.lease_out([one], ["a"])
    assert one.unsent is False


@pytest.mark.parametrize(
    ("received_at", "now_us", "total"),
    [(40, 30, 0), (-(2**63), NUMBER_MAX, 3_600_000_000), (NUMBER_MAX, -(2**63), 0), (-(2**63), -(2**63) + 9, 9)],
)
def test_a_clock_that_runs_backwards_or_jumps_is_no_latency(entries, received_at, now_us, total):
    desk = Desk(entries)
    desk.lease_out([entry(entries, received_at=received_at)], ["a"], now_us=now_us)
    assert (desk.latency.count, desk.latency.total) == (1, total)


REFUSED = {
    "fewer holders": ({"holders": ["a"]}, ValueError),
    "more holders": ({"holders": ["a"] * 4}, ValueError),
    "a holder that is None": ({"holders": ["a", "b", None]}, TypeError),
    "the first holder is None": ({"holders": [None, "b", "c"]}, TypeError),
    "a holder without a hash": ({"holders": ["a", [], "b"]}, TypeError),
    "a deadline before time": ({"deadline_ms": -1}, ValueError),
    "a deadline past the horizon": ({"deadline_ms": 2**48}, ValueError),
    "a key that is leased": ({"first_lease": 898}, ValueError),
    "a key past the last": ({"first_lease": NUMBER_MAX - 1}, OverflowError),
}


@pytest.mark.parametrize("why", REFUSED)
def test_leases_that_cannot_be_given_change_nothing(entries, why):
    changed, error = REFUSED[why]
    desk, given = Desk(entries), some(entries, 3)
    desk.leases.grant(900, 1, 50, "held")
    before = desk.seen(given)
    assert raised(lambda: desk.lease_out(given, **({"holders": ["a", "b", "a"]} | changed))) is error
    assert desk.seen(given) == before


@pytest.mark.parametrize("number", WIDE)
@pytest.mark.parametrize("name", ["first_lease", "deadline_ms", "now_us"])
def test_a_wide_number_leases_nothing(name, number):
    desk, given = Desk(_fast), some(_fast, 2)
    before = desk.seen(given)
    assert raised(lambda: desk.lease_out(given, ["a", "b"], **{name: number})) is OverflowError
    assert desk.seen(given) == before


@pytest.mark.parametrize(
    ("attempt", "fits"), [(ATTEMPT_MAX - 1, True), (ATTEMPT_MAX, False), (-1, False), (NUMBER_MAX, False)]
)
def test_an_attempt_that_no_lease_can_have_leases_nothing(entries, attempt, fits):
    desk, given = Desk(entries), [entry(entries, 1), entry(entries, 2, attempt=attempt)]
    before = desk.seen(given)
    what, answer = outcome(lambda: desk.lease_out(given, ["a", "b"]))
    assert (what == "returned") is fits
    assert fits or (answer is ValueError and desk.seen(given) == before)


@pytest.mark.parametrize("first_attempt_at", ["text", 1.5, 2**63])
def test_a_first_attempt_at_no_time_leases_nothing(first_attempt_at):
    desk, given = Desk(_fast), some(_fast, 2)
    given[1].first_attempt_at = first_attempt_at
    before = desk.seen(given)
    assert raised(lambda: desk.lease_out(given, ["a", "b"])) in (TypeError, OverflowError)
    assert desk.seen(given) == before


@pytest.mark.parametrize(("room", "fits"), [(2, False), (3, True)])
def test_leases_are_given_to_all_or_to_none(entries, room, fits):
    desk, given = Desk(entries, capacity=room), some(entries, 3)
    before = desk.seen(given)
    what, answer = outcome(lambda: desk.lease_out(given, ["a", "b", "c"]))
    assert (what == "returned") is fits
    assert fits or (answer is ValueError and desk.seen(given) == before)


def test_the_last_lease_may_be_the_highest(entries):
    desk, given = Desk(entries), some(entries, 2)
    desk.lease_out(given, ["a", "a"], first_lease=NUMBER_MAX - 1)
    assert given[1].lease == NUMBER_MAX
    assert desk.lease_out([], [], first_lease=NUMBER_MAX) == {}


# What is held.


def test_what_is_let_go_is_held_no_more_and_what_was_not_held_is_named(entries):
    desk, given, held = Desk(entries), some(entries, 4), {}
    desk.lease_out(given, ["a"] * 4)
    entries.hold(held, given)
    assert list(held) == [1, 2, 3, 4]
    assert entries.let_go(held, [3, 9, 1, 3, 2**70, -1], desk.leases) == ([given[2], given[0]], [9, 3, 2**70, -1])
    assert (list(held), len(desk.leases)) == ([2, 4], 2)
    assert [each.holder for each in given] == [None, "a", None, "a"]


@pytest.mark.parametrize("key", ["e-1", True, 1.0, None, b"1"])
def test_a_key_that_is_no_sequence_lets_nothing_go(entries, key):
    desk, given, held = Desk(entries), some(entries, 2), {}
    desk.lease_out(given, ["a"] * 2)
    entries.hold(held, given)
    for keys in ([1, key], [key, 1]):
        assert entries.let_go(held, keys, desk.leases) is None
    assert (len(held), len(desk.leases)) == (2, 2)
    assert [each.holder for each in given] == ["a", "a"]


def test_a_lease_of_another_attempt_is_not_ended(entries):
    desk, (one,), held = Desk(entries), some(entries, 1), {}
    desk.lease_out([one], ["a"])
    entries.hold(held, [one])
    one.attempt = 2
    assert entries.let_go(held, [1], desk.leases) == ([one], [])
    assert len(desk.leases) == 1


@pytest.mark.parametrize("call", ["stream_runs", "envelope_bytes", "any_partition", "waiting_of"])
def test_none_is_no_list(call):
    assert raised(getattr(_fast, call), None) is TypeError
