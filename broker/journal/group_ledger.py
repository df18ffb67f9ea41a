"""The ledger as one consumer group sees it: pages of one stream, and a place to say what became of its events."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import orjson

from _fast import Entry
from broker.clock import Clock
from broker.journal import group_queries
from broker.journal.group_queries import DeadAndWaiting, GroupRow
from broker.journal.reader import StoredEvent
from broker.journal.schema import STATE_DEAD_LETTER, STATE_PENDING, STATE_PROCESSED

log = logging.getLogger(__name__)
T = TypeVar("T")


class Book(Protocol):
    """What is needed of the book of all groups."""

    clock: Clock
    unsaved_max: int

    @property
    def unsaved(self) -> int:
        """How many outcomes of all groups wait to be written."""

    def touch(self, ledger: "GroupLedger") -> None:
        """A group has something to say."""

    async def run(self, query: Callable[..., T], *args: Any) -> T:
        """Run a query on a reader."""


class Positioned(Protocol):
    """A group's copy of a stream, as the streams have it."""

    @property
    def position(self) -> int:
        """Up to here, everything is settled."""


class Save(NamedTuple):
    """What one group has to say in one write."""

    ledger: "GroupLedger"
    before: int
    position: int
    settled: list[int]
    dead: list[tuple[int, int, int | None, str, int]]
    """Sequence, attempts, first attempt, reason and time of each event that died."""
    attempted: dict[int, tuple[int, int | None]]
    """Attempts and first attempt of each event that was delivered in vain and waits again."""


class GroupLedger:
    """One group and one stream. What is told here is written when the book next writes."""

    def __init__(self, book: Book, row: GroupRow) -> None:
        self._book = book
        self.id = row.id
        self.stream = row.stream
        self._position = row.position
        self._has_events = row.has_events
        self._settled: list[int] = []
        self._dead: list[tuple[int, int, int | None, str, int]] = []
        self._attempted: dict[int, tuple[int, int | None]] = {}
        self._being_written: Save | None = None
        self._group: Positioned | None = None

    def watch(self, group: Positioned) -> None:
        """Ask this one for its position whenever outcomes are written."""
        self._group = group

    @property
    def lagging(self) -> bool:
        """Whether so many outcomes wait to be written that no more events should be read."""
        return self._book.unsaved >= self._book.unsaved_max

    def processed(self, entries: list[Entry[Any, Any]]) -> None:
        """Events were acknowledged by a consumer of the group."""
        settled = [entry.seq for entry in entries if entry.in_ledger]
        if not settled:
            return
        if self._attempted:
            for seq in settled:
                self._attempted.pop(seq, None)
        self._settled += settled
        self._book.touch(self)

    def attempted(self, seq: int, attempts: int, first_attempt_at: int | None) -> None:
        """An event was delivered in vain, and waits again: a restart goes on counting from here."""
        self._attempted[seq] = attempts, first_attempt_at
        self._book.touch(self)

    def dead_letter(self, seq: int, attempts: int, first_attempt_at: int | None, reason: str) -> None:
        """The group will not get this event any more."""
        self._attempted.pop(seq, None)
        self._dead.append((seq, attempts, first_attempt_at, reason, self._book.clock.wall_us()))
        self._book.touch(self)

    async def pending_page(self, stream: str, after_seq: int, limit: int) -> tuple[list[StoredEvent], int]:
        """The next events that the group has not settled, and up to where that goes."""
        found = await self._book.run(group_queries.page, self.id, stream, after_seq, limit)
        self._bury(found.corrupt)
        return found.events, found.last_seq

    async def replayed_page(self, loaded: Sequence[int], limit: int) -> tuple[list[StoredEvent], bool]:
        """Events that are to be delivered again, but for those that were loaded already; whether there may be more."""
        # What was settled of late still has the row that says otherwise.
        settled = [*self._settled, *(letter[0] for letter in self._dead)]
        if self._being_written is not None:
            settled += self._being_written.settled
            settled += (letter[0] for letter in self._being_written.dead)
        known = orjson.dumps([*loaded, *settled]).decode()
        found = await self._book.run(group_queries.waiting_again, self.id, known, limit)
        self._bury(found.corrupt)
        return found.events, bool(found.last_seq)

    async def dead_and_waiting(self, after_seq: int | None) -> DeadAndWaiting:
        """What died, and what waits behind a sequence (None: nothing does)."""
        return await self._book.run(group_queries.dead_and_waiting, self.id, self.stream, after_seq)

    def _bury(self, corrupt: list[int]) -> None:
        for seq in corrupt:
            log.error(
                "event %d of stream %s no longer matches its hash; its group has it as a dead letter", seq, self.stream
            )
            self.dead_letter(seq, 0, None, "corrupt: the stored bytes no longer match their hash")

    @property
    def unsaved(self) -> int:
        """How many outcomes wait to be written."""
        return len(self._settled) + len(self._dead) + len(self._attempted)

    def take(self) -> Save:
        """What is to be written now."""
        position = max(self._position, self._position if self._group is None else self._group.position)
        save = Save(self, self._position, position, self._settled, self._dead, self._attempted)
        self._position, self._settled, self._dead, self._attempted = position, [], [], {}
        self._being_written = save
        return save

    def written(self) -> None:
        """What was taken is on disk."""
        self._being_written = None

    def give_back(self, save: Save) -> None:
        """It was not written: it is still to be."""
        self._being_written = None
        self._position = save.before
        self._settled[:0] = save.settled
        self._dead[:0] = save.dead
        ended = {*self._settled, *(letter[0] for letter in self._dead)}
        older = {seq: attempt for seq, attempt in save.attempted.items() if seq not in ended}
        self._attempted = older | self._attempted

    def rows_of(self, save: Save) -> tuple[list[Any], list[Any]]:
        """The rows that events get because of a save, and those that settled events lose."""
        rows = [
            [self.id, seq, STATE_DEAD_LETTER, attempts, first_attempt_at, at, reason]
            for seq, attempts, first_attempt_at, reason, at in save.dead
        ]
        now = self._book.clock.wall_us()
        ahead = [seq for seq in save.settled if seq > save.position]
        rows += ([self.id, seq, STATE_PROCESSED, 0, None, now, None] for seq in ahead)
        rows += (
            [self.id, seq, STATE_PENDING, attempts, first_attempt_at, now, None]
            for seq, (attempts, first_attempt_at) in save.attempted.items()
        )
        # Only rows from before can be lost by what is settled now; without any, there is nothing to look for.
        passed = [[self.id, seq] for seq in save.settled if seq <= save.position] if self._has_events else []
        self._has_events = self._has_events or bool(rows)
        return rows, passed
