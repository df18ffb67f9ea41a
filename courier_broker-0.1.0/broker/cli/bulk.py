"""An action on all dead letters that match: counted, confirmed, and followed while it runs."""

import signal
import sys
from typing import Any

import click
import orjson

from broker.cli import exits
from broker.cli.client import Client, call, expect, fail, run
from broker.cli.output import put, put_json, say
from broker.cli.progress import Progress
from broker.cli.terminal import is_terminal, styled

DONE = {"replay": "replayed", "discard": "discarded"}
"""What was done, for each action."""


def letters(count: int) -> str:
    """So many dead letters."""
    return f"{count:,} dead letter{'' if count == 1 else 's'}"


def _confirm(action: str, count: int) -> None:
    """Ask the person at the terminal; whoever says no ends the command. Where nobody sits, nobody is asked."""
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        return
    signal.siginterrupt(signal.SIGINT, True)  # uvloop has turned that off: Ctrl-C would wait for Enter
    if not click.confirm(f"{action} {letters(count)}?", err=True):
        fail("nothing was done", exits.FAILED)


def bulk(client: Client, action: str, body: dict[str, Any], *, dry_run: bool, ask: bool, person: bool) -> None:
    """Count them, ask, and do it."""
    if dry_run or ask:
        matching = call(_count(client, action, body))
        if dry_run:
            put(f"would {action} {letters(matching)}") if person else put_json({"matching": matching})
            return
        if matching == 0:
            say("there are no dead letters that match")
            return
        _confirm(action, matching)
    run(_act(client, action, body, person=person))


async def _count(client: Client, action: str, body: dict[str, Any]) -> int:
    async with client:
        answer = await client.post(f"v1/dead-letters/{action}", orjson.dumps({**body, "dryRun": True}))
    expect(answer, "matching")
    return int(answer["matching"])


async def _act(client: Client, action: str, body: dict[str, Any], *, person: bool) -> int | None:
    done = 0
    async with client:
        with Progress(action) as progress:
            async for line in client.post_lines(f"v1/dead-letters/{action}", orjson.dumps(body)):
                if isinstance(error := line.get("error"), dict):
                    progress.say(f"stopped after {letters(done)}; the same call again does the rest")
                    raise client.refusal(error)
                expect(line, "done", "total", "finished")
                done = line["done"]
                progress.update(done, line["total"])
                if line["finished"]:
                    progress.clear()
                    put(f"{styled(DONE[action], fg='green')} {letters(done)}") if person else put_json(line)
                    return None
    say(f"the broker went away after {letters(done)}; the same call again does the rest")
    return exits.UNAVAILABLE
