"""The log of events (003 §10): a line of JSON for each thing that happens to an event. Off unless `events.log` is set.

    loop: records ──(once a wake-up)──► queue ──► thread: lines ──► file

The loop never waits for the disk: it appends a tuple to a list, and hands the list over when it is done with what
woke it up. Records that wait are bounded. Past the bound, or when the file cannot be written, they are dropped and
counted; when it goes well again, a line says how many are missing. The lines are made on the thread.
"""

import asyncio
import logging
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

import orjson

from broker.clock import Clock
from broker.config import Events as EventsConfig
from broker.contracts.inbound import InboundEvent
from broker.limits import EVENT_LOG_LINES_MAX
from broker.ops.line_file import LineFile, check_writable
from broker.streams.entry import Entry
from broker.streams.group import Group

log = logging.getLogger(__name__)

CHUNK_LINES: Final = 1_000
"""How many lines one write has."""

TRY_AGAIN_SECONDS: Final = 1.0
"""How long the thread rests on a file that cannot be written, before it tries to say what is missing."""

CLOSE_SECONDS: Final = 5.0
"""How long a stop waits for a slow disk. What is not written then is lost: it is a log, not the journal."""


class Record(NamedTuple):
    """What happened; times in microseconds since 1970."""

    event: str
    at: int
    stream: str
    id: str
    seq: int
    received_at: int
    attempt: int | None = None
    first_attempt_at: int | None = None
    more: dict[str, Any] | None = None

    def line(self) -> bytes:
        """The record as JSON."""
        shown: dict[str, Any] = {
            "ts": _time(self.at),
            "event": self.event,
            "stream": self.stream,
            "id": self.id,
            "seq": self.seq,
        }
        if self.attempt is not None:
            shown["attempt"] = self.attempt
        shown["ms"] = (self.at - self.received_at) / 1000
        if self.first_attempt_at is not None:
            shown["sinceFirstDeliveryMs"] = (self.at - self.first_attempt_at) / 1000
        return orjson.dumps(shown if self.more is None else shown | self.more)


def _time(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class EventLog:
    """Takes records on the loop and writes them on a thread, which starts with the first of them."""

    def __init__(self, path: Path, config: EventsConfig, clock: Clock) -> None:
        check_writable(path)
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._file = LineFile(path, config.max_bytes, config.keep)
        self._records: list[Record] = []
        self._work: SimpleQueue[list[Record] | None] = SimpleQueue()
        self._reopen = threading.Event()
        self._thread: threading.Thread | None = None
        self._handed = 0  # the loop's
        self._settled = 0  # the thread's: written or dropped
        self._reported = 0  # the thread's: dropped, and said so in the file
        self._is_failing = False
        self.dropped_waiting = 0
        """How many were dropped because too many waited. Counted on the loop."""
        self.dropped_failing = 0
        """How many were dropped because the file could not be written. Counted on the thread."""
        self.written = 0
        """Counted on the thread."""

    # On the loop.

    @property
    def waiting(self) -> int:
        """How many records wait to be written."""
        return len(self._records) + self._handed - self._settled

    def enqueued(self, events: Sequence[tuple[int, InboundEvent]]) -> None:
        """These events are on disk, or in their stream in memory."""
        now = self._clock.wall_us()
        for seq, event in events:
            self._put(Record("enqueue", now, event.stream, event.source_event_id, seq, event.received_at))

    def delivered(self, entry: Entry) -> None:
        """An event went out to a consumer."""
        self._put(self._of("deliver", entry, None))

    def acked(self, entry: Entry) -> None:
        """A consumer is done with an event."""
        self._put(self._of("ack", entry, entry.first_attempt_at))

    def nacked(self, entry: Entry) -> None:
        """A consumer could not do it."""
        self._put(self._of("nack", entry, entry.first_attempt_at))

    def timed_out(self, entry: Entry) -> None:
        """The lease of a delivery ran out."""
        self._put(self._of("timeout", entry, entry.first_attempt_at))

    def trigger_ran(self, trigger: str, seq: int, event: InboundEvent, seconds: float) -> None:
        """A trigger did what it does with an event, and took so long."""
        self._trigger("trigger.run", seq, event, {"trigger": trigger, "runMs": seconds * 1000})

    def trigger_failed(self, trigger: str, seq: int, event: InboundEvent, seconds: float, error: str) -> None:
        """A trigger could not do it."""
        self._trigger("trigger.fail", seq, event, {"trigger": trigger, "runMs": seconds * 1000, "error": error})

    def _trigger(self, what: str, seq: int, event: InboundEvent, more: dict[str, Any]) -> None:
        now = self._clock.wall_us()
        self._put(Record(what, now, event.stream, event.source_event_id, seq, event.received_at, more=more))

    def _of(self, what: str, entry: Entry, first_attempt_at: int | None) -> Record:
        now = self._clock.wall_us()
        stream = entry.stream
        group = {"group": stream.name_of_group} if isinstance(stream, Group) else None
        of_event = stream.name, entry.id, entry.seq, entry.received_at
        return Record(what, now, *of_event, entry.attempt, first_attempt_at, more=group)

    def _put(self, record: Record) -> None:
        if self.waiting >= EVENT_LOG_LINES_MAX:
            self.dropped_waiting += 1
            return
        if not self._records:
            self._loop.call_soon(self._hand_over)
        self._records.append(record)

    def _hand_over(self) -> None:
        """Give the thread what has gathered."""
        if not self._records:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="courier-events-log", daemon=True)
            self._thread.start()
        records, self._records = self._records, []
        self._handed += len(records)
        self._work.put(records)

    def reopen(self) -> None:
        """Go on in the file that has the name now; the one before may have been renamed."""
        self._reopen.set()

    async def close(self) -> None:
        """Write what waits, if the disk is quick enough, and end the thread."""
        self._hand_over()
        thread = self._thread
        if thread is None:
            return
        self._work.put(None)
        await self._loop.run_in_executor(None, thread.join, CLOSE_SECONDS)
        if thread.is_alive():
            log.warning("the log of events could not be written in time; %d lines are lost", self.waiting)

    # On the thread.

    def _run(self) -> None:
        while True:
            try:
                records = self._work.get(timeout=TRY_AGAIN_SECONDS if self._missing else None)
            except Empty:
                records = []
            if self._reopen.is_set():
                self._reopen.clear()
                self._file.reopen()
            if records is None:
                self._write([])
                self._file.reopen()
                return
            for start in range(0, max(1, len(records)), CHUNK_LINES):
                self._write(records[start : start + CHUNK_LINES])

    @property
    def _missing(self) -> int:
        """How many lines were dropped and not reported yet."""
        return self.dropped_waiting + self.dropped_failing - self._reported

    def _write(self, records: list[Record]) -> None:
        missing = self._missing
        if not records and not missing:
            return
        try:
            lines = [record.line() for record in records]
            if missing:
                dropped = {"ts": _time(self._clock.wall_us()), "event": "dropped", "lines": missing}
                lines.insert(0, orjson.dumps(dropped))
            self._file.append(b"\n".join([*lines, b""]))
        except (OSError, TypeError, ValueError) as error:  # the latter for text that JSON cannot hold
            self.dropped_failing += len(records)
            if not self._is_failing:
                log.warning("the log of events cannot be written, lines are dropped: %s", error)
            self._is_failing = True
        else:
            self._reported += missing
            self.written += len(records)
            if self._is_failing:
                log.info("the log of events is written again; %d lines are missing", missing)
            self._is_failing = False
        self._settled += len(records)
