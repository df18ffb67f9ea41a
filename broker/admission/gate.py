"""The only way in: what does not pass here does not reach the journal."""

from collections.abc import Callable, Sequence
from typing import Protocol

from broker.admission.auth import Principal
from broker.admission.quota import Quota
from broker.clock import Clock
from broker.contracts import courier
from broker.contracts.inbound import InboundEvent
from broker.contracts.json_bytes import check_depth, check_utf8
from broker.errors import CourierError, Draining


class Appender(Protocol):
    """What the gate needs of the journal."""

    def submit_events(
        self, events: Sequence[InboundEvent], done: Callable[..., None], causes: Sequence[int] = ()
    ) -> None:
        """Queue events, the last of which may be effects of earlier ones; raise Saturated when there is no room."""


class Expanded(Protocol):
    """Events with what rules made of them."""

    events: list[InboundEvent]
    causes: list[int]

    def settle(self, outcome: object) -> object:
        """What became of the producer's own events."""


class Gate:
    """Checks who, what and how much, and hands what passes to the journal."""

    def __init__(self, appender: Appender, clock: Clock, open_stream: Callable[[str], object]) -> None:
        self._appender = appender
        self._clock = clock
        self._open_stream = open_stream
        self.draining = False
        """Whether the broker is shutting down, and takes nothing new."""
        self.quota: Quota | None = None
        """The token buckets; None when no rate is configured."""
        self.expand: Callable[[Sequence[InboundEvent]], Expanded | None] | None = None
        """Runs the rules over events; None when there are no rules."""

    def admit(self, principal: Principal, body: bytes) -> InboundEvent:
        """One event in the Courier contract that may pass; raise the CourierError that says why not."""
        self._check_open()
        return self._pass(principal, courier.parse_enqueue(body, self._clock.wall_us()))

    def admit_envelope(self, principal: Principal, to: str, envelope: bytes) -> InboundEvent:
        """The same for an envelope that comes without a request around it."""
        self._check_open()
        check_utf8(envelope)
        check_depth(envelope, levels_around=1)  # what may come in one way must be able to come in by the other
        return self._pass(principal, courier.parse_envelope(to, envelope, self._clock.wall_us()))

    def _check_open(self) -> None:
        if self.draining:
            raise Draining("the broker is shutting down; send it again to its successor")

    def _pass(self, principal: Principal, event: InboundEvent) -> InboundEvent:
        principal.check_stream(event.stream, "enqueue")
        self.let_onto(principal.name, event.stream)
        return event

    def let_onto(self, source: str, stream: str) -> None:
        """Let one event of a source onto a stream; raise the CourierError that says why not."""
        if self.quota is None:
            self._open_stream(stream)
        else:  # looked at first, so that who is over quota makes no streams; drawn from last, so that a refusal is free
            self.quota.check(source, stream)
            self._open_stream(stream)
            self.quota.take(source, stream)

    def submit(self, events: Sequence[InboundEvent], done: Callable[..., None]) -> None:
        """Hand admitted events to the journal, with what rules make of them.

        `done` learns on the loop what became of the admitted ones.
        """
        expanded = None if self.expand is None else self.expand(events)
        if expanded is None:
            self._appender.submit_events(events, done)
        else:
            self._submit_expanded(expanded, done)

    def _submit_expanded(self, expanded: Expanded, done: Callable[..., None]) -> None:
        try:
            self._appender.submit_events(
                expanded.events, lambda outcome: done(expanded.settle(outcome)), expanded.causes
            )
        except CourierError as error:
            expanded.settle(error)
            raise

    def enqueue(self, principal: Principal, body: bytes, done: Callable[..., None]) -> InboundEvent:
        """Admit and submit one event."""
        event = self.admit(principal, body)
        self.submit((event,), done)
        return event
