"""Somebody else's code in the middle of a compiled call on entries: it is done, or refused with nothing changed."""

from functools import partial

import pytest

import _fast
from tests.fast.entries_cases import Desk, entry, event, seen, some
from tests.fast.outcome import outcome
from tests.fast.test_reentrancy import MOMENTS, collecting

COUNT = 70
LARGE = 10_000_000

CHANGES = {
    "clears": lambda items: items.clear(),
    "shortens": lambda items: items.pop(),
    "lengthens": lambda items: items.extend(items[:1] * 500),
    "spoils": lambda items: items.__setitem__(-1, None),
    "turns": lambda items: items.reverse(),
}


def deliveries(count=COUNT):
    made = [(each, 1) for each in some(_fast, count)]
    for each, attempt in made:
        each.attempt, each.unsent = attempt, True
    return made


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("which", ["entries", "holders"])
def test_lists_that_are_changed_while_they_are_leased_are_leased_as_they_were_or_not_at_all(change, which):
    for moment in MOMENTS:
        desk, given, holders = Desk(_fast), some(_fast, COUNT), [f"holder {number % 3}" for number in range(COUNT)]
        own, before, items = list(given), desk.seen(given), {"entries": given, "holders": holders}[which]
        lease = partial(outcome, partial(desk.lease_out, given, holders))
        what, answer = collecting(lease, moment, lambda items=items: CHANGES[change](items))
        if what == "raised":
            assert answer in (TypeError, ValueError)
            assert desk.seen(own) == before
        else:
            leased = [each for each in own if each.attempt]
            assert len(desk.leases) == sum(map(len, answer.values())) == desk.counters.delivered
            assert {id(each) for share in answer.values() for each in share} == set(map(id, leased))
            assert all(each.holder in answer for each in leased)


DESK_CHANGES = {
    "takes the key": lambda desk: desk.leases.grant(30, 1, 50, "in between"),
    "takes the room": lambda desk: [desk.leases.grant(number, 1, 50, "x") for number in range(1000, 1060)],
    "expires": lambda desk: desk.leases.expire(10_000),
    "clears the histogram": lambda desk: desk.latency.clear(),
    "leases others": lambda desk: desk.lease_out(some(_fast, 3, 900), ["other"] * 3, first_lease=500),
}


@pytest.mark.parametrize("change", DESK_CHANGES)
@pytest.mark.parametrize("code", ["collected", "hashed"])
def test_leases_that_change_while_entries_are_leased_are_given_to_all_or_to_none(change, code):
    for moment in MOMENTS[:6]:
        desk, given, calls = Desk(_fast), some(_fast, COUNT), []

        class Holder:
            def __hash__(self, calls=calls, desk=desk, hashed=code == "hashed"):
                if hashed and not calls:
                    calls.append(True)
                    DESK_CHANGES[change](desk)
                return 1

        holders = [Holder()] * COUNT
        lease = partial(outcome, partial(desk.lease_out, given, holders))
        if code == "hashed":
            what, _ = lease()
        else:
            what, _ = collecting(lease, moment, lambda desk=desk: outcome(DESK_CHANGES[change], desk))
        attempts = {each.attempt for each in given}
        assert attempts == ({1} if what == "returned" else {0})
        assert {each.holder for each in given} == ({holders[0]} if what == "returned" else {None})
        left = {key: item for key, _, item in desk.leases.expire(20_000)}
        if what == "raised":
            assert not {id(item) for item in left.values()} & set(map(id, given))
        assert desk.latency.count <= desk.counters.delivered


def test_a_holder_whose_equality_fails_leases_nothing():
    class Odd:
        def __hash__(self):
            return 7

        def __eq__(self, other):
            raise ValueError(other)

    desk, given = Desk(_fast), some(_fast, 3)
    before = desk.seen(given)
    holders = [Odd(), Odd(), Odd()]
    assert outcome(desk.lease_out, given, holders) == ("raised", ValueError)
    assert desk.seen(given) == before


def test_a_holder_that_goes_with_a_new_lease_finds_all_of_it_done():
    desk, given, found = Desk(_fast), some(_fast, 5), []

    class Gone:
        def __del__(self):
            found.append([(each.attempt, each.holder, desk.leases.attempt_of(each.lease)) for each in given])

    for each in given:
        each.holder = Gone()
    desk.lease_out(given, ["new"] * 5)
    assert found == [[(1, "new", 1)] * 5] * 5


@pytest.mark.parametrize("change", [*CHANGES, "expires", "holds others"])
def test_a_holder_that_goes_when_its_entries_are_let_go_may_change_everything(change):
    desk, given, held, found = Desk(_fast), some(_fast, 8), {}, []
    keys = list(range(1, 9))

    class Gone:
        def __del__(self):
            found.append(True)
            if change == "expires":
                desk.leases.expire(100_000)
            elif change == "holds others":
                _fast.hold(held, some(_fast, 30, 100))
            else:
                CHANGES[change](keys)

    desk.lease_out(given, [Gone() for _ in given])
    _fast.hold(held, given)
    ended, lost = _fast.let_go(held, keys, desk.leases)
    assert (ended, lost, len(found)) == (given, [], 8)
    assert {each.holder for each in given} == {None}
    assert (len(desk.leases), [key for key in held if key < 100]) == (0, [])


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("batch", [0, 3, 500])
def test_deliveries_that_are_changed_while_they_are_framed_are_those_that_were_or_none(change, batch):
    for moment in MOMENTS[:6]:
        given = deliveries()
        own = list(given)
        expected = _fast.delivery_frames(deliveries(), batch, LARGE)
        frame = partial(outcome, partial(_fast.delivery_frames, given, batch, LARGE))
        what, answer = collecting(frame, moment, lambda given=given: CHANGES[change](given))
        sent = [not each.unsent for each, _ in own]
        if what == "raised":
            assert (answer, any(sent)) == (TypeError, False)
        elif answer == expected:
            assert all(sent)
        else:  # the list was changed before the first frame
            assert sum(sent) == min(len(own), len(answer[1]))
            assert answer[1][-1:] in ([], [len(answer[0])])


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("call", ["entries_of", "stream_runs", "waiting_of", "changes_of", "hold"])
def test_a_list_that_is_changed_while_it_is_walked_does_no_harm(call, change):
    for moment in MOMENTS[:6]:
        given = some(_fast, COUNT)
        pairs = [(seq, event(f"e-{seq}", f"s-{seq // 3}", "bus")) for seq in range(1, COUNT)]
        held = {}
        items, work = {
            "entries_of": (pairs, partial(_fast.entries_of, "s", pairs, "bus", lambda event: (event.stream, [event]))),
            "stream_runs": (pairs, partial(_fast.stream_runs, pairs)),
            "waiting_of": (given, partial(_fast.waiting_of, given)),
            "changes_of": (given, partial(_fast.changes_of, given, 1, 5)),
            "hold": (given, partial(_fast.hold, held, given)),
        }[call]
        what, answer = collecting(partial(outcome, work), moment, lambda items=items: CHANGES[change](items))
        assert what == "returned" or answer is TypeError
        assert call not in ("waiting_of", "changes_of") or what == "raised" or all(each[0] for each in answer)


@pytest.mark.parametrize("change", CHANGES)
def test_an_origin_that_changes_the_events_it_is_asked_about_does_no_harm(change):
    events, asked = [(seq, event(f"e-{seq}", contract="bus")) for seq in range(1, 9)], []

    def origin_of(given):
        asked.append(given)
        if len(asked) == 3:
            CHANGES[change](events)
        return len(asked)

    what, answer = outcome(_fast.entries_of, "s", events, "bus", origin_of)
    if what == "raised":
        assert (change, answer) == ("spoils", TypeError)
    else:
        assert [each.origin for each in answer] == list(range(1, len(asked) + 1))
        assert [each.id for each in answer] == [each.source_event_id for each in asked]


def test_a_stream_that_compares_by_code_of_its_own_may_change_the_events():
    class Name(str):
        __slots__ = ()

        def __ne__(self, other):
            events.clear()
            return super().__ne__(other)

        __hash__ = str.__hash__

    events = [(seq, event(f"e-{seq}", Name("s"))) for seq in range(1, 5)]
    first_two = events[:2]
    assert _fast.stream_runs(events) == [("s", first_two)]


def test_an_entry_that_is_made_anew_is_what_it_was_made_of_last():
    """`__init__` may be called again; what is measured and what is written are read in one go."""
    one = entry(_fast, 1)
    one.__init__("t", 2, "e-2", b"x" * 500, 6, "k", 3)
    assert (seen(one)["seq"], one.envelope) == (2, b"x" * 500)
    with pytest.raises(TypeError):
        one.__init__("t", None, "e-3", b"", 6, "k", 3)
    assert one.seq == 2
