"""Channel: what is asked of a way to a user. An extension whose object has `send` is one."""

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from broker.channels.message import Message


@runtime_checkable
class Channel(Protocol):
    """A way to a user."""

    async def send(self, message: Message) -> None:
        """Bring a message to the user; raise what kept it from getting there."""


@runtime_checkable
class StreamingChannel(Channel, Protocol):
    """A way to a user that can show an answer while it is being made."""

    async def send_stream(self, message: Message, pieces: AsyncIterator[str]) -> None:
        """Show pieces of a text as they come. Raise what they raise."""
