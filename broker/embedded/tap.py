"""A place at a stream, or at the streams of a pattern, whose credit follows its reader.

The reader has a window: so many events may be leased for it and not consumed. What it has consumed comes back as
credit, half a window at a time, so that a grant is not made for each event. A reader that stops reading
holds at most its window.
"""

from collections.abc import Container
from typing import TYPE_CHECKING

from broker.contracts.names import stream_pattern_problem
from broker.errors import CourierError, InvalidRequest
from broker.limits import CREDIT_MAX
from broker.streams.entry import Entry
from broker.streams.groups import group_name_problem
from broker.streams.registry import Registry
from broker.streams.subscription import Subscriber, Subscription

if TYPE_CHECKING:
    from broker.embedded.delivery import Delivery


def check_pattern(pattern: str) -> None:
    """Raise InvalidRequest for what is neither the name of a stream nor a pattern of names."""
    if (problem := stream_pattern_problem(pattern)) is not None:
        raise InvalidRequest(f"stream: {problem}")


def check_group(name: str | None) -> None:
    """Raise InvalidRequest for what cannot name a consumer group."""
    if name is not None and (problem := group_name_problem(name)) is not None:
        raise InvalidRequest(f"group: {problem}")


def check_window(name: str, window: int) -> None:
    """Raise InvalidRequest for a window that is out of bounds."""
    if not 1 <= window <= CREDIT_MAX:
        raise InvalidRequest(f"{name} must be from 1 to {CREDIT_MAX}, not {window}")


class Tap:
    """One subscriber's place. Without a window, its credit is granted by hand."""

    def __init__(
        self, registry: Registry, pattern: str, window: int | None, subscriber: Subscriber, group: str | None = None
    ) -> None:
        self._registry = registry
        self._window = window
        self._consumed = 0
        self.pattern = pattern
        self.place: Subscription = registry.subscribe(pattern, subscriber, group)

    def open(self) -> None:
        """Let the first events come, as many as the window has."""
        if self._window is not None:
            self._registry.grant(self.place, self._window)

    def consumed(self, count: int) -> None:
        """The reader is through with so many deliveries, and wants others in their place."""
        if self._window is None:
            return
        self._consumed += count
        if self._consumed * 2 >= self._window:
            refill, self._consumed = self._consumed, 0
            self._registry.grant(self.place, refill)

    def grant(self, credit: int) -> None:
        """Let so many events more come; raise InvalidRequest where credit follows the reader."""
        if self._window is not None:
            raise InvalidRequest("this subscription has a window: its credit follows what is read, and is not granted")
        self._registry.grant(self.place, credit)

    def holds(self, entry: Entry, attempt: int) -> bool:
        """Whether a delivery still stands: its lease may have run out while it waited to be read."""
        return entry.holder is self.place and entry.attempt == attempt

    def ack(self, key: str | int, attempt: int | None = None) -> None:
        """As `Registry.ack`."""
        self._registry.ack(self.place, key, attempt)

    def ack_many(self, keys: list[str | int], attempt: int | None = None) -> list[tuple[str | int, CourierError]]:
        """As `Registry.ack_many`."""
        return self._registry.ack_many(self.place, keys, attempt)

    def ack_handed(self, deliveries: "list[Delivery]") -> "list[Delivery] | None":
        """As `Registry.ack_handed`."""
        return self._registry.ack_handed(self.place, deliveries)

    def nack(self, key: str | int, delay_ms: int = 0, attempt: int | None = None) -> None:
        """As `Registry.nack`."""
        self._registry.nack(self.place, key, delay_ms, attempt)

    def extend(self, key: str | int, lease_ms: int, attempt: int | None = None) -> None:
        """As `Registry.extend`."""
        self._registry.extend(self.place, key, lease_ms, attempt)

    def leave(self, unread: Container[Entry]) -> None:
        """Give everything back. What was never read does not count as an attempt."""
        self._registry.unsubscribe(self.place, unread)
