"""A connection that is made again when it is lost, if somebody asked for that."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import aiohttp
import click

from broker.cli import exits
from broker.cli.client import Refused, fail, unreachable
from broker.cli.output import say

F = TypeVar("F", bound=Callable[..., Any])

PAUSE_SECONDS_MIN = 0.25
PAUSE_SECONDS_MAX = 5.0


class Lost(Exception):
    """The broker closed the connection."""


def reconnect_option(command: F) -> F:
    """Add `--reconnect`."""
    return click.option(
        "--reconnect", is_flag=True, help="When the connection is lost, wait and connect again. [default: end with 75]"
    )(command)


async def connected(connect: Callable[[Callable[[], None]], Awaitable[None]], *, again: bool) -> None:
    """Run `connect` to its end; if it is lost and `again` is set, run it again, with longer and longer pauses.

    `connect` is handed a function that it calls when it has a connection, so that the next pause is short again.
    """
    pause_seconds = PAUSE_SECONDS_MIN

    def begun() -> None:
        nonlocal pause_seconds
        pause_seconds = PAUSE_SECONDS_MIN

    while True:
        try:
            await connect(begun)
        except Lost as lost:
            if not again:
                fail(str(lost), exits.TEMPORARY)
            reason = str(lost)
        except Refused as refusal:
            if not again or not refusal.is_temporary:
                raise
            reason = str(refusal)
        except (aiohttp.ClientError, TimeoutError) as error:
            if not again:
                raise
            reason = unreachable(error)
        else:
            return
        say(f"{reason}; trying again")
        await asyncio.sleep(pause_seconds)
        pause_seconds = min(2 * pause_seconds, PAUSE_SECONDS_MAX)
