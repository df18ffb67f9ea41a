"""ExtensionContext: all that an extension sees of Courier (004, "ExtensionContext API")."""

import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Protocol

from broker.agents.cause import current, with_hops
from broker.bus import Handler
from broker.channels import Channels, Message
from broker.errors import Draining


class Bus(Protocol):
    """What an extension's context needs of the event bus."""

    async def publish(self, topic: str, source: str, payload: dict[str, Any], correlation_id: str | None = None) -> int:
        """Publish an event; its id, when it is on disk."""

    async def schedule_at(
        self,
        delay: float | timedelta,
        topic: str,
        source: str,
        payload: dict[str, Any],
        correlation_id: str | None = None,
    ) -> int:
        """Publish an event later; the id of what is put off, when that is on disk."""


class ExtensionContext:
    """One extension's way to the bus and to the user."""

    def __init__(
        self,
        extension_id: str,
        config: Mapping[str, Any],
        bus: Bus | None,
        channels: Channels,
        subscribe: Callable[[str, Handler], None],
    ) -> None:
        self.extension_id = extension_id
        """The id of the extension, and the source of its events."""
        self.config: dict[str, Any] = dict(config)
        """`config` of its manifest."""
        self.logger = logging.getLogger(f"extension.{extension_id}")
        """A logger of its own."""
        self._bus = bus
        self._channels = channels
        self._subscribe = subscribe

    async def emit(self, topic: str, payload: dict[str, Any], correlation_id: str | None = None) -> int:
        """Publish an event now; return its id when it is written to the journal."""
        if self._bus is None:
            raise Draining(f"the extension {self.extension_id} was stopped; nothing can be published for it any more")
        return await self._bus.publish(topic, self.extension_id, with_hops(payload), correlation_id)

    async def schedule_at(
        self, delay: float | timedelta, topic: str, payload: dict[str, Any], correlation_id: str | None = None
    ) -> int | None:
        """Publish an event after `delay` seconds, or a timedelta; return the id of what is put off when it is on disk.

        None, if there is no event bus: the extension was stopped, or runs without one in a test.
        """
        if self._bus is None:
            self.logger.warning("nothing was scheduled for topic %s: there is no event bus any more", topic)
            return None
        return await self._bus.schedule_at(delay, topic, self.extension_id, with_hops(payload), correlation_id)

    def subscribe_event(self, topic: str, handler: Handler) -> None:
        """Let a handler have every event of a topic, or of a pattern of topics. Called from `initialize`."""
        self._subscribe(topic, handler)

    async def notify_user(self, text: str, channel_id: str | None = None) -> None:
        """Send a text to the user, over the default channel or the one that is named.

        Raise what kept it from getting there.
        """
        cause = current()
        await self._channels.send(Message(text, self.extension_id, channel_id, None if cause is None else cause.event))

    def leave_bus(self) -> None:
        """The extension is stopped: what it left behind can reach the bus no more."""
        self._bus = None
