"""The conversation of the Skyra page, held with a real broker."""

from tests.conftest import Connect, StartBroker
from tests.docs.console import Forms
from tests.docs.markdown import ROOT, blocks
from tests.docs.test_websocket_page import RECEIVED, SENT
from tests.support.client import Subscriber

PAGE = ROOT / "docs/reference/skyra.md"


async def test_the_conversation_of_the_page_is_one_that_the_broker_holds(
    broker_process: StartBroker, connect: Connect
) -> None:
    client = await connect(broker_process().url)
    (conversation,) = [block.text.splitlines() for block in blocks(PAGE, "text")]
    said, happened = Forms(), Forms()
    async with client.session.ws_connect("v1/ingress") as socket:
        device = Subscriber(socket)
        assert (await device.frame()).keys() == {"window"}
        for line in conversation:
            if line.startswith(SENT):
                await socket.send_str(line.removeprefix(SENT))
            else:
                assert line.startswith(RECEIVED), line
                assert happened.of((await device.message()).data) == said.of(line.removeprefix(RECEIVED))
    assert len(conversation) == 5
