"""The core: what takes, keeps and delivers events, without a socket.

`App` puts a server on it, `broker.embedded` hands it to a program. It stands on a `Store`: the journal, or
nothing at all (`NoLedger`), and then every stream is in memory.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol

import msgspec

from _fast import Entry, any_in_ledger
from broker.admission.gate import Gate
from broker.admission.quota import quota_for
from broker.clock import Clock
from broker.config import Config, Streams
from broker.contracts.inbound import InboundEvent
from broker.deliveries.tail import Tails
from broker.journal import pixel_servers, reader
from broker.journal.deferrals import Deferrals
from broker.journal.journal import Journal
from broker.journal.rejections import Rejections
from broker.journal.retention import Retention
from broker.journal.submission import Job
from broker.ops.events_log import EventLog
from broker.scheduler.in_memory import DeferralsInMemory
from broker.scheduler.recurring import Recurring
from broker.scheduler.scheduler import Scheduler
from broker.streams.ledger import GroupBook, Ledger, Row
from broker.streams.memory import Durable, Intake, Kinds
from broker.streams.registry import Registry
from broker.triggers.engine import Engine
from broker.triggers.rule_set import RuleSet
from broker.triggers.store import RuleStore
from broker.views.catalogue import Views

log = logging.getLogger(__name__)


class Store(Ledger, Durable, Protocol):
    """What the core stands on."""

    async def room(self, events: int) -> None:
        """Wait until so many events may be submitted."""

    async def close(self) -> None:
        """Keep what was submitted, and let go of everything."""


class NoLedger:
    """The store of a core without a journal. All streams are in memory, so nobody may ask it for anything."""

    lagging = False

    def _refuse(self) -> NoReturn:
        raise AssertionError("a broker in memory has no ledger, and no event that belongs in one")

    def submit_events(
        self,
        events: Sequence[InboundEvent],  # noqa: ARG002 - as agreed
        done: Callable[..., None],  # noqa: ARG002
        causes: Sequence[int] = (),  # noqa: ARG002
        job: Job | None = None,  # noqa: ARG002
        effects: bool = False,  # noqa: ARG002
    ) -> None:
        """No event is durable here."""
        self._refuse()

    def pending_page(self, stream: str, after_seq: int, limit: int) -> Awaitable[tuple[Sequence[Row], int]]:  # noqa: ARG002 - as agreed
        """No stream is longer than its window here."""
        self._refuse()

    def processed(self, entries: list[Entry[Any, Any]]) -> None:
        """No sequence is of a ledger here."""
        assert not any_in_ledger(entries), "a broker in memory has no event that belongs in a ledger"

    def attempted(self, seq: int, attempts: int, first_attempt_at: int | None) -> None:  # noqa: ARG002 - as agreed
        """No sequence is of a ledger here."""
        self._refuse()

    def dead_letter(self, seq: int, attempts: int, first_attempt_at: int | None, reason: str) -> None:  # noqa: ARG002 - as agreed
        """No sequence is of a ledger here."""
        self._refuse()

    async def room(self, events: int) -> None:
        """There is no queue to wait for; a stream that is full refuses."""

    async def close(self) -> None:
        """There is nothing to let go of."""


class Core:
    """Streams and the gate to them. As it stands it is in memory; `DurableCore` has a journal below."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        store: Store | None = None,
        book: GroupBook | None = None,
        views: Views | None = None,
    ) -> None:
        streams = config.streams if store is not None else _in_memory(config.streams)
        self.clock = clock
        self._store: Store = NoLedger() if store is None else store
        self.registry = Registry(streams, clock, self._store, book)
        self.intake = Intake(self._store, self.registry, config.journal.dedupe_entries)
        self.intake.on_events = self._offered
        self.intake.is_watched = self._is_watched
        self.gate = Gate(self.intake, clock, self.registry.open)
        self.gate.quota = quota_for(config.auth, streams.per_stream_caps, clock)
        self.gate.is_in_memory = self.registry.is_in_memory
        self.triggers = Engine(RuleSet(config.triggers), clock, self.gate.let_onto)
        self.triggers.rules.on_change = self._wire_triggers
        self._wire_triggers()
        self.room = self._store.room
        """Wait until so many events may be submitted."""
        self.scheduler = self._make_scheduler()
        """Keeps events until their time."""
        self.views = views or Views(config.views, None)
        """The views that are kept (003 §9)."""
        self.tails = Tails()
        """Those who look at every event that comes, without consuming it."""
        self.events_log: EventLog | None = None
        """A line for each thing that happens to an event, if that is wanted."""
        if config.events.log is not None:
            self.events_log = EventLog(Path(config.events.log), config.events, clock)
            self.registry.observer = self.triggers.observer = self.events_log
        self.failed = asyncio.Event()
        """Set when nothing can be kept any more."""
        self.failure: str | None = None
        """Why that is."""
        self.on_failed: Callable[[str], None] = lambda _reason: None
        """Told once, when that happens."""

    def _offered(self, events: list[tuple[int, InboundEvent]]) -> None:
        """New events that are in their stream in memory rise to those that only look at them."""
        if self.events_log is not None:
            self.events_log.enqueued(events)
        self.views.take(events)
        self.tails.show(events)

    def _is_watched(self, kinds: Kinds) -> bool:
        return self.events_log is not None or self.tails.is_followed or self.views.want(kinds)

    def _make_scheduler(self) -> Scheduler:
        return Scheduler(DeferralsInMemory(), self.gate, self.clock, self.room)

    def _wire_triggers(self) -> None:
        """Without rules, the gate does not know of triggers."""
        self.gate.expand = self.triggers.expand if len(self.triggers.rules) else None
        self.gate.has_rules_for = self.triggers.has_rules_for

    def _fail(self, reason: str) -> None:
        self.failure = reason
        self.failed.set()
        self.on_failed(reason)

    async def close(self) -> None:
        """Let go of everything. Nobody submits any more, and nobody is subscribed."""
        await self.scheduler.close()
        await self.registry.close()
        await self.views.close()
        await self._store.close()
        if self.events_log is not None:
            await self.events_log.close()


class DurableCore(Core):
    """A core on a journal. Make one with `DurableCore.open`."""

    def __init__(self, config: Config, clock: Clock, journal: Journal) -> None:
        self.journal = journal
        super().__init__(config, clock, journal, journal.groups, Views(config.views, journal))
        self.rule_store = RuleStore(journal, self.triggers.rules, clock)
        """Keeps the rules that came over the API."""
        self.retention = Retention(journal, config.journal.retention, clock, lambda: self.views.saved_seq)
        self._sweeping: asyncio.Task[None] | None = None
        self.rejections = Rejections(clock)
        """Decides which refusals are kept."""
        self.effect = journal.effects.register
        """`@core.effect("pixel_control.lifecycle.*")` registers an effect: see broker/journal/effects.py."""
        for kind in (pixel_servers.REGISTRATION, pixel_servers.HEARTBEAT):
            self.effect(kind)(pixel_servers.note_server)
        journal.on_events = self._committed
        journal.on_damaged = self.registry.damaged
        journal.on_fatal = self._fail

    def _make_scheduler(self) -> Scheduler:
        self.recurring = Recurring(self.journal, self.gate, self.clock)
        """What happens again and again."""
        return Scheduler(Deferrals(self.journal), self.gate, self.clock, self.room, self.recurring)

    def _committed(self, events: list[tuple[int, InboundEvent]]) -> None:
        """The new events of a group commit rise to all that live on them, whatever one of these makes of them."""
        if self.events_log is not None:
            self.events_log.enqueued(events)
        try:
            self.registry.committed(events)
        finally:
            self.views.take(events)
            self.tails.show(events)

    @classmethod
    async def open(cls, directory: Path, config: Config, clock: Clock) -> "DurableCore":
        """Open the journal of a data directory and take up what was left unfinished.

        Raise ConfigError when the directory cannot be used, or another broker uses it.
        """
        journal = await Journal.open(directory, config.journal, clock)
        try:
            core = cls(config, clock, journal)
            await core._recover()
        except BaseException:
            await journal.close()
            raise
        core.views.start()
        core.scheduler.start()
        core._sweeping = asyncio.create_task(core.retention.run())
        return core

    async def _recover(self) -> None:
        await self.rule_store.load()
        await self.recurring.load()
        await self.views.load()
        for name, pending, last_seq in await self.journal.readers.run(reader.pending_streams):
            self.registry.recover(name, pending, last_seq)
        backlog = self.journal.backlog
        self.registry.recover_groups(backlog.last_seq)
        oldest = 0.0 if backlog.oldest_pending_at is None else (self.clock.wall_us() - backlog.oldest_pending_at) / 1e6
        log.info(
            "journal %s recovered: %d pending, %d dead letters, oldest pending %.0f s, last sequence %d",
            self.journal.path,
            backlog.pending,
            backlog.dead_letters,
            oldest,
            backlog.last_seq,
        )

    async def close(self) -> None:
        """Let go of everything, after all that was submitted is on disk."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        await super().close()


def _in_memory(streams: Streams) -> Streams:
    """The same settings with every stream in memory, whatever they say of durability."""
    caps = {
        pattern: msgspec.structs.replace(each, durability=None) for pattern, each in streams.per_stream_caps.items()
    }
    return msgspec.structs.replace(streams, durability="memory", per_stream_caps=caps)
