"""Credits: everybody who has credit gets a turn before anybody gets a second one."""

import pytest

from tests.fast.outcome import raised
from tests.fast.test_ring import Incomparable

CREDIT_MAX = 2**31 - 1
NO_TICKETS = [0, -1, 2**63 - 1, -(2**63)]


def joined(credits_, names, credit=0):
    """Tickets by name, each with the credit given, in line in the order of the names."""
    tickets = {name: credits_.join(name) for name in names}
    if credit:
        for ticket in tickets.values():
            assert credits_.grant(ticket, credit) == credit
    return tickets


def picks(credits_, count):
    return [credits_.pick() for _ in range(count)]


@pytest.mark.parametrize("credit_max", [1, 2, 1000, CREDIT_MAX - 1, CREDIT_MAX])
def test_a_bound_within_the_bounds_is_kept_and_nobody_is_there(Credits, credit_max):
    credits_ = Credits(credit_max)
    assert (credits_.credit_max, credits_.ready, len(credits_)) == (credit_max, 0, 0)
    assert credits_.pick() is None


@pytest.mark.parametrize("credit_max", [0, -1, CREDIT_MAX + 1, 2**32 + 1])
def test_a_bound_out_of_bounds_is_refused(Credits, credit_max):
    assert raised(Credits, credit_max) is ValueError


def test_the_bound_can_be_named_and_the_class_subscripted(Credits):
    credits_ = Credits[str](credit_max=3)
    assert isinstance(credits_, Credits)
    assert credits_.credit_max == 3


def test_whoever_joins_has_no_credit_and_is_not_picked(Credits):
    credits_ = Credits(5)
    ticket = credits_.join("a")
    assert ticket > 0
    assert (len(credits_), credits_.ready, credits_.credit_of(ticket)) == (1, 0, 0)
    assert credits_.pick() is None


def test_none_cannot_join(Credits):
    credits_ = Credits(5)
    assert raised(credits_.join, None) is TypeError
    assert (len(credits_), credits_.ready) == (0, 0)


@pytest.mark.parametrize("subscriber", [0, "", False, b"", (), [], {}])
def test_a_subscriber_that_is_false_is_a_subscriber(Credits, subscriber):
    credits_ = Credits(5)
    credits_.grant(credits_.join(subscriber), 1)
    assert credits_.pick() is subscriber
    assert credits_.pick() is None


def test_subscribers_are_never_compared_hashed_or_asked_for_their_truth(Credits):
    credits_ = Credits(5)
    subscribers = [Incomparable() for _ in range(3)]
    tickets = [credits_.join(subscriber) for subscriber in subscribers]
    for ticket in tickets:
        credits_.grant(ticket, 2)
    assert [id(subscriber) for subscriber in picks(credits_, 6)] == [id(subscriber) for subscriber in subscribers * 2]
    for ticket in tickets:
        credits_.leave(ticket)


def test_one_subscriber_may_join_twice_under_two_tickets(Credits):
    credits_ = Credits(5)
    first, second = credits_.join("a"), credits_.join("a")
    assert first != second
    assert len(credits_) == 2
    credits_.grant(first, 3)
    assert (credits_.credit_of(first), credits_.credit_of(second)) == (3, 0)
    credits_.leave(first)
    assert (len(credits_), credits_.credit_of(second)) == (1, 0)


def test_a_pick_costs_one_credit_and_the_last_one_ends_the_turn(Credits):
    credits_ = Credits(5)
    ticket = credits_.join("a")
    assert credits_.grant(ticket, 3) == 3
    for left in (2, 1, 0):
        assert credits_.pick() == "a"
        assert credits_.credit_of(ticket) == left
        assert credits_.ready == (1 if left else 0)
    assert credits_.pick() is None
    assert (len(credits_), credits_.credit_of(ticket)) == (1, 0)


@pytest.mark.parametrize("number", [1, 2, 3, 8, 9, 100])
def test_turns_go_round(Credits, number):
    credits_ = Credits(5)
    joined(credits_, range(number), credit=3)
    assert credits_.ready == number
    assert picks(credits_, 3 * number) == list(range(number)) * 3
    assert credits_.pick() is None
    assert credits_.ready == 0


def test_turns_go_in_the_order_of_the_first_grant_and_not_of_the_joining(Credits):
    credits_ = Credits(5)
    tickets = joined(credits_, "abc")
    for name in "cab":
        credits_.grant(tickets[name], 2)
    assert picks(credits_, 6) == list("cabcab")


def test_more_credit_does_not_move_a_subscriber_in_the_line(Credits):
    credits_ = Credits(9)
    tickets = joined(credits_, "abc", credit=1)
    assert credits_.grant(tickets["a"], 2) == 3
    assert credits_.grant(tickets["c"], 1) == 2
    assert picks(credits_, 6) == list("abcaca")


def test_from_zero_a_subscriber_joins_the_back_of_the_line(Credits):
    credits_ = Credits(9)
    tickets = joined(credits_, "abc", credit=1)
    assert credits_.pick() == "a"
    assert credits_.grant(tickets["a"], 1) == 1
    assert picks(credits_, 4) == ["b", "c", "a", None]


def test_whoever_has_no_credit_is_not_in_the_line(Credits):
    credits_ = Credits(9)
    tickets = joined(credits_, "abcde")
    for name in "bd":
        credits_.grant(tickets[name], 2)
    assert credits_.ready == 2
    assert picks(credits_, 5) == ["b", "d", "b", "d", None]


def test_between_two_picks_of_one_subscriber_every_other_with_credit_is_picked_once(Credits):
    credits_ = Credits(100)
    tickets = joined(credits_, range(7))
    for name, ticket in tickets.items():
        credits_.grant(ticket, 10 + 5 * name)
    history = picks(credits_, 10 * 7)
    for start in range(len(history) - 6):
        assert sorted(history[start : start + 7]) == list(range(7))


def test_credit_can_reach_the_bound_and_not_pass_it(Credits):
    credits_ = Credits(10)
    ticket = joined(credits_, "a")["a"]
    assert credits_.grant(ticket, 9) == 9
    assert credits_.grant(ticket, 1) == 10
    for credit in (1, 2, 10, 2**31, 2**32, 2**63 - 10, 2**63 - 1):
        assert raised(credits_.grant, ticket, credit) is OverflowError
        assert credits_.credit_of(ticket) == 10
    assert credits_.pick() == "a"
    assert credits_.grant(ticket, 1) == 10


def test_a_grant_past_the_bound_from_zero_does_not_join_the_line(Credits):
    credits_ = Credits(10)
    ticket = joined(credits_, "a")["a"]
    assert raised(credits_.grant, ticket, 11) is OverflowError
    assert (credits_.credit_of(ticket), credits_.ready) == (0, 0)
    assert credits_.pick() is None
    assert credits_.grant(ticket, 10) == 10


def test_the_largest_bound_can_be_filled_exactly(Credits):
    credits_ = Credits(CREDIT_MAX)
    ticket = joined(credits_, "a")["a"]
    assert credits_.grant(ticket, CREDIT_MAX - 1) == CREDIT_MAX - 1
    assert raised(credits_.grant, ticket, 2) is OverflowError
    assert raised(credits_.grant, ticket, CREDIT_MAX) is OverflowError
    assert credits_.grant(ticket, 1) == CREDIT_MAX
    assert credits_.pick() == "a"
    assert credits_.credit_of(ticket) == CREDIT_MAX - 1


@pytest.mark.parametrize("credit", [0, -1, -(2**31), -(2**63)])
def test_a_grant_below_one_is_refused_and_changes_nothing(Credits, credit):
    credits_ = Credits(10)
    tickets = joined(credits_, "ab")
    credits_.grant(tickets["a"], 5)
    for ticket in tickets.values():
        assert raised(credits_.grant, ticket, credit) is ValueError
    assert [credits_.credit_of(ticket) for ticket in tickets.values()] == [5, 0]
    assert credits_.ready == 1


@pytest.mark.parametrize("ticket", NO_TICKETS)
def test_a_ticket_that_was_never_given_out_is_refused_and_changes_nothing(Credits, ticket):
    credits_ = Credits(10)
    tickets = joined(credits_, "ab", credit=2)
    assert raised(credits_.grant, ticket, 1) is KeyError
    assert raised(credits_.leave, ticket) is KeyError
    assert raised(credits_.credit_of, ticket) is KeyError
    assert (len(credits_), credits_.ready) == (2, 2)
    assert [credits_.credit_of(ticket) for ticket in tickets.values()] == [2, 2]
    assert picks(credits_, 5) == ["a", "b", "a", "b", None]


def neighbours(ticket):
    """Numbers that a ticket could be mistaken for, however it is put together."""
    one_bit_off = {ticket ^ (1 << bit) for bit in range(63)}
    counted_on = {ticket + (step << bit) for bit in range(60) for step in range(-4, 5)}
    return {number for number in one_bit_off | counted_on if number < 2**63} - {ticket}


def test_a_number_that_resembles_a_ticket_is_none(Credits):
    credits_ = Credits(10)
    tickets = joined(credits_, range(5), credit=2)
    strangers = set().union(*map(neighbours, tickets.values())) - set(tickets.values())
    for call in (credits_.credit_of, credits_.leave, lambda number: credits_.grant(number, 1)):
        assert {raised(call, number) for number in strangers} == {KeyError}
    assert (len(credits_), credits_.ready) == (5, 5)
    assert picks(credits_, 11) == [*range(5), *range(5), None]


def test_a_number_that_resembles_the_ticket_of_somebody_who_left_is_none(Credits):
    credits_ = Credits(10)
    tickets = joined(credits_, range(5), credit=2)
    for ticket in tickets.values():
        credits_.leave(ticket)
    strangers = set().union(*map(neighbours, tickets.values()), tickets.values())
    for call in (credits_.credit_of, credits_.leave, lambda number: credits_.grant(number, 1)):
        assert {raised(call, number) for number in strangers} == {KeyError}
    assert (len(credits_), credits_.ready) == (0, 0)
    assert credits_.pick() is None


def test_whoever_leaves_takes_its_credit_along(Credits):
    credits_ = Credits(10)
    tickets = joined(credits_, "abc", credit=2)
    credits_.leave(tickets["b"])
    assert (len(credits_), credits_.ready) == (2, 2)
    assert picks(credits_, 5) == ["a", "c", "a", "c", None]


def test_a_ticket_is_of_no_use_after_leaving(Credits):
    credits_ = Credits(10)
    tickets = joined(credits_, "ab", credit=2)
    credits_.leave(tickets["a"])
    assert raised(credits_.leave, tickets["a"]) is KeyError
    assert raised(credits_.grant, tickets["a"], 1) is KeyError
    assert raised(credits_.credit_of, tickets["a"]) is KeyError
    assert (len(credits_), credits_.ready) == (1, 1)


@pytest.mark.parametrize("leaver", ["a", "b", "c", "d"])
@pytest.mark.parametrize("turns", range(5))
def test_leaving_keeps_the_order_of_the_others_wherever_the_leaver_stands(Credits, leaver, turns):
    credits_ = Credits(10)
    tickets = joined(credits_, "abcd", credit=5)
    picks(credits_, turns)
    credits_.leave(tickets[leaver])
    expected = [name for name in ("abcd" * 3)[turns:] if name != leaver]
    assert picks(credits_, 6) == expected[:6]


def test_whoever_leaves_without_credit_changes_nothing_for_the_line(Credits):
    credits_ = Credits(10)
    tickets = joined(credits_, "abc", credit=1)
    assert credits_.pick() == "a"
    credits_.leave(tickets["a"])
    assert (len(credits_), credits_.ready) == (2, 2)
    assert picks(credits_, 3) == ["b", "c", None]


def test_everybody_can_leave_and_others_join(Credits):
    credits_ = Credits(10)
    for ticket in joined(credits_, "abc", credit=1).values():
        credits_.leave(ticket)
    assert (len(credits_), credits_.ready) == (0, 0)
    assert credits_.pick() is None
    joined(credits_, "de", credit=1)
    assert picks(credits_, 3) == ["d", "e", None]


def test_a_ticket_is_never_given_out_again(Credits):
    credits_ = Credits(10)
    seen = set()
    for turn in range(5_000):
        ticket = credits_.join(turn)
        assert ticket > 0
        assert ticket not in seen
        seen.add(ticket)
        if turn % 10:
            credits_.leave(ticket)
    assert len(credits_) == 500
    assert len(seen) == 5_000


def test_an_old_ticket_never_reaches_the_successor_in_its_place(Credits):
    credits_ = Credits(10)
    old = []
    for turn in range(200):
        ticket = credits_.join(turn)
        credits_.grant(ticket, 1)
        for stale in old:
            assert raised(credits_.credit_of, stale) is KeyError
            assert raised(credits_.grant, stale, 1) is KeyError
        assert credits_.credit_of(ticket) == 1
        credits_.leave(ticket)
        old.append(ticket)


def test_many_subscribers_come_and_go_and_the_rest_keep_their_turns(Credits):
    credits_ = Credits(10)
    tickets = joined(credits_, range(1000), credit=2)
    for name in range(0, 1000, 3):
        credits_.leave(tickets[name])
    rest = [name for name in range(1000) if name % 3]
    assert credits_.ready == len(credits_) == len(rest)
    assert picks(credits_, 2 * len(rest)) == rest * 2
    assert credits_.pick() is None
