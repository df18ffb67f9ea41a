"""The metrics tell of a disk that is full, and that it is not any more."""

import asyncio
from pathlib import Path

from tests.adversity.test_full_disk import BALLAST_BYTES, Ballast
from tests.conftest import Connect, StartBroker
from tests.journal.conftest import until
from tests.support.events import body
from tests.support.metrics import scrape


async def test_a_full_disk_is_seen_in_the_metrics_while_it_lasts(
    broker_process: StartBroker, connect: Connect, small_disk: Path
) -> None:
    ballast = Ballast(small_disk)
    ballast.write(BALLAST_BYTES)
    broker = broker_process(data=small_disk / "data")
    client = await connect(broker.url)
    assert (await scrape(client))("courier_journal_writable") == 1
    status, sent = 200, 0
    while status == 200:
        sent += 1
        status = (await client.post(body(f"e-{sent}", payload="x" * 200_000))).status
        assert sent < 100
    assert status == 507
    found = await scrape(client)
    assert found("courier_journal_disk_full_total") >= 1
    assert found("courier_refusals_total", code="disk_full") == 1
    assert found("courier_journal_commit_seconds_count") >= sent - 1
    ballast.remove()
    ready: list[float] = []

    async def look() -> None:
        while not ready:
            if (await scrape(client))("courier_journal_writable"):
                ready.append(1)

    looking = asyncio.create_task(look())
    await until(lambda: bool(ready))
    await looking
    assert (await client.post(body("after"))).status == 200
    assert broker.terminate_and_wait() == 0
