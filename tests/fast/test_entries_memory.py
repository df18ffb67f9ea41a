"""What is done with entries leaves no reference behind, also when it is refused; cycles are collected."""

import gc
import sys
import weakref

import pytest

import _fast
from tests.fast.entries_cases import Desk, entry, event, some
from tests.fast.outcome import outcome, raised
from tests.fast.test_memory import Thing, references, references_each, resident_bytes

LARGE = 10_000_000


def test_an_entry_has_a_reference_to_each_of_its_parts():
    parts = [Thing() for _ in range(5)]
    alone = references_each(parts)
    made = _fast.Entry(parts[0], 1, parts[1], b"{}", 5, parts[2], 0, parts[3])
    made.holder = parts[4]
    assert references_each(parts) == alone + 1
    made.__init__(parts[0], 1, parts[1], b"{}", 5, parts[2], 0, parts[3])
    assert references_each(parts) == alone + 1
    del made
    assert references_each(parts) == alone


def test_a_cycle_through_an_entry_is_collected():
    holder = Thing()
    holder.owner = made = entry(_fast)
    made.holder = holder
    alive = weakref.ref(holder)
    assert gc.is_tracked(made)
    del holder, made
    assert alive() is not None
    gc.collect()
    assert alive() is None


def test_leases_and_shares_have_a_reference_to_each_entry_until_they_go():
    desk, given, holders = Desk(_fast), some(_fast, 60), [Thing(), Thing()]
    alone, holder_alone = references_each(given), references_each(holders)
    shares = desk.lease_out(given, holders * 30)
    assert (references_each(given), references_each(holders)) == (alone + 2, holder_alone + 31)
    shares.clear()
    assert (references_each(given), references_each(holders)) == (alone + 1, holder_alone + 30)
    held = {}
    _fast.hold(held, given)
    assert references_each(given) == alone + 2
    ended, lost = _fast.let_go(held, list(range(1, 61)), desk.leases)
    assert (references_each(given), references_each(holders), lost) == (alone + 1, holder_alone, [])
    del ended
    assert references_each(given) == alone


def test_what_was_framed_is_not_kept():
    given = [(each, 1) for each in some(_fast, 20)]
    alone, envelope = references_each([each for each, _ in given]), given[0][0].envelope
    of_envelope = references(envelope)
    for batch in (0, 3):
        _fast.delivery_frames(given, batch, LARGE)
    assert (references_each([each for each, _ in given]), references(envelope)) == (alone, of_envelope)


def refuse_everything(desk, given, waiting, held):
    """Every refusal once, most of them half way through a list."""
    odd = [*given, None]
    for call in (
        lambda: _fast.Entry("s", -1, "e", b"{}", 5, None),
        lambda: _fast.Entry("s", 1, "e", "{}", 5, None),
        lambda: _fast.Entry("s", 1, "e", b"{}", 2**70, None),
        lambda: _fast.stream_runs([(1, event()), (2, ())]),
        lambda: _fast.entries_of("s", [(1, event()), (2, event(envelope=None))], "bus", None),
        lambda: _fast.entries_of("s", [(1, event()), (2, event(contract="bus"))], "bus", None),
        lambda: _fast.envelope_bytes(odd),
        lambda: _fast.any_partition(odd),
        lambda: _fast.waiting_of(odd),
        lambda: _fast.changes_of(odd, 1, 1),
        lambda: _fast.hold(held, odd),
        lambda: desk.lease_out(odd, ["h"] * len(odd)),
        lambda: desk.lease_out(given, ["h"] * (len(given) - 1) + [None]),
        lambda: desk.lease_out(given, ["h"] * (len(given) - 1) + [[]]),
        lambda: desk.lease_out(given, ["h"]),
        lambda: desk.lease_out(given, ["h"] * len(given), first_lease=2**63 - 2),
        lambda: desk.lease_out(given, ["h"] * len(given), deadline_ms=-1),
        lambda: desk.lease_out(given, ["h"] * len(given), first_lease=498),
        lambda: _fast.delivery_frames([*waiting, None], 3, LARGE),
        lambda: _fast.delivery_frames([*waiting, (given[0], -1)], 0, LARGE),
        lambda: _fast.delivery_frames([*waiting, (given[0], 2**70)], 3, LARGE),
        lambda: _fast.delivery_frames(waiting, -1, LARGE),
    ):
        assert outcome(call)[0] == "raised"
    assert _fast.let_go(held, [1, "e"], desk.leases) is None


def live(cycles, desk, first):
    """The life of entries from their commit to their acknowledgement, ten at a time; some time out and come again."""
    for number in range(first, first + cycles):
        kinds = ("bus", "courier") * 5
        events = [
            (10 * number + step, event(f"e-{step}", f"s-{step // 4}", contract)) for step, contract in enumerate(kinds)
        ]
        held = {}
        for name, run in _fast.stream_runs(events):
            given = _fast.entries_of(name, run, "bus", lambda event: (event.source_system, []))
            for late in range(1 + number % 2):
                shares = desk.lease_out(
                    given, [f"holder {step % 2}" for step in range(len(given))], 1000, number + 1 - late
                )
                _fast.delivery_frames(_fast.waiting_of(given), number % 4, 200)
                desk.leases.expire(number)
                if not late and number % 2:
                    desk.leases.release_many([each.lease for each in given], [1] * len(given))
            for share in shares.values():
                _fast.hold(held, share)
            assert _fast.let_go(held, list(held), desk.leases)[1] == []
            _fast.changes_of(given, 1, number)


@pytest.mark.parametrize("flavour", ["lives", "refusals"])
def test_neither_lives_nor_refusals_leave_a_trace(flavour):
    desk, given = Desk(_fast), some(_fast, 5)
    desk.leases.grant(500, 1, 2**47, "held")
    waiting, held = [(each, 1) for each in given], {1: given[0]}

    def work(first):
        if flavour == "lives":
            live(3_000, desk, first)
        else:
            for _ in range(1_500):
                refuse_everything(desk, given, waiting, held)

    work(0)
    gc.collect()
    blocks, objects, growths = sys.getallocatedblocks(), len(gc.get_objects()), []
    for first in (3_000, 6_000, 9_000):
        resident = resident_bytes()
        work(first)
        gc.collect()
        growths.append(resident_bytes() - resident)
    # What fell is not from here: a test before this one may leave something that is let go of meanwhile.
    assert sys.getallocatedblocks() - blocks < 200
    assert abs(len(gc.get_objects()) - objects) < 50
    assert min(growths) < 128 * 1024, f"a leak grows in every pass: {growths}"
    assert raised(refuse_everything, desk, given, waiting, held) is None


def test_an_entry_costs_no_more_than_it_did_without_the_checks():
    assert sys.getsizeof(entry(_fast)) <= 16 + 16 + 9 * 8 + 4 * 8
