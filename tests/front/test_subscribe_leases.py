"""`WS /v1/subscribe`: acks, nacks, leases that run out, dead letters, and subscribers that go away."""

import pytest

from broker.app import App
from broker.clock import ManualClock
from broker.limits import LEASE_MS_DEFAULT
from tests.conftest import Connect, StartApp
from tests.support.client import Client, Subscriber
from tests.support.events import STREAM
from tests.support.raw import deaf_subscriber
from tests.support.writer import eventually, stored

MAX_DELIVERIES = 3


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def app(start_app: StartApp, clock: ManualClock) -> App:
    return await start_app({"streams": {"maxDeliveries": MAX_DELIVERIES}}, clock=clock)


@pytest.fixture
async def client(app: App, connect: Connect) -> Client:
    return await connect(app.server.address)


def let_pass(app: App, clock: ManualClock, milliseconds: int) -> None:
    """Time passes, and the timer of the leases fires."""
    clock.advance(milliseconds)
    app.registry.expire()


async def refused(subscriber: Subscriber, event_id: str) -> None:
    """The next frame says that this event is not held."""
    error = await subscriber.error()
    assert (error["code"], error["id"]) == ("lease_not_held", event_id)


async def test_a_second_ack_is_refused(app: App, client: Client) -> None:
    await client.enqueue("e-1")
    async with client.subscribe() as subscriber:
        await subscriber.credit(1)
        await subscriber.ids(1)
        await subscriber.ack("e-1", "e-1")
        await refused(subscriber, "e-1")
        assert await stored(app, "state, process_attempts") == [(1, 1)]


async def test_only_the_holder_can_answer(app: App, client: Client) -> None:
    await client.enqueue("e-1")
    async with client.subscribe() as holder, client.subscribe() as other:
        await holder.credit(1)
        await holder.ids(1)
        for frame in ({"ack": "e-1"}, {"nack": "e-1"}, {"extend": "e-1", "leaseMs": 1000}):
            await other.send(**frame)
            await refused(other, "e-1")
        await holder.ack("e-1")
        await holder.settled()
        assert await stored(app, "state") == [1]


async def test_a_nack_goes_to_the_tail(client: Client) -> None:
    await client.enqueue_all("e-1", "e-2", "e-3")
    async with client.subscribe() as subscriber:
        await subscriber.credit(1)
        assert await subscriber.ids(1) == ["e-1"]
        await subscriber.send(nack="e-1")
        await subscriber.credit(3)
        deliveries = [await subscriber.delivery() for _ in range(3)]
        assert [(each["deliver"]["id"], each["attempt"]) for each in deliveries] == [("e-2", 1), ("e-3", 1), ("e-1", 2)]


async def test_a_nack_with_a_delay_comes_back_when_that_is_over(app: App, client: Client, clock: ManualClock) -> None:
    await client.enqueue_all("e-1", "e-2")
    async with client.subscribe() as subscriber:
        await subscriber.credit(3)
        assert await subscriber.ids(2) == ["e-1", "e-2"]
        await subscriber.send(nack="e-1", delayMs=5000)
        await subscriber.settled()
        assert app.registry.find(STREAM).in_flight == 1
        await subscriber.ack("e-1")
        await refused(subscriber, "e-1")
        let_pass(app, clock, 4999)
        await subscriber.settled()
        let_pass(app, clock, 1)
        delivery = await subscriber.delivery()
        assert (delivery["deliver"]["id"], delivery["attempt"]) == ("e-1", 2)


async def test_a_lease_that_runs_out_goes_to_another_and_the_late_ack_is_refused_and_harmless(
    app: App, client: Client, clock: ManualClock
) -> None:
    await client.enqueue("e-1")
    async with client.subscribe() as slow, client.subscribe() as other:
        await slow.credit(1)
        await slow.ids(1)
        await other.credit(1)
        await other.settled()
        let_pass(app, clock, LEASE_MS_DEFAULT - 1)
        await other.settled()
        let_pass(app, clock, 1)
        delivery = await other.delivery()
        assert (delivery["deliver"]["id"], delivery["attempt"]) == ("e-1", 2)
        for frame in ({"ack": "e-1"}, {"nack": "e-1"}, {"extend": "e-1", "leaseMs": 1000}):
            await slow.send(**frame)
            await refused(slow, "e-1")
        assert await stored(app, "state") == [0]
        await other.ack("e-1")
        await other.settled()
        assert await stored(app, "state, process_attempts") == [(1, 2)]


async def test_leases_that_run_out_go_to_the_tail_in_their_order(app: App, client: Client, clock: ManualClock) -> None:
    await client.enqueue_all("e-1", "e-2", "e-3")
    async with client.subscribe() as subscriber:
        await subscriber.credit(2)
        assert await subscriber.ids(2) == ["e-1", "e-2"]
        let_pass(app, clock, LEASE_MS_DEFAULT)
        await subscriber.credit(3)
        assert await subscriber.ids(3) == ["e-3", "e-1", "e-2"]


async def test_an_extended_lease_lasts_from_then_on(app: App, client: Client, clock: ManualClock) -> None:
    await client.enqueue("e-1")
    async with client.subscribe() as subscriber:
        await subscriber.credit(2)
        await subscriber.ids(1)
        let_pass(app, clock, LEASE_MS_DEFAULT - 1)
        await subscriber.send(extend="e-1", leaseMs=60_000)
        await subscriber.settled()
        let_pass(app, clock, 59_999)
        await subscriber.settled()
        assert app.registry.find(STREAM).in_flight == 1
        let_pass(app, clock, 1)
        assert (await subscriber.delivery())["attempt"] == 2


async def test_a_lease_can_be_made_shorter(app: App, client: Client, clock: ManualClock) -> None:
    await client.enqueue("e-1")
    async with client.subscribe() as subscriber:
        await subscriber.credit(2)
        await subscriber.ids(1)
        await subscriber.send(extend="e-1", leaseMs=100)
        await subscriber.settled()
        let_pass(app, clock, 100)
        assert (await subscriber.delivery())["attempt"] == 2


async def test_the_timer_of_the_leases_needs_nobody_to_call_it(start_app: StartApp, connect: Connect, app: App) -> None:
    await app.drain()
    real = await start_app({"streams": {"defaultLeaseMs": 100}})
    client = await connect(real.server.address)
    await client.enqueue("e-1")
    async with client.subscribe() as subscriber:
        await subscriber.credit(2)
        assert [(await subscriber.delivery())["attempt"] for _ in range(2)] == [1, 2]


@pytest.mark.parametrize("how", ["nack", "delayed nack", "lease", "close"])
async def test_after_its_last_delivery_an_event_is_a_dead_letter(
    app: App, client: Client, clock: ManualClock, how: str
) -> None:
    await client.enqueue("e-1")
    for attempt in range(1, MAX_DELIVERIES + 1):
        async with client.subscribe() as subscriber:
            await subscriber.credit(1)
            assert (await subscriber.delivery())["attempt"] == attempt
            if how == "nack":
                await subscriber.send(nack="e-1")
            elif how == "delayed nack":
                await subscriber.send(nack="e-1", delayMs=1)
            await subscriber.settled()
            if how == "lease":
                let_pass(app, clock, LEASE_MS_DEFAULT)
            elif how == "delayed nack":
                let_pass(app, clock, 1)
    stream = app.registry.find(STREAM)
    await eventually(lambda: stream.pending == 0)
    reason = {"lease": "its lease ran out", "close": "its consumer went away"}.get(how, "refused by its consumer")
    columns = "state, process_state, process_attempts, process_error, process_first_attempt_at IS NOT NULL"
    assert await stored(app, columns) == [
        (2, "dead_letter", MAX_DELIVERIES, f"{reason}; {MAX_DELIVERIES} deliveries, none acknowledged", 1)
    ]
    async with client.subscribe() as subscriber:
        await subscriber.credit(1)
        await subscriber.settled()
        assert (stream.in_flight, len(stream.ring), stream.ring.held) == (0, 0, 0)
    assert (await client.enqueue("e-1"))["duplicate"] is True
    assert await stored(app, "state") == [2]


async def test_what_a_closed_socket_held_goes_back_to_the_head_in_order(client: Client) -> None:
    await client.enqueue_all("e-1", "e-2", "e-3", "e-4", "e-5")
    async with client.subscribe() as subscriber:
        await subscriber.credit(4)
        assert await subscriber.ids(4) == ["e-1", "e-2", "e-3", "e-4"]
        await subscriber.ack("e-2")
        await subscriber.settled()
    async with client.subscribe() as subscriber:
        await subscriber.credit(4)
        deliveries = [await subscriber.delivery() for _ in range(4)]
        assert [(each["deliver"]["id"], each["attempt"]) for each in deliveries] == [
            ("e-1", 2),
            ("e-3", 2),
            ("e-4", 2),
            ("e-5", 1),
        ]


async def test_what_a_lost_connection_held_goes_to_who_has_credit(
    app: App, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await client.enqueue("e-1", payload="x" * 900_000)
    await client.enqueue("e-2")
    stream = app.registry.open(STREAM)
    async with client.subscribe() as other:
        async with deaf_subscriber(app, credit=2):
            await eventually(lambda: stream.in_flight == 2)
            await other.credit(2)
            await other.settled()
        assert await other.ids(2) == ["e-1", "e-2"]
    assert caplog.text == ""


async def test_credit_goes_with_its_subscriber(app: App, client: Client) -> None:
    async with client.subscribe() as subscriber:
        await subscriber.credit(10)
        await subscriber.settled()
    stream = app.registry.find(STREAM)
    await eventually(lambda: len(stream.credits) == 0)
    await client.enqueue("e-1")
    assert (stream.in_flight, len(stream.ring)) == (0, 1)
