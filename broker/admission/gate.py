"""The only way in: what does not pass here does not reach the journal."""

from collections.abc import Callable, Sequence
from typing import Protocol

from broker.admission.auth import Principal
from broker.admission.quota import Quota
from broker.clock import Clock
from broker.contracts import courier
from broker.contracts.inbound import InboundEvent
from broker.errors import Draining, StorageUnavailable
from broker.journal.submission import Job


class Appender(Protocol):
    """What the gate needs of the journal."""

    def submit_events(
        self, events: Sequence[InboundEvent], done: Callable[..., None], job: Job | None = None, effects: bool = False
    ) -> None:
        """Queue events, with the job and the effects that are committed with them; raise Saturated without room."""


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
        self.is_in_memory: Callable[[str], bool] = lambda _stream: False
        """Whether the events of a stream never reach the disk."""

    def admit(self, principal: Principal, body: bytes) -> InboundEvent:
        """One event in the Courier contract that may pass; raise the CourierError that says why not."""
        self._check_draining()
        event = courier.parse_enqueue(body, self._clock.wall_us())
        principal.check_stream(event.stream, "enqueue")
        self._take(principal, event)
        return event

    def pass_event(
        self, principal: Principal, event: InboundEvent, *, device: str | None = None, durable: bool = False
    ) -> None:
        """Let an event of another contract pass, or raise the CourierError that says why not.

        With `device`, the caller must be one that may speak for it; else, one that may enqueue to the stream.
        `durable` is for a contract that promises that what it acknowledges is on disk (000, 001).
        """
        self._check_draining()
        if device is None:
            principal.check_stream(event.stream, "enqueue")
        else:
            principal.check_device(device)
        if durable and self.is_in_memory(event.stream):
            raise StorageUnavailable(
                f"the stream {event.stream} is kept in memory only, and this contract promises the disk: "
                "give it durability: journal in streams.perStreamCaps"
            )
        self._take(principal, event)

    def _check_draining(self) -> None:
        if self.draining:
            raise Draining("the broker is shutting down; send it again to its successor")

    def _take(self, principal: Principal, event: InboundEvent) -> None:
        if self.quota is None:
            self._open_stream(event.stream)
        else:  # looked at first, so that who is over quota makes no streams; drawn from last, so that a refusal is free
            self.quota.check(principal.name, event.stream)
            self._open_stream(event.stream)
            self.quota.take(principal.name, event.stream)

    def submit(
        self, events: Sequence[InboundEvent], done: Callable[..., None], job: Job | None = None, effects: bool = False
    ) -> None:
        """Hand admitted events to the journal; `done` learns on the loop what became of them.

        The job is committed with them. With `effects`, so is what is registered to be done for such events.
        """
        if job is None and not effects:
            self._appender.submit_events(events, done)
        else:
            self._appender.submit_events(events, done, job, effects)

    def enqueue(self, principal: Principal, body: bytes, done: Callable[..., None]) -> InboundEvent:
        """Admit and submit one event."""
        event = self.admit(principal, body)
        self.submit((event,), done)
        return event
