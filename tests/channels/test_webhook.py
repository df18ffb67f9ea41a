"""The webhook against a real server: what it posts, and every way in which that fails."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from broker.bus import Event
from broker.channels import Message
from broker.channels.webhook import WebhookChannel
from broker.outgoing.calls import CallFailed, open_session
from broker.outgoing.retries import Retries
from tests.support.http_server import hang, serving, status

EVENT = Event(7, "reminder.due", "reminder", {"text": "tea"}, 5.0, "req-1")
MESSAGE = Message("Reminder: tea", "reminder_agent", "ops", EVENT)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with open_session() as opened:
        yield opened


def channel(
    session: aiohttp.ClientSession, url: str, *, timeout: float = 10, token: str | None = None
) -> WebhookChannel:
    patience = Retries(3, backoff_seconds=0.001)
    return WebhookChannel(lambda: session, url, token=token, timeout=timeout, retries=patience)


async def test_a_message_is_posted_with_the_event_that_it_is_about(session: aiohttp.ClientSession) -> None:
    async with serving(status(204)) as server:
        await channel(session, server.url, token="sesame").send(MESSAGE)
    assert server.bodies == [
        {
            "id": MESSAGE.id,
            "text": "Reminder: tea",
            "channel_id": "ops",
            "extension_id": "reminder_agent",
            "event": {
                "id": 7,
                "topic": "reminder.due",
                "source": "reminder",
                "created_at": 5.0,
                "correlation_id": "req-1",
            },
        }
    ]
    assert server.headers[0]["Authorization"] == "Bearer sesame"
    assert server.headers[0]["Content-Type"] == "application/json"


async def test_every_try_of_a_message_has_the_same_key_and_another_message_has_another(
    session: aiohttp.ClientSession,
) -> None:
    async with serving(status(500), status(429, Retry_After="0"), status(200)) as server:
        await channel(session, server.url).send(MESSAGE)
        await channel(session, server.url).send(Message("another", "ext"))
    keys = [headers["Idempotency-Key"] for headers in server.headers]
    assert keys[:3] == [MESSAGE.id] * 3
    assert keys[3] not in keys[:3]
    assert server.bodies[3]["event"] is None


async def test_a_server_that_is_too_slow_is_tried_again(session: aiohttp.ClientSession) -> None:
    async with serving(hang(), status(200)) as server:
        await channel(session, server.url, timeout=0.05).send(MESSAGE)
        assert len(server.bodies) == 2


async def test_a_server_that_stays_too_slow_is_given_up(session: aiohttp.ClientSession) -> None:
    async with serving(hang()) as server:
        with pytest.raises(CallFailed, match=r"did not answer within 0\.02 s; tried 4 times"):
            await channel(session, server.url, timeout=0.02).send(MESSAGE)


async def test_a_refusal_is_not_tried_again(session: aiohttp.ClientSession) -> None:
    async with serving(status(403, "who are you?")) as server:
        with pytest.raises(CallFailed) as caught:
            await channel(session, server.url, token="sesame").send(MESSAGE)
    assert str(caught.value) == f"{server.url} answered 403: who are you?; look at channel.token_env of its manifest"
    assert len(server.bodies) == 1
