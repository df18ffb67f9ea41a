"""Somebody who is told what happens to each event, if somebody is."""

from typing import Protocol

from broker.streams.entry import Entry


class Observer(Protocol):
    """Told after it happened. Must not block, and must not raise."""

    def delivered(self, entry: Entry) -> None:
        """An event went out to a consumer."""

    def acked(self, entry: Entry) -> None:
        """A consumer is done with an event."""

    def nacked(self, entry: Entry) -> None:
        """A consumer could not do it."""

    def timed_out(self, entry: Entry) -> None:
        """The lease of a delivery ran out."""
