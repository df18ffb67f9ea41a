"""Consumer groups of a broker that has no journal: they last as long as the process does."""

from collections.abc import Sequence
from typing import Any

from _fast import Entry
from broker.journal.group_queries import DeadAndWaiting, GroupRow, Registration
from broker.streams.ledger import GroupLedger, Positioned, Row


class LedgerOfNothing:
    """The ledger of a group whose events are all in memory: there is nothing to be read, and nobody to be told."""

    lagging = False

    def watch(self, group: Positioned) -> None:
        """Positions are not written down."""

    def processed(self, entries: list[Entry[Any, Any]]) -> None:
        """Outcomes are not written down."""

    def attempted(self, seq: int, attempts: int, first_attempt_at: int | None) -> None:
        """Attempts are not written down."""

    def dead_letter(self, seq: int, attempts: int, first_attempt_at: int | None, reason: str) -> None:
        """Outcomes are not written down."""

    async def pending_page(self, stream: str, after_seq: int, limit: int) -> tuple[Sequence[Row], int]:  # noqa: ARG002
        """There is nothing behind the window."""
        return (), after_seq

    async def replayed_page(self, loaded: Sequence[int], limit: int) -> tuple[Sequence[Row], bool]:  # noqa: ARG002
        """There are no dead letters."""
        return (), False

    async def dead_and_waiting(self, after_seq: int | None) -> DeadAndWaiting:  # noqa: ARG002
        """There is nothing behind the window, and nothing died."""
        return DeadAndWaiting(0, 0)


class GroupsInMemory:
    """A book without pages."""

    registrations: Sequence[Registration] = ()
    groups: Sequence[tuple[GroupRow, GroupLedger]] = ()

    def create(self, stream: str, name: str, position: int) -> GroupLedger:  # noqa: ARG002
        """Give a group a copy of a stream."""
        return LedgerOfNothing()

    async def register(self, registration: Registration, streams: Sequence[str]) -> Sequence[GroupLedger]:  # noqa: ARG002
        """Give a group a copy of each of these streams."""
        return [LedgerOfNothing() for _ in streams]

    async def unregister(self, pattern: str, name: str, streams: Sequence[str]) -> None:
        """Nothing was written down."""

    async def streams_of_ledger(self) -> Sequence[str]:
        """There is no ledger."""
        return ()
