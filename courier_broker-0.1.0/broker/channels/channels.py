"""Which channels there are, and which one a message takes."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from broker.channels.channel import Channel, StreamingChannel
from broker.channels.message import Message
from broker.config.keys import nearest
from broker.errors import InvalidRequest, NotFound, TooLarge
from broker.limits import NOTIFICATION_BYTES_MAX


class Channels:
    """Channels by their ids. A message goes to the one that it names, else to the default one."""

    def __init__(self, default: str | None = None) -> None:
        self._channels: dict[str, Channel] = {}
        self._chosen = default
        """What the operator wants as the default, whatever the channels say themselves."""
        self._defaults: dict[str, None] = {}

    def add(self, channel_id: str, channel: Channel, *, default: bool = False) -> None:
        """Let messages take this channel. One with the same id is replaced."""
        self._channels[channel_id] = channel
        self._defaults.pop(channel_id, None)
        if default:
            self._defaults[channel_id] = None

    def remove(self, channel_id: str, channel: Channel) -> None:
        """Let no message take this channel any more, unless another one has its id by now."""
        if self._channels.get(channel_id) is channel:
            del self._channels[channel_id]
            self._defaults.pop(channel_id, None)

    @property
    def ids(self) -> list[str]:
        """Every channel's id."""
        return list(self._channels)

    @property
    def default(self) -> str | None:
        """The channel of messages that name none: what the operator chose, the first that wants to be it, the first."""
        return self._chosen or next(iter(self._defaults), next(iter(self._channels), None))

    async def send(self, message: Message) -> None:
        """Bring a message to its user; raise what kept it from getting there."""
        check_text(message.text)
        channel_id, channel = self._of(message)
        await channel.send(replace(message, channel_id=channel_id))

    async def stream(self, message: Message, pieces: AsyncIterator[str]) -> None:
        """The same for an answer that is being made; whole, where the channel cannot show it in pieces."""
        channel_id, channel = self._of(message)
        message = replace(message, channel_id=channel_id)
        if isinstance(channel, StreamingChannel):
            await channel.send_stream(message, pieces)
            return
        text = "".join([piece async for piece in pieces])
        if text:
            await channel.send(replace(message, text=text))

    def _of(self, message: Message) -> tuple[str, Channel]:
        channel_id = message.channel_id or self.default
        if channel_id is None:
            raise NotFound(
                "there is no channel to the user; add an extension that is one, or use `courier extensions run`"
            )
        if channel_id in self._channels:
            return channel_id, self._channels[channel_id]
        meant = nearest(channel_id, self._channels)
        hint = f"did you mean {meant}?" if meant else f"there are {', '.join(self._channels) or 'none'}"
        raise NotFound(f"there is no channel {channel_id!r:.80}; {hint}")


def check_text(text: Any) -> None:
    """Refuse what is not the text of a message."""
    if not isinstance(text, str):
        raise InvalidRequest(f"the text of a message must be text, not of the type {type(text).__name__}")
    if not text.strip():
        raise InvalidRequest("the text of a message is empty")
    if (size := len(text.encode(errors="replace"))) > NOTIFICATION_BYTES_MAX:
        raise TooLarge(f"the text of a message has {size} bytes; at most {NOTIFICATION_BYTES_MAX} are allowed")


def channel_of(payload: Any) -> str | None:
    """The channel that an event asks for with `channel_id` in its payload."""
    wanted = payload.get("channel_id") if isinstance(payload, dict) else None
    if wanted is None:
        return None
    if not isinstance(wanted, str):
        raise InvalidRequest(f"payload.channel_id must be text, not of the type {type(wanted).__name__}")
    return wanted
