"""Duplex: the two directions of a pipe, and what is between them.

    obey ──► command ──► gate, streams ──► outbox ──► next_line, read_lines
               ▲                             │
               └── waits while too much ─────┘
                   is unanswered or unread

What is read comes back as credit, so a reader that stops reading costs its window of deliveries, and answers up to
their bound; past that, a sender waits. The same runs inside a program (`Pipe`) and over stdin and stdout (`stdio`).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from broker.contracts import courier
from broker.contracts.inbound import InboundEvent
from broker.core import Core
from broker.embedded.commands import COMMANDS, SETTLING, parse
from broker.embedded.lines import on_one_line
from broker.embedded.producer import Producer
from broker.embedded.tap import Tap, check_pattern, check_window
from broker.embedded.turns import Turns
from broker.errors import CourierError, Draining, InvalidRequest, StorageFailed
from broker.limits import PIPE_ANSWERS_MAX, PIPE_ANSWERS_SETTLING_MAX, WRITE_BYTES_MAX
from broker.streams.entry import Entry
from broker.views.view import View


class Duplex:
    """Commands in, messages out, both as JSON, both with an end."""

    def __init__(self, core: Core, *, on_end: Callable[["Duplex"], None] = lambda _duplex: None) -> None:
        self.producer = Producer(core)
        self.views: Mapping[str, View] = core.views.by_name
        self.tap: Tap | None = None
        """Its place at the streams; None before it subscribes."""
        self._registry = core.registry
        self._on_end = on_end
        self._outbox: deque[bytes | tuple[Entry, int]] = deque()
        self._answers = 0
        """How many messages in the outbox are not deliveries."""
        self._unanswered = 0
        self._view: bytes | None = None
        """The view that is not read yet."""
        self._read = 0
        """Deliveries that were read, and not asked beyond yet."""
        self._closing = False
        self._ended = False
        self._turns = Turns()
        self._ready = asyncio.Event()
        self._progress = asyncio.Event()

    # Commands.

    async def obey(self, text: bytes, number: int) -> None:
        """Obey a command; an error about it will bear its number as `line`.

        It waits while the journal is behind, or while too many messages are not read. Raise Draining after `close`.
        """
        try:
            command = parse(number, text, COMMANDS)
        except CourierError as error:
            await self.reject(error, number)
            return
        await self._room(settling=command.name in SETTLING)
        try:
            await COMMANDS[command.name](self, command)
        except CourierError as error:
            self.refuse(error, number)

    async def reject(self, error: CourierError, number: int) -> None:
        """Answer what is no command with an error, in the same place and at the same pace."""
        await self._room()
        self.refuse(error, number)

    async def _room(self, *, settling: bool = False) -> None:
        """Wait until one more command may be answered.

        What a reader says about what it has read (`settling`) has a bound of its own, which others cannot fill: a
        reader that waited until answers are read would wait for itself. It is answered only if it is wrong.
        """
        self._check_open()
        await self._turns.step()
        if settling:
            await self._until(lambda: self._answers < PIPE_ANSWERS_SETTLING_MAX)
        else:
            await self._until(lambda: self._unanswered + self._answers < PIPE_ANSWERS_MAX)
        self._check_open()

    def _check_open(self) -> None:
        if self._closing:
            raise Draining("this pipe is closed")

    def subscribe(self, pattern: str, window: int | None) -> None:
        """Take a place at the streams. With a window, credit follows the reader; else it is granted by command."""
        check_pattern(pattern)
        if window is not None:
            check_window("window", window)
        if self.tap is not None:
            raise InvalidRequest(f"this pipe is subscribed to {self.tap.pattern} already; a pattern can take in more")
        self.tap = Tap(self._registry, pattern, window, self)
        self.tap.open()

    async def keep(self, events: Sequence[InboundEvent], number: int) -> None:
        """Submit events together; an `enqueued` or an `error` follows for each, when it is known."""

        def done(outcome: Any) -> None:
            self._unanswered -= len(events)
            for position, event in enumerate(events):
                self._answer_event(event, position, outcome, number)

        self._unanswered += len(events)
        try:
            await self.producer.submit(events, done)
        except CourierError as error:
            done(error)
        except BaseException:
            self._unanswered -= len(events)
            raise

    def _answer_event(self, event: InboundEvent, position: int, outcome: Any, number: int) -> None:
        if not isinstance(outcome, Exception):
            seq = outcome.seqs[position]
            if seq:
                reply = courier.reply(event.source_event_id, seq, outcome.duplicates.get(position))
                self._answer(orjson.dumps({"enqueued": reply}))
                return
            outcome = outcome.refusal(position)
        error = outcome if isinstance(outcome, CourierError) else CourierError(f"the event was not kept: {outcome}")
        self._answer(orjson.dumps({"error": {**error.as_dict(), "id": event.source_event_id, "line": number}}))

    async def show(self, name: str, view: View) -> None:
        """Answer with a view. It may be large, so the next one waits until it is read."""
        await self._until(lambda: self._view is None)
        seq, envelopes = view.snapshot()
        shown = {address: orjson.Fragment(on_one_line(envelope)) for address, envelope in envelopes.items()}
        self._view = orjson.dumps({"view": shown, "name": name, "seq": seq})
        self._answer(self._view)

    def refuse(self, error: CourierError, number: int) -> None:
        """Answer with an error."""
        self._answer(orjson.dumps({"error": {**error.as_dict(), "line": number}}))

    def _answer(self, message: bytes) -> None:
        self._answers += 1
        self._outbox.append(message)
        self._ready.set()

    def deliver(self, entries: list[Entry]) -> None:
        """Take leased events from the streams."""
        self._outbox.extend((entry, entry.attempt) for entry in entries)
        self._ready.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition() and not self._closing:
            self._progress.clear()
            await self._progress.wait()

    # Messages.

    async def next_line(self) -> tuple[bytes, int | None] | None:
        """The next message, and the sequence of the event if it is a delivery; None at the end."""
        while await self._filled():
            item = self._outbox.popleft()
            line = self._line(item)
            if line is not None:
                return line, None if isinstance(item, bytes) else item[0].seq
        return None

    async def read_lines(self, bytes_max: int = WRITE_BYTES_MAX) -> bytes:
        """The next messages as lines of JSON, at least one and not many more than `bytes_max`; b"" at the end."""
        parts: list[bytes] = []
        size = 0
        while not parts and await self._filled():
            while self._outbox and size < bytes_max:
                line = self._line(self._outbox.popleft())
                if line is not None:
                    parts += (line, b"\n")
                    size += len(line) + 1
        return b"".join(parts)

    async def _filled(self) -> bool:
        """Wait for something to read. Who asks is through with what was read before."""
        if self.tap is not None and self._read and not self._closing:
            read, self._read = self._read, 0
            self.tap.consumed(read)
        await self._turns.step()
        while not self._outbox:
            if self._ended:
                return False
            self._ready.clear()
            await self._ready.wait()
        return True

    def _line(self, item: bytes | tuple[Entry, int]) -> bytes | None:
        """A message without its line end; None for a delivery that does not stand any more."""
        if isinstance(item, bytes):
            self._answers -= 1
            if item is self._view:
                self._view = None
            self._progress.set()
            return item
        self._read += 1
        entry, attempt = item
        assert self.tap is not None
        if not self.tap.holds(entry, attempt):
            return None
        return b'{"deliver":%b,"attempt":%d,"seq":%d}' % (on_one_line(entry.envelope), attempt, entry.seq)

    # The end.

    async def close(self) -> None:
        """Take no further command, and wait until every event is answered; the answers can still be read.

        What is leased goes back: no ack could come any more. What was not read does not count as an attempt.
        """
        self._leave()
        await self.producer.settled()
        self._end()

    def fail(self, reason: str) -> None:
        """The journal has failed: say so as the last message."""
        self._leave()
        self._answer(orjson.dumps({"error": StorageFailed(reason).as_dict()}))
        self._end()

    def _leave(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._progress.set()
        if self.tap is not None:
            waiting = [item for item in self._outbox if not isinstance(item, bytes)]
            unread = {entry for entry, attempt in waiting if self.tap.holds(entry, attempt)}
            self._outbox = deque(item for item in self._outbox if isinstance(item, bytes))
            self.tap.leave(unread)

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._ready.set()
            self._on_end(self)
