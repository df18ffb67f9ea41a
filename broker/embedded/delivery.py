"""An event as a program gets it: to be read, and to be answered."""

from typing import TYPE_CHECKING, Any

import msgspec

from _fast import Handed

if TYPE_CHECKING:
    from broker.embedded.tap import Tap
    from broker.streams.stream import Stream
    from broker.streams.subscription import Subscription

    _Handed = Handed[Tap, Stream, Subscription]
else:
    _Handed = Handed

_decode = msgspec.json.Decoder().decode


class Delivery(_Handed):
    """A leased event. It is this reader's until it is acked, nacked, or its lease runs out."""

    __slots__ = ()

    @property
    def raw(self) -> bytes:
        """The envelope as its producer wrote it, byte for byte."""
        return self._entry.envelope

    @property
    def envelope(self) -> dict[str, Any]:
        """The envelope as Python values, decoded when it is first asked for.

        Raise ValueError for a number that no float can hold (`1e400`); `raw` has every envelope.
        """
        if self._envelope is None:
            self._envelope = _decode(self._entry.envelope)
        return self._envelope

    @property
    def payload(self) -> Any:
        """What the event is about."""
        return self.envelope["payload"]

    @property
    def id(self) -> str:
        """The id, which is the same when the event is delivered again."""
        return self._entry.id

    @property
    def seq(self) -> int:
        """The event's place in the ledger."""
        return self._entry.seq

    @property
    def stream(self) -> str:
        """The stream that it is from."""
        return self._entry.stream.name

    async def ack(self) -> None:
        """It is done, and will not be delivered again. Raise LeaseNotHeld if it is not this reader's any more."""
        self.settle()

    def settle(self) -> None:
        """As `ack`, for where nothing can be awaited."""
        self._tap.ack(self._entry.seq, self.attempt)
        self.settled = True

    async def nack(self, delay: float = 0.0) -> None:
        """It could not be done: back to the tail of its stream, after a delay in seconds if one is given."""
        self._tap.nack(self._entry.seq, round(delay * 1000), self.attempt)
        self.settled = True

    async def extend(self, seconds: float) -> None:
        """The lease shall end so many seconds from now, instead of when it did."""
        self._tap.extend(self._entry.seq, round(seconds * 1000), self.attempt)

    def __repr__(self) -> str:
        return f"<Delivery {self.id!r} of {self.stream}, seq {self.seq}, attempt {self.attempt}>"
