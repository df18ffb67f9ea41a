"""`courier-edge run`: an edge, its two intakes, and its life under systemd."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable
from typing import Any

from edge.config import Settings
from edge.edge import Edge
from edge.errors import RequestInvalid
from edge.export import listed
from edge.intake import Intake
from edge.limits import LIST_ROWS_DEFAULT, LIST_ROWS_MAX, TIMEOUT_SECONDS_MAX
from edge.local_socket import Command, LocalSocket
from edge.notify import Notifier
from edge.store import Store

log = logging.getLogger(__name__)


def commands(edge: Edge) -> dict[str, Command]:
    """What the Unix socket obeys."""

    async def status(_given: dict[str, Any]) -> dict[str, Any]:
        return (await edge.status()).as_dict()

    async def drain(given: dict[str, Any]) -> dict[str, Any]:
        seconds = given.get("timeout")
        if seconds is not None and (not isinstance(seconds, int | float) or not 0 <= seconds <= TIMEOUT_SECONDS_MAX):
            raise RequestInvalid(f"timeout is {seconds!r}; between 0 and {TIMEOUT_SECONDS_MAX:.0f} seconds")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(edge.drained(), seconds)
        return {"waiting": edge.outbox.waiting, "rejected": edge.outbox.rejected}

    async def rejected_list(given: dict[str, Any]) -> dict[str, Any]:
        limit = given.get("limit", LIST_ROWS_DEFAULT)
        if not isinstance(limit, int) or not 1 <= limit <= LIST_ROWS_MAX:
            raise RequestInvalid(f"limit is {limit!r}; between 1 and {LIST_ROWS_MAX}")
        return {"rejected": await edge.outbox.read(lambda store: listed(store.connection, limit))}

    async def rejected_retry(given: dict[str, Any]) -> dict[str, Any]:
        return {"retried": await _on_ids(edge, given, Store.retry_rejected)}

    async def rejected_drop(given: dict[str, Any]) -> dict[str, Any]:
        return {"dropped": await _on_ids(edge, given, Store.drop_rejected)}

    return {
        "status": status,
        "drain": drain,
        "rejected-list": rejected_list,
        "rejected-retry": rejected_retry,
        "rejected-drop": rejected_drop,
    }


async def _on_ids(edge: Edge, given: dict[str, Any], action: Callable[[Store, list[str] | None], int]) -> int:
    match given:
        case {"all": True}:
            event_ids = None
        case {"event_ids": [str(), *_] as found} if all(isinstance(each, str) for each in found):
            event_ids = list(found)
        case _:
            raise RequestInvalid('say which: "event_ids": [...], or "all": true')
    return await edge.outbox.change(lambda store: action(store, event_ids))


async def run(settings: Settings, say: Callable[[str], None]) -> str | None:
    """Serve until SIGTERM or SIGINT; why the outbox failed, if it did."""
    notifier = Notifier()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    edge = settings.edge()
    intake, local = Intake(edge), LocalSocket(edge, commands(edge))
    async with contextlib.AsyncExitStack() as running:
        await running.enter_async_context(edge)
        running.push_async_callback(intake.close)
        running.push_async_callback(local.close)
        if settings.port >= 0:
            await intake.listen(settings.host, settings.port)
        await local.listen(settings.socket_path)
        where = f"{intake.address}/events and {settings.socket_path}" if intake.address else f"{settings.socket_path}"
        say(f"courier-edge takes events on {where}, outbox in {settings.path}, broker {edge.target.address}")
        notifier.tell(f"READY=1\nSTATUS={edge.outbox.depth} events wait")
        return await _until_stopped(edge, stop, notifier)


async def _until_stopped(edge: Edge, stop: asyncio.Event, notifier: Notifier) -> str | None:
    failed = asyncio.create_task(edge.failed())
    stopped = asyncio.create_task(stop.wait())
    alive = asyncio.create_task(notifier.keep_alive(lambda: edge.outbox.read(lambda _store: None)))
    try:
        await asyncio.wait([failed, stopped], return_when=asyncio.FIRST_COMPLETED)
        notifier.tell("STOPPING=1")
        if failed.done() and not stop.is_set():
            return failed.result()
        log.info("stopping; %d events wait in the outbox", edge.outbox.depth)
        return None
    finally:
        for task in (failed, stopped, alive):
            task.cancel()
        await asyncio.gather(failed, stopped, alive, return_exceptions=True)
