"""`courier import`: bring the events of an outbox that was carried here (`courier-edge export`)."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import click
import msgspec
import orjson

from broker.cli import exits
from broker.cli.client import Refused, broker_options, fail, run, session
from broker.cli.output import for_person, json_option, put, put_json, say
from broker.limits import ENVELOPE_BYTES_MAX, IMPORT_ATTEMPTS_MAX, IMPORT_BATCH_BYTES_MAX, IMPORT_BATCH_MAX

_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode


SCOPE = "devices:DEVICE"
"""What a token needs for this."""


class Line(NamedTuple):
    """An event of the file."""

    number: int
    content: bytes


class Counts:
    """What became of the events."""

    def __init__(self) -> None:
        self.stored = 0
        self.duplicates = 0
        self.refused = 0

    def __str__(self) -> str:
        return f"{self.stored} stored, {self.duplicates} were there already, {self.refused} refused"


@click.command(
    "import",
    short_help="Bring the events of an outbox that was carried here.",
    epilog="""\b
Example:
  courier-edge export /media/stick/outbox.ndjson     (on the device)
  courier import /media/stick/outbox.ndjson --token "$TOKEN_OF_THE_DEVICE"
""",
)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@json_option
@broker_options
def import_(file: Path, as_json: bool, url: str, token: str | None) -> None:
    """Bring the events of FILE, one a line, to the broker, which may have some of them already.

    Doing it twice is harmless, and so is sending the same events over the network later: use the token of the device,
    because an event is told by its id and by whose token sent it. An event that is refused is one line on stderr, the
    others are imported all the same, and the exit code is 65.
    """
    counts = Counts()
    run(_import(file, url, token, counts))
    if for_person(as_json):
        put(f"{file}: {counts}")
    else:
        put_json({"file": str(file), **vars(counts)})
    if counts.refused:
        sys.exit(exits.REFUSED)


async def _import(file: Path, url: str, token: str | None, counts: Counts) -> None:
    size = file.stat().st_size  # noqa: ASYNC240 - nothing else runs here
    bar = click.progressbar(length=size, label="importing", file=sys.stderr, hidden=not sys.stderr.isatty())
    async with session(url, token) as client:
        with bar:
            for batch in _batches(file, counts):
                await _post(client, batch, counts)
                bar.update(sum(len(line.content) + 1 for line in batch))


def _batches(file: Path, counts: Counts) -> Iterator[list[Line]]:
    """As many lines at once as one commit should hold; one that is no JSON is said, and left out."""
    batch: list[Line] = []
    size = 0
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            content = line.strip()
            if not content:
                continue
            problem = _problem(content)
            if problem is not None:
                _say_refused(counts, number, problem)
                continue
            if batch and (len(batch) >= IMPORT_BATCH_MAX or size + len(content) > IMPORT_BATCH_BYTES_MAX):
                yield batch
                batch, size = [], 0
            batch.append(Line(number, content))
            size += len(content) + 1
    if batch:
        yield batch


def _problem(content: bytes) -> str | None:
    if len(content) > ENVELOPE_BYTES_MAX:
        return f"it is {len(content)} bytes long; at most {ENVELOPE_BYTES_MAX} are allowed"
    try:
        _decode_raw(content.decode())
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"it is not JSON, perhaps because the file was cut short: {error}"
    return None


def _say_refused(counts: Counts, number: int, problem: str) -> None:
    counts.refused += 1
    say(f"line {number} is refused: {problem}")


async def _post(client: aiohttp.ClientSession, batch: list[Line], counts: Counts) -> None:
    """Post a batch; what the broker could not take now is posted again."""
    for attempt in range(1, IMPORT_ATTEMPTS_MAX + 1):
        answers = await _answers(client, batch)
        if isinstance(answers, dict) and not answers.get("retryable"):
            await _post_alone(client, batch, answers, counts)
            return
        if isinstance(answers, dict):
            error, again = answers, batch
        else:
            error, again = _count(batch, answers, counts)
        if not again:
            return
        if attempt == IMPORT_ATTEMPTS_MAX:
            raise Refused(error, SCOPE)
        batch = again
        await asyncio.sleep(max(1, int(error.get("retry_after_seconds") or 1)))


async def _post_alone(client: aiohttp.ClientSession, batch: list[Line], error: dict[str, Any], counts: Counts) -> None:
    """A batch was refused as a whole: find the line that is to blame. About the token, no line is."""
    if error.get("code") in ("unauthorized", "forbidden", "not_found"):
        raise Refused(error, SCOPE)
    if len(batch) == 1:
        _say_refused(counts, batch[0].number, f"{error.get('code')}: {error.get('message')}")
        return
    for line in batch:
        await _post(client, [line], counts)


async def _answers(client: aiohttp.ClientSession, batch: list[Line]) -> list[dict[str, Any]] | dict[str, Any]:
    """The answers to a batch in its order, or the error that it was refused with as a whole."""
    body = b"[%b]" % b",".join(line.content for line in batch)
    async with client.post("v1/events", data=body, headers={"Content-Type": "application/json"}) as response:
        content = await response.read()
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError:
        found = None
    if isinstance(found, dict) and isinstance(found.get("error"), dict):
        error: dict[str, Any] = found["error"]
        return error
    if isinstance(found, list) and len(found) == len(batch) and all(isinstance(each, dict) for each in found):
        return found
    return fail(
        "what answers there is no broker that takes the events of devices; name one with --url", exits.UNAVAILABLE
    )


def _count(batch: list[Line], answers: list[dict[str, Any]], counts: Counts) -> tuple[dict[str, Any], list[Line]]:
    """Count what is done; the last error that a retry can mend, and the lines to post again."""
    last: dict[str, Any] = {}
    again: list[Line] = []
    for line, answer in zip(batch, answers, strict=True):
        error = answer.get("error")
        if isinstance(error, dict) and error.get("retryable"):
            last = error
            again.append(line)
        elif isinstance(error, dict):
            _say_refused(counts, line.number, f"{error.get('code')}: {error.get('message')}")
        elif answer.get("duplicate"):
            counts.duplicates += 1
        else:
            counts.stored += 1
    return last, again
