"""`courier-edge send`: put events into the outbox."""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from edge.cli.daemon import connect, converse, error_of, with_outbox
from edge.cli.options import REFUSED, TEMPORARY, add_settings, settings_of
from edge.errors import EdgeError, EventInvalid
from edge.intake import shown
from edge.outbox import Outbox, checked_lane
from edge.store import DEFAULT_LANE


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "send",
        help="put events into the outbox",
        description="Put events into the outbox; each answer is one JSON line, printed when the event is on disk. The "
        "daemon takes them if it runs, else they wait in the file for it.",
    )
    parser.add_argument(
        "json", nargs="?", default="-", help='the payload; "-": every line of stdin is the payload of one'
    )
    parser.add_argument("--type", default="message", help="the type of the events [default: message]")
    parser.add_argument("--id", help="the id, which makes a repetition harmless [default: a new one]")
    parser.add_argument("--lane", default=DEFAULT_LANE, help="the lane [default: default]")
    parser.add_argument("--whole", action="store_true", help="what is given are whole events, and not payloads")
    add_settings(parser, ("path", "socket", "device_id", "max_rows", "max_bytes", "when_full"))
    parser.set_defaults(action=send)


def send(given: argparse.Namespace) -> int:
    """Put what is given; the exit code tells whether all of it was taken."""
    settings = settings_of(given)
    lane = checked_lane(given.lane)
    if given.id is not None and (given.json == "-" or given.whole):
        raise EventInvalid("--id names one event: give its payload as the argument, without --whole")
    events = list(_events(given)) if given.json != "-" else _events(given)
    connection = connect(settings)
    if connection is not None:
        first = orjson.dumps({"command": "lane", "lane": lane})
        answers = converse(connection, _with_first(first, events))
        next(answers)
        return _print(answers)

    async def put(outbox: Outbox) -> int:
        code = 0
        for event in events:
            try:
                receipt = await outbox.put(event, lane=lane)
                code = max(code, _print([shown(receipt)]))
            except EdgeError as error:
                code = max(code, _print([{"error": error.as_dict()}]))
            await asyncio.sleep(0)
        return code

    return with_outbox(settings, put)


def _with_first(first: bytes, rest: Iterable[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _events(given: argparse.Namespace) -> Iterator[bytes]:
    """Each event as JSON on one line, with the payload's own bytes in it."""
    lines: Iterable[bytes] = [os.fsencode(given.json)] if given.json != "-" else sys.stdin.buffer
    for number, line in enumerate(lines, start=1):
        if given.json == "-" and not line.strip():
            continue
        try:
            orjson.loads(line)
        except orjson.JSONDecodeError as error:
            where = "the payload" if given.json != "-" else f"line {number} of stdin"
            raise EventInvalid(f"{where} is not JSON: {error}") from None
        content = line.replace(b"\r", b" ").replace(b"\n", b" ").strip()
        if given.whole:
            yield content
        else:
            head = {"type": given.type} | ({} if given.id is None else {"event_id": given.id})
            yield orjson.dumps(head)[:-1] + b',"payload":' + content + b"}"


def _print(answers: Iterable[dict[str, Any]]) -> int:
    code = 0
    for answer in answers:
        if "error" in answer:
            error = error_of(answer["error"])
            sys.stderr.write(f"courier-edge: {error.code}: {error.message}\n")
            code = max(code, TEMPORARY if error.retryable else REFUSED)
        else:
            sys.stdout.write(orjson.dumps(answer).decode() + "\n")
            sys.stdout.flush()
    return code
