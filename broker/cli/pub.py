"""`courier pub`: put events on a stream."""

import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click
import msgspec
import orjson

from broker.cli import exits
from broker.cli.client import accepted, broker_options, fail, run, session


@click.command(
    epilog="""\b
Examples:
  courier pub agents/Jen/inbox '{"title": "hello"}'
  courier pub sensors/door '{"open": true}' --type door.changed --id door-17
  cat readings.ndjson | courier pub sensors/readings -
"""
)
@click.argument("stream")
@click.argument("json", required=False, default="-")
@click.option("--type", "event_type", default="message", show_default=True, help="The type of the events.")
@click.option("--id", "event_id", help="The id, which makes a repetition harmless. [default: a new one]")
@click.option("--from", "sender", help="Who sends.")
@broker_options
def pub(
    stream: str, json: str, event_type: str, event_id: str | None, sender: str | None, url: str, token: str | None
) -> None:
    """Put events on STREAM; each answer is one JSON line on stdout, printed when the event is on disk.

    JSON is the payload of one event. Without it, or with "-", every line of stdin is the payload of one.
    """
    if event_id is not None and json == "-":
        raise click.UsageError("--id names one event; with stdin, every event needs an id of its own")
    envelopes = (_envelope(stream, event_type, event_id, sender, payload) for payload in _payloads(json))
    run(_publish(url, token, stream, envelopes))


def _payloads(json: str) -> Iterator[Any]:
    """Each payload as it stands: decoding and encoding it would alter large integers and repeated keys."""
    lines = [os.fsencode(json)] if json != "-" else sys.stdin.buffer
    for number, line in enumerate(lines, start=1):
        if json == "-" and not line.strip():
            continue
        try:
            yield orjson.Fragment(bytes(msgspec.json.decode(line.decode(), type=msgspec.Raw)))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            where = "the payload" if json != "-" else f"line {number} of stdin"
            fail(f"{where} is not JSON: {error}", exits.USAGE)


def _envelope(stream: str, event_type: str, event_id: str | None, sender: str | None, payload: Any) -> dict[str, Any]:
    envelope = {
        "id": event_id or f"e-{time.time_ns():x}",
        "ts": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "to": stream,
        "type": event_type,
        "payload": payload,
    }
    return envelope if sender is None else envelope | {"from": sender}


async def _publish(url: str, token: str | None, stream: str, envelopes: Iterator[dict[str, Any]]) -> None:
    async with session(url, token) as client:
        for envelope in envelopes:
            async with client.post("v1/enqueue", json={"to": stream, "envelope": envelope}) as response:
                click.echo(orjson.dumps(accepted(await response.read())))
