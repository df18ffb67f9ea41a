"""One event on its way to a consumer. It is compiled, with what is done with many at once: see `_fast/entries.pyi`."""

from typing import TYPE_CHECKING

from _fast import MEMORY_SEQ_FIRST
from _fast import Entry as AnyEntry

if TYPE_CHECKING:
    from broker.streams.stream import Stream
    from broker.streams.subscription import Subscription

    Entry = AnyEntry[Stream, Subscription]
else:
    Entry = AnyEntry

__all__ = ["MEMORY_SEQ_FIRST", "Entry"]
