"""`courier sub`: take events from a stream."""

from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import click
import msgspec
from click.core import ParameterSource

from broker.cli.broken_pipe import while_read
from broker.cli.client import Client, broker_options, run
from broker.cli.events import event_line, one_line
from broker.cli.names import PATTERN
from broker.cli.output import for_person, json_option, put
from broker.cli.reconnect import Lost, connected, reconnect_option
from broker.limits import CREDIT_MAX, DELIVER_BATCH_MAX


class _Delivery(msgspec.Struct):
    envelope: msgspec.Raw
    attempt: int
    seq: int


class _Frame(msgspec.Struct):
    deliver: msgspec.Raw = msgspec.Raw()
    attempt: int = 0
    seq: int = 0
    error: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(_Frame).decode
_decode_batch = msgspec.json.Decoder(list[_Delivery]).decode


@click.command(
    short_help="Take events from a stream.",
    epilog="""\b
Examples:
  courier sub agents/Jen/inbox
  courier sub 'agents/*/inbox' -n 1
  courier sub sensors/readings --reconnect --json >> readings.ndjson
  courier sub sensors/readings --no-ack -n 10 | jq .payload
  courier sub 'sensors/**' --group alarms --from now
""",
)
@click.argument("stream", type=PATTERN)
@click.option("-n", "--count", type=click.IntRange(min=1), help="End after so many events. [default: go on]")
@click.option(
    "--credit",
    type=click.IntRange(1, CREDIT_MAX),
    default=32,
    show_default=True,
    help="How many events may be on their way at once.",
)
@click.option("--ack/--no-ack", default=True, show_default=True, help="Acknowledge what was printed.")
@click.option("--nack", is_flag=True, help="Refuse what was printed: it goes to the tail of its stream.")
@click.option("--batch", type=click.IntRange(1, DELIVER_BATCH_MAX), help="Let one frame carry so many events.")
@click.option("--group", metavar="NAME", help="Take part in this consumer group of the stream.")
@click.option(
    "--from",
    "start",
    type=click.Choice(["start", "now"]),
    help="With --group: where a new group begins. [default: start, the oldest event]",
)
@reconnect_option
@json_option
@broker_options
def sub(
    stream: str,
    count: int | None,
    credit: int,
    ack: bool,
    nack: bool,
    batch: int | None,
    group: str | None,
    start: str | None,
    reconnect: bool,
    as_json: bool,
    url: str,
    token: str | None,
) -> None:
    """Take events from STREAM, or from every stream of a pattern.

    Each envelope is one JSON line: what its producer sent, without line breaks. On a terminal, it is a line
    with its sequence, stream, type, id and payload.

    An event is acknowledged after it was printed. With --no-ack, it goes back to the head of its stream when this
    command ends; with --nack, it goes to the tail at once. Both count as an attempt.
    """
    if nack and click.get_current_context().get_parameter_source("ack") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--nack is neither --ack nor --no-ack; give one of them")
    if start is not None and group is None:
        raise click.UsageError("--from goes with --group: it says where a new group begins")
    answer = "nack" if nack else "ack" if ack else None
    params = {"stream": stream}
    if batch is not None:
        params["batch"] = str(batch)
    if group is not None:
        params["group"] = group
    if start is not None:
        params["from"] = start
    consumer = Consumer(params, count, credit, answer, person=for_person(as_json))

    async def connect(begun: Callable[[], None]) -> None:
        async with Client(url, token, f"streams:{stream}:subscribe") as client:
            await consumer.take(client, begun)

    run(while_read(connected(connect, again=reconnect)))


class Consumer:
    """Takes events until it has as many as it was told to, over as many connections as that needs."""

    def __init__(
        self, params: dict[str, str], count: int | None, credit: int, answer: str | None, *, person: bool
    ) -> None:
        self._params = params
        self._stream = None if "*" in params["stream"] else params["stream"]
        self._left = count
        self._credit = credit
        self._answer = answer
        self._person = person

    async def take(self, client: Client, begun: Callable[[], None]) -> None:
        """Take events from one connection; raise Lost when the broker closes it."""
        socket = await client.socket("v1/subscribe", self._params)
        async with socket:
            begun()
            granted = self._credit if self._left is None else min(self._credit, self._left)
            await socket.send_json({"credit": granted})
            async for message in socket:
                frame = _decode(message.data)
                if frame.error is not None:
                    raise client.refusal(frame.error)
                for delivery in self._deliveries(frame):
                    granted += await self._done(socket, delivery, granted) - 1
                    if self._left == 0:
                        return
        raise Lost("the broker closed the connection")

    def _deliveries(self, frame: _Frame) -> Iterator[_Delivery]:
        if "batch" in self._params:
            yield from _decode_batch(frame.deliver)
        else:
            yield _Delivery(frame.deliver, frame.attempt, frame.seq)

    async def _done(self, socket: aiohttp.ClientWebSocketResponse, delivery: _Delivery, granted: int) -> int:
        """Print an event, answer it, and grant what it took, if more are wanted; how much was granted."""
        envelope = bytes(delivery.envelope)
        put(event_line(delivery.seq, self._stream, envelope, delivery.attempt) if self._person else one_line(envelope))
        if self._left is not None:
            self._left -= 1
        if self._answer is not None:
            await socket.send_json({self._answer: delivery.seq})
        if self._left is not None and granted - 1 >= self._left:
            return 0
        await socket.send_json({"credit": 1})
        return 1
