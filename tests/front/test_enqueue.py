"""`POST /v1/enqueue`."""

from broker.app import App
from tests.support.client import Client
from tests.support.events import body


async def test_an_event_is_answered_with_its_sequence(client: Client) -> None:
    assert await client.enqueue("e-1") == {"id": "e-1", "seq": 1, "duplicate": False}
