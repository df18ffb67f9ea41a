"""Sends the lines of stdin as events: batch after batch, each answered before the next one leaves.

While one batch is on its way, the next gathers; so a slow producer has each line sent at once, and a fast one fills
its batches. What the broker cannot take just now is sent again, the same bytes under the same ids, as long as
something is taken meanwhile.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import aiohttp

from broker.cli import exits
from broker.cli.client import Client, Refused, unreachable
from broker.cli.output import put_json
from broker.cli.position import Lines
from broker.cli.progress import Progress
from broker.cli.requests import NotAnEvent
from broker.cli.stdin_lines import LINE_BYTES_MAX, StdinLine

NDJSON = {"Content-Type": "application/x-ndjson"}
ATTEMPTS_WITHOUT_PROGRESS_MAX = 5


class Item(NamedTuple):
    """A line on its way."""

    number: int
    request: bytes


class GaveUp(Exception):
    """The broker takes nothing, or is gone; the rest of stdin was not sent."""

    def __init__(self, reason: str, exit_code: int) -> None:
        super().__init__(reason)
        self.exit_code = exit_code


class Requests(Protocol):
    """What makes lines into requests."""

    def request(self, text: bytes, number: int) -> bytes:
        """The request for a line; raise NotAnEvent for what is none."""


class Publisher:
    """One run of `courier pub -` or `courier replay`, and what came of it."""

    def __init__(self, client: Client, template: Requests, progress: Progress, *, prints: bool) -> None:
        self._client = client
        self._template = template
        self._progress = progress
        self._prints = prints
        self.stored = self.duplicates = self.conflicts = self.refused = 0
        self.first_unanswered = 1
        """The number of the first line of which nothing is known."""

    async def run(self, lines: Lines, on_answered: Callable[[StdinLine], None] | None = None) -> None:
        """Send everything; raise GaveUp when that is not possible.

        `on_answered` is told of the last line of each batch, when all before it are stored or reported.
        """
        while batch := await lines.batch():
            await self._send(batch)
            self.first_unanswered = batch[-1].number + 1
            if on_answered is None:
                self._progress.update(self.stored + self.duplicates)
            else:
                on_answered(batch[-1])
        if lines.problem is not None:
            raise GaveUp(f"it cannot be read to its end: {lines.problem}", exits.FAILED)

    async def _send(self, batch: Sequence[StdinLine]) -> None:
        waiting = [item for line in batch if (item := self._item(line)) is not None]
        idle = 0
        while waiting:
            self.first_unanswered = waiting[0].number
            again, pause_seconds, reason = await self._attempt(waiting)
            idle = idle + 1 if len(again) == len(waiting) else 0
            if idle == ATTEMPTS_WITHOUT_PROGRESS_MAX:
                raise GaveUp(reason, exits.TEMPORARY)
            if again:
                await asyncio.sleep(pause_seconds)
            waiting = again

    def _item(self, line: StdinLine) -> Item | None:
        if line.text is None:
            self._report(line.number, f"it is longer than {LINE_BYTES_MAX:,} bytes")
            return None
        if not line.text.strip():
            return None
        try:
            return Item(line.number, self._template.request(line.text.rstrip(b"\r"), line.number))
        except NotAnEvent as problem:
            self._report(line.number, str(problem))
            return None

    async def _attempt(self, items: list[Item]) -> tuple[list[Item], float, str]:
        """Send lines; those to send again, after how many seconds, and why."""
        again: list[Item] = []
        pause_seconds, reason = 0.0, ""
        try:
            answers = await self._answers(items)
        except Refused as refusal:
            if refusal.error.get("code") == "too_large" and len(items) > 1:
                half = len(items) // 2
                first, pause_seconds, reason = await self._attempt(items[:half])
                second, more_seconds, more_reason = await self._attempt(items[half:])
                return [*first, *second], max(pause_seconds, more_seconds), more_reason or reason
            if not refusal.is_temporary and refusal.error.get("code") != "too_large":
                raise
            answers = [{"error": refusal.error}] * len(items)
        for item, answer in zip(items, answers, strict=True):
            error = answer.get("error")
            if error is None:
                self._taken(answer)
            elif error.get("code") == "forbidden":
                raise self._client.refusal(error)  # no other line would pass
            elif error.get("retryable"):
                again.append(item)
                pause_seconds = max(pause_seconds, float(error.get("retry_after_seconds", 1)))
                reason = f"{error.get('code')}: {error.get('message')}"
            else:
                self._report(item.number, str(self._client.refusal(error)))
        return again, pause_seconds, reason

    async def _answers(self, items: list[Item]) -> list[dict[str, Any]]:
        body = b"\n".join(item.request for item in items)
        try:
            answers = [answer async for answer in self._client.post_lines("v1/enqueue", body, NDJSON)]
        except (aiohttp.ClientError, TimeoutError) as error:
            raise GaveUp(unreachable(error), exits.UNAVAILABLE) from None
        if len(answers) != len(items):
            raise GaveUp("the answer of the broker was cut off", exits.UNAVAILABLE)
        return answers

    def _taken(self, answer: dict[str, Any]) -> None:
        if answer.get("duplicate"):
            self.duplicates += 1
            if answer.get("payload_conflict"):
                self.conflicts += 1
        else:
            self.stored += 1
        if self._prints:
            self._progress.clear()
            put_json(answer)

    def _report(self, number: int, problem: str) -> None:
        self.refused += 1
        self._progress.say(f"line {number}: {problem}")
