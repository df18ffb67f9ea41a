"""Random programs of producers and consumers against a model (003 §16).

Every enqueued id is always in exactly one place: waiting, delayed, in flight, acked or dead. The window of
the streams is small or large by chance; with a large one, and until a restart makes the streams read pages,
every delivery is predicted exactly.
"""

import os
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from broker.clock import ManualClock
from broker.config import Streams
from broker.contracts.inbound import InboundEvent
from broker.errors import LeaseNotHeld
from broker.streams.entry import Entry
from broker.streams.registry import Registry
from broker.streams.subscription import Subscription
from tests.streams.model import ACKED, DEAD, DELAYED, IN_FLIGHT, WAITING, Delivery, Event, StreamModel
from tests.support import streams as support

LEASE_MS = 1000
MAX_DELIVERIES = 2
PLAYERS_MAX = 4
NAMES = ("one", "two")
LARGE_WINDOW = 1000
TORTURE = os.environ.get("HYPOTHESIS_PROFILE") == "torture"


class Player:
    """A subscriber, and what the registry gave it."""

    def __init__(self, number: int, stream: str, deliveries: list[tuple[int, Delivery]]) -> None:
        self.number = number
        self.stream = stream
        self._deliveries = deliveries
        self.subscription: Subscription

    def deliver(self, entries: list[Entry]) -> None:
        leases = [entry.lease for entry in entries]
        assert leases == sorted(leases), "what one subscriber gets comes in the order in which it was leased"
        self._deliveries += [(entry.lease, Delivery(self.number, entry.id, entry.attempt)) for entry in entries]


class Machine(RuleBasedStateMachine):
    """Two streams, any number of subscribers, and a writer that is ahead of what it announces."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = uvloop.new_event_loop()
        self.clock = ManualClock()
        self.ledger = support.FakeLedger()
        self.unannounced: list[list[tuple[int, InboundEvent]]] = []
        self.deliveries: list[tuple[int, Delivery]] = []
        """What came, by the number of its lease: subscribers are handed theirs one after the other."""
        self.players: dict[int, Player] = {}
        self.joined = 0

    @initialize(window=st.sampled_from([LARGE_WINDOW, 1, 2, 3, 5, LARGE_WINDOW, LARGE_WINDOW]))
    def start(self, window: int) -> None:
        config = Streams(default_lease_ms=LEASE_MS, max_deliveries=MAX_DELIVERIES, max_depth=window)
        self.window = window

        async def make() -> Registry:
            registry = Registry(config, self.clock, self.ledger)
            registry._dispatcher._loop = support.Unfired()
            return registry

        self.make = make
        self.registry = self.loop.run_until_complete(make())
        self.models = {name: self.new_model(exact=window == LARGE_WINDOW) for name in NAMES}
        for name in NAMES:
            self.registry.open(name)

    def new_model(self, *, exact: bool) -> StreamModel:
        return StreamModel(lease_ms=LEASE_MS, max_deliveries=MAX_DELIVERIES, exact=exact)

    def settle(self) -> None:
        """Let pages come in, and show the model what was delivered."""
        self.loop.run_until_complete(support.pages_are_read(self.registry))
        came, self.deliveries[:] = [each for _lease, each in sorted(self.deliveries)], []
        for name, model in self.models.items():
            own = [each for each in came if self.players[each.subscriber].stream == name]
            model.delivered(own, self.clock.monotonic_ms())

    def choose_held(self, data: st.DataObject) -> tuple[Player, StreamModel, Event]:
        held = [(name, event) for name, model in self.models.items() for event in model.at(IN_FLIGHT)]
        name, event = data.draw(st.sampled_from(held), label="held")
        return self.players[event.holder], self.models[name], event

    def anything_held(self) -> bool:
        return any(model.at(IN_FLIGHT) for model in self.models.values())

    # Producers.

    @rule(stream=st.sampled_from(NAMES), count=st.integers(1, 4), heard=st.booleans())
    def write(self, stream: str, count: int, heard: bool) -> None:
        """A group commit, and those before it, of which the loop has heard or not yet."""
        first = len(self.ledger.rows) + 1
        names = [f"e-{number}" for number in range(first, first + count)]
        self.unannounced.append(self.ledger.write_all(stream, *names))
        for name in names:
            self.models[stream].write(name)
        while heard and self.unannounced:
            self.announce()

    @precondition(lambda self: self.unannounced)
    @rule()
    def announce(self) -> None:
        batch = self.unannounced.pop(0)
        for _, event in batch:
            self.models[event.stream].announce(event.source_event_id)
        self.registry.committed(batch)
        self.settle()

    # Subscribers.

    @precondition(lambda self: len(self.players) < PLAYERS_MAX)
    @rule(stream=st.sampled_from(NAMES), credit=st.sampled_from([0, 1, 10]))
    def join(self, stream: str, credit: int) -> None:
        self.joined += 1
        player = self.players[self.joined] = Player(self.joined, stream, self.deliveries)
        player.subscription = self.registry.subscribe(stream, player)
        self.models[stream].join(player.number)
        self.settle()
        if credit:
            self.models[stream].grant(player.number, credit)
            self.registry.grant(player.subscription, credit)
            self.settle()

    @precondition(lambda self: self.players)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        player = data.draw(st.sampled_from(list(self.players.values())), label="leaves")
        self.registry.unsubscribe(player.subscription)
        self.models[player.stream].leave(player.number)
        self.settle()
        del self.players[player.number]

    @precondition(lambda self: self.players)
    @rule(data=st.data(), credit=st.sampled_from([1, 2, 5, 10]))
    def grant(self, data: st.DataObject, credit: int) -> None:
        player = data.draw(st.sampled_from(list(self.players.values())), label="is granted")
        self.models[player.stream].grant(player.number, credit)
        self.registry.grant(player.subscription, credit)
        self.settle()

    @precondition(anything_held)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        player, model, event = self.choose_held(data)
        self.registry.ack(player.subscription, event.event_id)
        model.ack(event)
        self.settle()

    @precondition(anything_held)
    @rule()
    def ack_everything(self) -> None:
        for model in self.models.values():
            for event in model.at(IN_FLIGHT):
                self.registry.ack(self.players[event.holder].subscription, event.event_id)
                model.ack(event)
        self.settle()

    @precondition(anything_held)
    @rule(data=st.data(), delay_ms=st.sampled_from([0, 0, 1, 500, 1000, 1500]))
    def nack(self, data: st.DataObject, delay_ms: int) -> None:
        player, model, event = self.choose_held(data)
        self.registry.nack(player.subscription, event.event_id, delay_ms)
        model.nack(event, self.clock.monotonic_ms(), delay_ms)
        self.settle()

    @precondition(anything_held)
    @rule(data=st.data(), lease_ms=st.sampled_from([100, 1000, 5000]))
    def extend(self, data: st.DataObject, lease_ms: int) -> None:
        player, model, event = self.choose_held(data)
        self.registry.extend(player.subscription, event.event_id, lease_ms)
        model.extend(event, self.clock.monotonic_ms() + lease_ms)
        self.settle()

    @precondition(lambda self: self.players and any(model.events for model in self.models.values()))
    @rule(data=st.data(), command=st.sampled_from(["ack", "nack", "delayed nack", "extend"]))
    def answer_for_what_is_not_held(self, data: st.DataObject, command: str) -> None:
        """The late answer of an earlier holder, of a stranger, or a second one."""
        player = data.draw(st.sampled_from(list(self.players.values())), label="answers")
        events = [event for model in self.models.values() for event in model.events.values()]
        event = data.draw(st.sampled_from(events), label="for")
        if event.holder == player.number:
            return
        answers: dict[str, tuple[Any, ...]] = {
            "ack": (self.registry.ack,),
            "nack": (self.registry.nack,),
            "delayed nack": (self.registry.nack, 500),
            "extend": (self.registry.extend, 1000),
        }
        answer, *times = answers[command]
        with pytest.raises(LeaseNotHeld):
            answer(player.subscription, event.event_id, *times)
        self.settle()

    # Time, and the end of it.

    @rule(milliseconds=st.sampled_from([0, 1, 99, 500, 999, 1000, 5000]))
    def time_passes(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        for model in self.models.values():
            for event in model.due(self.clock.monotonic_ms()):
                model.come_back(event)
        self.registry.expire()
        self.settle()

    @rule(by_chance=st.integers(0, 7))
    def restart(self, by_chance: int) -> None:
        """Everything in memory is lost; the ledger stays. Not too often, or no program gets far."""
        if by_chance:
            return
        self.loop.run_until_complete(self.registry.close())
        self.registry = self.loop.run_until_complete(self.make())
        self.players.clear()
        self.unannounced.clear()
        for name in NAMES:
            before, model = self.models[name], self.new_model(exact=False)
            unfinished = before.at(WAITING, DELAYED, IN_FLIGHT)
            for event in unfinished:
                model.write(event.event_id, event.failed)
                model.announce(event.event_id)
            self.models[name] = model
            if unfinished:
                self.registry.recover(name, len(unfinished), int(unfinished[-1].event_id.removeprefix("e-")))
            else:
                self.registry.open(name)

    # What must always hold.

    @invariant()
    def the_counters_agree(self) -> None:
        for name, model in self.models.items():
            stream = self.registry.find(name)
            in_flight, delayed = len(model.at(IN_FLIGHT)), len(model.at(DELAYED))
            assert (stream.pending, stream.in_flight) == (model.pending, in_flight)
            assert stream.ring.held == in_flight + delayed
            assert len(stream.ring) + stream.ring.held <= stream.ring.capacity == self.window
            assert len(stream.credits) == len(model.credit)
            for number, credit in model.credit.items():
                assert self.players[number].subscription.credit == credit

    @invariant()
    def there_is_one_lease_for_each_event_that_is_out(self) -> None:
        held = {event.event_id: event.holder for model in self.models.values() for event in model.at(IN_FLIGHT)}
        found = {
            entry.id: player.number
            for player in self.players.values()
            for entry in player.subscription.entries.values()
        }
        assert found == held
        delayed = sum(len(model.at(DELAYED)) for model in self.models.values())
        assert len(self.registry._dispatcher._leases) == len(held) + delayed

    @invariant()
    def the_ledger_knows_every_end(self) -> None:
        ends = {ACKED: support.PROCESSED, DEAD: support.DEAD}
        states = {row.event.source_event_id: row.state for row in self.ledger.rows}
        for model in self.models.values():
            for event in model.events.values():
                assert states[event.event_id] == ends.get(event.place, support.PENDING)

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        for name, model in self.models.items():
            stream = self.registry.find(name)
            announced = list(model.events.values())[: model.announced]
            if any(event.place == WAITING for event in announced) and any(model.credit.values()):
                assert len(stream.ring) == 0
                assert stream.room * 2 < stream.ring.capacity, "the window is not full of what others hold"

    def teardown(self) -> None:
        """At least once: with consumers that ack, everything comes to its end."""
        try:
            if hasattr(self, "registry"):
                self.finish()
        finally:
            if hasattr(self, "registry"):
                self.loop.run_until_complete(self.registry.close())
            self.loop.close()

    def finish(self) -> None:
        while self.unannounced:
            self.announce()
        for name in NAMES:
            self.join(name, 10_000)
        for _ in range(20):
            while self.anything_held():
                self.ack_everything()
            self.time_passes(5000)
        for model in self.models.values():
            assert model.at(WAITING, DELAYED, IN_FLIGHT) == []
        self.the_counters_agree()
        self.the_ledger_knows_every_end()


def test_every_event_is_always_in_exactly_one_place() -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=5_000 if TORTURE else 300,
            stateful_step_count=150 if TORTURE else 60,
            derandomize=not TORTURE,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
            phases=[Phase.generate, Phase.shrink],
        ),
    )
