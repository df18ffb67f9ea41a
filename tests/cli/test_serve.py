"""`courier serve`: what it says, and how it ends."""

import asyncio
import signal
import time

import aiohttp
import pytest

from tests.conftest import Connect, StartBroker
from tests.support import ledger
from tests.support.client import Client, assert_error
from tests.support.events import body
from tests.support.process import BrokerProcess
from tests.support.raw import PATIENCE_SECONDS, half_a_request

FULL = "an acknowledged event is on disk: it survives a crash of the process and a power cut"
NORMAL = "an acknowledged event survives a crash of the process, NOT a power cut (journal.synchronous: normal)"
SIGNALS = [signal.SIGTERM, signal.SIGINT]


@pytest.mark.parametrize(("synchronous", "promise"), [("full", FULL), ("normal", NORMAL)])
async def test_it_says_where_it_listens_and_what_an_acknowledgement_means(
    broker_process: StartBroker, connect: Connect, synchronous: str, promise: str
) -> None:
    broker = broker_process(env={"COURIER_JOURNAL__SYNCHRONOUS": synchronous})
    assert broker.stdout_lines == [
        f"courier listens on http://127.0.0.1:{broker.port}, journal in {broker.data / 'courier.db'}",
        f"acknowledged means: {promise}",
    ]
    client = await connect(broker.url)
    assert (await client.get("livez")).body == {"status": "alive"}
    ready = await client.get("readyz")
    assert (ready.status, ready.body["durability"], ready.body["acknowledgement"]) == (200, synchronous, promise)


async def test_what_a_stranger_offers_is_not_logged(broker_process: StartBroker, connect: Connect) -> None:
    broker = broker_process(config={"log": {"format": "json"}})
    client = await connect(broker.url)
    async with client.session.ws_connect("v1/publish", protocols=["soap"]) as socket:
        assert await socket.receive_json() == {"window": 10_000}
    assert await asyncio.to_thread(broker.terminate_and_wait) == 0
    assert [line for line in broker.stderr_lines if '"level":"info"' not in line] == []


@pytest.mark.parametrize("number", SIGNALS)
def test_an_idle_broker_stops_at_once_with_zero(broker_process: StartBroker, number: signal.Signals) -> None:
    broker = broker_process(config={"log": {"format": "json"}})
    broker.signal(number)
    assert broker.wait() == 0
    assert [line for line in broker.stderr_lines if '"level":"info"' not in line] == []
    assert '"message":"stopped"' in broker.stderr_lines[-1]


class Producers:
    """Some producers that send as fast as they can, until the broker refuses them or is gone."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.acknowledged: set[str] = set()
        self.refused: set[str] = set()
        self.unanswered: set[str] = set()
        self.reached = asyncio.Event()
        """Set when many events were acknowledged."""

    async def run(self, name: int) -> None:
        for number in range(1_000_000):
            event_id = f"{name}-{number}"
            try:
                answer = await self._client.post(body(event_id))
            except aiohttp.ClientConnectionError:
                self.unanswered.add(event_id)
                return
            if answer.status != 200:
                assert_error(answer, 503, "draining", retryable=True)
                self.refused.add(event_id)
                return
            self.acknowledged.add(event_id)
            if len(self.acknowledged) == 300:
                self.reached.set()


@pytest.mark.parametrize("number", SIGNALS)
async def test_under_load_everything_that_was_acknowledged_is_in_the_ledger(
    broker_process: StartBroker, connect: Connect, number: signal.Signals
) -> None:
    broker = broker_process(config={"server": {"drainMs": 5000}})
    client = await connect(broker.url)
    producers = Producers(client)
    async with client.subscribe() as subscriber, asyncio.TaskGroup() as group:
        await subscriber.credit(50)
        for name in range(16):
            group.create_task(producers.run(name))
        await producers.reached.wait()
        started = time.monotonic()
        broker.signal(number)
        assert await subscriber.close_code() == 1001
        assert await asyncio.to_thread(broker.wait) == 0
        assert time.monotonic() - started < 5
    stored = ledger.rows(broker.data)
    assert len(stored) == len(set(stored))
    assert producers.acknowledged <= set(stored)
    assert set(stored) <= producers.acknowledged | producers.unanswered
    assert len(producers.refused) + len(producers.unanswered) == 16


async def until_refused(port: int) -> None:
    """Connect until nobody listens any more: a moment after the log says that the broker drains."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                return
            writer.transport.abort()


async def test_a_request_under_way_is_answered_and_new_connections_are_refused(
    broker_process: StartBroker,
) -> None:
    broker = broker_process()
    async with half_a_request(broker.port, body("e-1")) as the_rest:
        broker.signal(signal.SIGTERM)
        await asyncio.to_thread(broker.until_it_says, "draining")
        await until_refused(broker.port)
        assert broker.process.poll() is None
        answer = await the_rest()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b'"code":"draining"' in answer
    assert await asyncio.to_thread(broker.wait) == 0
    assert ledger.rows(broker.data) == []


@pytest.mark.parametrize("first", SIGNALS)
@pytest.mark.parametrize("second", SIGNALS)
async def test_a_second_signal_ends_it_at_once(
    broker_process: StartBroker, connect: Connect, first: signal.Signals, second: signal.Signals
) -> None:
    broker = broker_process()
    await (await connect(broker.url)).enqueue("e-1")
    async with half_a_request(broker.port, body("e-2")):
        broker.signal(first)
        await asyncio.to_thread(broker.until_it_says, "draining")
        broker.signal(second)
        assert await asyncio.to_thread(broker.wait) == 128 + second
    assert ledger.rows(broker.data) == ["e-1"]


async def test_a_request_that_never_ends_does_not_outlast_the_drain_time(
    broker_process: StartBroker, connect: Connect
) -> None:
    broker = broker_process(config={"server": {"drainMs": 300}})
    await (await connect(broker.url)).enqueue("e-1")
    async with half_a_request(broker.port, body("e-2")):
        started = time.monotonic()
        broker.signal(signal.SIGTERM)
        assert await asyncio.to_thread(broker.wait) == 1
        assert 0.3 <= time.monotonic() - started < 5
    assert "not drained after 300 ms" in broker.stderr_lines[-1]
    assert ledger.rows(broker.data) == ["e-1"]


async def test_idle_connections_do_not_hold_up_the_end(broker_process: StartBroker) -> None:
    broker = broker_process()
    opened = [await asyncio.open_connection("127.0.0.1", broker.port) for _ in range(5)]
    try:
        assert await asyncio.to_thread(broker.terminate_and_wait) == 0
    finally:
        for _, writer in opened:
            writer.transport.abort()


async def test_what_consumers_acked_is_on_disk_when_it_has_stopped(
    broker_process: StartBroker, connect: Connect
) -> None:
    broker = broker_process()
    client = await connect(broker.url)
    await client.enqueue_all("e-1", "e-2", "e-3")
    async with client.subscribe() as subscriber:
        await subscriber.credit(2)
        await subscriber.ack(*await subscriber.ids(2))
        await subscriber.settled()
        assert await asyncio.to_thread(broker.terminate_and_wait) == 0
    assert ledger.rows(broker.data, "source_event_id, state") == [("e-1", 1), ("e-2", 1), ("e-3", 0)]


def test_a_stopped_broker_leaves_one_file_and_a_free_lock(broker_process: StartBroker) -> None:
    broker = broker_process()
    assert broker.terminate_and_wait() == 0
    assert sorted(path.name for path in broker.data.iterdir()) == ["courier.db", "courier.lock"]
    successor = broker_process()
    assert isinstance(successor, BrokerProcess)
    assert successor.terminate_and_wait() == 0


def test_its_log_is_for_people_or_for_machines(broker_process: StartBroker) -> None:
    broker = broker_process(config={"log": {"format": "human"}})
    assert broker.terminate_and_wait() == 0
    assert broker.stderr_lines[-1].split()[1:] == ["INFO", "serve", "stopped"]
