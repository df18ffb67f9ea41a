"""Dead letters: what was given up, and how an operator brings it back or lets it go (002).

A replay is a new row of the ledger, with the same stream, id and bytes, whose identity is `redrive:<seq>`
of the dead one. So it passes dedupe once, and only once however often it is asked for; it joins the tail
of its stream like any new event; and its attempts start from zero. The dead row is settled in the same
transaction, keeps its reason, and says what it was redriven as. Rejected: setting the dead row back to
pending, which would have to find its place in the middle of a window that has passed it.

What died for a consumer group is delivered to that group again, and to nobody else: there a new row of the
ledger would reach every group, so its mark says that it waits, and the group's window takes it in at its tail.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
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
    group: str | None = None
    """The consumer group for which they died; None for the streams themselves."""


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


_OF_STREAMS = "FROM ledger INDEXED BY ledger_dead_letters WHERE state = 2 AND :group IS NULL"
_OF_GROUP = """
FROM (
  SELECT seq, ledger.stream, type, source_system, source_event_id, group_events.error AS process_error,
    group_events.attempts AS process_attempts, received_at, group_events.first_attempt_at AS process_first_attempt_at,
    group_events.changed_at AS state_changed_at, envelope, payload_sha256
  FROM group_events INDEXED BY group_events_kept
    JOIN group_streams ON group_streams.id = group_id JOIN ledger USING (seq)
  WHERE group_events.state = 2 AND group_events.state <> 1 AND name = :group
) WHERE true
"""
_MATCHES = """
  AND (:stream IS NULL OR stream GLOB :stream)
  AND (:type IS NULL OR type = :type)
  AND (:reason IS NULL OR instr(process_error, :reason) > 0)
  AND (:dead_before IS NULL OR state_changed_at < :dead_before)
  AND (:dead_after IS NULL OR state_changed_at > :dead_after)
"""
_SELECT = """
SELECT seq, stream, type, source_system, source_event_id, process_error, process_attempts, received_at,
  process_first_attempt_at, state_changed_at
"""


def _of(group: str | None) -> str:
    """Where the dead letters of a group are, or those of the streams."""
    return _OF_STREAMS if group is None else _OF_GROUP


# In the order of InboundEvent, behind seq and around source_system and received_at, which a replay has of its own.
_FOR_REPLAY = """
SELECT seq, partition_key, notes, contract, stream, type, source_event_id, envelope, payload_sha256, source_sequence,
  source_emitted_at, correlation_id, event_id
FROM ledger WHERE seq IN (SELECT value FROM json_each(?)) AND state = 2 AND envelope IS NOT NULL ORDER BY seq
"""

_IN_GROUP = """
state = 2 AND seq IN (SELECT value FROM json_each(?1))
  AND group_id IN (SELECT id FROM group_streams WHERE name = ?2)
"""
_WAITS_AGAIN = f"UPDATE group_events SET state = 0, attempts = 0, changed_at = ?3 WHERE {_IN_GROUP}"  # noqa: S608 - our own text
_STREAMS_OF = "SELECT DISTINCT stream FROM ledger WHERE seq IN (SELECT value FROM json_each(?))"
_FORGOTTEN = f"""
DELETE FROM group_events WHERE {_IN_GROUP} AND seq <= (SELECT position FROM group_streams WHERE id = group_id)
"""  # noqa: S608 - our own text
_SETTLED_AHEAD = f"UPDATE group_events SET state = 1 WHERE {_IN_GROUP}"  # noqa: S608 - our own text


def read_page(connection: apsw.Connection, wanted: Filter, after_seq: int, limit: int) -> list[DeadLetter]:
    """Dead letters in order of their sequence."""
    values = wanted._asdict() | {"after_seq": after_seq, "limit": limit}
    sql = f"{_SELECT} {_of(wanted.group)} {_MATCHES} AND seq > :after_seq ORDER BY seq LIMIT :limit"
    return [DeadLetter(*row) for row in connection.execute(sql, values)]


def count_matching(connection: apsw.Connection, wanted: Filter) -> int:
    """How many dead letters there are."""
    found: int = connection.execute(f"SELECT count(*) {_of(wanted.group)} {_MATCHES}", wanted._asdict()).get
    return found


def read_one(connection: apsw.Connection, seq: int, group: str | None) -> tuple[DeadLetter, bytes | None, bool]:
    """One dead letter, its envelope, and whether that is what was received; raise NotFound if there is none."""
    source = "FROM ledger WHERE state = 2 AND :group IS NULL" if group is None else _OF_GROUP
    sql = f"{_SELECT}, envelope, payload_sha256 {source} AND seq = :seq"
    row = connection.execute(sql, {"seq": seq, "group": group}).fetchone()
    if row is None:
        where = "" if group is None else f" of group {group!r}"
        raise NotFound(f"there is no dead letter{where} with sequence {seq}")
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

    def __init__(
        self,
        journal: Appender,
        clock: Clock,
        replayed_for_group: Callable[[str, str], None] = lambda _stream, _group: None,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._replayed_for_group = replayed_for_group

    async def page(self, wanted: Filter, after_seq: int = 0, limit: int = 100) -> list[DeadLetter]:
        """Dead letters in order of their sequence, from behind `after_seq`."""
        return await self._journal.readers.run(read_page, wanted, after_seq, limit)

    async def count(self, wanted: Filter) -> int:
        """How many a replay or a discard would touch: the dry run."""
        return await self._journal.readers.run(count_matching, wanted)

    async def inspect(self, seq: int, group: str | None = None) -> tuple[DeadLetter, bytes | None, bool]:
        """One dead letter, its envelope, and whether that is what was received; raise NotFound if there is none."""
        return await self._journal.readers.run(read_one, seq, group)

    async def replay_one(self, seq: int, group: str | None = None) -> int:
        """Replay one; the sequence that it has now, which in a group is the one it had.

        Raise NotFound if there is no such dead letter, InvalidRequest if its contents are not what was received.
        """
        _letter, _envelope, is_whole = await self.inspect(seq, group)
        if group is not None and is_whole:
            await self._replay_in_group([seq], group)
            return seq
        seqs = (await self._replay([seq])).seqs
        if not seqs:
            raise InvalidRequest(f"dead letter {seq} cannot be replayed: its stored bytes no longer match their hash")
        return abs(seqs[0])

    async def replay(self, wanted: Filter, *, per_second: float | None = None) -> AsyncIterator[Progress]:
        """Replay all that match, slice by slice, at most so many a second."""
        group = wanted.group

        async def replay(seqs: list[int]) -> object:
            return await (self._replay(seqs) if group is None else self._replay_in_group(seqs, group))

        async for progress in self._in_slices(wanted, per_second, replay):
            yield progress

    async def discard(self, wanted: Filter, reason: str) -> AsyncIterator[Progress]:
        """Let all that match go: they count as processed from now on, and say why."""

        async def settle(seqs: list[int]) -> object:
            return await self._journal.append([], self._settling(seqs, reason, wanted.group))

        async for progress in self._in_slices(wanted, None, settle):
            yield progress

    async def discard_one(self, seq: int, reason: str, group: str | None = None) -> None:
        """Let one go. Raise NotFound if there is no such dead letter."""
        await self.inspect(seq, group)
        await self._journal.append([], self._settling([seq], reason, group))

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

    async def _replay_in_group(self, seqs: list[int], group: str) -> None:
        wanted, now = orjson.dumps(seqs).decode(), self._clock.wall_us()

        def wait_again(connection: apsw.Connection) -> list[str]:
            connection.execute(_WAITS_AGAIN, (wanted, group, now))
            return [stream for (stream,) in connection.execute(_STREAMS_OF, (wanted,))]

        for stream in (await self._journal.append([], wait_again)).job_result:
            self._replayed_for_group(stream, group)

    def _settling(self, seqs: list[int], reason: str, group: str | None) -> Job:
        """The job that lets dead letters go. A group remembers only what its position has not passed."""
        now = self._clock.wall_us()

        def settle(connection: apsw.Connection) -> None:
            connection.executemany(
                "UPDATE ledger SET state = ?, state_changed_at = ?, process_error = 'discarded: ' || ? || '; was: ' || "
                "coalesce(process_error, '') WHERE seq = ? AND state = 2",
                [(schema.STATE_PROCESSED, now, reason, seq) for seq in seqs],
            )

        def settle_in_group(connection: apsw.Connection) -> None:
            for sql in (_FORGOTTEN, _SETTLED_AHEAD):
                connection.execute(sql, (orjson.dumps(seqs).decode(), group))

        return settle if group is None else settle_in_group


def _last_seq(connection: apsw.Connection) -> int:
    last: int = connection.execute("SELECT coalesce(max(seq), 0) FROM ledger").get
    return last


def _rows_for_replay(connection: apsw.Connection, seqs: list[int]) -> list[Any]:
    """The rows that can be replayed: those whose bytes are still what was received."""
    rows: list[Any] = connection.execute(_FOR_REPLAY, (orjson.dumps(seqs).decode(),)).fetchall()
    return [row for row in rows if matches(row[7], row[8])]


def _event_of(row: Any, now: int) -> InboundEvent:
    seq, partition_key, notes, contract, stream, kind, source_event_id, envelope, payload_sha256, *rest = row
    identity = (f"redrive:{seq}", source_event_id)
    event = InboundEvent(contract, stream, kind, *identity, now, envelope, payload_sha256, *rest)
    return event._replace(partition_key=partition_key, notes=notes)


def _mark_redriven(connection: apsw.Connection, seqs: list[int], now: int) -> None:
    connection.executemany(
        "UPDATE ledger SET state = ?, state_changed_at = ?, redriven_as = (SELECT redriven.seq FROM ledger AS redriven "
        "WHERE redriven.source_system = 'redrive:' || ledger.seq) WHERE seq = ? AND state = 2",
        [(schema.STATE_PROCESSED, now, seq) for seq in seqs],
    )
