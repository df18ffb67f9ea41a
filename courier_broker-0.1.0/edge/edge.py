"""An outbox and its sender, as one thing.

async with Edge("ws://192.168.1.10:8787", path="listener_outbox.db", device_id="pi-livingroom-01") as edge:
    await edge.put({"type": "door.opened", "payload": {"door": 3}})   # on disk when this returns, sent by itself
    await edge.drained()                                              # if you want to wait until it is stored
"""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from edge.clock import Clock
from edge.errors import OutboxClosed, OutboxFailed
from edge.lines import Target
from edge.outbox import Outbox
from edge.sender import Pace, Sender
from edge.status import Status, status_of
from edge.storage import FILE_NAME
from edge.store import DEFAULT_LANE, Bounds, Receipt


class Edge:
    """Keeps events on disk, and sends them in the background until the broker has them."""

    def __init__(
        self,
        url: str,
        *,
        path: Path | str = FILE_NAME,
        device_id: str | None = None,
        session_id: str = "",
        token: str | None = None,
        ca_file: Path | str | None = None,
        bounds: Bounds | None = None,
        lanes: Mapping[str, Bounds] | None = None,
        when_damaged: str = "refuse",
        pace: Pace | None = None,
        clock: Clock | None = None,
    ) -> None:
        pace = pace or Pace()
        ca = None if ca_file is None else str(ca_file)
        self.target = Target(url, token, ca, answer_seconds=pace.answer_seconds)
        self.outbox = Outbox(
            path,
            device_id=device_id,
            session_id=session_id,
            bounds=bounds,
            lanes=lanes,
            contract=self.target.contract,
            when_damaged=when_damaged,
            clock=clock,
        )
        self.sender = Sender(self.outbox, self.target.line, pace, clock=clock)
        self._sending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.outbox.open()
        self._sending = asyncio.create_task(self.sender.run(), name="courier-edge-sender")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop sending, and close the outbox. What is not acknowledged stays in it."""
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, OutboxFailed):
                await sending
        await self.outbox.close()

    async def put(self, event: Mapping[str, Any] | bytes | str, *, lane: str = DEFAULT_LANE) -> Receipt:
        """Keep an event; it is on disk when this returns, and is sent in the background. See `Outbox.put`."""
        return await self.outbox.put(event, lane=lane)

    async def drained(self) -> None:
        """Wait until the broker has everything, but for what it refused; `Status.rejected` counts that.

        Raise OutboxFailed when the outbox fails meanwhile, and OutboxClosed when it is closed.
        """
        changed = asyncio.Event()
        self.outbox.watchers.add(changed)
        try:
            while self.outbox.waiting:
                if self._sending is None:
                    raise OutboxClosed("the outbox was closed before it was drained")
                changed.clear()
                waiting = asyncio.ensure_future(changed.wait())
                try:
                    await asyncio.wait([waiting, self._sending], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    waiting.cancel()
                if self.outbox.failure is not None or (self._sending is not None and self._sending.done()):
                    raise OutboxFailed(self.outbox.failure or "the sender has ended")
        finally:
            self.outbox.watchers.discard(changed)

    async def failed(self) -> str:
        """Wait until the outbox can no longer be believed; why."""
        failing = asyncio.ensure_future(self.outbox.failed.wait())
        try:
            await asyncio.wait(
                [failing, *([self._sending] if self._sending else [])], return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            failing.cancel()
        return self.outbox.failure or "the sender has ended"

    async def status(self) -> Status:
        """How things stand."""
        oldest = await self.outbox.read(lambda store: store.oldest_us())
        return status_of(self.outbox, self.sender, self.target.address, oldest)
