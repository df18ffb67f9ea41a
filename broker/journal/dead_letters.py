"""Dead letters: what was given up, and how an operator brings it back or lets it go (002).

A replay is a new row of the ledger, with the same stream, id and bytes, whose identity is `redrive:<seq>`
of the dead one. So it passes dedupe once, and only once however often it is asked for; it joins the tail
of its stream like any new event; and its attempts start from zero. The dead row is settled in the same
transaction, keeps its reason, and says what it was redriven as. Rejected: setting the dead row back to
pending, which would have to find its place in the middle of a window that has passed it.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple, Protocol

import apsw
import orjson

from broker.clock import Clock
from broker.contracts.inbound import InboundEvent
from broker.errors import InvalidRequest, NotFound
from broker.journal import schema
from broker.journal.reader import ReaderPool, matches
from broker.journal.submission import Job, Receipts

SLICE = 500
"""How many dead letters one transaction replays or discards."""


class Filter(NamedTuple):
    """Which dead letters are meant; every part that is given must match."""

    stream: str | None = None
    """A name, with `*` for anything (also across segments)."""
    type: str | None = None
    reason: str | None = None
    """A part of the reason."""
    dead_before: int | None = None
    """Microseconds since 1970."""
    dead_after: int | None = None


class DeadLetter(NamedTuple):
    """One dead letter, without its envelope."""

    seq: int
    stream: str
    type: str
    source_system: str
    source_event_id: str
    reason: str
    attempts: int
    received_at: int
    first_attempt_at: int | None
    dead_at: int


_MATCHES = """
FROM ledger INDEXED BY ledger_dead_letters WHERE state = 2
  AND (:stream IS NULL OR stream GLOB :stream)
  AND (:type IS NULL OR type = :type)
  AND (:reason IS NULL OR instr(process_error, :reason) > 0)
  AND (:dead_before IS NULL OR state_changed_at < :dead_before)
  AND (:dead_after IS NULL OR state_changed_at > :dead_after)
"""
_SELECT = """
SELECT seq, stream, type, source_system, source_event_id, process_error, process_attempts, received_at,
  process_first_attempt_at, state_changed_at, envelope, payload_sha256
"""
_PAGE = _SELECT.replace(", envelope, payload_sha256", "") + _MATCHES + "AND seq > :after_seq ORDER BY seq LIMIT :limit"
_COUNT = "SELECT count(*)" + _MATCHES
_ONE = _SELECT + "FROM ledger WHERE seq = ? AND state = 2"

# In the order of InboundEvent, behind seq and around source_system and received_at, which a replay has of its own.
_FOR_REPLAY = """
SELECT seq, partition_key, contract, stream, type, source_event_id, envelope, payload_sha256, source_sequence,
  source_emitted_at, correlation_id, event_id
FROM ledger WHERE seq IN (SELECT value FROM json_each(?)) AND state = 2 AND envelope IS NOT NULL ORDER BY seq
"""


def read_page(connection: apsw.Connection, wanted: Filter, after_seq: int, limit: int) -> list[DeadLetter]:
    """Dead letters in order of their sequence."""
    values = wanted._asdict() | {"after_seq": after_seq, "limit": limit}
    return [DeadLetter(*row) for row in connection.execute(_PAGE, values)]


def count_matching(connection: apsw.Connection, wanted: Filter) -> int:
    """How many dead letters there are."""
    found: int = connection.execute(_COUNT, wanted._asdict()).get
    return found


def read_one(connection: apsw.Connection, seq: int) -> tuple[DeadLetter, bytes | None, bool]:
    """One dead letter, its envelope, and whether that is what was received; raise NotFound if there is none."""
    row = connection.execute(_ONE, (seq,)).fetchone()
    if row is None:
        raise NotFound(f"there is no dead letter with sequence {seq}")
    *letter, envelope, digest = row
    return DeadLetter(*letter), envelope, envelope is not None and matches(envelope, digest)


class Progress(NamedTuple):
    """How far a replay or a discard has come."""

    done: int
    total: int


class Appender(Protocol):
    """What is needed of the journal."""

    readers: ReaderPool

    async def append(self, events: list[InboundEvent], job: Job | None = None) -> Receipts:
        """Commit events and the job that goes with them."""


class DeadLetters:
    """The operator's actions."""

    def __init__(self, journal: Appender, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    async def page(self, wanted: Filter, after_seq: int = 0, limit: int = 100) -> list[DeadLetter]:
        """Dead letters in order of their sequence, from behind `after_seq`."""
        return await self._journal.readers.run(read_page, wanted, after_seq, limit)

    async def count(self, wanted: Filter) -> int:
        """How many a replay or a discard would touch: the dry run."""
        return await self._journal.readers.run(count_matching, wanted)

    async def inspect(self, seq: int) -> tuple[DeadLetter, bytes | None, bool]:
        """One dead letter, its envelope, and whether that is what was received; raise NotFound if there is none."""
        return await self._journal.readers.run(read_one, seq)

    async def replay_one(self, seq: int) -> int:
        """Replay one; the sequence that it has now.

        Raise NotFound if there is no such dead letter, InvalidRequest if its contents are not what was received.
        """
        await self.inspect(seq)
        seqs = (await self._replay([seq])).seqs
        if not seqs:
            raise InvalidRequest(f"dead letter {seq} cannot be replayed: its stored bytes no longer match their hash")
        return abs(seqs[0])

    async def replay(self, wanted: Filter, *, per_second: float | None = None) -> AsyncIterator[Progress]:
        """Replay all that match, slice by slice, at most so many a second."""
        async for progress in self._in_slices(wanted, per_second, self._replay):
            yield progress

    async def discard(self, wanted: Filter, reason: str) -> AsyncIterator[Progress]:
        """Let all that match go: they count as processed from now on, and say why."""

        async def settle(seqs: list[int]) -> object:
            return await self._journal.append([], lambda connection: self._settle(connection, seqs, reason))

        async for progress in self._in_slices(wanted, None, settle):
            yield progress

    async def discard_one(self, seq: int, reason: str) -> None:
        """Let one go. Raise NotFound if there is no such dead letter."""
        await self.inspect(seq)
        await self._journal.append([], lambda connection: self._settle(connection, [seq], reason))

    async def _in_slices(self, wanted: Filter, per_second: float | None, act: Any) -> AsyncIterator[Progress]:
        total, done, after_seq = await self.count(wanted), 0, 0
        # What dies again while this runs has a higher sequence: it is left for the next time.
        last_seq = await self._journal.readers.run(_last_seq)
        size = SLICE if per_second is None else max(1, min(SLICE, int(per_second)))
        while True:
            letters = await self.page(wanted, after_seq, size)
            seqs = [letter.seq for letter in letters if letter.seq <= last_seq]
            if not seqs:
                return
            await act(seqs)
            done, after_seq = done + len(seqs), seqs[-1]
            yield Progress(done, max(total, done))
            if per_second is not None:
                await asyncio.sleep(len(seqs) / per_second)

    async def _replay(self, seqs: list[int]) -> Receipts:
        rows = await self._journal.readers.run(_rows_for_replay, seqs)
        now = self._clock.wall_us()
        events = [_event_of(row, now) for row in rows]
        redriven = [row[0] for row in rows]
        return await self._journal.append(events, lambda connection: _mark_redriven(connection, redriven, now))

    def _settle(self, connection: apsw.Connection, seqs: list[int], reason: str) -> None:
        connection.executemany(
            "UPDATE ledger SET state = ?, state_changed_at = ?, process_error = 'discarded: ' || ? || '; was: ' || "
            "coalesce(process_error, '') WHERE seq = ? AND state = 2",
            [(schema.STATE_PROCESSED, self._clock.wall_us(), reason, seq) for seq in seqs],
        )


def _last_seq(connection: apsw.Connection) -> int:
    last: int = connection.execute("SELECT coalesce(max(seq), 0) FROM ledger").get
    return last


def _rows_for_replay(connection: apsw.Connection, seqs: list[int]) -> list[Any]:
    """The rows that can be replayed: those whose bytes are still what was received."""
    rows: list[Any] = connection.execute(_FOR_REPLAY, (orjson.dumps(seqs).decode(),)).fetchall()
    return [row for row in rows if matches(row[6], row[7])]


def _event_of(row: Any, now: int) -> InboundEvent:
    seq, partition_key, contract, stream, kind, source_event_id, envelope, payload_sha256, *rest = row
    identity = (f"redrive:{seq}", source_event_id)
    event = InboundEvent(contract, stream, kind, *identity, now, envelope, payload_sha256, *rest)
    return event._replace(partition_key=partition_key)


def _mark_redriven(connection: apsw.Connection, seqs: list[int], now: int) -> None:
    connection.executemany(
        "UPDATE ledger SET state = ?, state_changed_at = ?, redriven_as = (SELECT redriven.seq FROM ledger AS redriven "
        "WHERE redriven.source_system = 'redrive:' || ledger.seq) WHERE seq = ? AND state = 2",
        [(schema.STATE_PROCESSED, now, seq) for seq in seqs],
    )
