"""Rules and the other contracts: what is sent sets rules off, is answered as ever, and falls with its effects."""

import json

import apsw
import pytest

from broker.contracts.inbound import InboundEvent
from tests.support import pixel, skyra
from tests.support.client import JSON
from tests.support.writer import stored
from tests.triggers.conftest import StartBroker, notify

CHAIN = (notify("first", "middle", {"to": "pixel/*"}), notify("second", "end", {"to": "middle"}))


async def test_what_a_device_sends_sets_rules_off_and_its_answers_are_its_own(broker: StartBroker) -> None:
    courier = await broker(notify("r", "out", {"to": "devices/**", "type": "proposal.task"}))
    async with courier.client.session.ws_connect("v1/ingress") as socket:
        await socket.receive_json()
        frame = json.dumps([skyra.event("evt_1"), {}, skyra.event("evt_2"), skyra.event("evt_1")])
        await socket.send_str(frame)
        answers = [await socket.receive_json() for _ in range(4)]
    assert [answer["status"] for answer in answers] == ["stored", "rejected", "stored", "stored"]
    assert [answer.get("event_id") for answer in answers] == ["evt_1", None, "evt_2", "evt_1"]
    assert await courier.links() == [(3, 1), (4, 2)]
    assert courier.counts("r") == {"matched": 2, "ran": 2}


async def test_a_cloudevent_sets_rules_off_too(broker: StartBroker) -> None:
    courier = await broker(notify("r", "out", {"to": "sensors/door"}))
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "subject": "sensors/door"}
    for _ in range(2):
        headers = {"Content-Type": "application/cloudevents+json"}
        answer = await courier.client.request("POST", "v1/cloudevents", data=json.dumps(event), headers=headers)
        assert answer.status == 200
    assert await courier.links() == [(2, 1)]


async def test_what_a_plugin_sends_has_its_effects_and_what_rules_make_of_it_has_none(broker: StartBroker) -> None:
    courier = await broker(*CHAIN)
    seen: list[str] = []

    @courier.app.effect("*")
    def note(_cursor: apsw.Cursor, event: InboundEvent) -> None:
        seen.append(event.stream)

    @courier.app.effect("*", contract="courier")
    def note_emitted(_cursor: apsw.Cursor, event: InboundEvent) -> None:
        seen.append(event.stream)

    assert await pixel.disposition(courier.client, pixel.numbered(1)) == "processed"
    assert await pixel.disposition(courier.client, pixel.numbered(1)) == "duplicate"
    assert seen == ["pixel/lifecycle"]
    assert await stored(courier.app, "stream") == ["pixel/lifecycle", "middle", "end"]


@pytest.mark.parametrize("to", ["middle", "memory/middle"])
async def test_what_rules_made_of_an_event_whose_effect_fails_goes_with_it(to: str, broker: StartBroker) -> None:
    chain = (notify("first", to, {"to": "pixel/*"}), notify("second", "end", {"to": to}))
    courier = await broker(*chain, streams={"perStreamCaps": {"memory/*": {"durability": "memory"}}})
    failing = True

    @courier.app.effect("*")
    def fail(_cursor: apsw.Cursor, _event: InboundEvent) -> None:
        if failing:
            raise ValueError("no such match")

    assert "effect" in pixel.assert_unavailable(await pixel.post(courier.client, pixel.numbered(1)))
    assert (await stored(courier.app), await courier.links()) == ([], [])
    assert courier.app.journal.effects.failures == 1
    assert (courier.counts("first"), courier.counts("second")) == ({}, {})
    failing = False
    assert await pixel.disposition(courier.client, pixel.numbered(1)) == "processed"
    assert (courier.counts("first"), courier.counts("second")) == ({"matched": 1, "ran": 1}, {"matched": 1, "ran": 1})
    async with courier.client.subscribe("end") as subscriber:
        await subscriber.credit(5)
        await subscriber.delivery()
        await subscriber.settled()
    async with courier.client.subscribe(to) as subscriber:
        await subscriber.credit(5)
        await subscriber.delivery()
        await subscriber.settled()


async def test_a_refusal_is_kept_in_the_commit_of_what_came_beside_it(broker: StartBroker) -> None:
    courier = await broker(notify("r", "memory/out"), streams={"perStreamCaps": {"memory/*": {"durability": "memory"}}})
    body = b"[%b,{}]" % skyra.raw("evt_1")
    answer = await courier.client.request("POST", "v1/events", data=body, headers=JSON)
    assert [each["status"] for each in answer.body] == ["stored", "rejected"]
    kept = await courier.app.journal.execute(lambda c: c.execute("SELECT count(*) FROM rejections").get)
    assert (kept, await stored(courier.app)) == (1, ["evt_1"])
