"""What notify, route and enrich do, as the ledger has it and a consumer sees it."""

import hashlib
import io
import json
from typing import Any

import pytest

from broker.config import parse_trigger
from broker.contracts.inbound import InboundEvent
from broker.limits import ENVELOPE_BYTES_MAX
from broker.triggers.actions import derived_id
from tests.support.events import AWKWARD_PAYLOADS, STREAM, raw_body, raw_envelope
from tests.support.writer import stored
from tests.triggers.conftest import StartBroker, notify

SECTION_8_2 = {
    "id": "trig.jen.log.notify.architect",
    "when": {"type": "sprint.log", "from": "agents/Jen/outbox"},
    "do": [
        {
            "action": "notify",
            "to": "agents/architect/inbox",
            "payload": {"title": "Jen posted sprint log", "ref": "${env.id}"},
        }
    ],
    "limits": {"cooldownMs": 5000},
}


async def test_the_rule_of_the_specification_notifies_the_architect(broker: StartBroker) -> None:
    courier = await broker(SECTION_8_2)
    sent = {"type": "sprint.log", "from": "agents/Jen/outbox", "corr": "c-42"}
    assert await courier.client.enqueue("e-91a", **sent) == {"id": "e-91a", "seq": 1, "duplicate": False}
    event_id = derived_id(SECTION_8_2["id"], 0, f"stream:{STREAM}", "e-91a")
    assert await courier.emitted() == [
        (
            "agents/architect/inbox",
            {
                "id": event_id,
                "ts": "2026-02-19T18:30:00.000Z",
                "from": "triggers/trig.jen.log.notify.architect",
                "to": "agents/architect/inbox",
                "type": "trigger.notify",
                "corr": "c-42",
                "payload": {"title": "Jen posted sprint log", "ref": "e-91a"},
                "headers": {
                    "x-cause": {
                        "hops": 1,
                        "chain": [{"source": f"stream:{STREAM}", "id": "e-91a", "rule": SECTION_8_2["id"]}],
                    }
                },
            },
        )
    ]
    assert await courier.links() == [(2, 1)]
    assert courier.counts(SECTION_8_2["id"]) == {"matched": 1, "ran": 1}


async def test_a_consumer_gets_what_was_emitted_and_acknowledges_it_by_its_id(broker: StartBroker) -> None:
    courier = await broker({"id": "r", "when": {"to": STREAM}, "do": [
        {"action": "notify", "to": "out"}, {"action": "route", "to": "out"},
    ]})  # fmt: skip
    async with courier.client.subscribe("out") as subscriber:
        await subscriber.credit(2)
        await courier.client.enqueue("e-1")
        await subscriber.ack(*await subscriber.ids(2))
        await subscriber.settled()
    assert await stored(courier.app, "process_state", "stream = 'out'") == ["processed", "processed"]


async def test_what_a_notify_leaves_out_has_a_default(broker: StartBroker) -> None:
    courier = await broker(notify())
    await courier.client.enqueue("e-1", to="in", type="t")
    ((_, first), *_) = await courier.emitted()
    assert first["payload"] == {"ref": "e-1", "to": "in", "type": "t"}
    assert (first["type"], first["corr"]) == ("trigger.notify", "e-1")
    assert "tags" not in first


async def test_type_tags_headers_and_payload_of_a_notify_are_templates(broker: StartBroker) -> None:
    action = {"type": "${env.type}.seen", "tags": ["by ${env.from}", "${env.payload.tag}"]}
    action |= {"headers": {"n": "${env.payload.n}", "t": "n=${env.payload.n}", "k": True}, "payload": "${env.payload}"}
    courier = await broker(notify(when={"to": STREAM}, **action))
    await courier.client.enqueue("e-1", payload={"n": 7, "tag": "x"}, **{"from": "jen"})
    ((_, found),) = await courier.emitted()
    assert (found["type"], found["tags"]) == ("sprint.assign.seen", ["by jen", "x"])
    del found["headers"]["x-cause"]
    assert found["headers"] == {"n": 7, "t": "n=7", "k": True}
    assert found["payload"] == {"n": 7, "tag": "x"}


async def test_a_missing_field_becomes_null_and_is_counted(broker: StartBroker) -> None:
    courier = await broker(notify(when={"to": STREAM}, payload={"a": "${env.payload.nope}", "b": "<${env.corr}>"}))
    await courier.client.enqueue("e-1")
    ((_, found),) = await courier.emitted()
    assert found["payload"] == {"a": None, "b": "<null>"}
    assert courier.counts("r") == {"matched": 1, "ran": 1, "missing_fields": 2}


@pytest.mark.parametrize("payload", AWKWARD_PAYLOADS)
async def test_a_route_keeps_every_byte_of_the_payload(broker: StartBroker, payload: bytes) -> None:
    courier = await broker({"id": "r", "when": {"to": STREAM}, "do": [{"action": "route", "to": "copies"}]})
    answer = await courier.client.post(raw_body(raw_envelope(payload=payload)))
    assert answer.status == 200
    original, copy = await stored(courier.app, "envelope")
    assert original == raw_envelope(payload=payload)
    assert payload in copy
    found = json.loads(copy)
    assert (found["to"], found["type"], found["corr"]) == ("copies", "t", "e-1")
    assert found["id"] == derived_id("r", 0, f"stream:{STREAM}", "e-1")
    assert found["headers"]["x-cause"]["hops"] == 1


async def test_a_route_keeps_sender_headers_correlation_and_partition(broker: StartBroker) -> None:
    courier = await broker({"id": "r", "when": {"to": STREAM}, "do": [{"action": "route", "to": "copies"}]})
    fields: dict[str, Any] = {"from": "jen", "headers": {"p": 1}, "corr": "c", "partitionKey": "k", "unknown": [1]}
    await courier.client.enqueue("e-1", **fields)
    ((_, copy),) = await courier.emitted()
    assert copy["headers"].pop("x-cause")
    assert {key: copy[key] for key in fields} == fields
    assert await stored(courier.app, "partition_key, correlation_id", "stream = 'copies'") == [("k", "c")]


async def test_a_producer_cannot_make_up_what_caused_a_copy(broker: StartBroker) -> None:
    courier = await broker({"id": "r", "when": {"to": STREAM}, "do": [{"action": "route", "to": "copies"}]})
    await courier.client.enqueue("e-1", headers={"x-cause": {"hops": 99, "chain": []}})
    ((_, copy),) = await courier.emitted()
    assert copy["headers"]["x-cause"]["hops"] == 1


def enrich(**more: Any) -> dict[str, Any]:
    return {"id": "e", "when": {"to": STREAM}, "do": [{"action": "enrich", **more}]}


async def test_enrich_adds_before_the_event_is_stored(broker: StartBroker) -> None:
    courier = await broker(enrich(tags=["seen", "sprint"], headers={"team": "${env.payload.team}", "p": "high"}))
    await courier.client.enqueue("e-1", tags=["sprint"], headers={"p": "low", "q": 1}, payload={"team": 7})
    ((_, found),) = await courier.events()
    assert found["tags"] == ["sprint", "seen"]
    assert found["headers"] == {"p": "high", "q": 1, "team": 7}
    assert courier.counts("e") == {"matched": 1, "ran": 1}
    ((envelope, sha, received),) = await stored(courier.app, "envelope, payload_sha256, received_sha256")
    assert sha == hashlib.sha256(envelope).digest() != received


@pytest.mark.parametrize("payload", AWKWARD_PAYLOADS)
async def test_enrich_changes_no_other_byte(broker: StartBroker, payload: bytes) -> None:
    courier = await broker(enrich(tags=["x"], headers={"a": 1}))
    sent = raw_envelope(payload=payload)
    assert (await courier.client.post(raw_body(sent))).status == 200
    (envelope,) = await stored(courier.app, "envelope")
    assert envelope == sent[:-1] + b',"headers":{"a":1},"tags":["x"]}'


async def test_a_duplicate_of_an_enriched_event_is_no_conflict_whatever_the_rules_are_by_then(
    broker: StartBroker,
) -> None:
    courier = await broker(enrich(headers={"a": 1}))
    await courier.client.enqueue("e-1")
    again = await courier.client.enqueue("e-1")
    assert again == {"id": "e-1", "seq": 1, "duplicate": True}
    courier.app.triggers.rules._configured.clear()
    courier.app.triggers.rules._changed()
    assert await courier.client.enqueue("e-1") == again
    assert (await courier.client.enqueue("e-1", payload={"other": 1}))["payload_conflict"] is True
    assert await stored(courier.app, "duplicate_count, payload_conflict_count") == [(3, 1)]


async def test_a_duplicate_that_is_enriched_now_is_no_conflict_with_one_that_was_not(broker: StartBroker) -> None:
    courier = await broker()
    await courier.client.enqueue("e-1")
    courier.app.triggers.rules.put(parse_trigger(enrich(headers={"a": 1})))
    assert await courier.client.enqueue("e-1") == {"id": "e-1", "seq": 1, "duplicate": True}
    assert courier.counts("e") == {}


async def test_an_enrich_past_the_bound_fails_the_rule_and_not_the_event(broker: StartBroker) -> None:
    courier = await broker(enrich(headers={"a": "xy"}), notify(when={"to": STREAM}))
    room = len(b',"headers":{"a":"xy"}')
    head = len(raw_envelope(payload=b'""'))
    for event_id, over, failed in (("e-1", 0, 0), ("e-2", 1, 1)):
        payload = b'"' + b"x" * (ENVELOPE_BYTES_MAX - head - room + over) + b'"'
        answer = await courier.client.post(io.BytesIO(raw_body(raw_envelope(event_id, payload))))
        assert answer.status == 200
        (envelope,) = await stored(courier.app, "envelope", f"source_event_id = '{event_id}'")
        assert len(envelope) == (ENVELOPE_BYTES_MAX if not failed else ENVELOPE_BYTES_MAX - room + over)
        assert courier.counts("e").get("failed", 0) == failed
    assert "at most 1048576 are accepted" in courier.last_error("e")
    assert courier.counts("r") == {"matched": 2, "ran": 2}


async def test_rules_see_what_the_rules_before_them_added_and_pass_it_on(broker: StartBroker) -> None:
    route = {"action": "route", "to": "copies"}
    courier = await broker(
        {"id": "early", "when": {"tags": ["seen"]}, "do": [{"action": "enrich", "tags": ["never"]}]},
        {"id": "adds", "when": {"to": STREAM}, "do": [route, {"action": "enrich", "tags": ["seen"]}]},
        {"id": "later", "when": {"tags": ["seen"], "to": STREAM}, "do": [{"action": "enrich", "headers": {"a": 1}}]},
    )
    await courier.client.enqueue("e-1")
    (_, original), (_, copy) = await courier.events()
    assert (original["tags"], original["headers"]) == (["seen"], {"a": 1})
    assert (copy["tags"], copy["headers"]["a"]) == (["seen", "never"], 1)


async def test_an_event_of_another_contract_is_routed_as_a_payload_and_never_enriched(broker: StartBroker) -> None:
    do = [{"action": "enrich", "tags": ["x"]}]
    courier = await broker(
        {"id": "route", "when": {"to": "devices/**"}, "do": [{"action": "route", "to": "copies"}]},
        {"id": "enrich", "when": {"to": "devices/**"}, "do": do},
    )
    body = b'{"event_id": "7", "big": 123456789012345678901234567890}'
    event = InboundEvent("skyra", "devices/pi/events", "gpio", "pi", "7", 5, body, hashlib.sha256(body).digest())
    outcomes: list[Any] = []
    courier.app.gate.submit((event,), outcomes.append)
    assert await stored(courier.app, "envelope", "contract = 'skyra'") == [body]
    assert [len(receipts.seqs) for receipts in outcomes] == [1]
    (copy,) = await stored(courier.app, "envelope", "stream = 'copies'")
    assert body in copy
    found = json.loads(copy)
    assert (found["from"], found["type"], found["corr"]) == ("triggers/route", "gpio", "7")
    assert "stored as it came" in courier.last_error("enrich")


async def test_rules_run_for_streams_in_memory_too(broker: StartBroker) -> None:
    rule = notify("r", "memory/out", {"to": "memory/in"})
    rule["do"] += [{"action": "enrich", "tags": ["seen"]}, {"action": "route", "to": "disk"}]
    courier = await broker(rule, streams={"perStreamCaps": {"memory/*": {"durability": "memory"}}})
    for _ in range(2):
        await courier.client.enqueue("e-1", "memory/in")
    for stream, tags in (("memory/in", ["seen"]), ("memory/out", None), ("disk", ["seen"])):
        async with courier.client.subscribe(stream) as subscriber:
            await subscriber.credit(5)
            assert (await subscriber.delivery())["deliver"].get("tags") == tags
            await subscriber.settled()
    assert courier.counts("r") == {"matched": 1, "ran": 1}
    assert await courier.links() == []
