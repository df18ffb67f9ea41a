"""The channel to whoever sits at the terminal: what they write is `user.message`, and what they are told is printed.

Neither reading nor writing holds up the loop: each has a thread that does nothing but wait.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import orjson

from broker.channels import Message
from broker.cli.output import say
from broker.cli.stdin_lines import StdinLines
from broker.cli.terminal import shown
from broker.embedded.stdio import Output
from broker.errors import CourierError

CHANNEL_ID = "cli_channel"
"""Its id, and the source of what is written there (004, "Built-in Topics")."""
TOPIC = "user.message"

Publish = Callable[[str, str, dict[str, Any]], Awaitable[int]]
"""Publishes a payload on a topic, for a source."""


class TerminalChannel:
    """Prints messages, one after the other: as lines for people, or of JSON."""

    def __init__(self, *, for_person: bool, messages_max: int | None = None, stdout: int = 1) -> None:
        self._out = Output(stdout)
        self._for_person = for_person
        self._turn = asyncio.Lock()
        self._left = messages_max
        self._writing: set[asyncio.Future[None]] = set()
        self.ended = asyncio.Event()
        """Set when so many messages were printed as there should be, or nobody reads them any more."""

    async def send(self, message: Message) -> None:
        """Print a message."""
        async with self._turn:
            await self._print(message)

    async def send_stream(self, message: Message, pieces: AsyncIterator[str]) -> None:
        """Print an answer while it is being made; for a program, as one line when it is whole."""
        async with self._turn:
            if not self._for_person:
                text = "".join([piece async for piece in pieces])
                if text:
                    await self._print(_with_text(message, text))
                return
            is_begun = False
            try:
                async for piece in pieces:
                    await self._write(("" if is_begun else _head(message)) + _on_terminal(piece))
                    is_begun = True
            except BaseException:
                if is_begun:
                    await self._write(" … (it breaks off here)\n")
                raise
            if is_begun:
                await self._write("\n")
                self._count()

    async def _print(self, message: Message) -> None:
        if self._for_person:
            await self._write(f"{_head(message)}{_on_terminal(message.text)}\n")
        else:
            await self._write(orjson.dumps(_as_document(message)).decode() + "\n")
        self._count()

    async def _write(self, text: str) -> None:
        writing = asyncio.ensure_future(self._out.write(text.encode(errors="replace")))
        self._writing.add(writing)
        writing.add_done_callback(self._written)
        await asyncio.shield(writing)  # the thread cannot be cancelled

    def _written(self, writing: asyncio.Future[None]) -> None:
        self._writing.discard(writing)
        if not writing.cancelled() and writing.exception() is not None:
            self.ended.set()

    def _count(self) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                self.ended.set()

    def close(self) -> bool:
        """End its thread; False if that is stuck in a write, because nobody reads."""
        if self._writing:
            return False
        self._out.close()
        return True


def _with_text(message: Message, text: str) -> Message:
    return Message(text, message.extension_id, message.channel_id, message.event, message.id)


def _head(message: Message) -> str:
    return f"{shown(message.extension_id)}: "


def _on_terminal(text: str) -> str:
    """A text of somebody else that cannot control the terminal; its lines stay."""
    return "\n".join(shown(line.replace("\t", "    ").rstrip("\r")) for line in text.split("\n"))


def _as_document(message: Message) -> dict[str, Any]:
    event = message.event
    return {
        "text": message.text,
        "extension_id": message.extension_id,
        "channel_id": message.channel_id,
        "topic": None if event is None else event.topic,
        "event_id": None if event is None else event.id,
    }


def can_read(descriptor: int = 0) -> bool:
    """Whether there is somebody to read from. A process in the background is stopped if it reads its terminal."""
    if sys.stdin is None:
        return False
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:  # no terminal, or not the one that controls this process: nobody is stopped for reading it
        return True


async def read_messages(publish: Publish, user_id: str) -> None:
    """Publish every line of stdin as a message of the user, until there are no more."""
    lines = StdinLines()
    while batch := await lines.batch():
        for line in batch:
            try:
                text = None if line.text is None else line.text.decode().strip()
            except UnicodeDecodeError:
                say(f"line {line.number} is not UTF-8, and was left out")
                continue
            if text is None:
                say(f"line {line.number} is too long, and was left out")
            elif text:
                await _publish(publish, text, user_id, line.number)


async def _publish(publish: Publish, text: str, user_id: str, number: int) -> None:
    try:
        await publish(TOPIC, CHANNEL_ID, {"text": text, "user_id": user_id, "channel_id": CHANNEL_ID})
    except CourierError as error:
        say(f"line {number} was not taken: {error.code}: {error.message}")
