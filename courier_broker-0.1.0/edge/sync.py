"""The edge for programs without asyncio: the same thing, on a loop in a thread of its own."""

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from edge.edge import Edge
from edge.errors import OutboxClosed
from edge.status import Status
from edge.store import DEFAULT_LANE, Receipt

T = TypeVar("T")


class SyncEdge:
    """`with SyncEdge(url, path=…, device_id=…) as edge: edge.put(event)`; may be called from any thread.

    Takes what `Edge` takes.
    """

    def __init__(self, url: str, **options: Any) -> None:
        self._url = url
        self._options = options
        self._edge: Edge | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        started = threading.Event()

        def run() -> None:
            with asyncio.Runner() as runner:
                self._loop = runner.get_loop()
                self._loop.call_soon(started.set)
                self._loop.run_forever()

        self._thread = threading.Thread(target=run, name="courier-edge", daemon=True)
        self._thread.start()
        started.wait()
        try:
            self._edge = self._run(self._start())
        except BaseException:
            self._stop()
            raise
        return self

    async def _start(self) -> Edge:
        return await Edge(self._url, **self._options).__aenter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop sending, and close the outbox. What is not acknowledged stays in it."""
        edge, self._edge = self._edge, None
        if edge is not None:
            self._run(edge.close())
        self._stop()

    def put(self, event: Mapping[str, Any] | bytes | str, *, lane: str = DEFAULT_LANE) -> Receipt:
        """Keep an event; it is on disk when this returns. See `Outbox.put`."""
        return self._run(self._open.put(event, lane=lane))

    def drained(self, timeout: float | None = None) -> None:
        """Wait until the broker has everything; raise TimeoutError after so many seconds. See `Edge.drained`."""
        self._run(asyncio.wait_for(self._open.drained(), timeout))

    def status(self) -> Status:
        """How things stand."""
        return self._run(self._open.status())

    @property
    def _open(self) -> Edge:
        if self._edge is None:
            raise OutboxClosed("the outbox is closed; use SyncEdge as a context manager")
        return self._edge

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _stop(self) -> None:
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop = self._thread = None
