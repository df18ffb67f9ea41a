"""Arrays of acks, nacks and extends; answers by sequence and attempt; several envelopes in one frame."""

import aiohttp
import pytest

from broker.app import App
from broker.limits import DELIVER_BATCH_BYTES, DELIVER_BATCH_MAX
from tests.support.client import Client, Subscriber
from tests.support.events import STREAM, raw_body
from tests.support.refusals import sized_envelope


async def holding(client: Client, subscriber: Subscriber, count: int) -> list[int]:
    """Let a subscriber hold e-1, e-2, …; their sequences."""
    await client.enqueue_all(*(f"e-{number}" for number in range(1, count + 1)))
    await subscriber.credit(count)
    return [(await subscriber.delivery())["seq"] for _ in range(count)]


async def test_an_array_is_acked_by_ids_and_sequences(app: App, client: Client) -> None:
    async with client.subscribe() as subscriber:
        seqs = await holding(client, subscriber, 4)
        await subscriber.send(ack=["e-1", seqs[2], "e-4", seqs[1]])
        await subscriber.settled()
        stream = app.registry.find(STREAM)
        assert (stream.pending, stream.in_flight, stream.total_acked) == (0, 0, 4)


async def test_each_element_that_cannot_be_done_has_its_own_error_and_the_others_are_done(
    app: App, client: Client
) -> None:
    async with client.subscribe() as subscriber:
        seqs = await holding(client, subscriber, 2)
        await subscriber.send(ack=["e-1", "strange", "e-1", 99, seqs[1]])
        errors = [await subscriber.error() for _ in range(3)]
        assert {error["code"] for error in errors} == {"lease_not_held"}
        assert [error.get("id", error.get("seq")) for error in errors] == ["strange", "e-1", 99]
        await subscriber.settled()
        assert app.registry.find(STREAM).total_acked == 2


async def test_an_array_is_nacked_and_comes_back_in_its_order(client: Client) -> None:
    async with client.subscribe() as subscriber:
        seqs = await holding(client, subscriber, 3)
        await subscriber.send(nack=["e-2", seqs[0]])
        await subscriber.credit(2)
        assert await subscriber.ids(2) == ["e-2", "e-1"]


async def test_an_array_is_extended(app: App, client: Client) -> None:
    async with client.subscribe() as subscriber:
        await holding(client, subscriber, 2)
        await subscriber.send(extend=["e-1", "e-2"], leaseMs=100)
        await subscriber.credit(2)
        assert await subscriber.ids(2) == ["e-1", "e-2"]
        assert app.registry.find(STREAM).total_redelivered == 2


async def test_an_empty_array_does_nothing(client: Client) -> None:
    async with client.subscribe() as subscriber:
        await subscriber.send(ack=[])
        await subscriber.settled()


async def test_an_answer_to_another_attempt_is_refused(app: App, client: Client) -> None:
    async with client.subscribe() as subscriber:
        await holding(client, subscriber, 1)
        await subscriber.send(nack="e-1", attempt=1)
        await subscriber.credit(1)
        assert (await subscriber.delivery())["attempt"] == 2
        for late in ({"ack": "e-1"}, {"nack": "e-1"}, {"extend": "e-1", "leaseMs": 1000}):
            await subscriber.send(**late, attempt=1)
            assert (await subscriber.error())["code"] == "lease_not_held"
        await subscriber.send(ack="e-1", attempt=2)
        await subscriber.settled()
        assert app.registry.find(STREAM).total_acked == 1


async def subscribe_in_batches(client: Client, batch: int | str) -> Subscriber:
    params = {"stream": STREAM, "batch": str(batch)}
    return Subscriber(await client.session.ws_connect("v1/subscribe", params=params, max_msg_size=0))


async def test_what_is_ready_together_shares_frames_of_the_asked_size(client: Client) -> None:
    await client.enqueue_all(*(f"e-{number}" for number in range(1, 8)))
    subscriber = await subscribe_in_batches(client, 3)
    await subscriber.credit(7)
    frames = [(await subscriber.frame())["deliver"] for _ in range(3)]
    assert [len(frame) for frame in frames] == [3, 3, 1]
    flat = [each for frame in frames for each in frame]
    assert [(each["envelope"]["id"], each["attempt"], each["seq"]) for each in flat] == [
        (f"e-{number}", 1, number) for number in range(1, 8)
    ]
    await subscriber.send(ack=[each["seq"] for each in flat])
    await subscriber.settled()
    await subscriber.socket.close()


async def test_a_lone_event_does_not_wait_for_company(client: Client) -> None:
    subscriber = await subscribe_in_batches(client, DELIVER_BATCH_MAX)
    await subscriber.credit(10)
    await client.enqueue("e-1")
    assert [each["envelope"]["id"] for each in (await subscriber.frame())["deliver"]] == ["e-1"]
    await subscriber.socket.close()


async def test_large_envelopes_share_a_frame_only_up_to_a_size(client: Client) -> None:
    size = DELIVER_BATCH_BYTES // 2
    for number in range(3):
        sent = sized_envelope(size).replace(b"e-1", b"e-%d" % number)
        assert (await client.post(raw_body(sent))).status == 200
    subscriber = await subscribe_in_batches(client, 10)
    await subscriber.credit(3)
    assert [len((await subscriber.frame())["deliver"]) for _ in range(2)] == [2, 1]
    await subscriber.socket.close()


@pytest.mark.parametrize("batch", ["0", str(DELIVER_BATCH_MAX + 1), "-1", "x", "", "1.5", "٣", "9" * 30])
async def test_a_batch_out_of_bounds_is_refused_before_the_socket_opens(client: Client, batch: str) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await subscribe_in_batches(client, batch)
    assert refused.value.status == 400


async def test_a_batch_at_its_bound_is_taken(client: Client) -> None:
    for batch in (1, DELIVER_BATCH_MAX):
        subscriber = await subscribe_in_batches(client, batch)
        await subscriber.socket.close()
