"""What the commands that run a broker without being `serve` share: they open it, wait for signals and drain it."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click

from broker.app import App
from broker.cli import exits
from broker.clock import SystemClock
from broker.config import Config
from broker.core import Core, DurableCore

log = logging.getLogger("broker.run")

SWITCH_INTERVAL_SECONDS = 0.0005
"""As for `courier serve`."""


@asynccontextmanager
async def opened(config: Config, *, memory: bool, with_http: bool) -> AsyncIterator[Core]:
    """The core, with sockets on it if they are wanted; drained at the end."""
    if with_http:
        app = await App.start(config)
        log.info("courier listens on %s", app.server.address)
        try:
            yield app.core
        finally:
            await drained(app.drain(), config)
        return
    core = Core(config, SystemClock()) if memory else await DurableCore.open(Path(config.data), config, SystemClock())
    try:
        yield core
    finally:
        core.gate.draining = True
        await drained(core.close(), config)


async def drained(draining: Coroutine[Any, Any, None], config: Config) -> None:
    """Wait for an end, for as long as `server.drainMs` says; then end without it."""
    try:
        await asyncio.wait_for(draining, timeout=config.server.drain_ms / 1000)
    except TimeoutError:
        unknown = "what was not answered may or may not be stored"
        end_at_once(f"not drained after {config.server.drain_ms} ms; {unknown}", exits.FAILED)


def end_at_once(message: str, code: int) -> None:
    """End without waiting for anybody: a thread may be stuck in a write, and a journal that failed is left as it is."""
    click.echo(f"courier: {message}", err=True)
    sys.stderr.flush()
    os._exit(code)


def stop_signals() -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT; the second ends the process."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def received(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received, number)
    return stop
