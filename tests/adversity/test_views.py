"""A view after kill -9, at whatever moment: what the ledger says, and never behind what was acknowledged."""

import asyncio
import json
from pathlib import Path

import aiohttp
import apsw
import pytest

from tests.conftest import Connect, StartBroker
from tests.journal.conftest import until
from tests.support.client import Client
from tests.support.events import body
from tests.support.views import VIEW, agent

AGENTS = 20


def latest(data: Path) -> tuple[int, dict[str, str]]:
    """The last event of each agent, by the ledger alone."""
    connection = apsw.Connection(str(data / "courier.db"))
    try:
        rows = connection.execute("SELECT stream, source_event_id, seq FROM ledger ORDER BY seq").fetchall()
    finally:
        connection.close()
    return rows[-1][2], {stream: event_id for stream, event_id, _seq in rows if stream.startswith("agents/")}


async def publish_until_cut(client: Client, tag: str, acked: dict[str, int]) -> None:
    """Publish for as long as the broker lives; note the sequence of what was acknowledged last for each agent."""
    async with client.session.ws_connect("v1/publish") as socket:
        await socket.receive()

        async def send() -> None:
            for number in range(1_000_000):
                to = agent(number % AGENTS) if number % 3 else "jobs/other"
                await socket.send_str(body(f"{tag}-{number}", to).decode())

        sending = asyncio.create_task(send())
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                break  # the line was cut in the middle of a frame
            ack = json.loads(message.data)
            acked[ack["ack"]] = ack["seq"]
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


@pytest.mark.parametrize("events", [1, 500, 20_000])
async def test_after_a_kill_the_view_is_what_the_ledger_says(
    broker_process: StartBroker, connect: Connect, events: int
) -> None:
    """The longest run is past the first saves of the copy, the shortest is before."""
    broker = broker_process()
    for life in range(2):
        acked: dict[str, int] = {}
        publishing = asyncio.create_task(publish_until_cut(await connect(broker.url), f"life-{life}", acked))
        await until(lambda acked=acked: len(acked) >= events)
        broker.kill()
        await publishing
        seq, expected = await asyncio.to_thread(latest, broker.data)
        broker = broker_process(data=broker.data)
        found = (await (await connect(broker.url)).get(f"v1/snapshot?view={VIEW}")).body
        assert found["seq"] == seq >= max(acked.values())
        assert {address: value["id"] for address, value in found["snapshot"].items()} == expected
    assert broker.terminate_and_wait() == 0
