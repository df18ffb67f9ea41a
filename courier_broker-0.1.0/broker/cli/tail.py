"""`courier tail`: look at new events without consuming them."""

from collections.abc import Callable
from typing import Any

import click
import msgspec

from broker.cli.broken_pipe import while_read
from broker.cli.client import Client, broker_options, run
from broker.cli.events import event_line, one_line
from broker.cli.names import PATTERN
from broker.cli.output import for_person, json_option, put, say
from broker.cli.reconnect import Lost, connected, reconnect_option
from broker.cli.terminal import shown
from broker.cli.units import events
from broker.limits import SEQ_MAX
from broker.streams.entry import MEMORY_SEQ_FIRST


class _Frame(msgspec.Struct):
    stream: str = ""
    seq: int = 0
    envelope: msgspec.Raw = msgspec.Raw()
    missed: int = 0
    error: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(_Frame).decode


@click.command(
    short_help="Look at new events without consuming them.",
    epilog="""\b
Examples:
  courier tail 'agents/**'
  courier tail '**' -n 10
  courier tail sensors/door --from 1 --json | jq .envelope.payload
""",
)
@click.argument("pattern", type=PATTERN)
@click.option("-n", "--count", type=click.IntRange(min=1), help="End after so many events. [default: go on]")
@click.option(
    "--from",
    "from_seq",
    type=click.IntRange(1, SEQ_MAX),
    metavar="SEQ",
    help="Begin with what the ledger has from this sequence on. [default: with the next event]",
)
@reconnect_option
@json_option
@broker_options
def tail(
    pattern: str, count: int | None, from_seq: int | None, reconnect: bool, as_json: bool, url: str, token: str | None
) -> None:
    """Show the events of every stream of PATTERN as they are stored. Nothing is consumed.

    Each event is one JSON line with its stream, sequence and envelope. A reader that is too slow misses events,
    and is told how many with a line {"missed": n}. After a reconnection it goes on behind the last event that it
    has shown.
    """
    follower = Follower(pattern, count, from_seq, person=for_person(as_json))

    async def connect(begun: Callable[[], None]) -> None:
        async with Client(url, token, f"streams:{pattern}:subscribe") as client:
            await follower.follow(client, begun)

    run(while_read(connected(connect, again=reconnect)))


class Follower:
    """Shows events until it has shown as many as it was told to, over as many connections as that needs."""

    def __init__(self, pattern: str, count: int | None, from_seq: int | None, *, person: bool) -> None:
        self._pattern = pattern
        self._left = count
        self._from_seq = from_seq
        self._person = person

    async def follow(self, client: Client, begun: Callable[[], None]) -> None:
        """Show the events of one connection; raise Lost when the broker closes it."""
        start = "now" if self._from_seq is None else str(self._from_seq)
        async with await client.socket("v1/tail", {"stream": self._pattern, "from": start}) as socket:
            begun()
            async for message in socket:
                frame = _decode(message.data)
                if frame.error is not None:
                    raise client.refusal(frame.error)
                self._show(frame, message.data)
                if self._left == 0:
                    return
        raise Lost("the broker closed the connection")

    def _show(self, frame: _Frame, text: str) -> None:
        if frame.missed and self._person:
            say(f"{events(frame.missed)} came too fast to be shown; --from shows them")
        elif not self._person:
            put(one_line(text.encode()))
        elif bytes(frame.envelope) == b"null":
            put(f"{frame.seq}  {shown(frame.stream)}  (its contents are gone)")
        else:
            put(event_line(frame.seq, frame.stream, bytes(frame.envelope)))
        if frame.missed:
            return
        if frame.seq < MEMORY_SEQ_FIRST:
            self._from_seq = frame.seq + 1
        if self._left is not None:
            self._left -= 1
