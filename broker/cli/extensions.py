"""`courier extensions`: run the extensions of a directory on a broker of their own, or check them."""

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

import click
import uvloop

from broker.bus import EventBus
from broker.channels import Channels
from broker.cli import exits
from broker.cli.groups import Group
from broker.cli.output import for_person, json_option, say
from broker.cli.running import SWITCH_INTERVAL_SECONDS, drained, end_at_once, opened, stop_signals
from broker.cli.terminal_channel import CHANNEL_ID, TerminalChannel, can_read, read_messages
from broker.config import Config, load
from broker.core import Core
from broker.embedded.producer import Producer
from broker.errors import ConfigError
from broker.extensions import Host
from broker.extensions.checking import check as check_directory
from broker.extensions.problems import LoadFailed
from broker.extensions.watch import watch as watch_directory
from broker.logs import set_up

log = logging.getLogger("broker.extensions")

DIRECTORY = click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  courier extensions check ./extensions
  courier extensions run ./extensions --data ./data
""",
)
def extensions() -> None:
    """Run the extensions of a directory, or check them.

    An extension is a directory with a manifest.yaml and, if it has code, a Python module.
    """


@extensions.command(
    epilog="\b\nExample:\n  courier extensions check ./extensions && courier extensions run ./extensions\n"
)
@DIRECTORY
def check(directory: Path) -> None:
    """Check every extension in DIR, without running anything of it.

    Every problem is one line on stderr, with its file, and the exit code is 78 (EX_CONFIG).
    """
    try:
        found = check_directory(directory, os.environ)
    except LoadFailed as failure:
        _say_all(failure.problems)
        sys.exit(exits.CONFIG)
    for each in found:
        if each.manifest is not None and not each.problems:
            click.echo(f"{each.directory}: ok ({each.manifest.id}{'' if each.manifest.enabled else ', not enabled'})")
        _say_all(each.problems)
    sys.exit(exits.CONFIG if any(each.problems for each in found) else 0)


@extensions.command(
    epilog="""\b
Examples:
  courier extensions run ./extensions
  courier extensions run ./extensions --data ./data --http --watch
  echo 'drink water' | courier extensions run docs/examples/reminder -n 1
"""
)
@DIRECTORY
@click.option("--config", "file", type=click.Path(path_type=Path), help="A YAML file; else COURIER_CONFIG names it.")
@click.option("--data", type=str, metavar="DIR", help="The directory of the journal. [default: ./data]")
@click.option("--http", "with_http", is_flag=True, help="Also listen, as 'courier serve' does.")
@click.option("--host", help="With --http: the address to listen on. [default: 127.0.0.1]")
@click.option("--port", type=int, help="With --http: the port; 0 takes any free one. [default: 8787]")
@click.option("--watch", is_flag=True, help="Reload an extension when its files change.")
@click.option("--channel", metavar="ID", help="The channel of messages that name none.")
@click.option("--user", "user_id", default="local", show_default=True, help="Who writes on stdin.")
@click.option("--no-input", is_flag=True, help="Do not read stdin.")
@click.option("-n", "messages_max", type=click.IntRange(min=1), help="End after so many messages were printed.")
@json_option
def run(
    directory: Path,
    file: Path | None,
    data: str | None,
    with_http: bool,
    host: str | None,
    port: int | None,
    watch: bool,
    channel: str | None,
    user_id: str,
    no_input: bool,
    messages_max: int | None,
    as_json: bool,
) -> None:
    """Run the extensions in DIR, on a broker with a journal of its own.

    Each line of stdin is an event user.message. What the extensions tell the user is printed: lines on a terminal,
    else JSON. An extension that cannot run is reported, and does not stop the others.

    SIGHUP reloads those whose files have changed; a new version that cannot run leaves the old one running. SIGTERM,
    Ctrl-C, and Ctrl-D on a terminal, let the handlers that run end; what they do not get done is handled again after
    the next start.
    """
    if not with_http and (host is not None or port is not None):
        raise click.UsageError("--host and --port are for --http")
    if sys.stdout is None:  # then the number 1 may be that of another file
        raise click.UsageError("stdout must be open")
    flags = {"server.host": host, "server.port": port, "data": data}
    try:
        config = load(file, os.environ, {path: value for path, value in flags.items() if value is not None}).config
        set_up(config.log.level, config.log.format)
        sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
        terminal = TerminalChannel(for_person=for_person(as_json), messages_max=messages_max)
        reader = None if no_input or not can_read() else user_id
        running = _Running(directory, config, terminal, Channels(channel), reader)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = runner.run(running.run(with_http=with_http, watch=watch))
    except ConfigError as error:
        _say_all(error.problems)
        sys.exit(exits.CONFIG)
    sys.exit(code)


class _Running:
    """One run, from the first extension to the last."""

    def __init__(
        self, directory: Path, config: Config, terminal: TerminalChannel, channels: Channels, user_id: str | None
    ) -> None:
        self._directory = directory
        self._config = config
        self._terminal = terminal
        self._channels = channels
        self._user_id = user_id
        """Who writes on stdin; None if it is not read."""

    async def run(self, *, with_http: bool, watch: bool) -> int:
        """Run until a signal, the end of a terminal's input, or enough messages; the exit code."""
        stop, reload = stop_signals(), asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload.set)
        async with opened(self._config, memory=False, with_http=with_http) as core:
            bus = Producer(core).bus(self._config.bus)
            core.on_failed = lambda _reason: bus.fail()
            self._channels.add(CHANNEL_ID, self._terminal)
            host = Host(self._directory, bus, clock=core.clock, channels=self._channels)
            try:
                await bus.recover()
                await host.start()
                if not host.extensions and not watch:
                    raise LoadFailed([f"{self._directory}: none of its extensions can run"])
                await self._until_it_ends(host, bus, core, stop, reload, watch=watch)
            except LoadFailed as failure:
                _say_all(failure.problems)
                return exits.CONFIG
            finally:
                await drained(host.stop(), self._config)
                if not self._terminal.close():
                    end_at_once("nobody reads stdout; what was not told is told after the next start", exits.FAILED)
        return 0

    async def _until_it_ends(
        self, host: Host, bus: EventBus, core: Core, stop: asyncio.Event, reload: asyncio.Event, *, watch: bool
    ) -> None:
        ends: list[asyncio.Task[Any]] = [
            asyncio.create_task(each.wait()) for each in (stop, self._terminal.ended, core.failed)
        ]
        others: list[asyncio.Task[Any]] = [asyncio.create_task(_reload_when(reload, host))]
        if watch:
            others.append(asyncio.create_task(watch_directory(host)))
        if self._user_id is not None:
            reading = asyncio.create_task(read_messages(bus.publish, self._user_id))
            (ends if sys.stdin.isatty() else others).append(reading)
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*ends, *others):
                task.cancel()
            for outcome in await asyncio.gather(*ends, *others, return_exceptions=True):
                if isinstance(outcome, Exception):
                    log.error("a part of the run failed", exc_info=outcome)
        if core.failure is not None:
            end_at_once(f"storage failed, nothing more is acknowledged: {core.failure}", exits.STORAGE)


async def _reload_when(asked: asyncio.Event, host: Host) -> None:
    while await asked.wait():
        asked.clear()
        await host.reload()
        log.info("the extensions were reloaded")


def _say_all(problems: list[str]) -> None:
    for problem in problems:
        say(problem)
