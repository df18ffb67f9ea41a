"""A connection that is driven: it is told when it can be read or written, and does as much as there is to do."""

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from bench.failure import BenchmarkFailed
from bench.load.inbox import Inbox

SEND_BYTES = 1 << 18


class Line(ABC):
    """One connection."""

    def __init__(self, connection: socket.socket, inbox: Inbox | None = None) -> None:
        self.connection = connection
        connection.setblocking(False)
        self.inbox = inbox or Inbox()

    def readable(self) -> None:
        """Read once, and look at what came."""
        try:
            got = self.inbox.fill(self.connection)
        except BlockingIOError:
            return
        if not got:
            raise BenchmarkFailed(f"the server closed a connection; its last words: {self.last_words()}")
        self.look()

    @abstractmethod
    def look(self) -> None:
        """Look at what is new in the inbox."""

    @abstractmethod
    def writable(self) -> None:
        """Send what may be sent now, until the kernel has no more room."""

    @property
    @abstractmethod
    def stuck(self) -> bool:
        """Whether there is more to send, for which the kernel had no room."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether everything was sent and answered."""

    def finish(self) -> bool:
        """Everything is delivered: ask for what is still to be confirmed; whether that was not asked before."""
        return False

    def last_words(self) -> str:
        """The end of what was received, for an error."""
        return self.inbox.all()[-300:].decode(errors="replace") or "none"

    def close(self) -> None:
        """Hang up."""
        self.connection.close()


@dataclass(frozen=True)
class Cargo:
    """What one producer sends, as bytes that are ready, and how its answers are told."""

    out: bytes
    unit_bytes: int
    """How long each unit is: a frame, a request, a command."""
    unit_events: int
    """How many events each unit has."""
    answered: Callable[[Inbox], int]
    """How many events the answers answer that came since it was asked last."""
    check: Callable[[bytes], None]
    """Raises BenchmarkFailed if what was received is not the answer to what was sent."""

    @property
    def events(self) -> int:
        """How many events it has."""
        return len(self.out) // self.unit_bytes * self.unit_events


def marked(marker: bytes, events: int = 1) -> Callable[[Inbox], int]:
    """Answers that each have this once, for so many events."""
    return lambda inbox: inbox.count(marker) * events


class Producer(Line):
    """A connection that sends its cargo, with so many events unanswered at most."""

    def __init__(self, connection: socket.socket, cargo: Cargo, window: int, received: bytes = b"") -> None:
        super().__init__(connection)
        self.inbox.put(received)
        self.cargo = cargo
        self.answered = 0
        self.sent_bytes = 0
        self._view = memoryview(cargo.out)
        self._window_units = max(1, window // cargo.unit_events)

    def look(self) -> None:
        self.answered += self.cargo.answered(self.inbox)
        self.writable()

    @property
    def _allowed_bytes(self) -> int:
        units = self.answered // self.cargo.unit_events + self._window_units
        return min(len(self._view), units * self.cargo.unit_bytes)

    def writable(self) -> None:
        while self.sent_bytes < (allowed := self._allowed_bytes):
            try:
                end = min(allowed, self.sent_bytes + SEND_BYTES)
                self.sent_bytes += self.connection.send(self._view[self.sent_bytes : end])
            except BlockingIOError:
                return

    @property
    def stuck(self) -> bool:
        return self.sent_bytes < self._allowed_bytes

    @property
    def done(self) -> bool:
        return self.answered >= self.cargo.events

    def check(self) -> None:
        """Whether each event was answered once, as it should be."""
        self.cargo.check(self.inbox.all())
