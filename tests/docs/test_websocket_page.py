"""The conversations of the WebSocket page, held with a real broker."""

import json
import re

from tests.conftest import Connect, StartBroker
from tests.docs.console import Console, steps
from tests.docs.markdown import blocks
from tests.docs.pages import WEBSOCKET
from tests.support.client import Subscriber

SENT, RECEIVED = "-> ", "<- "


async def hold(subscriber: Subscriber, conversation: str) -> int:
    """Send what the page sends; what comes back must be what the page says. How many lines there were."""
    lines = conversation.splitlines()
    for line in lines:
        if line.startswith(SENT):
            await subscriber.socket.send_str(line.removeprefix(SENT))
        else:
            assert line.startswith(RECEIVED), line
            assert (await subscriber.message()).data == line.removeprefix(RECEIVED)
    return len(lines)


async def test_the_conversation_of_the_page_is_one_that_the_broker_holds(
    broker_process: StartBroker, connect: Connect
) -> None:
    broker = broker_process()
    console = Console(broker)
    for step in steps(WEBSOCKET):
        assert console.run(step.command) == step.output
    client = await connect(broker.url)
    conversations = [block.text for block in blocks(WEBSOCKET, "text") if block.text.startswith(SENT)]
    async with client.subscribe("jobs/render") as subscriber:
        held = [await hold(subscriber, conversation) for conversation in conversations]
        await subscriber.settled()
    assert sum(held) >= 8


async def test_every_control_frame_of_the_table_is_understood(broker_process: StartBroker, connect: Connect) -> None:
    frames = re.findall(r"^\| `(\{.+?\})` \|", WEBSOCKET.read_text(encoding="utf-8"), re.MULTILINE)
    assert [next(iter(json.loads(frame))) for frame in frames] == ["credit", "ack", "nack", "extend"]
    client = await connect(broker_process().url)
    async with client.subscribe("s") as subscriber:
        for frame in frames:
            await subscriber.socket.send_str(frame)
        for _ in frames[1:]:
            assert (await subscriber.error())["code"] == "lease_not_held"
        await subscriber.settled()
