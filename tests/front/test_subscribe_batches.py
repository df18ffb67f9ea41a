"""`WS /v1/subscribe`: several events in one frame, in both directions; events named by sequence and attempt."""

import json

import pytest

from broker.app import App
from broker.limits import DELIVER_BATCH_MAX, KEYS_PER_FRAME_MAX
from tests.support.client import Client, Subscriber, assert_error
from tests.support.events import AWKWARD_PAYLOADS, STREAM, raw_body, raw_envelope
from tests.support.writer import stored


async def holding(client: Client, subscriber: Subscriber, count: int) -> list[str]:
    """Enqueue events, and let the subscriber have them."""
    ids = [f"e-{number}" for number in range(1, count + 1)]
    await client.enqueue_all(*ids)
    await subscriber.credit(count)
    assert await subscriber.ids(count) == ids
    return ids


async def test_an_array_acks_every_event_that_it_names(app: App, client: Client) -> None:
    async with client.subscribe() as subscriber:
        await subscriber.send(ack=await holding(client, subscriber, 5))
        await subscriber.settled()
        assert await stored(app, "state") == [1] * 5


async def test_what_cannot_be_acked_gets_an_error_of_its_own_and_the_others_are_acked(app: App, client: Client) -> None:
    async with client.subscribe() as subscriber:
        await holding(client, subscriber, 3)
        await subscriber.send(ack=["e-1", "e-9", 77, "e-1", "e-3"])
        errors = [await subscriber.error() for _ in range(3)]
        assert {error["code"] for error in errors} == {"lease_not_held"}
        assert [error.get("id", error.get("seq")) for error in errors] == ["e-9", 77, "e-1"]
        assert await stored(app, "state") == [1, 0, 1]


async def test_arrays_nack_and_extend(app: App, client: Client) -> None:
    async with client.subscribe() as subscriber:
        ids = await holding(client, subscriber, 3)
        await subscriber.send(extend=ids, leaseMs=60_000)
        await subscriber.send(nack=ids[:2])
        await subscriber.credit(2)
        assert [(await subscriber.delivery())["attempt"] for _ in range(2)] == [2, 2]
        await subscriber.send(nack=ids, delayMs=60_000)
        await subscriber.settled()
        assert app.registry.find(STREAM).in_flight == 0


async def test_an_event_can_be_named_by_its_sequence(app: App, client: Client) -> None:
    async with client.subscribe() as subscriber:
        await holding(client, subscriber, 3)
        await subscriber.send(ack=2)
        await subscriber.send(ack=["e-1", 3])
        await subscriber.settled()
        assert await stored(app, "state") == [1, 1, 1]


async def test_an_answer_to_another_attempt_is_refused(app: App, client: Client) -> None:
    async with client.subscribe() as subscriber:
        await holding(client, subscriber, 1)
        await subscriber.send(nack="e-1", attempt=1)
        await subscriber.credit(1)
        assert (await subscriber.delivery())["attempt"] == 2
        for key, name in (("e-1", "id"), (1, "seq")):
            for command in ({"ack": key}, {"nack": key}, {"extend": key, "leaseMs": 1000}):
                await subscriber.send(**command, attempt=1)
                error = await subscriber.error()
                assert (error["code"], error[name]) == ("lease_not_held", key)
        await subscriber.send(ack=1, attempt=2)
        await subscriber.settled()
        assert await stored(app, "state, process_attempts") == [(1, 2)]


async def test_an_array_has_a_bound(client: Client) -> None:
    async with client.subscribe() as subscriber:
        await subscriber.send(ack=[7] * (KEYS_PER_FRAME_MAX + 1))
        assert f"length <= {KEYS_PER_FRAME_MAX}" in (await subscriber.error())["message"]
        await subscriber.send(ack=[7] * KEYS_PER_FRAME_MAX)
        for _ in range(KEYS_PER_FRAME_MAX):
            assert (await subscriber.error())["seq"] == 7
        await subscriber.settled()


async def test_with_a_batch_one_frame_carries_several_envelopes_byte_for_byte(client: Client) -> None:
    sent = [raw_envelope(f"e-{number}", payload) for number, payload in enumerate(AWKWARD_PAYLOADS)]
    for each in sent:
        await client.post(raw_body(each))
    for batch in (1, 5, DELIVER_BATCH_MAX):
        async with client.session.ws_connect("v1/subscribe", params={"stream": STREAM, "batch": batch}) as socket:
            subscriber = Subscriber(socket)
            await subscriber.credit(len(sent))
            expected = [
                b'{"envelope":%b,"attempt":%d,"seq":%d}' % (each, 1 if batch == 1 else 2 if batch == 5 else 3, number)
                for number, each in enumerate(sent, start=1)
            ]
            for at in range(0, len(expected), batch):
                message = await subscriber.message()
                assert message.data.encode() == b'{"deliver":[%b]}' % b",".join(expected[at : at + batch])
            await subscriber.settled()


@pytest.mark.parametrize("batch", ["0", str(DELIVER_BATCH_MAX + 1), "-1", "", "x", "1.5", "²", "9" * 5000])
async def test_a_batch_out_of_its_bounds_is_refused_before_the_socket_opens(client: Client, batch: str) -> None:
    async with client.session.get("v1/subscribe", params={"stream": STREAM, "batch": batch}) as response:
        refusal = json.loads(await response.read())["error"]
    assert (response.status, refusal["code"]) == (400, "invalid_request")
    assert refusal["message"].startswith(f"batch must be a whole number from 1 to {DELIVER_BATCH_MAX}, not ")


async def test_a_batch_in_its_bounds_opens_a_socket(client: Client) -> None:
    for batch in (1, DELIVER_BATCH_MAX):
        answer = await client.get(f"v1/subscribe?stream={STREAM}&batch={batch}")
        assert "WebSocket" in assert_error(answer, 400, "invalid_request")
