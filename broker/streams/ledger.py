"""What the streams need of the journal. Nothing here knows SQLite."""

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from _fast import Entry
from broker.contracts.origin import Origin
from broker.journal.group_queries import DeadAndWaiting, GroupRow, Registration

Row = tuple[int, str, bytes, int, str | None, int, Origin | None]
"""A pending event: seq, id, envelope, received_at, partition key, attempts, who published it on the bus."""


class Ledger(Protocol):
    """Where the pages of a stream come from, and what is told what becomes of its events."""

    @property
    def lagging(self) -> bool:
        """Whether so many outcomes wait to be written that no more events should be read."""

    def pending_page(self, stream: str, after_seq: int, limit: int) -> Awaitable[tuple[Sequence[Row], int]]:
        """The next pending events of a stream, and up to where that goes."""

    def processed(self, entries: list[Entry[Any, Any]]) -> None:
        """Events were acknowledged by their consumer; of those that are only in memory, nothing is to be kept."""

    def attempted(self, seq: int, attempts: int, first_attempt_at: int | None) -> None:
        """An event was delivered in vain, and waits again."""

    def dead_letter(self, seq: int, attempts: int, first_attempt_at: int | None, reason: str) -> None:
        """An event will not be delivered any more."""


class Positioned(Protocol):
    """A consumer group's copy of a stream."""

    @property
    def position(self) -> int:
        """Up to here, everything is settled."""


class GroupLedger(Ledger, Protocol):
    """The ledger as one group sees it."""

    def watch(self, group: Positioned) -> None:
        """Ask this one for its position whenever outcomes are written."""

    def replayed_page(self, loaded: Sequence[int], limit: int) -> Awaitable[tuple[Sequence[Row], bool]]:
        """Events that are to be delivered again, but for those that were loaded already; whether there may be more."""

    def dead_and_waiting(self, after_seq: int | None) -> Awaitable[DeadAndWaiting]:
        """What died, and what waits behind a sequence (None: nothing does)."""


class GroupBook(Protocol):
    """Keeps the groups: who has which streams, and how far each has come."""

    @property
    def registrations(self) -> Sequence[Registration]:
        """The registrations when the journal was opened."""

    @property
    def groups(self) -> Sequence[tuple[GroupRow, GroupLedger]]:
        """The groups' copies of streams when the journal was opened."""

    def create(self, stream: str, name: str, position: int) -> GroupLedger:
        """Give a group a copy of a stream, from behind a sequence on. On disk before any later outcome is."""

    def register(self, registration: Registration, streams: Sequence[str]) -> Awaitable[Sequence[GroupLedger]]:
        """Write a registration down, and a copy of each of these streams; their ledgers, once that is on disk."""

    def unregister(self, pattern: str, name: str, streams: Sequence[str]) -> Awaitable[None]:
        """Forget a registration, and the group's copies of these streams."""

    def streams_of_ledger(self) -> Awaitable[Sequence[str]]:
        """Every stream that ever had an event. Reads the whole ledger."""
