"""Behind the window: a durable stream that is longer than its ring is read from the ledger, page by page."""

import asyncio
import logging
from collections.abc import Callable

from broker.streams.entry import Entry
from broker.streams.group import Group
from broker.streams.stream import Stream

log = logging.getLogger(__name__)

PAGE_RETRY_SECONDS = 1.0
"""How long to wait before a page that could not be read is asked for again."""


class CatchUp:
    """Reads the pages of every stream, one at a time for each."""

    def __init__(self, loaded: Callable[[Stream], None]) -> None:
        self._loaded = loaded
        self._loop = asyncio.get_running_loop()
        self.tasks: set[asyncio.Task[None]] = set()
        """The pages that are being read."""
        self._closed = False

    def look_at(self, stream: Stream) -> None:
        """Read the next page, when the stream is behind, half of its window is free and none is being read."""
        if self._closed or stream.paging or not (stream.behind or stream.replays) or not stream.is_half_free:
            return
        stream.paging = True
        task = self._loop.create_task(self._read_page(stream))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _read_page(self, stream: Stream) -> None:
        try:
            while stream.ledger.lagging:  # noqa: ASYNC110 - the writer has nobody to tell, and this is rare
                await asyncio.sleep(PAGE_RETRY_SECONDS)
            if isinstance(stream, Group) and stream.replays:
                await self._read_replays(stream)
            else:
                rows, last_seq = await stream.ledger.pending_page(stream.name, stream.loaded_seq, stream.room)
                stream.load_page([Entry(stream, *row) for row in rows], last_seq)
        except Exception:
            log.exception("a page of stream %s could not be read; trying again", stream.name)
            await asyncio.sleep(PAGE_RETRY_SECONDS)
        finally:
            stream.paging = False
        self._loaded(stream)

    async def _read_replays(self, group: Group) -> None:
        group.replays = False  # what is asked for while the page is read is read with the next
        try:
            rows, may_be_more = await group.group_ledger.replayed_page(group.loaded, group.room)
        except BaseException:
            group.replays = True
            raise
        group.load_replays([Entry(group, *row) for row in rows], may_be_more=may_be_more)

    async def close(self) -> None:
        """Stop reading. The last commits may still be announced; what they bring is read after a restart."""
        self._closed = True
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
