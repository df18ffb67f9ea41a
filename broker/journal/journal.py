"""The journal: append events and learn, after the commit, what became of them.

    submit / append ──► writer (group commits) ──► on_events (new ones, to the streams)
                                              └──► Submission.done / Receipts (to the producer)

Everything here runs on the loop; the writer thread is reached through `Writer`, and answers through
`call_soon_threadsafe`, once a batch.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import apsw

from _fast import Entry, changes_of
from broker.clock import Clock
from broker.config import Journal as JournalConfig
from broker.contracts.inbound import InboundEvent
from broker.errors import ConfigError, CourierError, Saturated, StorageFailed, StorageUnavailable
from broker.journal import connection, reader, schema
from broker.journal.batch import Batch
from broker.journal.checkpointer import Checkpointer
from broker.journal.effects import Effects
from broker.journal.groups import GroupBook
from broker.journal.health import JournalHealth
from broker.journal.reader import Backlog, ReaderPool, StoredEvent
from broker.journal.statements import Change, StateChange
from broker.journal.submission import Job, Receipts, Submission
from broker.journal.writer import Writer
from broker.limits import STATE_CHANGES_MAX

log = logging.getLogger(__name__)
T = TypeVar("T")

FLUSH_CHANGES_SECONDS = 0.05
"""How long an acknowledgement waits for events to be committed with. Losing one means a redelivery, no more."""

COME_ROUND_LOOK_SECONDS = 0.05
"""How often to look whether the writer has come round: it has at once, unless it is in the middle of a commit."""

STALLED_RETRY_SECONDS = 5
"""When to send again while the journal is past its budget of attempts: that is how often it tries itself."""


class Journal:
    """The durable half of the broker. Create it with `Journal.open` on a running loop, end it with `close`."""

    def __init__(self, path: Path, config: JournalConfig, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._clock = clock
        self._queue_max = config.queue_max
        self._room_waiters: list[asyncio.Future[None]] = []
        self._flush_timer: asyncio.TimerHandle | None = None
        self._closed = False
        self.path = path
        self.synchronous = config.synchronous
        self.backlog = Backlog(0, 0, None, 0)
        """What was unfinished when the journal was opened."""
        self.checkpoints: dict[str, str] = {}
        """How far each pulled source had got when the journal was opened."""
        self.on_events: Callable[[list[tuple[int, InboundEvent]]], None] = lambda _events: None
        """Told of the new events of every batch, in order, before their producers are."""
        self.on_damaged: Callable[[str, int], None] = lambda _stream, _count: None
        """Told of a stream and how many of its pending events were found damaged, and are dead letters now."""
        self.on_fatal: Callable[[str], None] = lambda _reason: None
        """Told once, on the loop, that nothing can be acknowledged any more."""
        self.health = JournalHealth(on_fatal=lambda reason: self._call(self._fatal, reason))
        self.effects = Effects()
        """What is done for events in the transaction that stores them."""
        self.groups = GroupBook(self, clock, unsaved_max=STATE_CHANGES_MAX)
        """The consumer groups, and how far they have come."""
        self._writer: Writer
        self._resources = ExitStack()
        self.readers: ReaderPool
        self.punctual: ReaderPool
        """One reader more, for what must not wait behind a slow query."""

    @classmethod
    async def open(cls, directory: Path, config: JournalConfig, clock: Clock, *, vfs: str | None = None) -> "Journal":
        """Open or create the journal of a data directory and bring it to the state of a running broker.

        Raise ConfigError when the directory or the file cannot be used.
        """
        loop = asyncio.get_running_loop()
        journal = cls(directory / connection.FILE_NAME, config, clock, loop)
        await loop.run_in_executor(None, journal._start, config, vfs)
        try:
            await journal.groups.load()
        except BaseException as error:
            await journal.close()
            if isinstance(error, apsw.Error):
                raise ConfigError([f"{journal.path}: cannot be read: {error}"]) from error
            raise
        return journal

    def _start(self, config: JournalConfig, vfs: str | None) -> None:
        """002's boot checklist, steps 1 to 5. Adapters (6) start when this is done; the log line (7) follows."""
        with ExitStack() as undo:
            directory = self.path.parent
            try:
                connection.make_directory(directory, 0o700)
                undo.enter_context(connection.directory_lock(directory))
            except OSError as error:
                raise ConfigError([f"{directory}: cannot be used as data directory: {error.strerror}"]) from error
            write_connection = connection.open_writer(self.path, synchronous=config.synchronous, vfs=vfs)
            undo.callback(write_connection.close)
            try:
                self.checkpoints = reader.checkpoints(write_connection)
                self.backlog = reader.backlog(write_connection)
            except apsw.Error as error:
                raise ConfigError([f"{self.path}: cannot be read: {error}"]) from error
            checkpointer = Checkpointer(self.path, wal_bytes_max=config.wal_max_bytes, health=self.health, vfs=vfs)
            self._writer = Writer(
                write_connection,
                health=self.health,
                on_batch=lambda batch: self._call(self._batch_done, batch),
                on_taken=self._taken,
                linger_ms=config.linger_ms,
                after_commit=checkpointer.after_commit,
                effects=self.effects,
            )
            checkpointer.start()
            undo.callback(checkpointer.stop)
            self._writer.start()
            undo.callback(self._writer.stop)
            self.readers = ReaderPool(self.path, readers=config.readers, vfs=vfs)
            undo.callback(self.readers.close)
            self.punctual = ReaderPool(self.path, readers=1, vfs=vfs)
            undo.callback(self.punctual.close)
            self._resources = undo.pop_all()

    @property
    def queued(self) -> int:
        """How many events wait to be taken into a batch."""
        return self._writer.queued

    @property
    def changes(self) -> int:
        """How many state changes wait to be written."""
        return self._writer.changes

    def has_room(self, events: int) -> bool:
        """Whether so many events may be submitted now. More than the queue holds only go into an empty one."""
        return self.fits(events) or self._writer.queued == 0

    def fits(self, events: int) -> bool:
        """Whether so many events may be submitted now, one by one."""
        return self._writer.queued + events <= self._queue_max

    def submit(self, submission: Submission) -> None:
        """Queue events; raise Saturated when there is no room, StorageFailed when nothing can be committed."""
        if self.health.fatal is not None or self._closed:
            raise StorageFailed(self.health.fatal or "the journal is closed")
        if self.health.stalled:
            raise StorageUnavailable(
                f"the journal cannot commit ({self.health.problem}); it goes on trying: send it again later",
                retry_after_seconds=STALLED_RETRY_SECONDS,
            )
        if not self.has_room(submission.own):  # what rules add to it has a bound of its own
            self.health.saturations += 1
            raise Saturated(f"{self._writer.queued} events wait for the disk already; slow down, and send it again")
        self._writer.submit(submission)

    def submit_events(
        self,
        events: Sequence[InboundEvent],
        done: Callable[..., None],
        causes: Sequence[int] = (),
        job: Job | None = None,
        effects: bool = False,
    ) -> None:
        """Queue events whose outcome `done` learns, as `submit` does."""
        self.submit(Submission(events, done, job, causes, effects))

    async def room(self, events: int) -> None:
        """Wait until so many events may be submitted."""
        if not self.has_room(events):
            self.health.saturations += 1
        while not self.has_room(events):
            if self.health.fatal is not None:
                raise StorageFailed(self.health.fatal)
            waiter = self._loop.create_future()
            self._room_waiters.append(waiter)
            await waiter

    async def append(self, events: Sequence[InboundEvent], job: Job | None = None) -> Receipts:
        """Commit events, waiting for room first; raise what kept them from being committed."""
        await self.room(len(events))
        answer: asyncio.Future[Receipts] = self._loop.create_future()

        def done(outcome: Receipts | CourierError | Exception) -> None:
            if answer.done():
                return
            if isinstance(outcome, Receipts):
                answer.set_result(outcome)
            else:
                answer.set_exception(outcome)

        self.submit(Submission(events, done, job))
        return await answer

    async def execute(self, job: Callable[..., T]) -> T:
        """Run a job on the write connection, in a group commit; its result, once that is on disk."""
        receipts = await self.append((), job)
        result: T = receipts.job_result
        return result

    async def come_round(self) -> None:
        """Return when the writer thread has turned since this was called: commits go on, or are tried again.

        One that hangs in a commit does not return, however alive the loop is; nor does this, if the loop is not.
        """
        before = self._writer.turns
        self._writer.nudge()
        while self._writer.turns == before:  # noqa: ASYNC110 - the writer is a thread, and should not pay for this
            await asyncio.sleep(COME_ROUND_LOOK_SECONDS)

    @property
    def lagging(self) -> bool:
        """Whether the outcomes that wait to be written have reached their bound."""
        return self._writer.changes >= STATE_CHANGES_MAX

    def processed(self, entries: list[Entry[Any, Any]]) -> None:
        """Events were acknowledged by their consumer. Written with the next group commit, or soon."""
        self._change(changes_of(entries, schema.STATE_PROCESSED, self._clock.wall_us()))

    def attempted(self, seq: int, attempts: int, first_attempt_at: int | None) -> None:
        """An event was delivered in vain, and waits again: a restart goes on counting from here.

        Left out while the writer lags, because one event may be refused many times.
        """
        if not self.lagging:
            self._change([StateChange(seq, schema.STATE_PENDING, self._clock.wall_us(), attempts, first_attempt_at)])

    def dead_letter(self, seq: int, attempts: int, first_attempt_at: int | None, reason: str) -> None:
        """An event will not be delivered any more."""
        now = self._clock.wall_us()
        self._change([StateChange(seq, schema.STATE_DEAD_LETTER, now, attempts, first_attempt_at, reason)])

    async def pending_page(self, stream: str, after_seq: int, limit: int) -> tuple[list[StoredEvent], int]:
        """The next pending events of a stream, and up to where that goes. Corrupt ones become dead letters."""
        page = await self.readers.run(reader.pending_page, stream, after_seq, limit)
        for seq in page.corrupt:
            log.error("event %d of stream %s no longer matches its hash; it is a dead letter now", seq, stream)
            self.dead_letter(seq, 0, None, "corrupt: the stored bytes no longer match their hash")
        if page.corrupt:
            self.on_damaged(stream, len(page.corrupt))
        return page.events, page.last_seq

    def _change(self, changes: Sequence[Change]) -> None:
        self._writer.change_states(changes)
        if self._flush_timer is None and changes:
            self._flush_timer = self._loop.call_later(FLUSH_CHANGES_SECONDS, self._flush_changes)

    def _flush_changes(self) -> None:
        self._flush_timer = None
        self._writer.flush_changes()

    def _call(self, callback: Callable[..., None], *args: Any) -> None:
        """Run a callback on the loop, from another thread."""
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:  # the loop is closed: nobody is left to be told
            log.warning("the loop ended before the journal")

    def _taken(self) -> None:
        """On the writer thread: there is room in the queue again."""
        if self._room_waiters:
            self._call(self._wake_room_waiters)

    def _wake_room_waiters(self) -> None:
        waiters, self._room_waiters = self._room_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _batch_done(self, batch: Batch) -> None:
        if batch.written is not None and batch.written.duplicates:
            self.health.repeated(batch.written.duplicates.values())
        try:
            self.on_events(batch.new_events())
        finally:
            batch.answer()  # what is committed is acknowledged, whatever the streams make of it
        if self._room_waiters:
            self._wake_room_waiters()

    def _fatal(self, reason: str) -> None:
        log.critical("%s", reason)
        self._wake_room_waiters()
        self.on_fatal(reason)

    async def close(self) -> None:
        """Commit everything that was submitted, answer it, and close the file."""
        if self._closed:
            return
        await self.groups.close()
        self._closed = True
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        await self._loop.run_in_executor(None, self._resources.close)
        await asyncio.sleep(0)  # lets the answers of the last batches run
