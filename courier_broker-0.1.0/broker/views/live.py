"""What one reader of a view has yet to be told: names of keys, never envelopes.

The envelopes are looked up when a frame is made. So a slow reader costs the names of the keys that changed
since its last frame, however often each of them did, and gets the newest envelope of each: its deltas are
coalesced by themselves. Nothing happens between the making of a frame and the sequence in it, so after every frame
without `more` the reader's map is the view at that sequence; there is no gap behind the snapshot, because the
snapshot is nothing but the first of these frames. Rejected: a queue of deltas for each reader, which needs a
bound on its envelopes, and something to do at the bound.
"""

import asyncio
from collections.abc import Mapping

import orjson

from broker.limits import WRITE_BYTES_MAX
from broker.views.view import View

PENDING_VIEWS_MAX = 2
"""How many times the keys of the view a reader may have pending, forgotten ones included, before it starts over."""


class Deltas:
    """The frames for one reader. Follows the view from its making until `close`."""

    def __init__(self, view: View, keys_max: int) -> None:
        self._view = view
        self._pending_max = PENDING_VIEWS_MAX * keys_max
        self._pending: dict[str, None] = {}
        self._anew = True
        """Whether the next frame is a snapshot: the reader forgets what it knew."""
        self._ready = asyncio.Event()
        self.coalesced = 0
        """How many changes the reader was spared, because a newer one of the same key took their place."""
        self.resets = 0
        """How often so much was pending that the reader was given a new snapshot."""
        self._begin_anew()
        view.listeners.add(self)

    def close(self) -> None:
        """Follow the view no longer."""
        self._view.listeners.discard(self)

    def changed(self, keys: Mapping[str, None]) -> None:
        """Note what changed."""
        before = len(self._pending)
        self._pending.update(keys)
        self.coalesced += len(keys) - (len(self._pending) - before)
        if len(self._pending) > self._pending_max:
            self.resets += 1
            self._begin_anew()
        self._ready.set()

    def _begin_anew(self) -> None:
        self._anew = True
        self._pending = dict.fromkeys(self._view.keys())
        self._ready.set()

    async def take(self) -> bytes:
        """Wait until there is something to tell, and make a frame of it, or of as much as one write may be."""
        while not self._pending and not self._anew:
            self._ready.clear()
            await self._ready.wait()
        parts: list[bytes] = []
        size = 0
        while self._pending and size < WRITE_BYTES_MAX:
            key = next(iter(self._pending))
            del self._pending[key]
            held = self._view.get(key)
            if held is None and self._anew:
                continue  # a snapshot has what there is
            parts.append(orjson.dumps(key) + b":" + (b"null" if held is None else held.envelope))
            size += len(parts[-1])
        kind, self._anew = (b"snapshot" if self._anew else b"delta"), False
        more = b',"more":true' if self._pending else b""
        return b'{"%b":{%b},"seq":%d%b}' % (kind, b",".join(parts), self._view.seq, more)
