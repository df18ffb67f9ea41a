"""`courier sub`: take events from a stream."""

from typing import Any

import aiohttp
import click
import msgspec

from broker.cli import exits
from broker.cli.client import broker_options, fail, refused, run, session
from broker.limits import CREDIT_MAX


class _Frame(msgspec.Struct):
    deliver: msgspec.Raw = msgspec.Raw()
    seq: int = 0
    error: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(_Frame).decode


@click.command(
    epilog="""\b
Examples:
  courier sub agents/Jen/inbox
  courier sub agents/Jen/inbox -n 1
  courier sub sensors/readings --no-ack | jq .payload
"""
)
@click.argument("stream")
@click.option("-n", "--count", type=click.IntRange(min=1), help="End after so many events. [default: go on]")
@click.option(
    "--credit",
    type=click.IntRange(1, CREDIT_MAX),
    default=32,
    show_default=True,
    help="How many events may be on their way at once.",
)
@click.option("--ack/--no-ack", default=True, show_default=True, help="Acknowledge what was printed.")
@broker_options
def sub(stream: str, count: int | None, credit: int, ack: bool, url: str, token: str | None) -> None:
    """Take events from STREAM; each envelope is one JSON line on stdout: what its producer sent, without line breaks.

    An event is acknowledged after it was printed. With --no-ack, it goes back when this command ends.
    """
    run(_consume(url, token, stream, count, credit, ack))


async def _consume(url: str, token: str | None, stream: str, count: int | None, credit: int, ack: bool) -> None:
    async with session(url, token) as client:
        try:
            socket = await client.ws_connect("v1/subscribe", params={"stream": stream}, max_msg_size=0)
        except aiohttp.WSServerHandshakeError as error:
            code = exits.TEMPORARY if error.status >= 500 else exits.REFUSED
            fail(f"the broker refused the subscription to {stream!r} with HTTP {error.status}", code)
        async with socket:
            await _take(socket, count, credit, ack)


async def _take(socket: aiohttp.ClientWebSocketResponse, count: int | None, credit: int, ack: bool) -> None:
    taken = 0
    await socket.send_json({"credit": min(credit, count or credit)})
    async for message in socket:
        frame = _decode(message.data)
        if frame.error is not None:
            refused(frame.error)
        click.echo(msgspec.json.format(bytes(frame.deliver), indent=-1))
        taken += 1
        if ack:
            await socket.send_json({"ack": frame.seq})
        if taken == count:
            return
        if count is None or taken + credit <= count:
            await socket.send_json({"credit": 1})
    fail("the broker closed the connection", exits.TEMPORARY)
