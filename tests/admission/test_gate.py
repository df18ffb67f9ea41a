"""The only way in."""

from collections.abc import Callable, Sequence

import msgspec
import pytest

from broker.admission.auth import Principal
from broker.admission.gate import Gate
from broker.admission.quota import Quota
from broker.clock import ManualClock
from broker.config import Auth
from broker.contracts.inbound import InboundEvent
from broker.contracts.skyra import device_of, parse
from broker.errors import (
    CourierError,
    Draining,
    Forbidden,
    InvalidRequest,
    OverQuota,
    Saturated,
    StorageUnavailable,
    UnknownStream,
)
from tests.support.events import STREAM, body
from tests.support.skyra import raw


class Door:
    """A journal and streams that note what reached them, or refuse."""

    def __init__(self) -> None:
        self.events: list[InboundEvent] = []
        self.causes: list[int] = []
        self.opened: list[str] = []
        self.refusal: dict[str, CourierError] = {}
        self.extras: tuple[object, bool] = (None, False)
        self.gate = Gate(self, ManualClock(wall_us=42), self.open)

    def submit_events(
        self,
        events: Sequence[InboundEvent],
        done: Callable[..., None],
        causes: Sequence[int] = (),
        job: object = None,
        effects: bool = False,
    ) -> None:
        self.extras = (job, effects)
        if "submit" in self.refusal:
            raise self.refusal["submit"]
        self.events += events
        self.causes += causes
        done("outcome")

    def open(self, name: str) -> None:
        if "open" in self.refusal:
            raise self.refusal["open"]
        self.opened.append(name)


ALLOWED = Principal("p", ("streams:agents/**:enqueue",))


def test_what_passes_reaches_the_journal_once_and_its_producer_hears_of_it() -> None:
    door, outcomes = Door(), []
    event = door.gate.enqueue(ALLOWED, body(), outcomes.append)
    assert door.events == [event]
    assert (event.stream, event.received_at) == (STREAM, 42)
    assert (door.opened, outcomes) == ([STREAM], ["outcome"])


def refused(door: Door, principal: Principal = ALLOWED, sent: bytes = body(), *, opened: bool = False) -> type:
    with pytest.raises(CourierError) as refusal:
        door.gate.enqueue(principal, sent, lambda _outcome: pytest.fail("nothing was submitted"))
    assert door.events == []
    assert bool(door.opened) is opened
    return type(refusal.value)


def test_a_draining_broker_takes_nothing() -> None:
    door = Door()
    door.gate.draining = True
    assert refused(door) is Draining


def test_what_is_not_an_event_is_refused() -> None:
    assert refused(Door(), sent=b"{}") is InvalidRequest


def test_whoever_lacks_the_scope_makes_no_stream() -> None:
    assert refused(Door(), Principal("p", ("streams:agents/**:subscribe", "streams:other:enqueue"))) is Forbidden


def test_a_stream_that_may_not_be_made_keeps_the_event_out() -> None:
    door = Door()
    door.refusal["open"] = UnknownStream("no")
    assert refused(door) is UnknownStream


def test_only_what_passes_draws_from_the_buckets() -> None:
    door = Door()
    auth = msgspec.convert(
        {"tokens": [{"name": "p", "token": "t", "scopes": ["admin:*"], "rate": {"perSecond": 1, "burst": 1}}]}, Auth
    )
    door.gate.quota = Quota(auth, {}, ManualClock())
    door.refusal["open"] = UnknownStream("no")
    assert [refused(door) for _ in range(3)] == [UnknownStream] * 3
    del door.refusal["open"]
    door.gate.enqueue(ALLOWED, body(), lambda _outcome: None)
    with pytest.raises(OverQuota):
        door.gate.enqueue(ALLOWED, body(), lambda _outcome: None)
    assert (len(door.events), door.opened) == (1, [STREAM])


def test_a_full_queue_keeps_the_event_out() -> None:
    door = Door()
    door.refusal["submit"] = Saturated("full")
    assert refused(door, opened=True) is Saturated


EVENT = parse(raw(device_id="pi"), "p", 42)


def not_passed(door: Door, principal: Principal, **options: object) -> type:
    with pytest.raises(CourierError) as refusal:
        door.gate.pass_event(principal, EVENT, **options)
    assert door.opened == []
    return type(refusal.value)


def test_an_event_of_another_contract_passes_the_same_checks() -> None:
    door, writer = Door(), Principal("p", ("streams:devices/**:enqueue",))
    assert not_passed(door, ALLOWED) is Forbidden
    door.gate.pass_event(writer, EVENT)
    assert door.opened == [EVENT.stream]
    door = Door()
    door.gate.draining = True
    assert not_passed(door, writer) is Draining


def test_a_device_is_let_in_by_the_scope_of_devices_and_by_no_other() -> None:
    writer, device = Principal("p", ("streams:**:enqueue",)), Principal("p", ("devices:pi",))
    assert not_passed(Door(), writer, device=device_of(EVENT)) is Forbidden
    assert not_passed(Door(), device) is Forbidden
    door = Door()
    door.gate.pass_event(device, EVENT, device=device_of(EVENT))
    assert door.opened == [EVENT.stream]


def test_a_contract_that_promises_the_disk_is_kept_out_of_memory() -> None:
    door, writer = Door(), Principal("p", ("streams:**:enqueue",))
    door.gate.is_in_memory = lambda stream: stream == EVENT.stream
    assert not_passed(door, writer, durable=True) is StorageUnavailable
    door.gate.pass_event(writer, EVENT)


def test_what_is_committed_with_events_is_handed_on_with_them() -> None:
    door = Door()
    door.gate.submit((EVENT,), lambda _outcome: None, job=print, effects=True)
    assert (door.events, door.extras) == ([EVENT], (print, True))


class Doubled:
    """Every event with an effect; notes what became of them."""

    def __init__(self, events: Sequence[InboundEvent]) -> None:
        self.events = [*events, *events]
        self.causes = list(range(len(events)))
        self.outcomes: list[object] = []

    def settle(self, outcome: object) -> object:
        self.outcomes.append(outcome)
        return "the producer's part"


def test_what_rules_make_of_events_goes_along_and_the_producer_hears_of_its_own() -> None:
    door, outcomes = Door(), []
    doubled: list[Doubled] = []

    def expand(events: Sequence[InboundEvent]) -> Doubled:
        doubled.append(Doubled(events))
        return doubled[-1]

    door.gate.expand = expand
    event = door.gate.enqueue(ALLOWED, body(), outcomes.append)
    assert (door.events, door.causes) == ([event, event], [0])
    assert outcomes == ["the producer's part"]
    assert doubled[0].outcomes == ["outcome"]


def test_what_is_committed_with_events_goes_along_with_what_rules_make_of_them() -> None:
    door = Door()
    door.gate.expand = Doubled
    door.gate.submit((EVENT,), lambda _outcome: None, job=print, effects=True)
    assert (door.events, door.causes, door.extras) == ([EVENT, EVENT], [0], (print, True))


def test_what_a_full_queue_keeps_out_is_told_to_the_rules_too() -> None:
    door = Door()
    doubled = Doubled([])
    door.gate.expand = lambda _events: doubled
    door.refusal["submit"] = Saturated("full")
    assert refused(door, opened=True) is Saturated
    assert doubled.outcomes == [door.refusal["submit"]]


def test_where_no_rule_is_for_an_event_it_goes_its_way() -> None:
    door = Door()
    door.gate.expand = lambda _events: None
    event = door.gate.enqueue(ALLOWED, body(), lambda _outcome: None)
    assert (door.events, door.causes) == ([event], [])
