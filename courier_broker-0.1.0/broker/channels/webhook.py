"""A channel over HTTP: each message is a POST to a URL, tried again until somebody has it or no try is left."""

from collections.abc import Callable
from typing import Any

import aiohttp

from broker.channels.message import Message
from broker.outgoing.calls import post
from broker.outgoing.retries import Retries


class WebhookChannel:
    """Posts messages."""

    def __init__(
        self,
        session: Callable[[], aiohttp.ClientSession],
        url: str,
        *,
        token: str | None = None,
        timeout: float,
        retries: Retries,
    ) -> None:
        self._session = session
        self._url = url
        self._token = token
        self._timeout = timeout
        self._retries = retries

    async def send(self, message: Message) -> None:
        """Post a message; raise CallFailed when nobody has taken it.

        Every try carries the same `Idempotency-Key`: who has taken it, and was not heard, can tell that it is the same.
        """
        headers = {"Idempotency-Key": message.id}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        async with post(
            self._session(),
            self._url,
            body_of(message),
            headers,
            self._retries,
            seconds_a_try=self._timeout,
            hint="look at channel.token_env of its manifest",
        ):
            pass


def body_of(message: Message) -> dict[str, Any]:
    """A message as JSON."""
    body: dict[str, Any] = {
        "id": message.id,
        "text": message.text,
        "channel_id": message.channel_id,
        "extension_id": message.extension_id,
        "event": None,
    }
    if (event := message.event) is not None:
        body["event"] = {
            "id": event.id,
            "topic": event.topic,
            "source": event.source,
            "created_at": event.created_at,
            "correlation_id": event.correlation_id,
        }
    return body
