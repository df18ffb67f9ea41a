"""`courier pipe`: the broker as a child process that is spoken to over stdin and stdout."""

import asyncio
import logging
import os
import sys
from pathlib import Path

import click
import uvloop

from broker.cli import exits
from broker.cli.running import SWITCH_INTERVAL_SECONDS, end_at_once, opened, stop_signals
from broker.config import Config, load
from broker.embedded import stdio
from broker.embedded.duplex import Duplex
from broker.errors import ConfigError
from broker.logs import set_up

log = logging.getLogger("broker.pipe")


@click.command(
    epilog="""\b
Examples:
  courier pipe --stdio --data ./data
  courier pipe --stdio --memory
  courier pipe --stdio --http --port 8787
"""
)
@click.option("--stdio", "over_stdio", is_flag=True, help="Speak over stdin and stdout; the only way there is.")
@click.option("--config", "file", type=click.Path(path_type=Path), help="A YAML file; else COURIER_CONFIG names it.")
@click.option("--data", type=str, metavar="DIR", help="The directory of the journal. [default: ./data]")
@click.option("--memory", is_flag=True, help="No journal: every stream is in memory, and lost with the process.")
@click.option("--http", "with_http", is_flag=True, help="Also listen, as 'courier serve' does.")
@click.option("--host", help="With --http: the address to listen on. [default: 127.0.0.1]")
@click.option("--port", type=int, help="With --http: the port; 0 takes any free one. [default: 8787]")
def pipe(
    over_stdio: bool,
    file: Path | None,
    data: str | None,
    memory: bool,
    with_http: bool,
    host: str | None,
    port: int | None,
) -> None:
    """Run the broker as a pipe: commands on stdin, messages on stdout, one JSON object a line.

    In: enqueue, subscribe, credit, ack, nack, extend, snapshot. Out: enqueued, deliver, view, error.
    Nothing else is written to stdout; the log goes to stderr.

    The end of input drains: every event that was read is answered, what was leased goes back, and the process
    ends with 0. SIGTERM and SIGINT do the same. A second signal ends it at once; nothing that was answered is lost.
    """
    if not over_stdio:
        raise click.UsageError("say --stdio: the pipe is spoken to over stdin and stdout")
    if memory and (data is not None or with_http):
        raise click.UsageError("--memory has no journal: it goes with neither --data nor --http")
    if not with_http and (host is not None or port is not None):
        raise click.UsageError("--host and --port are for --http")
    if sys.stdin is None or sys.stdout is None:  # then the numbers 0 and 1 may be those of other files
        raise click.UsageError("stdin and stdout must be open")
    flags = {"server.host": host, "server.port": port, "data": data}
    try:
        config = load(file, os.environ, {path: value for path, value in flags.items() if value is not None}).config
        set_up(config.log.level, config.log.format)
        sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = runner.run(_run(config, memory=memory, with_http=with_http))
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"courier: {problem}", err=True)
        sys.exit(exits.CONFIG)
    sys.exit(code)


async def _run(config: Config, *, memory: bool, with_http: bool) -> int:
    stop = stop_signals()
    async with opened(config, memory=memory, with_http=with_http) as core:
        serving = asyncio.create_task(stdio.run(Duplex(core), sys.stdin.fileno(), sys.stdout.fileno(), stop))
        failed = asyncio.create_task(core.failed.wait())
        watching = asyncio.create_task(stop.wait())
        await asyncio.wait([serving, failed, watching], return_when=asyncio.FIRST_COMPLETED)
        if not serving.done() and not failed.done():
            await asyncio.wait(
                [serving, failed], return_when=asyncio.FIRST_COMPLETED, timeout=config.server.drain_ms / 1000
            )
        if core.failure is not None:
            end_at_once(f"storage failed, nothing more is acknowledged: {core.failure}", exits.STORAGE)
        if not serving.done():
            end_at_once(f"not drained after {config.server.drain_ms} ms: nobody reads stdout", exits.FAILED)
        for task in (failed, watching):
            task.cancel()
        await asyncio.gather(failed, watching, return_exceptions=True)
        broken = serving.exception()
        if isinstance(broken, OSError):
            log.error("the pipe broke: %s", broken)
        elif broken is not None:
            raise broken
    if core.failure is not None:
        end_at_once(f"storage failed, acks may not have been written: {core.failure}", exits.STORAGE)
    return 0 if broken is None else exits.FAILED
