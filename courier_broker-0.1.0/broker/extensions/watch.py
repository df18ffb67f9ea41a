"""Tells the host when something in its directory changes.

It looks at the times and sizes of the files, twice a second. Rejected: inotify, which a network file system and a
mounted folder do not speak, for the sake of a few files that somebody is editing.
"""

import asyncio

from broker.extensions.host import Host
from broker.limits import EXTENSION_WATCH_SECONDS


async def watch(host: Host, seconds: float = EXTENSION_WATCH_SECONDS) -> None:
    """Reload whenever files have changed and then stayed as they are for a moment: an editor may still be writing."""
    done, before = host.seen(), host.seen()
    while True:
        await asyncio.sleep(seconds)
        now = await host.look()
        if now == before and now != done:
            done = now
            await host.reload(again=False)
        before = now
