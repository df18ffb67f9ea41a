"""The sender: it brings rows to the server, and deletes each on its own acknowledgement.

One line at a time. On it, four tasks: one fills the window, one reads answers, one notes them in the outbox (all that
have come since it last did, in one commit), one watches that answers come at all. When one of them ends, the line is
given up: what is answered is noted, what is not is scheduled again.

Two lines in a row that brought nothing may have been cut by one of the events on them. Those that were on them are
suspects: as long as there are any, one event is sent at a time, so that the one that is to blame is alone when it
happens again.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from edge.answers import LineLost, Refused, Stored, Window
from edge.backoff import Backoff
from edge.clock import Clock, SystemClock
from edge.errors import OutboxUnavailable, SettingsInvalid
from edge.feed import Picked, Positions, pick
from edge.flights import Flight, Flights
from edge.limits import (
    ANSWER_SECONDS_DEFAULT,
    BACKOFF_BASE_SECONDS_DEFAULT,
    BACKOFF_CAP_SECONDS_DEFAULT,
    CONNECT_BASE_SECONDS_DEFAULT,
    CONNECT_CAP_SECONDS_DEFAULT,
    CONNECT_SECONDS_DEFAULT,
    FRAME_BYTES_MAX,
    FRAME_ROWS_MAX,
    IN_FLIGHT_BYTES_MAX,
    SLOW_BASE_SECONDS_DEFAULT,
    SLOW_CAP_SECONDS_DEFAULT,
    WINDOW_DEFAULT,
    WINDOW_MAX,
)
from edge.lines import Line
from edge.outbox import Outbox
from edge.rate import Rate
from edge.store import Attempt, LineState, Row, Store

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""How often the watch looks for an answer that is overdue."""

NEVER_US = 2**62

ANSWERS_LATE_MAX = 10
"""How many times the patience one event may be unanswered, while others are answered: a slow server is waited for."""

SUSPICION_FACTOR = 10

BARREN_LINES_MAX = 2
"""After so many lines that opened and brought nothing, what was on them is suspected."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast, how patient, and how fair a sender is."""

    window: int = WINDOW_DEFAULT
    new_share: float = 0.5
    retry: Backoff = field(default_factory=lambda: Backoff(BACKOFF_BASE_SECONDS_DEFAULT, BACKOFF_CAP_SECONDS_DEFAULT))
    slow: Backoff = field(default_factory=lambda: Backoff(SLOW_BASE_SECONDS_DEFAULT, SLOW_CAP_SECONDS_DEFAULT, 0.5))
    connect: Backoff = field(default_factory=lambda: Backoff(CONNECT_BASE_SECONDS_DEFAULT, CONNECT_CAP_SECONDS_DEFAULT))
    answer_seconds: float = ANSWER_SECONDS_DEFAULT
    open_seconds: float = 2 * CONNECT_SECONDS_DEFAULT

    def __post_init__(self) -> None:
        if not 1 <= self.window <= WINDOW_MAX:
            raise SettingsInvalid(f"a window of {self.window} events; between 1 and {WINDOW_MAX}")
        if not 0.0 <= self.new_share <= 1.0:
            raise SettingsInvalid(f"a share of {self.new_share} for new events; between 0 and 1")


class Sender:
    """Sends what is in an outbox for as long as it runs."""

    def __init__(
        self,
        outbox: Outbox,
        line: Callable[[], Line],
        pace: Pace | None = None,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._outbox = outbox
        self.line = line
        """Makes a new line; whoever measures may wrap it."""
        self._pace = pace or Pace()
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._positions = Positions()
        self._rescheduled_us = NEVER_US
        """The earliest time that a row was scheduled for since the last pick."""
        self.flights = Flights()
        self._wake = asyncio.Event()
        self._answers = asyncio.Event()
        self._window = 0
        self._suspects: set[str] = set()
        self._suspicion = 0
        """How many answers the suspicion still lasts: a suspect that was dropped must not make it last for ever."""
        self._progress = 0
        self._barren = 0
        self._heard_at_ms = 0
        self._paused_until_ms = 0
        self.connected = False
        self.failures = 0
        """How many lines in a row brought nothing."""
        self.last_error: str | None = None
        self.rate = Rate(self._clock)

    async def run(self) -> None:
        """Send until this is cancelled; raise OutboxFailed when the outbox can no longer be believed."""
        self._outbox.watchers.add(self._wake)
        try:
            await self._rest_as_noted()
            # A whole site may have its power back at this moment.
            await asyncio.sleep(self._rng.uniform(0.0, self._pace.connect.base_seconds))
            while True:
                await self._something_to_send()
                await self._one_line()
        finally:
            self._outbox.watchers.discard(self._wake)

    # Between lines.

    async def _rest_as_noted(self) -> None:
        """Wait for the time that an earlier run has noted; the outbox has seen to it that it is not far away."""
        try:
            noted = await self._outbox.read(lambda store: store.line())
        except OutboxUnavailable:
            if self._outbox.failure is not None:
                raise
            return  # locked for the moment: the note is not worth waiting for
        self.failures, self.last_error = noted.failures, noted.last_error
        await asyncio.sleep(max(0.0, (noted.next_attempt_at - self._outbox.now_us()) / 1_000_000))

    async def _something_to_send(self) -> None:
        """Do not knock when there is nothing to bring."""
        while self._outbox.depth == 0:
            self._wake.clear()
            await self._wake.wait()

    async def _one_line(self) -> None:
        """Open a line, use it until it is lost, and rest."""
        self._progress = 0
        line = self.line()
        try:
            async with asyncio.timeout(self._pace.open_seconds):
                window = await line.open()
            self._window = min(window, self._pace.window)
            self.connected = True
            await self._converse(line)
            lost = LineLost("the line ended")
        except LineLost as error:
            lost = error
        except TimeoutError:
            lost = LineLost(f"no connection within {self._pace.open_seconds:.0f} seconds")
        except OutboxUnavailable as error:
            if self._outbox.failure is not None:
                raise
            lost = LineLost(error.message)
        except Exception as error:
            log.exception("a line was lost to something that is not known")
            lost = LineLost(f"not known: {error!r}")  # whatever it was, the rows must not be stuck
        finally:
            self.connected = False
            await _closed(line)
            with suppress(OutboxUnavailable):  # else they are sent again, and are duplicates then
                await self._note()
            unanswered = self.flights.clear()
            self._positions, self._rescheduled_us = Positions(), NEVER_US
        await self._give_up(lost, unanswered)

    async def _give_up(self, lost: LineLost, unanswered: list[Flight]) -> None:
        """Schedule what was on the line, remember the failure, and rest."""
        self.last_error = lost.reason
        suspected = self._suspect(lost, unanswered)
        self.failures = 0 if self._progress else self.failures + 1
        log.log(logging.INFO if self._progress else logging.WARNING, "%s; trying again", lost.reason)
        now_us = self._outbox.now_us()
        delay_us = self._pace.connect.delay_us(self.failures, self._rng)
        at_us = now_us + max(delay_us, int(lost.retry_after_seconds * 1_000_000))
        attempts = [self._attempt(flight.row, lost.reason, lost.retry_after_seconds) for flight in unanswered]
        if suspected:  # they go first, one by one
            attempts = [attempt._replace(next_attempt_at=now_us + 1_000) for attempt in attempts]
        state = LineState(self.failures, at_us, lost.reason)

        def note(store: Store) -> None:
            store.reschedule(attempts)
            store.note_line(state)

        with suppress(OutboxUnavailable):
            await self._outbox.change(note)
        await asyncio.sleep((at_us - now_us) / 1_000_000)

    def _suspect(self, lost: LineLost, unanswered: list[Flight]) -> bool:
        """Whether one of these may be to blame for the line; if so, they are suspects from now on."""
        ids = {flight.row.event_id for flight in unanswered}
        self._barren = 0 if self._progress or not ids else self._barren + 1
        if len(ids) > 1 and (lost.ambiguous or self._barren >= BARREN_LINES_MAX):
            self._suspects |= ids
            self._suspicion = SUSPICION_FACTOR * len(self._suspects)
            return True
        self._suspects -= ids
        return False

    def _attempt(self, row: Row, reason: str, retry_after_seconds: float = 0.0, *, rejected: bool = False) -> Attempt:
        """What is noted with a row that stays. One that was refused before stays on the slow schedule."""
        backoff = self._pace.slow if rejected or row.rejected else self._pace.retry
        delay_us = backoff.delay_us(row.attempt_count + 1, self._rng)
        at_us = self._outbox.now_us() + max(delay_us, int(retry_after_seconds * 1_000_000))
        return Attempt(row.event_id, at_us, reason, rejected)

    # On a line.

    async def _converse(self, line: Line) -> None:
        work = [self._fill(line), self._listen(line), self._keep_noting(), self._watch()]
        tasks = [asyncio.create_task(each) for each in work]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _fill(self, line: Line) -> None:
        """Keep the window full, as far as there are rows that are due."""
        while True:
            self._wake.clear()
            rows_max, bytes_max = self._room()
            pause = (self._paused_until_ms - self._clock.monotonic_ms()) / 1000
            if pause > 0 or not rows_max or not bytes_max:
                await self._woken(max(pause, 0) or None)
                continue
            picked = await self._pick(rows_max, bytes_max)
            if not picked.rows:
                await self._woken(self._until_due(picked))
            else:
                for row in picked.rows:
                    self.flights.sent(row, self._clock.monotonic_ms())
                await line.send(picked.rows)

    def _room(self) -> tuple[int, int]:
        """How many rows and bytes may go out now, in one frame."""
        window = 1 if self._suspects else self._window
        rows_max = min(window - self.flights.unanswered, 2 * window - len(self.flights.by_id), FRAME_ROWS_MAX)
        return max(rows_max, 0), max(0, min(FRAME_BYTES_MAX, IN_FLIGHT_BYTES_MAX - self.flights.unanswered_bytes))

    async def _pick(self, rows_max: int, bytes_max: int) -> Picked:
        """Rows to send. What this sees as taken may be scheduled again by now: `_note` has then said so."""
        taken, share = frozenset(self.flights.by_id), self._pace.new_share
        at, self._rescheduled_us = self._positions, NEVER_US
        picked = await self._outbox.read(lambda store: pick(store, at, share, rows_max, bytes_max, taken))
        self._positions = picked.positions.with_rescheduled(self._rescheduled_us)
        return picked

    def _until_due(self, picked: Picked) -> float | None:
        if picked.next_due_us is None:
            return None
        return max(0.001, (picked.next_due_us - self._outbox.now_us()) / 1_000_000)

    async def _woken(self, seconds: float | None) -> None:
        """Wait for a commit or an answer, or for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    async def _listen(self, line: Line) -> None:
        """Match answers with rows."""
        while True:
            for answer in await line.receive():
                if isinstance(answer, Window):
                    self._window = min(answer.events, self._pace.window)
                else:
                    self._heard(answer)
            self._answers.set()
            self._wake.set()

    def _heard(self, answer: Stored | Refused) -> None:
        flight = self.flights.answer(answer)
        if flight is None:
            return
        self._suspects.discard(flight.row.event_id)
        self._suspicion -= 1
        if self._suspicion <= 0:  # those that are left are no longer in the outbox
            self._suspects.clear()
        self._progress += 1
        self._heard_at_ms = self._clock.monotonic_ms()
        if isinstance(answer, Refused):
            self.last_error = answer.reason
            if answer.retryable and answer.retry_after_seconds:
                pause_ms = int(answer.retry_after_seconds * 1000)
                self._paused_until_ms = max(self._paused_until_ms, self._clock.monotonic_ms() + pause_ms)

    async def _keep_noting(self) -> None:
        while True:
            await self._answers.wait()
            self._answers.clear()
            await self._note()

    async def _note(self) -> None:
        """Delete the rows that were acknowledged, and schedule those that were refused: one commit for all."""
        flights = self.flights.take_answered()
        if not flights:
            return
        stored = [each.row.event_id for each in flights if isinstance(each.answer, Stored)]
        attempts = [
            self._attempt(each.row, answer.reason, answer.retry_after_seconds, rejected=not answer.retryable)
            for each in flights
            if isinstance(answer := each.answer, Refused)
        ]
        recovered = LineState(0, 0, self.last_error) if stored and self.failures else None

        def note(store: Store) -> None:
            store.acknowledge(stored)
            if attempts:
                store.reschedule(attempts)
            if recovered is not None:
                store.note_line(recovered)

        await self._outbox.change(note)
        if recovered is not None:
            self.failures = 0
        if attempts:
            self._rescheduled_us = min(self._rescheduled_us, *(attempt.next_attempt_at for attempt in attempts))
            self._positions = self._positions.with_rescheduled(self._rescheduled_us)
        self.rate.add(len(stored))
        self.flights.landed(flights)
        self._wake.set()

    async def _watch(self) -> None:
        """Give the line up when nothing is answered: a half-open connection gives no answer, and no error either."""
        while True:
            await asyncio.sleep(min(LOOK_SECONDS, self._pace.answer_seconds / 4))
            oldest = next(self.flights.open_flights(), None)
            if oldest is None:
                continue
            now_ms, most = self._clock.monotonic_ms(), self._pace.answer_seconds
            silent = (now_ms - max(oldest.sent_at_ms, self._heard_at_ms)) / 1000
            waited = (now_ms - oldest.sent_at_ms) / 1000
            if silent > most or waited > most * ANSWERS_LATE_MAX:
                raise LineLost(f"no answer within {self._pace.answer_seconds} seconds")


async def _closed(line: Line) -> None:
    """Let go of a line, whatever state it is in."""
    try:
        await line.close()
    except Exception as error:  # noqa: BLE001 - the line is lost already, and this must not stop the sender
        log.debug("a lost line could not be closed: %r", error)
