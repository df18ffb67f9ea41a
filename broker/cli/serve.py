"""`courier serve`: run the broker until it is told to stop."""

import asyncio
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import uvloop

from broker.app import App
from broker.cli import exits
from broker.config import Config, LoadedConfig, changed_keys, load
from broker.errors import ConfigError
from broker.logs import set_up
from edge.notify import Notifier

log = logging.getLogger("broker.serve")

SWITCH_INTERVAL_SECONDS = 0.0005
"""How long a thread that wants the GIL waits for it. With Python's 5 ms, each group commit would cost
up to 5 ms of latency beside a busy loop."""

GC_THRESHOLDS = (20_000, 20, 20)
"""How much more must be there than at the last search for cycles. What flows through the broker forms none, and
thousands of events are on their way at any time: with Python's 700, the search took a seventh of the loop's time."""


@click.command(
    epilog="""\b
Examples:
  courier serve
  courier serve --port 9000 --data /var/lib/courier
  courier serve --config courier.yaml
"""
)
@click.option("--config", "file", type=click.Path(path_type=Path), help="A YAML file; else COURIER_CONFIG names it.")
@click.option("--host", help="The address to listen on. [default: 127.0.0.1]")
@click.option("--port", type=int, help="The port; 0 takes any free one. [default: 8787]")
@click.option("--data", type=str, metavar="DIR", help="The directory of the journal. [default: ./data]")
def serve(file: Path | None, host: str | None, port: int | None, data: str | None) -> None:
    """Run the broker.

    SIGTERM or SIGINT (Ctrl-C) drains: what was received is committed and acknowledged, then the process
    ends with 0. A second signal ends it at once; nothing that was acknowledged is lost by that.

    SIGHUP reads the configuration again and takes up its tokens: sockets of a token that was revoked are closed.
    Everything else that changed needs a restart, and the log says so. The file of events.log is opened anew.

    Under systemd (Type=notify) it tells when it is ready, reloads and stops, and feeds the watchdog as long as commits
    go on: 'courier service install' writes the unit.
    """
    flags = {"server.host": host, "server.port": port, "data": data}

    def read() -> LoadedConfig:
        return load(file, os.environ, {path: value for path, value in flags.items() if value is not None})

    try:
        loaded = read()
        set_up(loaded.config.log.level, loaded.config.log.format)
        _warn_of_inactive_keys(loaded)
        sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = runner.run(_serve(loaded.config, read))
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"courier: {problem}", err=True)
        sys.exit(exits.CONFIG)
    sys.exit(code)


def _warn_of_inactive_keys(loaded: LoadedConfig) -> None:
    for key, origin in loaded.keys_not_yet_active().items():
        log.warning("%s is set (%s), but this version does not act on it yet", key, origin)


async def _serve(config: Config, read: Callable[[], LoadedConfig]) -> int:
    manager = Notifier()
    reload = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload.set)  # one that comes too early must not end it
    app = await App.start(config)
    stop = _stop_signals()
    reloading = asyncio.create_task(_reload_when(reload, app, read, manager))
    click.echo(f"courier listens on {app.server.address}, journal in {app.journal.path}")
    click.echo(f"acknowledged means: {app.promise}")
    if app.grpc is not None:
        click.echo(f"events of devices over gRPC on {app.grpc.address}")
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    manager.tell(f"READY=1\nSTATUS=listens on {app.server.address}")
    alive = asyncio.create_task(manager.keep_alive(app.journal.come_round))
    failed: asyncio.Future[bool] = asyncio.ensure_future(app.failed.wait())
    await asyncio.wait([stop, failed], return_when=asyncio.FIRST_COMPLETED)
    if failed.done():
        _say_that_storage_failed(app)
        manager.tell(f"STOPPING=1\nSTATUS=storage failed: {app.journal.health.fatal}")
        os._exit(exits.STORAGE)  # no clean end: closing the database could pretend that all is well
    failed.cancel()
    reloading.cancel()
    manager.tell("STOPPING=1\nSTATUS=draining")
    log.info("draining")
    try:
        await asyncio.wait_for(app.drain(), timeout=config.server.drain_ms / 1000)
    except TimeoutError:
        log.error("not drained after %d ms; what was not acknowledged may or may not be stored", config.server.drain_ms)
        return exits.FAILED
    finally:
        alive.cancel()
    if app.journal.health.fatal is not None:
        _say_that_storage_failed(app)
        return exits.STORAGE
    log.info("stopped")
    return 0


async def _reload_when(asked: asyncio.Event, app: App, read: Callable[[], LoadedConfig], manager: Notifier) -> None:
    """Each time, take up what can be changed while the broker runs, and tell the service manager."""
    while await asked.wait():
        asked.clear()
        manager.tell(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")
        await _reload(app, read)
        manager.tell("READY=1")


async def _reload(app: App, read: Callable[[], LoadedConfig]) -> None:
    """A file with problems changes nothing."""
    app.reopen_logs()
    try:
        config = (await asyncio.to_thread(read)).config
    except ConfigError as error:
        for problem in error.problems:
            log.error("the configuration was not reloaded: %s", problem)
        return
    for key in changed_keys(app.config, config):
        if key not in ("auth.tokens", "auth.tokensFile"):
            log.warning("%s has changed in the configuration; it needs a restart", key)
    if app.config.auth.tokens and not config.auth.tokens:
        log.warning("no tokens are left, so nobody is let in; a restart would let in everybody on this machine")
    closed = await app.replace_tokens(config.auth)
    log.info("the configuration was reloaded: %d tokens, %d sockets closed", len(config.auth.tokens), closed)


def _say_that_storage_failed(app: App) -> None:
    click.echo(f"courier: storage failed, nothing more is acknowledged: {app.journal.health.fatal}", err=True)
    sys.stderr.flush()


def _stop_signals() -> asyncio.Future[bool]:
    """A future that the first SIGTERM or SIGINT completes; the second ends the process."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[bool] = loop.create_future()

    def received(number: int) -> None:
        if stop.done():
            os._exit(128 + number)
        stop.set_result(True)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received, number)
    return stop
