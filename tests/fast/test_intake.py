"""Many events in memory on their way in: claimed together or not at all, numbered, answered."""

import gc
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import _fast
from _fast import MEMORY_SEQ_FIRST, Dedupe
from broker.contracts.inbound import InboundEvent
from broker.embedded.event import Receipt
from tests.fast import intake_model as model
from tests.fast.test_reentrancy import MOMENTS, collecting

KEY = bytes(range(16))
BATCH = 7
AT_ONCE = 32


@pytest.fixture(params=[pytest.param(_fast, id="compiled"), pytest.param(model, id="model")])
def intake(request: pytest.FixtureRequest) -> Any:
    return request.param


def event(event_id: str = "e", stream: str = "s", kind: str = "t", **fields: Any) -> InboundEvent:
    return InboundEvent("courier", stream, kind, f"stream:{stream}", event_id, 5, b"{}", None)._replace(**fields)


def events(count: int, first: int = 0) -> list[InboundEvent]:
    return [event(f"e-{number}") for number in range(first, first + count)]


def identity(each: InboundEvent) -> bytes:
    return f"{each.source_system}\0{each.source_event_id}".encode()


def copied(text: str) -> str:
    """The same text as another object."""
    return "".join(list(text))


def test_a_kind_is_told_once_for_each_run(intake: Any) -> None:
    same = [event(stream=copied("sss")) for _ in range(2)]
    given_ = [event(), *same, event(kind="u"), event(kind="u"), event()]
    assert intake.kinds_of(given_) == [("s", "t"), ("sss", "t"), ("s", "u"), ("s", "t")]
    assert intake.kinds_of(tuple(given_[:1])) == [("s", "t")]
    assert intake.kinds_of([]) == []


@pytest.mark.parametrize("wrong", [None, (), ("s", "t"), [None] * 18])
def test_what_is_no_event_is_refused_by_each(intake: Any, wrong: Any) -> None:
    dedupe = Dedupe(10)
    for call in (
        lambda: intake.kinds_of([event(), wrong]),
        lambda: intake.claim_events([event(), wrong], dedupe, BATCH),
        lambda: intake.entries_numbered("s", [event(), wrong], [1, 2], "bus", repr),
        lambda: intake.receipts_of(Receipt, [event(), wrong], [1, 2], {}),
    ):
        with pytest.raises(TypeError):
            call()
    assert (len(dedupe), dedupe.in_flight) == (0, 0)


@pytest.mark.parametrize("count", [0, 1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE, 1_000])
def test_new_events_are_claimed_in_their_order(intake: Any, count: int) -> None:
    dedupe = Dedupe(1_000)
    assert intake.claim_events(events(count), dedupe, BATCH)
    assert dedupe.in_flight == count
    assert dedupe.commit_batch(BATCH, 100) == count
    assert [dedupe.find(identity(each)) for each in events(count)] == list(range(100, 100 + count))


@pytest.mark.parametrize("place", [0, 1, AT_ONCE - 1, AT_ONCE, 99])
def test_one_that_is_known_keeps_all_from_being_claimed(intake: Any, place: int) -> None:
    dedupe = Dedupe(1_000)
    dedupe.remember(identity(events(100)[place]), 5)
    assert not intake.claim_events(events(100), dedupe, BATCH)
    assert (len(dedupe), dedupe.in_flight) == (1, 0)


def test_one_that_is_there_twice_keeps_all_from_being_claimed(intake: Any) -> None:
    dedupe = Dedupe(1_000)
    assert not intake.claim_events([*events(40), event("e-3")], dedupe, BATCH)
    assert (len(dedupe), dedupe.in_flight) == (0, 0)


def test_without_room_for_one_none_is_claimed(intake: Any) -> None:
    dedupe = Dedupe(10)
    assert not intake.claim_events(events(11), dedupe, BATCH)
    assert dedupe.in_flight == 0
    assert intake.claim_events(events(10), dedupe, BATCH)


def test_other_batches_stay_in_flight(intake: Any) -> None:
    dedupe = Dedupe(100)
    dedupe.claim(identity(event("other")), BATCH + 1)
    assert not intake.claim_events([*events(40), event("other")], dedupe, BATCH)
    assert dedupe.in_flight == 1


def test_a_batch_has_a_number_of_at_least_one(intake: Any) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        intake.claim_events(events(1), Dedupe(10), 0)


@pytest.mark.parametrize("length", [0, 1, 1_010, 1_015, 1_016, 1_017, 5_000])
@pytest.mark.parametrize("letter", ["x", "é", "🐎"])
def test_an_identity_is_its_source_and_its_id_with_a_nul_between(intake: Any, length: int, letter: str) -> None:
    dedupe, one = Dedupe(10), event(letter * length)
    assert intake.claim_events([one], dedupe, BATCH)
    assert dedupe.find(identity(one)) == -BATCH


def test_an_id_that_is_no_utf8_leaves_nothing_in_flight(intake: Any) -> None:
    dedupe = Dedupe(100)
    with pytest.raises(UnicodeEncodeError):
        intake.claim_events([*events(40), event("\ud800")], dedupe, BATCH)
    assert (len(dedupe), dedupe.in_flight) == (0, 0)


@given(st.lists(st.lists(st.integers(0, 30), max_size=8), max_size=20), st.integers(1, 12))
def test_whatever_is_claimed_the_compiled_one_and_the_model_agree(batches: list[list[int]], capacity: int) -> None:
    sides = [(_fast, Dedupe(capacity, KEY)), (model, Dedupe(capacity, KEY))]
    for number, ids in enumerate(batches, 1):
        answers = []
        for side, dedupe in sides:
            taken = side.claim_events([event(str(each)) for each in ids], dedupe, 1)
            if taken and number % 3:
                dedupe.commit_batch(1, number * 100)
            elif taken:
                dedupe.abort_batch(1)
            answers.append((taken, [dedupe.find(identity(event(str(each)))) for each in range(31)], dedupe.evictions))
        assert answers[0] == answers[1]


def test_an_entry_has_what_its_event_has_and_its_number(intake: Any) -> None:
    given_ = [event("a", partition_key="k", received_at=9), event("b", contract="bus", envelope=b"[]")]
    first, second = intake.entries_numbered("stream", given_, [4, 2**60], "bus", lambda each: (each.source_event_id,))
    assert (first.stream, first.seq, first.id, first.envelope, first.received_at) == ("stream", 4, "a", b"{}", 9)
    assert (first.partition, first.origin, first.attempt, first.holder, first.lease) == ("k", None, 0, None, 0)
    assert (second.seq, second.id, second.envelope) == (2**60, "b", b"[]")
    assert (second.partition, second.origin) == (None, ("b",))
    assert first.envelope is given_[0].envelope


def test_what_an_origin_raises_is_raised(intake: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        intake.entries_numbered("s", [event(contract="bus")], [1], "bus", lambda _event: 1 / 0)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_there_is_a_sequence_for_each_event(intake: Any, count: int) -> None:
    with pytest.raises(ValueError, match="sequences for 2 events"):
        intake.entries_numbered("s", events(2), [1] * count, "bus", repr)
    with pytest.raises(ValueError, match="sequences for 2 events"):
        intake.receipts_of(Receipt, events(2), [1] * count, {})


def test_the_ledger_has_what_is_numbered_by_it(intake: Any) -> None:
    def numbered(*seqs: int) -> Any:
        return _fast.entries_numbered("s", events(len(seqs)), list(seqs), "bus", repr)

    assert not intake.any_in_ledger([])
    assert not intake.any_in_ledger(numbered(MEMORY_SEQ_FIRST, MEMORY_SEQ_FIRST + 1))
    assert intake.any_in_ledger(numbered(MEMORY_SEQ_FIRST, MEMORY_SEQ_FIRST - 1))


def test_a_receipt_says_where_an_event_is_and_whether_it_was_there(intake: Any) -> None:
    found = intake.receipts_of(Receipt, events(4), [7, -8, -9, 2**60], {1: (5, False), 2: (5, True)})
    assert found == [
        Receipt("e-0", 7, duplicate=False),
        Receipt("e-1", 8, duplicate=True),
        Receipt("e-2", 9, duplicate=True, payload_conflict=True),
        Receipt("e-3", 2**60, duplicate=False),
    ]
    assert all(type(each) is Receipt for each in found)
    assert all(type(each.duplicate) is type(each.payload_conflict) is bool for each in found)


def test_a_refused_event_has_no_receipt_and_neither_have_the_others(intake: Any) -> None:
    assert intake.receipts_of(Receipt, events(3), [1, 0, 2], {}) is None


def test_a_receipt_is_a_tuple(intake: Any) -> None:
    with pytest.raises(TypeError):
        intake.receipts_of(dict, events(1), [1], {})


@given(st.lists(st.tuples(st.text(max_size=5), st.integers(-(2**62), 2**62), st.booleans()), max_size=20))
def test_whatever_became_of_events_the_compiled_receipts_are_those_of_the_model(
    answers: list[tuple[str, int, bool]],
) -> None:
    given_ = [event(event_id) for event_id, _, _ in answers]
    seqs = [seq for _, seq, _ in answers]
    duplicates = {place: (1, conflict) for place, (_, seq, conflict) in enumerate(answers) if seq < 0}
    assert _fast.receipts_of(Receipt, given_, seqs, duplicates) == model.receipts_of(Receipt, given_, seqs, duplicates)


def test_receipts_are_not_searched_for_cycles() -> None:
    found = _fast.receipts_of(Receipt, events(3), [1, 2, 3], {}) or []
    assert len(found) == 3
    assert not any(gc.is_tracked(each) for each in found)


def everything() -> None:
    dedupe = Dedupe(100)
    given_ = events(50)
    assert _fast.claim_events(given_, dedupe, 1)
    assert not _fast.claim_events(given_, dedupe, 2)
    entries = _fast.entries_numbered("s", given_, list(range(1_000, 1_050)), "courier", lambda each: [each])
    assert _fast.any_in_ledger(entries)
    assert len(_fast.receipts_of(Receipt, given_, list(range(-1_000, -950)), {0: (1, True)}) or []) == 50
    assert _fast.kinds_of(given_) == [("s", "t")]
    fresh = events(30, 500)
    for wrong in ([*fresh, None], [*fresh, event("\ud800")]):
        with pytest.raises((TypeError, UnicodeEncodeError)):
            _fast.claim_events(wrong, dedupe, 3)
    with pytest.raises(TypeError):
        _fast.receipts_of(Receipt, [*given_, None], list(range(1_000, 1_051)), {})


def test_events_that_come_and_go_leave_no_trace() -> None:
    for _ in range(20):
        everything()
    gc.collect()
    blocks, objects = sys.getallocatedblocks(), len(gc.get_objects())
    for _ in range(500):
        everything()
    gc.collect()
    assert abs(sys.getallocatedblocks() - blocks) < 200
    assert abs(len(gc.get_objects()) - objects) < 50


@pytest.mark.parametrize("change", [list.clear, list.pop, lambda given_: given_.extend(events(5, 500))])
def test_a_list_that_is_changed_while_it_is_walked_tears_nothing(change: Callable[[list[Any]], Any]) -> None:
    def reject(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (RuntimeError, ValueError):
            return None

    for moment in MOMENTS:
        for make in (
            lambda given_: partial(_fast.entries_numbered, "s", given_, list(range(60)), "courier", lambda _: []),
            lambda given_: partial(_fast.receipts_of, Receipt, given_, list(range(1, 61)), {}),
            lambda given_: partial(_fast.kinds_of, given_),
        ):
            given_ = events(60)
            found = collecting(partial(reject, make(given_)), moment, partial(change, given_))
            assert found is None or len(found) <= 65


def test_identities_that_are_claimed_by_a_destructor_meanwhile_are_not_lost() -> None:
    for moment in MOMENTS:
        dedupe = Dedupe(500)
        taken = collecting(
            partial(_fast.claim_events, events(100), dedupe, 1), moment, partial(dedupe.claim, identity(event("x")), 2)
        )
        assert taken
        assert dedupe.in_flight == 101
