"""The outbox: every event that was put is on disk until its own acknowledgement came.

    async with Outbox("listener_outbox.db", device_id="pi-livingroom-01") as outbox:
        await outbox.put({"type": "door.opened", "payload": {"door": 3}})   # on disk when this returns

Sending is `sender.py`'s; `Edge` joins the two.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import apsw

from edge.clock import Clock, SystemClock, Timeline
from edge.damage import salvage, set_aside
from edge.errors import OutboxDamaged, OutboxFailed, OutboxUnusable, SettingsInvalid
from edge.event import Event, PluginStamp, Stamp, text_problem
from edge.limits import (
    JOBS_WAITING_BYTES_MAX,
    JOBS_WAITING_MAX,
    LANE_BYTES_MAX,
    LANES_MAX,
    OUTBOX_BYTES_MAX,
    OUTBOX_BYTES_MIN,
    OUTBOX_ROWS_MAX,
    OUTBOX_ROWS_MIN,
    RETRY_AFTER_SECONDS_MAX,
)
from edge.reserve import Reserve
from edge.storage import FILE_NAME, FileLock, make_directory, open_outbox
from edge.store import DEFAULT_LANE, Bounds, Lane, Receipt, Store
from edge.writer import Job, Writer, closed

T = TypeVar("T")
log = logging.getLogger(__name__)


def _checked_bounds(name: str, bounds: Bounds) -> Bounds:
    if not OUTBOX_ROWS_MIN <= bounds.rows_max <= OUTBOX_ROWS_MAX:
        raise SettingsInvalid(
            f"{name} may hold {bounds.rows_max} rows; between {OUTBOX_ROWS_MIN} and {OUTBOX_ROWS_MAX}"
        )
    if not OUTBOX_BYTES_MIN <= bounds.bytes_max <= OUTBOX_BYTES_MAX:
        raise SettingsInvalid(
            f"{name} may hold {bounds.bytes_max} bytes; between {OUTBOX_BYTES_MIN} and {OUTBOX_BYTES_MAX}"
        )
    return bounds


class Outbox:
    """A durable queue in one SQLite file, for one process at a time; use it as a context manager.

    `bounds` holds for all lanes together, and for each lane that `lanes` does not name. An event without a device,
    session, id or time gets this outbox's. A damaged file is refused, or set aside (`damage.py`). With the contract
    `pixel`, envelopes of plugins are taken as they are.
    """

    def __init__(
        self,
        path: Path | str = FILE_NAME,
        *,
        device_id: str | None = None,
        session_id: str = "",
        bounds: Bounds | None = None,
        lanes: Mapping[str, Bounds] | None = None,
        contract: str = "skyra",
        when_damaged: str = "refuse",
        clock: Clock | None = None,
        vfs: str | None = None,
    ) -> None:
        self.path = Path(path)
        self._clock = clock or SystemClock()
        self.stamp = PluginStamp() if contract == "pixel" else Stamp(device_id, session_id, self._clock)
        self.bounds = _checked_bounds("an outbox", bounds or Bounds())
        self._lanes = {
            checked_lane(name): _checked_bounds(f"lane {name!r}", each) for name, each in (lanes or {}).items()
        }
        if len(self._lanes) >= LANES_MAX:
            raise SettingsInvalid(f"{len(self._lanes)} lanes are more than {LANES_MAX - 1}")
        if when_damaged not in ("refuse", "set-aside"):
            raise SettingsInvalid(f"when_damaged is {when_damaged!r}; it may be refuse or set-aside")
        self._sets_aside = when_damaged == "set-aside"
        self._vfs = vfs
        self._writer: Writer | None = None
        self._lock: FileLock | None = None
        self._store: Store | None = None
        self._waiting_jobs = 0
        self._waiting_bytes = 0
        self._room = asyncio.Event()
        self.saturations = 0
        """How often a put had to wait until others were on disk."""
        self.counts: dict[str, Lane] = {}
        """What each lane held after the last commit."""
        self.watchers: set[asyncio.Event] = set()
        """Set after every commit."""
        self.failed = asyncio.Event()
        """Set when the file can no longer be believed."""

    # Opening and closing.

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Open the file; raise OutboxUnusable for one that cannot be used, OutboxInUse when another process has it."""
        self._store = await asyncio.to_thread(self._open)
        self.counts = self._store.counts()
        reserve = await asyncio.to_thread(Reserve, self.path)
        self._writer = Writer(self._store, reserve, self._settled)

    def _open(self) -> Store:
        make_directory(self.path.parent)
        self._lock = FileLock(self.path)
        try:
            try:
                return self._open_store()
            except OutboxDamaged as error:
                if not self._sets_aside:
                    raise
                return self._begin_anew(error)
        except BaseException:
            self._lock.release()
            self._lock = None
            raise

    def _begin_anew(self, error: OutboxDamaged) -> Store:
        """Set the damaged file aside, and take over what can be read of it."""
        moved = set_aside(self.path, self._clock.wall_us())
        log.critical("%s; it is set aside as %s", error.message, moved)
        store = self._open_store()
        try:
            with store.connection:
                count = salvage(moved, store)
                store.save()
        except BaseException:
            store.connection.close()
            raise
        log.critical("%d events of the damaged outbox were taken over; others may be missing", count)
        return store

    def _open_store(self) -> Store:
        connection = open_outbox(self.path, vfs=self._vfs)
        try:
            noted_us = connection.execute("SELECT coalesce(max(changed_at), 0) FROM lanes").get
            store = Store(connection, Timeline(self._clock, noted_us), self.bounds, self._lanes)
            with connection:
                store.carry_over(RETRY_AFTER_SECONDS_MAX * 1_000_000)
                store.save()
        except apsw.Error as error:
            connection.close()
            raise OutboxUnusable(f"{self.path}: cannot be used: {error}") from error
        except BaseException:
            connection.close()
            raise
        return store

    async def close(self) -> None:
        """Put on disk what was handed in, and close the file."""
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.stop()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()
        self._room.set()

    # Putting.

    async def put(self, event: Mapping[str, Any] | bytes | str, *, lane: str = DEFAULT_LANE) -> Receipt:
        """Keep an event; it is on disk when this returns.

        Raise EventInvalid for what is no event, and OutboxFull when there is no room. When this is cancelled, or raises
        OutboxUnavailable, the event may or may not be on disk: put it again with the same `event_id`.
        """
        return await self.put_event(self.stamp.event(event), checked_lane(lane))

    async def put_event(self, event: Event, lane: str = DEFAULT_LANE) -> Receipt:
        """Keep an event that was looked at before."""
        size = len(event.payload_json)
        if self._is_full(size):
            self.saturations += 1
        while self._is_full(size):
            self._room.clear()
            await self._room.wait()
        return await self.change(lambda store: store.put(event, lane), size)

    def _is_full(self, size: int) -> bool:
        return self._writer is not None and (
            self._waiting_jobs >= JOBS_WAITING_MAX
            or (self._waiting_jobs > 0 and self._waiting_bytes + size > JOBS_WAITING_BYTES_MAX)
        )

    # Everything else goes through these two.

    async def change(self, run: Callable[[Store], T], size: int = 0) -> T:
        """Do something to the rows; it is on disk when this returns."""
        return await self._submit(run, True, size)

    async def read(self, run: Callable[[Store], T]) -> T:
        """Look at the rows that are on disk."""
        return await self._submit(run, False, 0)

    async def _submit(self, run: Callable[[Store], T], changes: bool, size: int) -> T:
        if self._writer is None:
            raise closed()
        if self._writer.failure is not None:
            raise OutboxFailed(self._writer.failure)
        job = Job(run, asyncio.get_running_loop().create_future(), changes, size)
        self._waiting_jobs += 1
        self._waiting_bytes += size
        self._writer.submit(job)
        result: T = await job.future
        return result

    def _settled(self, jobs: list[Job], counts: dict[str, Lane]) -> None:
        self.counts = counts
        for job in jobs:
            self._waiting_jobs -= 1
            self._waiting_bytes -= job.size
            if job.future.done():
                continue  # nobody waits for it any more
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)
        self._room.set()
        if self.failure is not None:
            self.failed.set()
        if jobs[0].changes:  # a batch only reads, or only changes
            for watcher in self.watchers:
                watcher.set()

    # What there is.

    @property
    def depth(self) -> int:
        """How many events are in the outbox, those that the broker refused included."""
        return sum(lane.rows for lane in self.counts.values())

    @property
    def rejected(self) -> int:
        """How many events the broker refused."""
        return sum(lane.rejected for lane in self.counts.values())

    @property
    def waiting(self) -> int:
        """How many events wait for their acknowledgement, those that the broker refused not included."""
        return self.depth - self.rejected

    @property
    def failure(self) -> str | None:
        """Why nothing is kept any more; None as long as all is well."""
        return self._writer.failure if self._writer is not None else None

    def now_us(self) -> int:
        """The time on the outbox's timeline."""
        if self._store is None:
            raise closed()
        return self._store.timeline.now_us()


def checked_lane(lane: str) -> str:
    """A name that a lane may have; raise SettingsInvalid for any other."""
    problem = text_problem(lane, LANE_BYTES_MAX)
    if problem is not None:
        raise SettingsInvalid(f"the lane {lane!r} {problem}")
    return lane
