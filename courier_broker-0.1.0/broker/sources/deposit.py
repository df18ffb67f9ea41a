"""What a source brought, on its way through the gate: in small groups, the last of which carries the cursor.

A page is not one commit, because a page may be larger than a commit should be. Its cursor is in the commit of its last
group: after a crash in the middle of a page, the page is read again, and what was stored of it is found to be there.
Where the gate or the journal say later, nothing more is taken from the source until they say yes. So a source that
floods waits, in its socket, and never in memory.
"""

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from broker.admission.auth import EVERY_SCOPE, Principal
from broker.admission.commits import committed
from broker.admission.gate import Gate
from broker.clock import Clock
from broker.contracts import pulled
from broker.contracts.inbound import InboundEvent
from broker.errors import CourierError, Saturated
from broker.journal import checkpoints
from broker.journal.rejections import Rejection, Rejections
from broker.journal.submission import Receipts, together
from broker.limits import SOURCE_BATCH_BYTES_MAX, SOURCE_BATCH_ITEMS_MAX, SOURCE_REFUSALS_REMEMBERED_MAX
from broker.sources.state import SourceState

_SATURATED_SECONDS = (0.02, 0.2)
"""How long a group waits that found the queue full although there had been room (002: a short jittered delay)."""

_LATER_SECONDS_MAX = 30.0
"""How long at most before the gate is asked again, whatever it said."""


class Store(Protocol):
    """What is needed of the journal."""

    def has_room(self, events: int) -> bool:
        """Whether so many events may be submitted now."""

    def room(self, events: int) -> Awaitable[None]:
        """Wait until so many events may be submitted."""


class Way(NamedTuple):
    """The way in, which all sources share."""

    gate: Gate
    store: Store
    rejections: Rejections
    clock: Clock
    rng: random.Random
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep


class Deposit:
    """The way in of one source."""

    def __init__(self, mapping: pulled.Mapping, state: SourceState, way: Way) -> None:
        self._mapping = mapping
        self._state = state
        self._way = way
        self._principal = Principal(mapping.source_system, EVERY_SCOPE)
        self._events: list[InboundEvent] = []
        self._refused: list[Rejection] = []
        self._bytes = 0
        self._refused_before: dict[bytes, None] = {}
        """Digests, the oldest first."""

    async def put(
        self, items: Sequence[bytes], cursor: str | None, unread: Sequence[tuple[bytes, CourierError]] = ()
    ) -> None:
        """Have items on disk, with what could not be read at all kept as refused, and then the cursor behind them.

        Raise the CourierError that says why this cannot be. Nothing of it is lost by that: the cursor is where it was.
        """
        try:
            for raw, error in unread:
                self._refuse(raw, error)
            for item in items:
                await self._take(item)
            await self._commit(cursor)
        finally:
            self._begin_group()

    async def _take(self, item: bytes) -> None:
        if self._is_full:  # looked at before an item and not behind it: so the last group is not empty
            await self._commit(None)
        try:
            event = pulled.parse(item, self._mapping, self._way.clock.wall_us())
        except CourierError as error:
            self._refuse(item, error)
        else:
            await self._let_pass(event)
            self._events.append(event)
            self._bytes += len(item)

    def _refuse(self, raw: bytes, error: CourierError) -> None:
        """Have it kept as refused, once: a document that is read again has the same in it again."""
        digest = hashlib.sha256(raw).digest()
        if digest in self._refused_before:
            return
        self._refused_before[digest] = None
        if len(self._refused_before) > SOURCE_REFUSALS_REMEMBERED_MAX:
            del self._refused_before[next(iter(self._refused_before))]
        self._refused.append(self._rejection(raw, error))

    @property
    def _is_full(self) -> bool:
        items = max(len(self._events), len(self._refused))
        return items >= SOURCE_BATCH_ITEMS_MAX or self._bytes >= SOURCE_BATCH_BYTES_MAX

    async def _let_pass(self, event: InboundEvent) -> None:
        """Wait at the gate. What has passed before is not kept waiting there."""
        while True:
            try:
                self._way.gate.pass_event(self._principal, event, durable=True)
                return
            except CourierError as error:
                if not error.retryable:
                    raise
                self._state.saturations += 1
                await self._commit(None)
                await self._later(error)

    async def _commit(self, cursor: str | None) -> None:
        """Commit what has gathered, with the cursor if there is one, as soon as there is room."""
        events, refused = self._events, self._refused
        self._begin_group()
        now = self._way.clock.wall_us()
        moved = cursor is not None and cursor != self._state.cursor
        save = checkpoints.saving(self._mapping.source_system, cursor, now) if cursor is not None and moved else None
        job = together(self._way.rejections.keep(refused) if refused else None, save)
        self._state.rejected += len(refused)
        if not events and job is None:
            return
        while True:
            try:
                await self._room(len(events))
                receipts = await committed(self._way.gate, events, job)
                break
            except CourierError as error:
                if not error.retryable:
                    raise
                await self._later(error)
        if moved:
            self._state.cursor = cursor
        await self._count(events, receipts)

    async def _room(self, events: int) -> None:
        if self._way.store.has_room(events):
            return
        self._state.saturations += 1
        phase, self._state.phase = self._state.phase, "paused"
        await self._way.store.room(events)
        self._state.phase = phase

    async def _later(self, error: CourierError) -> None:
        phase, self._state.phase = self._state.phase, "paused"
        rng = self._way.rng
        if isinstance(error, Saturated):
            await self._way.pause(rng.uniform(*_SATURATED_SECONDS))
        else:
            await self._way.pause(rng.uniform(0.9, 1.1) * min(error.retry_after_seconds, _LATER_SECONDS_MAX))
        self._state.phase = phase

    async def _count(self, events: Sequence[InboundEvent], receipts: Receipts) -> None:
        """Count what became of events; one that the journal could not take is kept as refused."""
        refused: list[Rejection] = []
        for position, event in enumerate(events):
            seq = receipts.seqs[position]
            if seq > 0:
                self._state.events += 1
            elif seq < 0:
                self._state.duplicates += 1
            else:
                refused.append(self._rejection(event.envelope, receipts.refusal(position), event.source_event_id))
        if refused:
            self._refused = refused
            await self._commit(None)

    def _begin_group(self) -> None:
        self._events, self._refused, self._bytes = [], [], 0

    def _rejection(self, raw: bytes, error: CourierError, event_id: str | None = None) -> Rejection:
        return Rejection(
            pulled.CONTRACT,
            self._mapping.source_system,
            self._way.clock.wall_us(),
            error.code,
            error.message,
            raw,
            source_event_id=event_id,
        )
