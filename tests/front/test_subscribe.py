"""`WS /v1/subscribe`: credit, order, turns, and the bytes of a delivery."""

import asyncio
from collections import Counter

import aiohttp
import pytest

from broker.app import App
from broker.limits import CREDIT_MAX
from tests.conftest import Connect, StartApp
from tests.support.client import HANDSHAKE, Client, assert_error
from tests.support.events import AWKWARD_PAYLOADS, STREAM, raw_body, raw_envelope
from tests.support.writer import stored


async def test_nothing_is_delivered_without_credit(app: App, client: Client) -> None:
    await client.enqueue("e-1")
    async with client.subscribe() as subscriber:
        await subscriber.settled()
        await client.enqueue("e-2")
        await subscriber.settled()
        assert app.registry.find(STREAM).in_flight == 0
        await subscriber.credit(1)
        assert await subscriber.ids(1) == ["e-1"]
        await subscriber.settled()
        assert app.registry.find(STREAM).in_flight == 1


async def test_events_come_in_their_order_whether_they_wait_or_arrive(client: Client) -> None:
    await client.enqueue_all("e-1", "e-2", "e-3")
    async with client.subscribe() as subscriber:
        await subscriber.credit(6)
        await client.enqueue_all("e-4", "e-5", "e-6")
        deliveries = [await subscriber.delivery() for _ in range(6)]
    assert [each["deliver"]["id"] for each in deliveries] == [f"e-{number}" for number in range(1, 7)]
    assert [each["seq"] for each in deliveries] == [1, 2, 3, 4, 5, 6]
    assert {each["attempt"] for each in deliveries} == {1}


async def test_credit_adds_up_and_each_delivery_takes_one(client: Client) -> None:
    await client.enqueue_all(*(f"e-{number}" for number in range(10)))
    async with client.subscribe() as subscriber:
        for credit in (1, 2, 3):
            await subscriber.credit(credit)
        assert await subscriber.ids(6) == [f"e-{number}" for number in range(6)]
        await subscriber.settled()


async def test_a_delivery_is_byte_for_byte_what_was_sent(client: Client) -> None:
    sent = [raw_envelope(f"e-{number}", payload) for number, payload in enumerate(AWKWARD_PAYLOADS)]
    for each in sent:
        assert (await client.post(raw_body(each))).status == 200
    async with client.subscribe() as subscriber:
        await subscriber.credit(len(sent))
        for number, each in enumerate(sent, start=1):
            message = await subscriber.message()
            assert message.data.encode() == b'{"deliver":%b,"attempt":1,"seq":%d}' % (each, number)


async def test_a_redelivery_from_the_ledger_is_byte_for_byte_what_was_sent(
    app: App, client: Client, connect: Connect, start_app: StartApp
) -> None:
    sent = [raw_envelope(f"e-{number}", payload) for number, payload in enumerate(AWKWARD_PAYLOADS)]
    for each in sent:
        await client.post(raw_body(each))
    await app.drain()
    successor = await start_app()
    async with (await connect(successor.server.address)).subscribe() as subscriber:
        await subscriber.credit(len(sent))
        for number, each in enumerate(sent, start=1):
            message = await subscriber.message()
            assert message.data.encode() == b'{"deliver":%b,"attempt":1,"seq":%d}' % (each, number)


async def test_streams_do_not_mix(client: Client) -> None:
    async with client.subscribe("one") as one, client.subscribe("two") as two:
        await one.credit(10)
        await two.credit(10)
        for number in range(3):
            await client.enqueue(f"e-{number}", "one")
            await client.enqueue(f"f-{number}", "two")
        assert await one.ids(3) == ["e-0", "e-1", "e-2"]
        assert await two.ids(3) == ["f-0", "f-1", "f-2"]


@pytest.mark.parametrize("subscribers", [2, 5])
async def test_subscribers_that_take_one_at_a_time_get_equal_shares(client: Client, subscribers: int) -> None:
    async with asyncio.TaskGroup() as group:
        shares: Counter[int] = Counter()
        done = asyncio.Event()

        async def take(number: int) -> None:
            async with client.subscribe() as subscriber:
                await subscriber.credit(1)
                ready.release()
                while not done.is_set():
                    receiving = asyncio.ensure_future(subscriber.ids(1))
                    ending = asyncio.ensure_future(done.wait())
                    await asyncio.wait([receiving, ending], return_when=asyncio.FIRST_COMPLETED)
                    ending.cancel()
                    if not receiving.done():
                        receiving.cancel()
                        await asyncio.gather(receiving, return_exceptions=True)
                        return
                    shares[number] += 1
                    await subscriber.ack(*receiving.result())
                    await subscriber.credit(1)
                    taken.release()

        ready, taken = asyncio.Semaphore(0), asyncio.Semaphore(0)
        for number in range(subscribers):
            group.create_task(take(number))
        for _ in range(subscribers):
            await ready.acquire()
        for number in range(subscribers * 20):
            await client.enqueue(f"e-{number}")
            await taken.acquire()
        done.set()
    assert set(shares.values()) == {20}


async def test_with_credit_for_all_subscribers_take_turns(app: App, client: Client) -> None:
    async with client.subscribe() as one, client.subscribe() as two, client.subscribe() as three:
        for subscriber in (one, two, three):
            await subscriber.credit(4)
            await subscriber.settled()
        await client.enqueue_all(*(f"e-{number:02}" for number in range(12)))
        assert await one.ids(4) == ["e-00", "e-03", "e-06", "e-09"]
        assert await two.ids(4) == ["e-01", "e-04", "e-07", "e-10"]
        assert await three.ids(4) == ["e-02", "e-05", "e-08", "e-11"]


async def test_an_event_that_is_acked_is_processed_in_the_ledger_and_gone_from_the_stream(
    app: App, client: Client
) -> None:
    await client.enqueue_all("e-1", "e-2")
    async with client.subscribe() as subscriber:
        await subscriber.credit(2)
        await subscriber.ack(*await subscriber.ids(2))
        await subscriber.settled()
        assert await stored(app, "source_event_id, state, process_attempts") == [("e-1", 1, 1), ("e-2", 1, 1)]
        stream = app.registry.find(STREAM)
        assert (stream.pending, stream.in_flight, len(stream.ring), stream.ring.held) == (0, 0, 0, 0)


async def test_credit_has_a_bound_of_its_own_and_in_sum(app: App, client: Client) -> None:
    async with client.subscribe() as subscriber:
        for credit in (0, -1, CREDIT_MAX + 1, 2**70):
            await subscriber.credit(credit)
            error = await subscriber.error()
            assert error == {
                "code": "invalid_request",
                "message": f"credit must be from 1 to {CREDIT_MAX}, not {credit}",
                "retryable": False,
                "retry_after_seconds": 0,
            }
        await subscriber.credit(CREDIT_MAX)
        await subscriber.settled()
        await subscriber.credit(1)
        error = await subscriber.error()
        assert error["message"] == f"with 1 more, the credit would pass its bound of {CREDIT_MAX}"
        await client.enqueue("e-1")
        assert await subscriber.ids(1) == ["e-1"]
        await subscriber.credit(1)
        await subscriber.settled()


async def test_a_stream_that_may_not_be_made_cannot_be_subscribed_to(start_app: StartApp, connect: Connect) -> None:
    app = await start_app({"streams": {"autoCreate": False}})
    client = await connect(app.server.address)
    answer = await client.get(f"v1/subscribe?stream={STREAM}", HANDSHAKE)
    assert_error(answer, 404, "unknown_stream")


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("", "it is empty"),
        ("?stream=", "it is empty"),
        ("?stream=a//b", "segment 2 is empty"),
        ("?stream=agents/**/inbox", "segment 2 is **, which may only come last"),
        ("?stream=a%00", "it has a control character at position 2"),
        ("?stream=a%ED%A0%80", None),
        (f"?stream={'a' * 256}", "it is 256 bytes long; at most 255 are allowed"),
    ],
)
async def test_a_bad_stream_name_is_refused_before_the_socket_opens(
    client: Client, query: str, problem: str | None
) -> None:
    message = assert_error(await client.get(f"v1/subscribe{query}"), 400, "invalid_request")
    assert message.endswith("; connect to /v1/subscribe?stream=NAME")
    assert problem is None or message.startswith(f"stream: {problem};")


async def test_a_request_that_is_no_websocket_is_refused_in_the_one_shape_and_makes_no_stream(client: Client) -> None:
    answer = await client.get(f"v1/subscribe?stream={STREAM}")
    message = assert_error(answer, 400, "invalid_request")
    assert "WebSocket" in message
    assert (await client.get("v1/streams")).body["streams"] == []


async def test_a_subscriber_that_leaves_is_forgotten(app: App, client: Client) -> None:
    async with client.subscribe() as subscriber:
        await subscriber.settled()
        assert len(app.registry.find(STREAM).credits) == 1
    async with client.subscribe() as subscriber:
        await subscriber.settled()
        assert len(app.registry.find(STREAM).credits) == 1


@pytest.mark.parametrize("query", ["stream=a&bach=5", "stream=a&stream=b", "stream=a&batch=1&batch=2"])
async def test_a_query_that_is_not_known_or_comes_twice_is_refused(client: Client, query: str) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await client.session.ws_connect(f"v1/subscribe?{query}")
    assert refused.value.status == 400
    assert (await client.get("v1/streams")).body["streams"] == []


async def test_an_error_of_the_broker_itself_is_told_on_the_socket_which_is_closed_and_logged(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(app.registry, "grant", fails)
    async with client.subscribe() as subscriber:
        await subscriber.credit(1)
        assert (await subscriber.error())["code"] == "internal"
        assert await subscriber.close_code() == 1011
    (logged,) = caplog.records
    assert "ZeroDivisionError" in caplog.text
    assert logged.getMessage() == "GET /v1/subscribe failed"
