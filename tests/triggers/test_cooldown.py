"""Which rules rest."""

from hypothesis import given
from hypothesis import strategies as st

from broker.clock import ManualClock
from broker.limits import TRIGGER_CAUSES_KNOWN_MAX
from broker.triggers.cooldown import Cooldowns, Slot

A, B = Slot("a", ""), Slot("b", "")


def test_a_slot_rests_for_as_long_as_it_is_told() -> None:
    clock = ManualClock()
    cooldowns = Cooldowns(clock)
    cooldowns.begin(A, 100)
    assert (cooldowns.rests(A), cooldowns.rests(B)) == (True, False)
    clock.advance(99)
    assert cooldowns.rests(A)
    clock.advance(1)
    assert not cooldowns.rests(A)


def test_a_rest_that_is_given_back_is_over_and_a_later_one_is_not() -> None:
    clock = ManualClock()
    cooldowns = Cooldowns(clock)
    first = cooldowns.begin(A, 100)
    cooldowns.give_back(first)
    assert not cooldowns.rests(A)
    clock.advance(1)
    cooldowns.begin(A, 100)
    cooldowns.give_back(first)
    assert cooldowns.rests(A)


def test_past_the_bound_what_is_over_is_forgotten_first_and_then_the_oldest() -> None:
    clock = ManualClock()
    cooldowns = Cooldowns(clock, entries_max=3)
    cooldowns.begin(Slot("r", "over"), 1)
    clock.advance(1)
    for key in ("1", "2", "3"):
        cooldowns.begin(Slot("r", key), 100)
    assert (len(cooldowns), cooldowns.forgotten) == (3, 0)
    cooldowns.begin(Slot("r", "4"), 100)
    assert (len(cooldowns), cooldowns.forgotten) == (3, 1)
    assert cooldowns.rests(Slot("r", "4"))


def test_a_copy_is_for_looking_only() -> None:
    cooldowns = Cooldowns(ManualClock())
    cooldowns.begin(A, 100)
    cooldowns.know("s", "1")
    copy = cooldowns.copy()
    copy.begin(B, 100)
    assert (copy.rests(A), copy.rests(B), cooldowns.rests(B)) == (True, True, False)
    assert not copy.is_known("s", "1"), "else an event that was sent could not be tried"


def test_the_latest_identities_are_known_within_a_bound() -> None:
    cooldowns = Cooldowns(ManualClock())
    for number in range(TRIGGER_CAUSES_KNOWN_MAX + 1):
        cooldowns.know("s", str(number))
    assert not cooldowns.is_known("s", "0")
    assert cooldowns.is_known("s", "1")
    assert cooldowns.is_known("s", str(TRIGGER_CAUSES_KNOWN_MAX))


KEYS = st.sampled_from("abcdef")


@given(st.lists(st.one_of(st.tuples(KEYS, st.integers(1, 50)), st.integers(0, 30)), max_size=60))
def test_as_long_as_there_is_room_a_slot_rests_exactly_as_long_as_it_was_told(steps: list[object]) -> None:
    clock = ManualClock()
    cooldowns = Cooldowns(clock, entries_max=6)
    until: dict[str, int] = {}
    for step in steps:
        if isinstance(step, int):
            clock.advance(step)
        elif not cooldowns.rests(Slot("r", step[0])):
            cooldowns.begin(Slot("r", step[0]), step[1])
            until[step[0]] = clock.monotonic_ms() + step[1]
        for key in "abcdef":
            assert cooldowns.rests(Slot("r", key)) is (until.get(key, 0) > clock.monotonic_ms())
    assert len(cooldowns) <= 6
