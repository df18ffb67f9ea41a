"""Control frames that cannot be obeyed: each is answered, and none ends the connection."""

import asyncio

import pytest

from broker.app import App
from broker.limits import EVENT_ID_BYTES_MAX, FRAME_BYTES_MAX, LEASE_MS_MAX, LEASE_MS_MIN, NACK_DELAY_MS_MAX
from tests.support.client import Client, Subscriber
from tests.support.events import STREAM
from tests.support.raw import PATIENCE_SECONDS, websocket

FORMS = (
    'a control frame is one of {"credit": n}, {"ack": id}, {"nack": id, "delayMs": n} and {"extend": id, "leaseMs": n},'
    ' where id may be a seq or an array of both, and a single one may have its "attempt": n'
)


async def assert_refused(subscriber: Subscriber, code: str = "invalid_request", **detail: object) -> str:
    error = await subscriber.error()
    message = error.pop("message")
    assert error == {"code": code, "retryable": False, "retry_after_seconds": 0, **detail}
    return message


async def test_what_is_no_control_frame_is_answered_and_the_socket_lives(client: Client) -> None:
    async with client.subscribe() as subscriber:
        for text, reason in [
            ("", "Input data was truncated"),
            ("{", "Input data was truncated"),
            ("nonsense", "JSON is malformed: invalid character (byte 4)"),
            ("[]", "Expected `object`, got `array`"),
            ('["credit", 1]', "Expected `object`, got `array`"),
            ("null", "Expected `object`, got `null`"),
            ("1", "Expected `object`, got `int`"),
            ('{"credit": "1"}', "Expected `int | null`, got `str` - at `$.credit`"),
            ('{"credit": 1.5}', "Expected `int | null`, got `float` - at `$.credit`"),
            ('{"credit": true}', "Expected `int | null`, got `bool` - at `$.credit`"),
            ('{"ack": 1.5}', "Expected `int | str | array | null`, got `float` - at `$.ack`"),
            ('{"ack": 0}', "Expected `int` >= 1 - at `$.ack`"),
            ('{"ack": 9223372036854775808}', "Expected `int` <= 9223372036854775807 - at `$.ack`"),
            ('{"ack": [1, 123456789012345678901234567890]}', "Expected `int` <= 9223372036854775807 - at `$.ack[1]`"),
            ('{"ack": []}', "Expected `array` of length >= 1 - at `$.ack`"),
            ('{"ack": [["e"]]}', "Expected `int | str`, got `array` - at `$.ack[0]`"),
            ('{"nack": "e", "delayMs": "1"}', "Expected `int | null`, got `str` - at `$.delayMs`"),
            ('{"extend": "e", "leaseMs": null, "x": 1}', "Object contains unknown field `x`"),
            ('{"subscribe": "s"}', "Object contains unknown field `subscribe`"),
        ]:
            await subscriber.socket.send_str(text)
            assert await assert_refused(subscriber) == f"not a control frame: {reason}"
        await subscriber.credit(1)
        await client.enqueue("e-1")
        assert await subscriber.ids(1) == ["e-1"]


async def test_none_or_several_commands_or_options_of_another_are_refused(app: App, client: Client) -> None:
    await client.enqueue("e-1")
    async with client.subscribe() as subscriber:
        await subscriber.credit(1)
        assert await subscriber.ids(1) == ["e-1"]
        for frame in [
            {},
            {"credit": None},
            {"credit": 1, "ack": "e-1"},
            {"ack": "e-1", "nack": "e-1"},
            {"ack": "e-1", "extend": "e-1", "leaseMs": 1000},
            {"extend": "e-1"},
            {"leaseMs": 1000},
            {"delayMs": 1000},
            {"credit": 1, "delayMs": 1},
            {"credit": 1, "leaseMs": 1000},
            {"ack": "e-1", "delayMs": 1},
            {"ack": "e-1", "leaseMs": 1000},
            {"nack": "e-1", "leaseMs": 1000},
            {"extend": "e-1", "leaseMs": 1000, "delayMs": 1},
            {"attempt": 1},
            {"credit": 1, "attempt": 1},
            {"ack": ["e-1"], "attempt": 1},
        ]:
            await subscriber.send(**frame)
            assert await assert_refused(subscriber) == FORMS, frame
        stream = app.registry.find(STREAM)
        assert (stream.in_flight, stream.pending, stream.counters.acked, stream.counters.nacked) == (1, 1, 0, 0)


async def test_binary_frames_are_refused(client: Client) -> None:
    async with client.subscribe() as subscriber:
        await subscriber.socket.send_bytes(b'{"credit": 1}')
        assert await assert_refused(subscriber) == "control frames are JSON text, not binary"
        await subscriber.settled()


async def test_what_is_not_held_is_refused_with_its_id(client: Client) -> None:
    async with client.subscribe() as subscriber:
        for frame in (
            {"ack": "e-9"},
            {"nack": "e-9"},
            {"nack": "e-9", "delayMs": 5},
            {"extend": "e-9", "leaseMs": 500},
        ):
            await subscriber.send(**frame)
            message = await assert_refused(subscriber, "lease_not_held", id="e-9")
            assert message == "'e-9' is not held by this subscriber; its lease may have run out"


async def test_awkward_ids_are_refused_as_well(client: Client) -> None:
    async with client.subscribe() as subscriber:
        for event_id in ("", "\x00", "é🐎", "x" * EVENT_ID_BYTES_MAX):
            await subscriber.ack(event_id)
            await assert_refused(subscriber, "lease_not_held", id=event_id)
        for command in ("ack", "nack", "extend"):
            await subscriber.send(**{command: "x" * (EVENT_ID_BYTES_MAX + 1)})
            reason = f"Expected `str` of length <= {EVENT_ID_BYTES_MAX} - at `$.{command}`"
            assert await assert_refused(subscriber) == f"not a control frame: {reason}"
        await subscriber.socket.send_str('{"ack": "\\ud800"}')
        await assert_refused(subscriber)


@pytest.mark.parametrize(
    ("command", "option", "lowest", "highest"),
    [("nack", "delayMs", 0, NACK_DELAY_MS_MAX), ("extend", "leaseMs", LEASE_MS_MIN, LEASE_MS_MAX)],
)
async def test_times_have_bounds(client: Client, command: str, option: str, lowest: int, highest: int) -> None:
    await client.enqueue("e-1")
    async with client.subscribe() as subscriber:
        await subscriber.credit(2)
        assert await subscriber.ids(1) == ["e-1"]
        for value in (lowest - 1, highest + 1, -(2**70), 2**70):
            await subscriber.send(**{command: "e-1", option: value})
            message = await assert_refused(subscriber, id="e-1")
            assert message == f"{option} must be from {lowest} to {highest}, not {value}"
        for value in (lowest, highest):
            await subscriber.send(**{command: "e-1", option: value})
            if command == "nack" and value == lowest:
                assert await subscriber.ids(1) == ["e-1"]
        await subscriber.settled()


async def test_a_frame_of_just_the_allowed_size_is_read(client: Client) -> None:
    async with client.subscribe() as subscriber:
        await subscriber.socket.send_str('{"credit": 0}'.ljust(FRAME_BYTES_MAX))
        assert (await assert_refused(subscriber)).startswith("credit must be")


async def test_too_large_a_frame_closes_the_socket_before_it_is_read(app: App) -> None:
    async with websocket(app) as (reader, writer):
        writer.write(b"\x81\xff" + (FRAME_BYTES_MAX + 1).to_bytes(8, "big"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            kind, _length, *code = await reader.readexactly(4)
        assert (kind & 0x0F, int.from_bytes(code)) == (8, 1009)


async def test_text_that_is_not_utf8_closes_the_socket(client: Client) -> None:
    async with client.subscribe() as subscriber:
        await subscriber.socket.send_frame(b"\xff", 1)
        assert await subscriber.close_code() == 1007
