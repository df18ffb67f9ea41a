"""A pipe inside a program: commands in, messages out."""

import asyncio
from typing import Any

import orjson
import pytest

from broker import Broker
from broker.clock import ManualClock
from broker.embedded import commands
from broker.embedded.duplex import Duplex
from broker.errors import InvalidRequest
from broker.limits import CREDIT_MAX, NDJSON_LINES_MAX
from tests.conftest import OpenBroker
from tests.embedded.conftest import core_of, depth_and_inflight, enqueue, error, ids, one, read, request
from tests.support.events import STREAM, envelope


async def test_what_is_enqueued_by_one_pipe_is_delivered_by_another(broker: Broker) -> None:
    async with broker.pipe() as source, broker.pipe("agents/*/inbox") as sink:
        await source.send({"enqueue": request("e-1")})
        answer = await one(source)
        assert answer["enqueued"].keys() == {"id", "seq", "duplicate"}
        assert await one(sink) == {"deliver": envelope("e-1"), "attempt": 1, "seq": answer["enqueued"]["seq"]}
        await sink.send({"ack": "e-1"})
        assert broker.stats(STREAM)["totals"]["ack"] == 1


@pytest.mark.parametrize("form", [dict, bytes, str])
async def test_a_command_is_a_mapping_or_json(broker: Broker, form: type) -> None:
    command: Any = {"enqueue": request("e-1")}
    text = orjson.dumps(command)
    async with broker.pipe() as pipe:
        await pipe.send({dict: command, bytes: text, str: text.decode()}[form])
        assert (await one(pipe))["enqueued"]["id"] == "e-1"


async def test_an_array_is_kept_together_and_answered_one_by_one(durable: Broker) -> None:
    async with durable.pipe() as pipe:
        await pipe.send({"enqueue": [request("e-1"), {"to": STREAM}, request("e-2"), request("e-1")]})
        messages = await read(pipe, 4)
    assert messages[0]["error"]["position"] == 1
    assert "missing required field `envelope`" in messages[0]["error"]["message"]
    assert [(each["enqueued"]["seq"], each["enqueued"]["duplicate"]) for each in messages[1:]] == [
        (1, False),
        (2, False),
        (1, True),
    ]
    assert core_of(durable).journal.health.commits == 1


async def test_an_array_holds_as_many_events_as_a_body_of_lines_may_and_no_more(memory: Broker) -> None:
    async with memory.pipe() as pipe:
        await pipe.send({"enqueue": [0] * NDJSON_LINES_MAX})
        assert [each["error"]["position"] for each in await read(pipe, NDJSON_LINES_MAX)][-1] == NDJSON_LINES_MAX - 1
        await pipe.send({"enqueue": [0] * (NDJSON_LINES_MAX + 1)})
        assert (await error(pipe))["code"] == "too_large"


async def test_credit_follows_the_reader(broker: Broker) -> None:
    await enqueue(broker, *ids(100))
    async with broker.pipe(STREAM, window=8) as pipe:
        for number in range(100):
            message = await one(pipe)
            assert message["deliver"]["id"] == f"e-{number}"
            assert broker.stats(STREAM)["inflight"] <= 8
            await pipe.send({"ack": message["seq"], "attempt": 1})
        assert broker.stats(STREAM)["totals"]["ack"] == 100


async def test_a_reader_that_stops_reading_costs_its_window(broker: Broker) -> None:
    async with broker.pipe(STREAM, window=8) as pipe:
        await enqueue(broker, *ids(1_000))
        await read(pipe, 3)
        await enqueue(broker, "one-more")
        assert 8 <= broker.stats(STREAM)["inflight"] <= 3 + 8
    assert depth_and_inflight(broker) == (1_001, 0)


async def test_without_a_window_credit_is_granted_by_command(broker: Broker) -> None:
    await enqueue(broker, *ids(5))
    async with broker.pipe() as pipe:
        await pipe.send({"subscribe": STREAM})
        assert broker.stats(STREAM)["inflight"] == 0
        await pipe.send({"credit": 2})
        messages = await read(pipe, 2)
        assert [each["deliver"]["id"] for each in messages] == ["e-0", "e-1"]
        await pipe.send({"ack": [each["seq"] for each in messages]})
        assert broker.stats(STREAM)["inflight"] == 0
        await pipe.send({"subscribe": {"stream": "a/b", "window": 3}})
        assert "subscribed to agents/Jen/inbox already" in (await error(pipe))["message"]


async def test_nack_and_extend_do_what_they_do_on_the_websocket(open_broker: OpenBroker) -> None:
    clock = ManualClock()
    broker = await open_broker(clock=clock)
    await enqueue(broker, "e-1", "e-2")
    async with broker.pipe() as pipe:
        await pipe.send({"subscribe": {"stream": STREAM, "window": 5}})
        await read(pipe, 2)
        await pipe.send({"nack": "e-1", "delayMs": 1_000})
        await pipe.send({"extend": "e-2", "leaseMs": 60_000})
        clock.advance(59_999)
        broker._core.registry.expire()
        message = await one(pipe)
        assert (message["deliver"]["id"], message["attempt"]) == ("e-1", 2)
        assert broker.stats(STREAM)["inflight"] == 2


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("nonsense", "invalid_request", "not a command: JSON is malformed"),
        ("[]", "invalid_request", "not a command: Expected `object`, got `array`"),
        ("{}", "invalid_request", "one of: enqueue, subscribe, credit, ack, nack, extend, snapshot"),
        ({"dequeue": 1}, "invalid_request", "one of: enqueue, subscribe"),
        ({"ack": "e-1", "nack": "e-1"}, "invalid_request", "one of: enqueue, subscribe"),
        ({"enqueue": {}}, "invalid_request", "missing required field `to`"),
        ({"enqueue": []}, "invalid_request", "the array is empty"),
        ({"enqueue": request("")}, "invalid_envelope", "envelope.id: it is empty"),
        ({"enqueue": request("e-1"), "attempt": 1}, "invalid_request", "enqueue takes nothing beside it"),
        ({"subscribe": 7}, "invalid_request", "subscribe: Expected `str | object`, got `int`"),
        ({"subscribe": "a b"}, "invalid_request", "stream: segment 1 has a character outside"),
        ({"subscribe": {"stream": "a", "window": 0}}, "invalid_request", "subscribe: Expected `int` >= 1"),
        ({"subscribe": {"stream": "a", "window": CREDIT_MAX + 1}}, "invalid_request", "subscribe: Expected `int` <="),
        ({"subscribe": {"stream": "a", "widow": 1}}, "invalid_request", "unknown field `widow`"),
        ({"credit": 1}, "invalid_request", "credit needs a subscription"),
        ({"ack": "e-1"}, "invalid_request", "ack needs a subscription"),
        ({"ack": "e-1", "leaseMs": 3}, "invalid_request", "a control frame is one of"),
        ({"extend": "e-1"}, "invalid_request", "a control frame is one of"),
        ({"snapshot": "latest"}, "not_found", "there is no view 'latest'; known here: latestPerAgent"),
        ({"snapshot": {"view": "other"}}, "not_found", "there is no view 'other'; known here: latestPerAgent"),
        ({"snapshot": 1}, "invalid_request", "snapshot: Expected `str | object`"),
        (b'{"ack": "\xff"}', "invalid_request", "not valid UTF-8 at byte 9"),
        ("[" * 100, "invalid_request", "nested deeper than 65 levels"),
        ('{"ack": "\ud800"}', "invalid_request", "not valid UTF-8"),
    ],
)
async def test_what_cannot_be_obeyed_is_answered_with_its_number_and_the_next_one_works(
    broker: Broker, command: Any, code: str, message: str
) -> None:
    async with broker.pipe() as pipe:
        await pipe.send({"enqueue": request("e-1")})
        await one(pipe)
        await pipe.send(command)
        found = await error(pipe)
        assert (found["code"], found["line"], found["retryable"]) == (code, 2, False)
        assert message in found["message"]
        await pipe.send({"enqueue": request("e-2")})
        assert (await one(pipe))["enqueued"]["id"] == "e-2"


async def test_a_lease_that_is_not_held_is_answered_for_each_event(broker: Broker) -> None:
    async with broker.pipe(STREAM) as pipe:
        await pipe.send({"ack": ["e-1", 17]})
        errors = [await error(pipe) for _ in range(2)]
    assert [each["code"] for each in errors] == ["lease_not_held"] * 2
    assert (errors[0]["id"], errors[1]["seq"], errors[1]["line"]) == ("e-1", 17, 1)


async def test_with_a_window_credit_cannot_be_granted(broker: Broker) -> None:
    async with broker.pipe(STREAM) as pipe:
        await pipe.send({"credit": 1})
        assert "this subscription has a window" in (await error(pipe))["message"]


@pytest.mark.parametrize("window", [1, CREDIT_MAX])
async def test_a_window_at_its_bounds_is_taken(broker: Broker, window: int) -> None:
    await enqueue(broker, "e-1", "e-2")
    async with broker.pipe(STREAM, window=window):
        assert broker.stats(STREAM)["inflight"] == min(window, 2)


@pytest.mark.parametrize("window", [0, CREDIT_MAX + 1])
async def test_a_window_out_of_bounds_is_refused_and_no_pipe_is_made(broker: Broker, window: int) -> None:
    with pytest.raises(InvalidRequest, match=f"window must be from 1 to {CREDIT_MAX}, not {window}"):
        broker.pipe(STREAM, window=window)
    assert broker.streams() == []


async def test_a_command_that_is_no_json_value_is_refused_at_once(broker: Broker) -> None:
    async with broker.pipe() as pipe:
        with pytest.raises(InvalidRequest, match="the command cannot be written as JSON"):
            await pipe.send({"enqueue": object()})


async def test_a_snapshot_shows_the_last_envelope_of_each_agent(durable: Broker) -> None:
    envelope = b'{"id":"e-1",\n"ts":"2025-10-18T19:55:00Z","to":"%b","type":"t","payload":1}' % STREAM.encode()
    await durable.enqueue_envelope(STREAM, envelope)
    async with durable.pipe() as pipe:
        for asked in ("latestPerAgent", {"view": "latestPerAgent"}):
            await pipe.send({"snapshot": asked})
            shown = await one(pipe)
            assert shown == {"view": {STREAM: orjson.loads(envelope)}, "name": "latestPerAgent", "seq": 1}
        await pipe.send({"snapshot": "latestPerAgent"})
        assert b"\n" not in (await pipe.read_lines())[:-1]


async def test_a_snapshot_does_not_wait_for_answers_of_another_kind(broker: Broker) -> None:
    async with broker.pipe() as pipe:
        await pipe.send({"nonsense": 1})
        async with asyncio.timeout(20):
            await pipe.send({"snapshot": "latestPerAgent"})
        assert [next(iter(message)) for message in await read(pipe, 2)] == ["error", "view"]


async def test_the_next_view_is_made_when_the_one_before_was_read(broker: Broker) -> None:
    async with broker.pipe() as pipe:
        await pipe.send({"snapshot": "latestPerAgent"})
        second = asyncio.create_task(pipe.send({"snapshot": "latestPerAgent"}))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(pipe._duplex._outbox) == 1
        await one(pipe)
        await second
        await one(pipe)


async def test_a_new_command_is_one_new_entry_in_the_table(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ping(duplex: Duplex, command: commands.Command) -> None:
        duplex._answer(b'{"pong":%b}' % command.value)

    monkeypatch.setitem(commands.COMMANDS, "ping", ping)
    async with broker.pipe() as pipe:
        await pipe.send({"ping": 3})
        assert await one(pipe) == {"pong": 3}
