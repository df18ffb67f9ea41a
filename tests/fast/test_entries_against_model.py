"""Random programs on compiled entries and their model: every answer, and all that can be seen, agrees."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import _fast
from tests.fast import entries_model
from tests.fast.entries_cases import Desk, event, seen
from tests.fast.outcome import outcome
from tests.fast.test_against_models import pytestmark as _slow_under_torture

pytestmark = _slow_under_torture
NUMBERS = st.integers(-3, 40) | st.sampled_from(
    [2**31 - 2, 2**31 - 1, 2**48, 2**52 - 1, 2**52, 2**63 - 2, 2**63 - 1, 2**63]
)
NAMES = st.sampled_from(["a", "b", "b" * 40, "é"])
ENTRIES_MAX = 40
STRANGERS = st.sampled_from([None, 1, "x", (), (1, 2)])
ENVELOPES = st.integers(0, 300).map(lambda size: b"x" * size) | st.sampled_from([b"x" * 65_470, b"x" * 70_000, None])
EVENTS = st.builds(
    event,
    name=NAMES | st.text(max_size=5) | st.none(),
    stream=NAMES,
    contract=st.sampled_from(["courier", "bus"]),
    envelope=ENVELOPES,
    received_at=NUMBERS,
    partition_key=st.none() | NAMES,
)
PLAIN_EVENTS = st.builds(
    event, name=NAMES, stream=NAMES, received_at=st.integers(-3, 40), partition_key=st.none() | NAMES
)


def shown(value):
    """An answer, with all that its entries show in place of them."""
    if isinstance(value, _fast.Entry | entries_model.Entry):
        return seen(value)
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    if isinstance(value, dict):
        return {key: shown(each) for key, each in value.items()}
    return value


def agree(name, *args):
    compiled, model = (outcome(getattr(module, name), *args) for module in (_fast, entries_model))
    assert shown(compiled) == shown(model), f"{name}{args}"


@given(st.lists(st.tuples(NUMBERS, PLAIN_EVENTS) | st.tuples(NUMBERS, EVENTS) | STRANGERS, max_size=12))
def test_any_events_become_what_the_model_makes_of_them(events):
    agree("stream_runs", events)
    agree("entries_of", "the stream", events, "bus", lambda event: ("origin", event.type))


DELIVERIES = st.lists(
    st.tuples(st.integers(0, 2**63 - 1) | st.integers(0, 99), ENVELOPES.filter(bool), st.integers(0, 9) | NUMBERS),
    max_size=12,
)


@given(DELIVERIES, st.integers(-1, 5) | NUMBERS, st.sampled_from([0, 1, 100, 400, 70_000, 10**6]) | NUMBERS)
def test_any_deliveries_become_the_frames_of_the_model(given_deliveries, batch, bytes_max):
    if max(abs(batch), abs(bytes_max)) >= 2**63:
        return
    found = []
    for module in (_fast, entries_model):
        deliveries = []
        for seq, envelope, attempt in given_deliveries:
            made = module.Entry("s", seq, "e", envelope, 0, None, seq % 9)
            made.unsent = True
            deliveries.append((made, attempt))
        what, answer = outcome(module.delivery_frames, deliveries, batch, bytes_max)
        found.append((what, answer, [each.unsent for each, _ in deliveries]))
    assert found[0] == found[1]


class EntriesMachine(RuleBasedStateMachine):
    """A life of entries: they come, are leased, held, wait for a reader, are framed, let go, and time out."""

    @initialize(capacity=st.sampled_from([3, 20, 1000]))
    def start(self, capacity):
        self.desks = [Desk(module, capacity) for module in (_fast, entries_model)]
        self.sides = [[], []]
        """The entries of each side; those in one place are the same."""
        self.held = [{}, {}]
        self.lease = 1
        self.now_ms = 0
        self.seq = 0

    def agree(self, do):
        """What both sides answer, when each is asked with its own desk, entries and held ones."""
        compiled, model = (
            outcome(do, desk, side, held) for desk, side, held in zip(self.desks, self.sides, self.held, strict=True)
        )
        assert shown(compiled) == shown(model)
        return compiled

    @rule(count=st.integers(1, 9) | st.just(30), memory=st.booleans(), received_at=st.integers(-5, 99))
    def come(self, count, memory, received_at):
        first = self.seq + (2**52 if memory else 1)
        self.seq += count
        events = [(first + step, event(f"e-{step}", received_at=received_at)) for step in range(count)]

        def do(desk, side, _):
            side += desk.module.entries_of("s", events, "bus", None)
            del side[:-ENTRIES_MAX]

        self.agree(do)

    @rule(start=st.integers(0, 40), count=st.integers(0, 12),
          holders=st.lists(st.sampled_from("abc") | NUMBERS, max_size=4),
          odd=st.sampled_from([0, 0, 0, 0, 1, -1]), deadline=st.integers(-1, 90), key=NUMBERS | st.none(),
          now_us=st.integers(-9, 10**10))  # fmt: skip
    def lease_out(self, start, count, holders, odd, deadline, key, now_us):
        def do(desk, side, _):
            some = side[start:][:count]
            to = [(holders or ["d"])[place % max(1, len(holders))] for place in range(len(some) + odd)]
            return desk.lease_out(some, to, first, self.now_ms + deadline, now_us)

        first = self.lease if key is None or not -(2**63) <= key < 2**63 else key
        some = self.sides[0][start:][:count]
        if self.agree(do)[0] == "returned" and some:
            self.lease = max(self.lease, some[-1].lease + 1)

    @rule(start=st.integers(0, 40), count=st.integers(0, 12))
    def hold(self, start, count):
        self.agree(lambda desk, side, held: desk.module.hold(held, side[start:][:count]))

    @rule(keys=st.lists(st.integers(0, 120) | NUMBERS | st.integers(2**52, 2**52 + 60), max_size=9), odd=st.booleans())
    def let_go(self, keys, odd):
        keys = [*keys, "e-1"] if odd and len(keys) == 3 else keys
        self.agree(lambda desk, _side, held: desk.module.let_go(held, keys, desk.leases))

    @rule(start=st.integers(0, 40), count=st.integers(0, 12), batch=st.integers(0, 4), bytes_max=st.integers(0, 2000),
          late=st.booleans())  # fmt: skip
    def wait_and_go(self, start, count, batch, bytes_max, late):
        def do(desk, side, _):
            waiting = desk.module.waiting_of(side[start:][:count])
            if late:
                for each in side[:count]:
                    each.attempt = min(each.attempt + 1, 2**31 - 1)
            return waiting, desk.module.delivery_frames(waiting, batch, bytes_max)

        self.agree(do)

    @rule(start=st.integers(0, 40), count=st.integers(0, 40), step=st.integers(0, 50))
    def look_and_let_time_pass(self, start, count, step):
        self.now_ms += step

        def do(desk, side, _):
            some = side[start:][:count]
            looked = [getattr(desk.module, name)(some) for name in ("envelope_bytes", "any_partition")]
            return looked, desk.module.changes_of(some, 1, 7), desk.leases.expire(self.now_ms)

        self.agree(do)

    @invariant()
    def they_look_the_same(self):
        compiled, model = (
            (desk.seen(side)[:3], shown(held))
            for desk, side, held in zip(self.desks, self.sides, self.held, strict=True)
        )
        assert compiled == model


TestEntries = EntriesMachine.TestCase
