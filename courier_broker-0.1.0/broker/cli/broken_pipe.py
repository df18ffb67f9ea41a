"""A reader of stdout that goes away is noticed also while there is nothing to write."""

import asyncio
import select
import sys
from collections.abc import Coroutine
from typing import Any

LOOK_SECONDS = 0.25


async def while_read(work: Coroutine[Any, Any, None]) -> None:
    """Do something for as long as somebody can read stdout; raise BrokenPipeError when nobody can any more.

    `courier tail | head` would otherwise wait for an event that nobody will see.
    """
    working = asyncio.create_task(work)
    watching = asyncio.create_task(_reader_is_gone())
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise BrokenPipeError
        working.result()
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _reader_is_gone() -> None:
    looking = select.poll()
    looking.register(sys.stdout.fileno(), 0)  # errors are reported always
    while not any(event & select.POLLERR for _, event in looking.poll(0)):  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(LOOK_SECONDS)
