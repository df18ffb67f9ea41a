"""`/livez` and `/readyz`."""

import pytest

from broker.app import App
from tests.conftest import Connect, StartApp
from tests.support.client import Client, assert_error
from tests.support.events import body

FULL = "an acknowledged event is on disk: it survives a crash of the process and a power cut"
NORMAL = "an acknowledged event survives a crash of the process, NOT a power cut (journal.synchronous: normal)"


@pytest.mark.parametrize(("synchronous", "promise"), [("full", FULL), ("normal", NORMAL)])
async def test_a_broker_is_alive_and_ready_and_says_what_it_promises(
    start_app: StartApp, connect: Connect, synchronous: str, promise: str
) -> None:
    app = await start_app({"journal": {"synchronous": synchronous}})
    client = await connect(app.server.address)
    alive, ready = await client.get("livez"), await client.get("readyz")
    assert (alive.status, alive.body) == (200, {"status": "alive"})
    assert (ready.status, ready.body) == (
        200,
        {"status": "ready", "durability": synchronous, "acknowledgement": promise},
    )
    assert app.promise == promise


async def test_the_probes_ask_for_no_token(start_app: StartApp, connect: Connect) -> None:
    app = await start_app({"auth": {"tokens": [{"token": "t", "scopes": ["streams:*:enqueue"]}]}})
    client = await connect(app.server.address)
    assert [(await client.get(path)).status for path in ("livez", "readyz")] == [200, 200]


async def test_a_broker_that_drains_is_alive_but_not_ready(app: App, client: Client) -> None:
    app.gate.draining = True
    assert (await client.get("livez")).status == 200
    ready = await client.get("readyz")
    assert (ready.status, ready.body["status"], ready.body["reasons"]) == (
        503,
        "not ready",
        ["the broker is shutting down"],
    )


async def test_a_journal_that_cannot_commit_makes_it_not_ready_until_it_can(app: App, client: Client) -> None:
    app.journal.health.retrying("the file is locked", critical=False)
    assert (await client.get("readyz")).status == 200
    app.journal.health.retrying("the file is locked", critical=True)
    ready = await client.get("readyz")
    assert (ready.status, ready.body["reasons"]) == (503, ["the journal cannot commit: the file is locked"])
    app.journal.health.committed(1, 0.001)
    await client.enqueue("e-1")
    assert (await client.get("readyz")).status == 200


async def test_past_the_budget_of_attempts_a_producer_is_told_to_come_back_later(app: App, client: Client) -> None:
    app.journal.health.retrying("the file is locked", critical=True)
    answer = await client.post(body())
    message = assert_error(answer, 503, "storage_unavailable", retryable=True, retry_after_seconds=5)
    assert message == "the journal cannot commit (the file is locked); it goes on trying: send it again later"
    app.journal.health.committed(1, 0.001)
    await client.enqueue("e-1")


async def test_a_journal_that_has_failed_is_never_ready_again(app: App, client: Client) -> None:
    app.journal.health.failed("the disk is gone")
    ready = await client.get("readyz")
    assert (ready.status, ready.body["reasons"]) == (503, ["the disk is gone"])
    async with client.session.post("v1/enqueue", json={}, headers={"Host": "localhost"}) as response:
        assert response.status == 400
    assert app.journal.health.fatal == "the disk is gone"
