"""Cooldowns, duplicates, chains and failures, on a whole broker."""

import json
import logging
from typing import Any

import pytest

from broker.config import parse_trigger
from broker.journal.submission import Receipts
from broker.limits import (
    TRIGGER_CANDIDATES_REMEMBERED_MAX,
    TRIGGER_EMITTED_PER_CAUSE_MAX,
    TRIGGER_HOPS_MAX,
    TRIGGER_LOG_INTERVAL_MS,
)
from broker.triggers import expansion
from broker.triggers.rule_set import RuleSet
from tests.support.events import STREAM, body
from tests.support.writer import stored
from tests.triggers.conftest import StartBroker, notify

HERE = {"to": STREAM}


async def test_without_rules_the_gate_knows_of_no_triggers(broker: StartBroker) -> None:
    courier = await broker()
    assert courier.app.gate.expand is None
    courier.app.triggers.rules.put(parse_trigger(notify()))
    assert courier.app.gate.expand is not None
    courier.app.triggers.rules.remove("r")
    assert courier.app.gate.expand is None


# Cooldown.


async def test_a_rule_rests_after_it_ran_and_what_it_held_back_is_counted(broker: StartBroker) -> None:
    courier = await broker(notify(when=HERE, cooldownMs=5000))
    for event_id, pause_ms in (("a", 0), ("b", 4999), ("c", 1), ("d", 0)):
        courier.clock.advance(pause_ms)
        await courier.client.enqueue(event_id)
    assert [found["payload"]["ref"] for _, found in await courier.emitted()] == ["a", "c"]
    assert courier.counts("r") == {"matched": 4, "ran": 2, "held_back": 2}


async def test_a_bulk_insert_makes_one_notification(broker: StartBroker) -> None:
    courier = await broker(notify(when=HERE, cooldownMs=5000))
    assert len(await courier.send_lines(*(f"e-{number}" for number in range(100)))) == 100
    assert len(await courier.emitted()) == 1
    assert courier.counts("r") == {"matched": 100, "ran": 1, "held_back": 99}


async def test_a_cooldown_may_be_for_each_key_by_itself(broker: StartBroker) -> None:
    courier = await broker(notify(when=HERE, cooldownMs=5000, cooldownKey="${env.from}"))
    for event_id, sender in (("a", "jen"), ("b", "max"), ("c", "jen"), ("d", None), ("e", None), ("f", "x" * 300)):
        await courier.client.enqueue(event_id, **{"from": sender})
    assert [found["payload"]["ref"] for _, found in await courier.emitted()] == ["a", "b", "d", "f"]
    assert courier.counts("r")["held_back"] == 2


async def test_a_duplicate_does_not_let_a_rule_rest(broker: StartBroker) -> None:
    courier = await broker(notify(when=HERE, cooldownMs=5000))
    await courier.client.enqueue("a")
    courier.clock.advance(5000)
    await courier.client.enqueue("a")
    await courier.client.enqueue("b")
    assert [found["payload"]["ref"] for _, found in await courier.emitted()] == ["a", "b"]
    assert courier.counts("r") == {"matched": 2, "ran": 2}


async def test_a_producer_that_sends_its_last_events_again_does_not_hold_back_the_new_ones(
    broker: StartBroker,
) -> None:
    courier = await broker(notify(when=HERE, cooldownMs=5000))
    await courier.client.enqueue("a")
    courier.clock.advance(5000)
    await courier.send_lines("a", "a", "b")
    assert [found["payload"]["ref"] for _, found in await courier.emitted()] == ["a", "b"]
    assert courier.counts("r") == {"matched": 2, "ran": 2}


async def test_a_refused_submission_gives_the_rest_back(broker: StartBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    courier = await broker(notify(when=HERE, cooldownMs=5000))
    with monkeypatch.context() as patched:
        patched.setattr(type(courier.app.journal), "has_room", lambda _self, _events: False)
        assert (await courier.client.post(body("a"))).status == 503
    await courier.client.enqueue("a")
    assert len(await courier.emitted()) == 1


async def test_enrich_is_never_held_back(broker: StartBroker) -> None:
    rule = notify(when=HERE, cooldownMs=5000)
    rule["do"].append({"action": "enrich", "tags": ["seen"]})
    courier = await broker(rule)
    for event_id in ("a", "b"):
        await courier.client.enqueue(event_id)
    assert [found.get("tags") for stream, found in await courier.events() if stream == STREAM] == [["seen"], ["seen"]]
    assert len(await courier.emitted()) == 1


# Duplicates.


async def test_a_duplicate_emits_nothing_even_with_new_rules(broker: StartBroker) -> None:
    courier = await broker(notify(when=HERE))
    await courier.client.enqueue("a")
    courier.app.triggers.rules.put(parse_trigger(notify("new", when=HERE)))
    answer = await courier.client.enqueue("a")
    assert answer == {"id": "a", "seq": 1, "duplicate": True}
    answers = await courier.send_lines("a", "b", "a", "b")
    assert [(found["id"], found["duplicate"]) for found in answers] == [
        ("a", True), ("b", False), ("a", True), ("b", True),
    ]  # fmt: skip
    emitted = [(found["from"], found["payload"]["ref"]) for _, found in await courier.emitted()]
    assert emitted == [("triggers/r", "a"), ("triggers/r", "b"), ("triggers/new", "b")]
    assert courier.counts("new") == {"matched": 1, "ran": 1}


async def test_a_redriven_dead_letter_emits_nothing(broker: StartBroker) -> None:
    courier = await broker(notify(when=HERE), streams={"maxDeliveries": 1})
    await courier.client.enqueue("a")
    async with courier.client.subscribe() as subscriber:
        await subscriber.credit(1)
        await subscriber.ids(1)
        await subscriber.send(nack="a")
        await subscriber.settled()
    await stored(courier.app)
    assert (await courier.client.request("POST", "v1/dead-letters/1/replay")).status == 200
    assert len(await courier.emitted()) == 1


# Chains.


def ping_pong() -> list[dict[str, Any]]:
    """§16: Jen's post notifies the architect, whose inbox notifies Jen."""
    return [
        notify("jen", "agents/architect/inbox", {"to": "agents/Jen/inbox"}),
        notify("architect", "agents/Jen/inbox", {"to": "agents/architect/inbox"}),
    ]


async def test_a_loop_of_two_rules_ends_at_the_hop_limit_and_is_one_commit(broker: StartBroker) -> None:
    courier = await broker(*ping_pong())
    before = courier.app.journal.health.commits
    assert (await courier.client.enqueue("e-1"))["seq"] == 1
    assert courier.app.journal.health.commits == before + 1
    found = await courier.emitted()
    assert len(found) == TRIGGER_HOPS_MAX
    assert [stream for stream, _ in found] == ["agents/architect/inbox", "agents/Jen/inbox"] * (TRIGGER_HOPS_MAX // 2)
    assert await courier.links() == [(seq + 1, seq) for seq in range(1, TRIGGER_HOPS_MAX + 1)]
    last = found[-1][1]["headers"]["x-cause"]
    assert last["hops"] == TRIGGER_HOPS_MAX
    assert [step["rule"] for step in last["chain"]] == ["jen", "architect"] * (TRIGGER_HOPS_MAX // 2)
    assert last["chain"][0] == {"source": "stream:agents/Jen/inbox", "id": "e-1", "rule": "jen"}
    assert [step["id"] for step in last["chain"][1:]] == [each["id"] for _, each in found[:-1]]
    assert {each["corr"] for _, each in found} == {"e-1"}
    assert courier.counts("jen") == {"matched": 5, "ran": 4, "failed": 1}
    assert "8 hops" in courier.last_error("jen")


async def test_one_event_sets_off_a_bounded_number_of_others(broker: StartBroker) -> None:
    courier = await broker(notify("a"), notify("b"), notify("c"))
    await courier.client.enqueue("e-1")
    assert len(await courier.emitted()) == TRIGGER_EMITTED_PER_CAUSE_MAX
    assert f"at most {TRIGGER_EMITTED_PER_CAUSE_MAX}" in " ".join(map(courier.last_error, "abc"))


async def test_what_is_sent_at_once_sets_off_a_bounded_number_of_events(
    broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    courier = await broker(notify(when=HERE))
    for bound, failed in ((3, 0), (2, 1)):
        monkeypatch.setattr(expansion, "TRIGGER_EMITTED_PER_SUBMISSION_MAX", bound)
        await courier.send_lines(*(f"{bound}-{number}" for number in range(3)))
        assert courier.counts("r").get("failed", 0) == failed
    assert "may set off at most 2 events" in courier.last_error("r")
    assert len(await courier.emitted()) == 5


async def test_what_is_sent_at_once_sets_off_a_bounded_number_of_bytes(
    broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    courier = await broker(notify(when=HERE))
    await courier.client.enqueue("0-0")
    (size,) = (len(json.dumps(found, separators=(",", ":"))) for _, found in await courier.emitted())
    for bound, failed in ((3 * size, 0), (3 * size - 1, 1)):
        monkeypatch.setattr(expansion, "TRIGGER_EMITTED_BYTES_MAX", bound)
        await courier.send_lines(*(f"{failed + 1}-{number}" for number in range(3)))
        assert courier.counts("r").get("failed", 0) == failed
    assert "bytes of events" in courier.last_error("r")


async def test_a_producer_on_a_socket_is_answered_for_its_own_events_only(broker: StartBroker) -> None:
    courier = await broker(*ping_pong())
    async with courier.client.session.ws_connect("v1/publish") as socket:
        assert "window" in await socket.receive_json()
        await socket.send_json([json.loads(body(event_id)) for event_id in ("a", "b", "a")])
        answers = [await socket.receive_json() for _ in range(3)]
        await socket.send_json(json.loads(body("c")))
        answers.append(await socket.receive_json())
    assert [(each["ack"], each["duplicate"]) for each in answers] == [
        ("a", False), ("b", False), ("a", True), ("c", False),
    ]  # fmt: skip
    assert len(await courier.emitted()) == 3 * TRIGGER_HOPS_MAX


# Failures.


def nested(levels: int) -> Any:
    """Lists in lists."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("bad", "sections", "message"),
    [
        ({"to": "nowhere"}, {"streams": {"autoCreate": False, "perStreamCaps": {STREAM: {}, "good": {}}}}, "no stream"),
        ({"tags": ["${env.payload.n}"]}, {}, "Expected `str`, got `int`"),
        ({"type": "${env.nope}"}, {}, "Expected `str`, got `null`"),
        ({"type": "${env.payload.long}"}, {}, "at most 255 are allowed"),
        ({"payload": ["${env.payload.big}"] * 2}, {}, "at most 1048576 are accepted"),
        ({"payload": {"a": {"b": {"c": "${env.payload.deep}"}}}}, {}, "nested deeper"),
    ],
)
async def test_a_rule_that_fails_leaves_the_event_and_the_other_rules_alone(
    broker: StartBroker, bad: dict[str, Any], sections: dict[str, Any], message: str
) -> None:
    courier = await broker(
        notify("bad", **{"to": "bad", "when": HERE, **bad}), notify("good", "good", HERE), **sections
    )
    payload = {"n": 1, "big": "x" * 600_000, "deep": nested(61), "long": "x" * 256}
    assert (await courier.client.enqueue("e-1", payload=payload))["duplicate"] is False
    assert courier.counts("bad") | {"missing_fields": 0} == {"matched": 1, "failed": 1, "missing_fields": 0}
    assert message in courier.last_error("bad")
    assert "'e-1'" in courier.last_error("bad")
    assert courier.counts("good") == {"matched": 1, "ran": 1}
    assert [stream for stream, _ in await courier.emitted()] == ["good"]


async def test_a_target_over_its_quota_fails_the_rule_and_not_the_event(broker: StartBroker) -> None:
    caps = {"bad": {"rate": {"perSecond": 1, "burst": 1}}}
    courier = await broker(notify("bad", "bad", HERE), streams={"perStreamCaps": caps})
    for event_id in ("a", "b"):
        await courier.client.enqueue(event_id)
    assert courier.counts("bad") == {"matched": 2, "ran": 1, "failed": 1}
    assert "the stream 'bad' may take 1 events a second" in courier.last_error("bad")


async def test_what_a_rule_does_to_others_is_done_also_when_one_of_its_actions_fails(broker: StartBroker) -> None:
    rule = notify(when=HERE, tags=["${env.nope}"])
    rule["do"].append({"action": "route", "to": "copies"})
    courier = await broker(rule)
    await courier.client.enqueue("a")
    assert [stream for stream, _ in await courier.emitted()] == ["copies"]
    assert courier.counts("r") == {"matched": 1, "failed": 1, "missing_fields": 1}


async def test_failures_are_logged_once_in_a_while(broker: StartBroker, caplog: pytest.LogCaptureFixture) -> None:
    courier = await broker(notify("bad", when=HERE, type="${env.nope}"))
    with caplog.at_level(logging.WARNING, "broker.triggers.tally"):
        for number in range(5):
            await courier.client.enqueue(f"e-{number}")
        assert len(caplog.records) == 1
        courier.clock.advance(TRIGGER_LOG_INTERVAL_MS)
        await courier.client.enqueue("e-5")
    assert len(caplog.records) == 2
    assert "4 more failures" in caplog.records[1].getMessage()
    assert courier.counts("bad")["failed"] == 6


def test_which_rules_are_for_what_is_remembered_within_a_bound() -> None:
    rules = RuleSet([parse_trigger(notify(when={"type": "t.*"}))])
    for number in range(TRIGGER_CANDIDATES_REMEMBERED_MAX + 1):
        assert rules.candidates("s", f"t.{number}")
        assert rules.remembered <= TRIGGER_CANDIDATES_REMEMBERED_MAX
    assert rules.remembered == 1
    assert rules.candidates("s", "t.0") is rules.candidates("s", "t.0")


def test_receipts_of_the_first_events_know_nothing_of_the_others() -> None:
    receipts = Receipts([1, -2, 3, -4], {1: (5, False), 3: (6, True)})
    assert receipts.first(4) is receipts
    own = receipts.first(2)
    assert (own.seqs, own.duplicates) == ([1, -2], {1: (5, False)})
