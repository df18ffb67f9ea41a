"""Frames that came together at `WS /v1/publish`: nothing may come of it that would not come of each by itself."""

import asyncio
from typing import Any

import pytest

from broker.contracts.courier import parse_enqueue
from broker.contracts.inbound import InboundEvent
from broker.errors import CourierError
from broker.front.gathering import Gathering
from broker.limits import GATHERED_BYTES_MAX, GATHERED_EVENTS_MAX
from tests.conftest import Connect, StartApp
from tests.front.test_publish import ids, publishing
from tests.support.client import PATIENCE_SECONDS
from tests.support.events import STREAM, body
from tests.support.writer import eventually, held_writer, stored

MEMORY = {"streams": {"perStreamCaps": {"memory/**": {"durability": "memory"}}}}
RULE = {"id": "r", "when": {"to": STREAM}, "do": [{"action": "notify", "to": "out", "payload": {"ref": "${env.id}"}}]}


async def test_what_waits_for_room_is_committed_although_its_producer_has_gone_away(
    start_app: StartApp, connect: Connect
) -> None:
    app = await start_app({"journal": {"queueMax": 10}})
    client = await connect(app.server.address)
    async with held_writer(app), publishing(client) as producer:
        await producer.send(*(body(event_id) for event_id in ids(15)))
        await eventually(lambda: app.journal.health.saturations > 0)
    await eventually(lambda: app._publish.open_sockets == 0)
    assert await stored(app) == ids(15)


async def test_events_in_memory_neither_wait_for_the_disk_nor_are_overtaken(
    start_app: StartApp, connect: Connect
) -> None:
    app = await start_app(MEMORY)
    client = await connect(app.server.address)
    async with client.subscribe("memory/s") as subscriber, publishing(client) as producer:
        await subscriber.credit(10)
        async with held_writer(app):
            await producer.send(body("a"), body("m-1", "memory/s"))
            await eventually(lambda: app.journal.queued == 1)
            await producer.send(body("b"), body("m-2", "memory/s"), body("m-3", "memory/s"))
            assert [answer["ack"] for answer in await producer.receive(3)] == ["m-1", "m-2", "m-3"]
            assert [(await subscriber.delivery())["deliver"]["id"] for _ in range(3)] == ["m-1", "m-2", "m-3"]
        assert [answer["ack"] for answer in await producer.receive(2)] == ["a", "b"]


async def test_what_each_frame_may_set_off_is_not_shared_with_those_beside_it(
    start_app: StartApp, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.triggers.expansion.TRIGGER_EMITTED_PER_SUBMISSION_MAX", 2)
    app = await start_app({"triggers": [RULE]})
    async with publishing(await connect(app.server.address)) as producer:
        await producer.send(*(body(event_id) for event_id in ids(20)), body("elsewhere", "other"))
        answers = await producer.receive(21)
    assert [answer["ack"] for answer in answers] == [*ids(20), "elsewhere"]
    assert len(await stored(app, where="stream = 'out'")) == 20


async def no_wait(_events: int) -> None:
    return


async def test_what_gathers_is_bounded_in_events_and_bytes_and_goes_in_whole_frames() -> None:
    submitted: list[int] = []

    def submit(events: list[InboundEvent], _done: Any) -> None:
        submitted.append(len(events))

    event = parse_enqueue(body(), 1)
    for has_room in (True, False):
        submitted.clear()
        gathering = Gathering(submit, lambda _events, answer=has_room: answer, no_wait, lambda *_: None, 10_000)
        for frames, is_full in [
            ([(GATHERED_EVENTS_MAX - 1, 1)], False),
            ([(GATHERED_EVENTS_MAX - 1, 1), (1, 1)], True),
            ([(GATHERED_EVENTS_MAX - 1, 1), (2, 1)], True),
            ([(GATHERED_EVENTS_MAX * 5, 1)], True),
            ([(1, GATHERED_BYTES_MAX - 1)], False),
            ([(1, GATHERED_BYTES_MAX - 1), (1, 1)], True),
        ]:
            for count, size in frames:
                gathering.add([event] * count, size, False)
            assert gathering.is_full is is_full
            gathering.hand_over()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await gathering.end()
            assert not gathering.is_full
        most = GATHERED_EVENTS_MAX
        assert submitted == [most - 1, most, most - 1, 2, most * 5, 1, 2]


async def test_an_error_of_the_brokers_own_is_answered_and_the_next_frames_are_taken() -> None:
    answered: list[tuple[str, Any]] = []

    def submit(events: list[InboundEvent], done: Any) -> None:
        if events[0].source_event_id == "bad":
            raise RuntimeError("no such thing")
        done("taken")

    def answer(events: list[InboundEvent], outcome: Any) -> None:
        answered.extend((event.source_event_id, outcome) for event in events)

    for has_room in (True, False):
        answered.clear()
        gathering = Gathering(submit, lambda _events, answer=has_room: answer, no_wait, answer, chunk_max=1)
        for name in ("bad", "good"):
            gathering.add([parse_enqueue(body(name), 1)], 1, False)
        gathering.hand_over()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await gathering.end()
        (bad, error), good = answered
        assert (bad, type(error), good) == ("bad", CourierError, ("good", "taken"))
        assert "its log has the details" in error.message


async def test_what_is_told_to_hand_over_after_its_end_hands_nothing_over() -> None:
    submitted: list[int] = []

    def submit(events: list[InboundEvent], _done: Any) -> None:
        submitted.append(len(events))

    gathering = Gathering(submit, lambda _events: True, no_wait, lambda _events, _outcome: None, 10)
    gathering.add([parse_enqueue(body("e-1"), 1)], 1, False)
    asyncio.get_running_loop().call_soon(gathering.hand_over)
    await gathering.close()
    await asyncio.sleep(0)
    assert submitted == []
