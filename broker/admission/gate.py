"""The only way in: what does not pass here does not reach the journal."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from broker.admission.auth import Principal
from broker.admission.quota import Quota
from broker.clock import Clock
from broker.contracts import courier
from broker.contracts.inbound import InboundEvent
from broker.errors import CourierError, Draining, StorageUnavailable
from broker.journal.submission import Job


class Appender(Protocol):
    """What the gate needs of the journal."""

    def submit_events(
        self,
        events: Sequence[InboundEvent],
        done: Callable[..., None],
        causes: Sequence[int] = (),
        job: Job | None = None,
        effects: bool = False,
    ) -> None:
        """Queue events, the last of which may be what rules made of earlier ones; raise Saturated without room.

        The job is committed with them, and with `effects` what is registered to be done for the earlier ones.
        """


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
        self.is_in_memory: Callable[[str], bool] = lambda _stream: False
        """Whether the events of a stream never reach the disk."""
        self.expand: Callable[[Sequence[InboundEvent]], Expanded | None] | None = None
        """Runs the rules over events; None when there are no rules."""
        self.has_rules_for: Callable[[Sequence[InboundEvent]], bool] = lambda _events: True
        """Whether some rule may be for one of these events."""

    def admit(self, principal: Principal, body: bytes) -> InboundEvent:
        """One event in the Courier contract that may pass; raise the CourierError that says why not."""
        self._check_open()
        return self._pass(principal, courier.parse_enqueue(body, self._clock.wall_us()))

    def admit_frame(self, principal: Principal, frame: bytes) -> list[InboundEvent] | None:
        """The events of a frame that is written plainly and may pass as a whole.

        None says that its requests are to be admitted one by one, because it is not so sure, or a rate counts them.
        """
        if self.draining or self.quota is not None:
            return None
        events = courier.parse_plain(frame, self._clock.wall_us())
        return events if events is not None and self._may_pass(principal, events) else None

    def admit_frames(self, principal: Principal, frames: list[bytes]) -> tuple[list[InboundEvent], int, bool | None]:
        """The events of the frames, from the first one on, that are written plainly, may pass, and may go together.

        With them, of how many frames they are, and of which kind (`kind_of`). None of them says that the frames are
        to be admitted one by one.
        """
        if not self.draining and self.quota is None and self.expand is None:
            events, count = courier.parse_plain_frames(frames, self._clock.wall_us())
            if events and self._may_pass(principal, events) and (kind := self.kind_of(events)) is not None:
                return events, count, kind
        return [], 0, None

    def _may_pass(self, principal: Principal, events: Sequence[InboundEvent]) -> bool:
        """Whether events may pass, all of them. Their streams are there, then."""
        stream = None
        try:
            for event in events:
                if event.stream is not stream:  # the reader makes one object of a name, however often it comes
                    stream = event.stream
                    principal.check_stream(stream, "enqueue")
                    self._open_stream(stream)
        except CourierError:
            return False
        return True

    def admit_plain(self, principal: Principal, body: bytes) -> InboundEvent | None:
        """The event of a body with one request that may pass; None says that it is to be given to `admit`, as above."""
        if self.draining or self.quota is not None:
            return None
        event = courier.parse_plain_one(body, self._clock.wall_us())
        if event is None:
            return None
        try:
            principal.check_stream(event.stream, "enqueue")
            self._open_stream(event.stream)
        except CourierError:
            return None
        return event

    def kind_of(self, events: Sequence[InboundEvent]) -> bool | None:
        """Whether admitted events are all in memory, or none of them; events of one kind may be submitted together.

        Else what is in memory would wait for the disk with the others, and be overtaken meanwhile. None for those that
        are to be submitted as they were sent: both at once, and what rules are for, because what rules make of a
        submission has a bound.
        """
        if self.expand is not None and self.has_rules_for(events):
            return None
        is_in_memory = self.is_in_memory(events[0].stream)
        stream = events[0].stream
        for event in events:
            if event.stream is not stream:
                stream = event.stream
                if self.is_in_memory(stream) is not is_in_memory:
                    return None
        return is_in_memory

    def admit_envelope(self, principal: Principal, to: str, envelope: bytes) -> InboundEvent:
        """The same for an envelope that comes without a request around it."""
        self._check_open()
        return self._pass(principal, courier.parse_bare(to, envelope, self._clock.wall_us()))

    def admit_pairs(self, principal: Principal, pairs: list[Any]) -> list[InboundEvent] | None:
        """The events of pairs of a stream and an envelope that are written plainly and may pass as a whole.

        None says that they are to be admitted one by one, because it is not so sure, or a rate counts them.
        """
        if self.draining or self.quota is not None:
            return None
        found = courier.parse_plain_pairs(pairs, self._clock.wall_us())
        if found is None:
            return None
        events, streams = found
        try:
            for stream in streams:
                principal.check_stream(stream, "enqueue")
                self._open_stream(stream)
        except CourierError:
            return None
        return events

    def pass_event(
        self, principal: Principal, event: InboundEvent, *, device: str | None = None, durable: bool = False
    ) -> None:
        """Let an event of another contract pass, or raise the CourierError that says why not.

        With `device`, the caller must be one that may speak for it; else, one that may enqueue to the stream.
        `durable` is for a contract that promises that what it acknowledges is on disk (000, 001).
        """
        self._check_open()
        if device is None:
            principal.check_stream(event.stream, "enqueue")
        else:
            principal.check_device(device)
        if durable and self.is_in_memory(event.stream):
            raise StorageUnavailable(
                f"the stream {event.stream} is kept in memory only, and this contract promises the disk: "
                "give it durability: journal in streams.perStreamCaps"
            )
        self.let_onto(principal.name, event.stream)

    def pass_due(self, event: InboundEvent) -> None:
        """Let an event pass that was admitted when it was put off; raise the CourierError that says why not now.

        It drew from the token buckets then, and does not do so again.
        """
        self._open_stream(event.stream)

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

    def submit(
        self, events: Sequence[InboundEvent], done: Callable[..., None], job: Job | None = None, effects: bool = False
    ) -> None:
        """Hand admitted events to the journal, with what rules make of them.

        `done` learns on the loop what became of the admitted ones. The job is committed with them. With `effects`,
        so is what is registered to be done for them, but not for what rules made of them.
        """
        expanded = None if self.expand is None else self.expand(events)
        if expanded is not None:
            self._submit_expanded(expanded, done, job, effects)
        elif job is None and not effects:
            self._appender.submit_events(events, done)
        else:
            self._appender.submit_events(events, done, job=job, effects=effects)

    def _submit_expanded(self, expanded: Expanded, done: Callable[..., None], job: Job | None, effects: bool) -> None:
        try:
            self._appender.submit_events(
                expanded.events, lambda outcome: done(expanded.settle(outcome)), expanded.causes, job, effects
            )
        except CourierError as error:
            expanded.settle(error)
            raise

    def enqueue(self, principal: Principal, body: bytes, done: Callable[..., None]) -> InboundEvent:
        """Admit and submit one event."""
        event = self.admit(principal, body)
        self.submit((event,), done)
        return event
