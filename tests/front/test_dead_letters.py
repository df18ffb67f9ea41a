"""`/v1/dead-letters`: listed, inspected, replayed, discarded, one by one and many at once."""

import json
from typing import Any

import pytest

from broker.app import App
from broker.limits import DISCARD_REASON_BYTES_MAX, FILTER_TEXT_BYTES_MAX, SEQ_MAX
from tests.conftest import Connect, StartApp
from tests.support.client import JSON, Answer, Client, assert_error
from tests.support.events import raw_body, raw_envelope
from tests.support.writer import stored


async def kill(app: App, *seqs: int, reason: str = "poison") -> None:
    """Make dead letters of events, as the streams do."""
    for seq in seqs:
        app.journal.dead_letter(seq, 10, 1_771_525_800_000_000, reason)
    await stored(app)


async def post(client: Client, path: str, body: Any = None) -> Answer:
    return await client.request("POST", f"v1/dead-letters{path}", data=json.dumps(body).encode(), headers=JSON)


async def lines(client: Client, path: str, body: Any) -> list[Any]:
    """The lines of a bulk action."""
    async with client.session.post(f"v1/dead-letters{path}", json=body) as response:
        content = await response.read()
        assert (response.status, response.content_type) == (200, "application/x-ndjson"), content
        return [json.loads(line) for line in content.splitlines()]


async def seqs(client: Client, query: str = "") -> list[int]:
    answer = await client.get(f"v1/dead-letters{query}")
    assert answer.status == 200, answer
    return [letter["seq"] for letter in answer.body["deadLetters"]]


@pytest.fixture
async def letters(app: App, client: Client) -> App:
    """Five dead letters: 1 to 3 of `x`, 4 and 5 of `y/z`; 6 waits on `x`."""
    for number, stream in enumerate(["x", "x", "x", "y/z", "y/z", "x"], start=1):
        await client.enqueue(f"e-{number}", stream, type="odd" if number % 2 else "even")
    await kill(app, 1, 2, 3, reason="poison")
    await kill(app, 4, 5, reason="its lease ran out")
    return app


async def test_dead_letters_are_listed_and_filtered(letters: App, client: Client) -> None:
    assert await seqs(client) == [1, 2, 3, 4, 5]
    assert await seqs(client, "?stream=x") == [1, 2, 3]
    assert await seqs(client, "?stream=y/*") == [4, 5]
    assert await seqs(client, "?type=odd&reason=lease") == [5]
    (first, *_) = (await client.get("v1/dead-letters")).body["deadLetters"]
    expected = {"seq": 1, "stream": "x", "type": "odd", "source": "stream:x", "id": "e-1", "reason": "poison"}
    assert expected.items() <= first.items()
    assert (first["attempts"], first["firstAttemptAt"]) == (10, "2026-02-19T18:30:00.000Z")


async def test_pages_of_dead_letters_go_on_behind_the_last(letters: App, client: Client) -> None:
    found, query = [], "?limit=2"
    while True:
        page = (await client.get(f"v1/dead-letters{query}")).body
        found.append([letter["seq"] for letter in page["deadLetters"]])
        if page["next"] is None:
            break
        query = f"?limit=2&after={page['next']}"
    assert found == [[1, 2], [3, 4], [5]]


async def test_one_is_inspected_with_its_bytes(app: App, client: Client) -> None:
    sent = raw_envelope("e-1", b'{ "n" : 123456789012345678901234567890, "n": 1.0 }')
    await client.post(raw_body(sent))
    await kill(app, 1)
    async with client.session.get("v1/dead-letters/1") as response:
        content = await response.read()
    assert sent in content
    assert json.loads(content)["corrupt"] is False


@pytest.mark.parametrize("seq", ["6", "7", "0", str(SEQ_MAX), str(SEQ_MAX + 1), "1" * 40, "x", "-1", "1.0"])
async def test_what_is_not_a_dead_letter_is_not_found(letters: App, client: Client, seq: str) -> None:
    assert_error(await client.get(f"v1/dead-letters/{seq}"), 404, "not_found")
    assert_error(await post(client, f"/{seq}/replay"), 404, "not_found")
    assert_error(await post(client, f"/{seq}/discard", {"reason": "r"}), 404, "not_found")


async def test_a_replayed_letter_is_delivered_again_and_replayed_only_once(
    start_app: StartApp, connect: Connect
) -> None:
    app = await start_app({"streams": {"maxDeliveries": 1}})
    client = await connect(app.server.address)
    await client.enqueue("e-1")
    async with client.subscribe() as subscriber:
        await subscriber.credit(2)
        assert await subscriber.ids(1) == ["e-1"]
        await subscriber.send(nack="e-1")
        await subscriber.settled()
        await stored(app)
        answer = await post(client, "/1/replay")
        assert (answer.status, answer.body) == (200, {"seq": 1, "redrivenAs": 2})
        delivery = await subscriber.delivery()
        assert (delivery["deliver"]["id"], delivery["seq"], delivery["attempt"]) == ("e-1", 2, 1)
    assert_error(await post(client, "/1/replay"), 404, "not_found")


async def test_a_damaged_letter_is_shown_as_such_and_not_replayed(letters: App, client: Client) -> None:
    await letters.journal.execute(lambda c: c.execute("UPDATE ledger SET envelope = x'7b' WHERE seq = 1").fetchall())
    shown = (await client.get("v1/dead-letters/1")).body
    assert (shown["corrupt"], shown["envelope"]) == (True, None)
    assert_error(await post(client, "/1/replay"), 400, "invalid_request")
    assert await seqs(client) == [1, 2, 3, 4, 5]


async def test_a_discarded_letter_is_gone_and_its_receipt_says_why(letters: App, client: Client) -> None:
    answer = await post(client, "/1/discard", {"reason": "known bug"})
    assert (answer.status, answer.body) == (200, {"seq": 1, "discarded": True})
    assert await seqs(client) == [2, 3, 4, 5]
    receipt = (await client.get("v1/receipts/stream:x/e-1")).body
    assert (receipt["state"], receipt["reason"]) == ("processed", "discarded: known bug; was: poison")


async def test_a_reason_has_a_length_between_its_bounds(letters: App, client: Client) -> None:
    most = DISCARD_REASON_BYTES_MAX
    assert (await post(client, "/1/discard", {"reason": "r"})).status == 200
    assert (await post(client, "/2/discard", {"reason": "r" * most})).status == 200
    for reason in ("", "r" * (most + 1), "é" * (most // 2 + 1), "a\nb", None, 7):
        assert_error(await post(client, "/3/discard", {"reason": reason}), 400, "invalid_request")
    for body in ({}, {"reason": "r", "more": 1}, [], None):
        assert_error(await post(client, "/3/discard", body), 400, "invalid_request")
    assert await seqs(client) == [3, 4, 5]


@pytest.mark.parametrize("action", ["replay", "discard"])
async def test_a_dry_run_counts_and_changes_nothing(letters: App, client: Client, action: str) -> None:
    body = {"filter": {"stream": "x"}, "dryRun": True} | ({"reason": "r"} if action == "discard" else {})
    answer = await post(client, f"/{action}", body)
    assert (answer.status, answer.body) == (200, {"matching": 3})
    assert await seqs(client) == [1, 2, 3, 4, 5]


async def test_a_replay_of_many_reports_its_progress_line_by_line(
    letters: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.journal.dead_letters.SLICE", 2)
    assert await lines(client, "/replay", {"filter": {"stream": "x"}}) == [
        {"done": 2, "total": 3, "finished": False},
        {"done": 3, "total": 3, "finished": False},
        {"done": 3, "total": 3, "finished": True},
    ]
    assert await seqs(client) == [4, 5]
    assert await stored(letters, where="state = 0 AND stream = 'x'") == ["e-6", "e-1", "e-2", "e-3"]


async def test_a_discard_of_many_lets_all_that_match_go(letters: App, client: Client) -> None:
    found = await lines(client, "/discard", {"filter": {"reason": "poison"}, "reason": "known bug"})
    assert found[-1] == {"done": 3, "total": 3, "finished": True}
    assert await seqs(client) == [4, 5]
    assert await lines(client, "/discard", {"filter": {"type": "none"}, "reason": "r"}) == [
        {"done": 0, "total": 0, "finished": False},
        {"done": 0, "total": 0, "finished": True},
    ]


async def test_an_empty_filter_means_all_and_none_at_all_is_refused(letters: App, client: Client) -> None:
    for body in ({}, {"filter": None}, {"filter": {"strem": "x"}}, {"filter": {}, "dryrun": True}, {"dryRun": True}):
        assert_error(await post(client, "/replay", body), 400, "invalid_request")
    assert await seqs(client) == [1, 2, 3, 4, 5]
    assert (await lines(client, "/replay", {"filter": {}}))[-1]["done"] == 5


async def test_a_filter_has_a_length_and_characters_of_its_own(letters: App, client: Client) -> None:
    most = FILTER_TEXT_BYTES_MAX
    for text in ("r" * most, "r" * (most - 1)):
        assert (await post(client, "/replay", {"filter": {"reason": text}, "dryRun": True})).body == {"matching": 0}
    for wanted in ({"reason": "r" * (most + 1)}, {"type": ""}, {"stream": "[x]"}, {"stream": "?"}, {"stream": 1}):
        assert_error(await post(client, "/replay", {"filter": wanted, "dryRun": True}), 400, "invalid_request")
    assert_error(await client.get("v1/dead-letters?stream=%5Bx%5D"), 400, "invalid_request")


@pytest.mark.parametrize(("per_second", "status"), [(0, 400), (0.9, 400), (1e6, 200), (1e6 + 1, 400), ("1", 400)])
async def test_a_rate_is_taken_between_its_bounds(
    letters: App, client: Client, per_second: object, status: int
) -> None:
    answer = await post(client, "/replay", {"filter": {}, "dryRun": True, "perSecond": per_second})
    assert answer.status == status


async def test_a_bulk_action_that_fails_before_its_first_line_has_its_status(letters: App, client: Client) -> None:
    letters.journal.health.failed("the disk is gone")
    answer = await post(client, "/replay", {"filter": {}})
    assert_error(answer, 503, "storage_failed", retryable=True)


async def test_a_bulk_action_that_fails_on_its_way_says_so_in_its_last_line(
    letters: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.journal.dead_letters.SLICE", 2)
    append = letters.journal.append
    calls = 0

    async def failing(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            letters.journal.health.failed("the disk is gone")
        return await append(*arguments)

    monkeypatch.setattr(letters.journal, "append", failing)
    found = await lines(client, "/replay", {"filter": {}})
    assert found[0] == {"done": 2, "total": 5, "finished": False}
    assert found[1]["error"]["code"] == "storage_failed"
    assert len(found) == 2


async def test_reading_needs_the_stream_and_acting_needs_an_operator(start_app: StartApp, connect: Connect) -> None:
    tokens = [
        {"token": "all", "scopes": ["streams:*:enqueue"]},
        {"token": "mine", "name": "mine", "scopes": ["streams:mine/*:subscribe"]},
        {"token": "operator", "scopes": ["admin:*"]},
    ]
    app = await start_app({"auth": {"tokens": tokens}})
    writer, reader, operator = [
        await connect(app.server.address, headers={"Authorization": f"Bearer {token}"})
        for token in ("all", "mine", "operator")
    ]
    await writer.enqueue("e-1", "mine/a")
    await writer.enqueue("e-1", "theirs/a")
    await kill(app, 1, 2)
    assert await seqs(reader) == [1]
    assert (await reader.get("v1/dead-letters/1")).status == 200
    assert_error(await reader.get("v1/dead-letters/2"), 404, "not_found")
    for path, body in [
        ("/1/replay", None),
        ("/1/discard", {"reason": "r"}),
        ("/replay", {"filter": {}}),
        ("/discard", {"filter": {}, "reason": "r"}),
    ]:
        message = assert_error(await post(reader, path, body), 403, "forbidden")
        assert message == "the token 'mine' lacks the scope admin:*"
    assert (await post(operator, "/1/replay")).status == 200
    assert (await post(operator, "/2/discard", {"reason": "r"})).status == 200
