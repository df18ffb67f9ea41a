"""The quick lane: which requests it takes, and that its answers are those of the slow way."""

import asyncio
import json
from typing import Any

import pytest

from broker.app import App
from broker.config import Auth, Token
from broker.errors import DiskFull, InvalidEnvelope, StorageUnavailable
from broker.front import quick_lane
from broker.front.replies import REFUSALS
from broker.journal.submission import Receipts
from broker.limits import QUICK_BODY_BYTES_MAX
from tests.conftest import StartApp
from tests.support.events import STREAM, body, raw_body, raw_envelope
from tests.support.quick import HEAD, enqueue, quick_line, request, slow_requests, undated
from tests.support.refusals import REFUSALS as REFUSED
from tests.support.refusals import Refusal
from tests.support.writer import eventually, held_writer, stored


class Listener:
    """Who asks, without a connection."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []

    def answered(self, answer: bytes) -> None:
        self.answers.append(answer)

    async def answer(self) -> bytes:
        await eventually(lambda: bool(self.answers))
        (answer,) = self.answers
        return answer


def take(app: App, *requests: bytes) -> list[Listener]:
    """Give requests to the lane in one turn of the loop; it must take them."""
    assert app.server.lane is not None
    listeners = [Listener() for _ in requests]
    call_soon = asyncio.get_running_loop().call_soon
    assert all(app.server.lane.take(each, sent, call_soon) for each, sent in zip(listeners, requests, strict=True))
    return listeners


def spy(app: App, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many events each submission has, from now on."""
    sizes: list[int] = []
    submit = app.gate._appender.submit_events

    def counted(events: Any, *rest: Any, **more: Any) -> None:
        sizes.append(len(events))
        submit(events, *rest, **more)

    monkeypatch.setattr(app.gate._appender, "submit_events", counted)
    return sizes


async def known(app: App) -> None:
    async with quick_line(app):
        pass


async def test_a_plain_request_goes_past_aiohttp_and_is_answered_as_aiohttp_answers(app: App) -> None:
    async with quick_line(app) as line:
        before = slow_requests(app)
        quick = await line.ask(enqueue("e-1"))
        assert slow_requests(app) == before
        slow = await line.ask_slowly(enqueue("e-2"))
        assert slow_requests(app) == before + 1
        assert quick == slow.replace(b'"e-2","seq":2', b'"e-1","seq":1')
        assert json.loads(quick.split(b"\r\n\r\n")[1]) == {"id": "e-1", "seq": 1, "duplicate": False}
        assert await stored(app) == ["e-1", "e-2"]


TAKEN = {
    "a duplicate": enqueue("e-1"),
    "another payload": enqueue("e-1", payload={"title": "x"}),
    "an id with a quote": enqueue('e-"1"'),
    "an id outside ASCII": request(raw_body(raw_envelope("\u017elu\u0165"))),
    "a body of spaces and another order": request(
        b' \n{"envelope": %b, "to": "%b"}\n' % (raw_envelope(), STREAM.encode())
    ),
    "other headers": request(body(), b"Accept: */*\r\n%bUser-Agent: x\r\nConnection: keep-alive\r\n" % HEAD),
    "a charset": request(body(), HEAD.replace(b"json", b"json; charset=utf-8")),
    "a charset that is not": request(body(), HEAD.replace(b"json", b"json; charset=latin-1")),
    "capitals": request(body(), HEAD.upper()),
    "an identity encoding": request(body(), HEAD + b"Content-Encoding: identity\r\n"),
    "a strange encoding": request(body(), HEAD + b"Content-Encoding: br\r\n"),
    "an origin": request(body(), HEAD + b"Origin: http://elsewhere\r\n"),
    "another type": request(body(), HEAD.replace(b"json", b"xml")),
    "lines": request(body() + b"\n" + body(), HEAD.replace(b"json", b"x-ndjson")),
    "no type": request(body(), b"Host: localhost\r\n"),
    "no host": request(body(), b"Content-Type: application/json\r\n"),
    "an empty host": request(body(), HEAD.replace(b"localhost", b"")),
    "another host": request(body(), HEAD.replace(b"localhost", b"example.com")),
    "a query": enqueue("e-1").replace(b"/enqueue ", b"/enqueue?a=b "),
    "another path": enqueue("e-1").replace(b"/enqueue ", b"/enqueues "),
    "another method": enqueue("e-1").replace(b"POST ", b"PUT "),
    "a body of nothing": request(b""),
    "a repeated type": request(body(), HEAD + b"Content-Type: application/json\r\n"),
    "a repeated host": request(body(), HEAD + b"Host: localhost\r\n"),
    "a repeated agent": request(body(), HEAD + b"User-Agent: a\r\nUser-Agent: b\r\n"),
    "a repeated length": request(body(), HEAD + b"Content-Length: 1\r\n"),
    "a folded header": request(body(), HEAD + b"X: a\r\n b\r\n"),
    "a space before a colon": request(body(), HEAD + b"X : a\r\n"),
    "a name that is none": request(body(), HEAD + b"X(: a\r\n"),
    "an old version": enqueue("e-1").replace(b"HTTP/1.1", b"HTTP/1.0"),
    "a body in chunks": request(b"", HEAD + b"Transfer-Encoding: chunked\r\n") + b"0\r\n\r\n",
    "a large body": request(body("e-1", payload="x" * QUICK_BODY_BYTES_MAX)),
    "a length with a sign": enqueue("e-1").replace(b"Content-Length: ", b"Content-Length: +"),
}


@pytest.mark.parametrize("name", TAKEN)
async def test_both_ways_answer_with_the_same_bytes(app: App, name: str) -> None:
    async with quick_line(app) as first:
        for prepared in (enqueue("e-1"), TAKEN["an id with a quote"], TAKEN["an id outside ASCII"]):
            await first.ask(prepared)
    answers = []
    for whole in (True, False):
        async with quick_line(app) as line:
            sent = TAKEN[name]
            answers.append(await (line.ask(sent) if whole else line.ask(sent[:9], sent[9:])))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("refusal", REFUSED[::3], ids=lambda refusal: refusal.name)
async def test_what_is_refused_is_refused_in_the_same_bytes(app: App, refusal: Refusal) -> None:
    sent = request(refusal.body)
    async with quick_line(app) as one, quick_line(app) as other:
        answer = await one.ask(sent)
        assert answer.startswith(b"HTTP/1.1 %d " % refusal.status)
        assert answer == await other.ask(sent[:9], sent[9:])
    assert await stored(app) == []


async def test_requests_of_one_turn_are_one_submission_with_an_answer_each(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await known(app)
    sizes = spy(app, monkeypatch)
    listeners = take(app, *(enqueue(event_id) for event_id in ("e-1", "e-2", "e-1", "e-3")))
    bodies = [json.loads((await each.answer()).split(b"\r\n\r\n")[1]) for each in listeners]
    assert [(each["id"], each["seq"], each["duplicate"]) for each in bodies] == [
        ("e-1", 1, False), ("e-2", 2, False), ("e-1", 1, True), ("e-3", 3, False),
    ]  # fmt: skip
    assert sizes == [4]


async def test_a_submission_has_bounds(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    await known(app)
    sizes = spy(app, monkeypatch)
    monkeypatch.setattr(quick_lane, "GATHERED_EVENTS_MAX", 3)
    for each in take(app, *(enqueue(f"e-{number}") for number in range(7))):
        await each.answer()
    assert sizes == [3, 3, 1]
    monkeypatch.setattr(quick_lane, "GATHERED_BYTES_MAX", len(enqueue("f-1")) + 1)
    for each in take(app, *(enqueue(f"f-{number}") for number in range(3))):
        await each.answer()
    assert sizes == [3, 3, 1, 2, 1]


async def test_a_request_that_finds_no_room_does_not_take_the_others_with_it(start_app: StartApp) -> None:
    app = await start_app({"journal": {"queueMax": 2}})
    async with quick_line(app) as line:
        async with held_writer(app):
            saturations = app.journal.health.saturations
            refused = REFUSALS["saturated"]
            listeners = take(app, *(enqueue(f"e-{number}") for number in range(5)))
            await eventually(lambda: all(each.answers for each in listeners[2:]))
            assert not any(each.answers for each in listeners[:2])
            assert app.journal.health.saturations - saturations == 3
            assert REFUSALS["saturated"] - refused == 3
            slow = await line.ask_slowly(enqueue("e-5"))
            assert slow.startswith(b"HTTP/1.1 503 ")
            assert {undated(each.answers[0]) for each in listeners[2:]} == {slow}
        for each in listeners[:2]:
            assert (await each.answer()).startswith(b"HTTP/1.1 200 ")
    assert await stored(app) == ["e-0", "e-1"]


async def test_streams_in_memory_do_not_wait_for_the_disk(start_app: StartApp, monkeypatch: pytest.MonkeyPatch) -> None:
    caps = {"streams": {"perStreamCaps": {"fast/*": {"durability": "memory"}}}}
    app = await start_app(caps)
    await known(app)
    sizes = spy(app, monkeypatch)
    async with held_writer(app):
        durable, memory = take(app, enqueue("e-1"), enqueue("e-1", to="fast/s"))
        assert b'"duplicate":false' in await memory.answer()
        assert not durable.answers
    await durable.answer()
    assert sizes[-2:] == [1, 1]
    one, other = take(app, enqueue("e-2", to="fast/s"), enqueue("e-2", to="fast/s"))
    assert b'"duplicate":false' in await one.answer()
    assert b'"duplicate":true' in await other.answer()
    assert sizes[-1] == 2


async def test_nobody_is_answered_twice_when_an_answer_cannot_be_written(start_app: StartApp) -> None:
    app = await start_app({"streams": {"perStreamCaps": {"fast/*": {"durability": "memory"}}}})
    await known(app)
    told: list[bytes] = []

    class Broken(Listener):
        def answered(self, answer: bytes) -> None:
            told.append(answer)
            raise ValueError("a bug")

    assert app.server.lane is not None
    assert app.server.lane.take(Broken(), enqueue("e-1", to="fast/s"), asyncio.get_running_loop().call_soon)
    await eventually(lambda: app.server.traffic.under_way == 0)
    assert [answer[:12] for answer in told] == [b"HTTP/1.1 200"]
    (listener,) = take(app, enqueue("e-2", to="fast/s"))
    assert (await listener.answer()).startswith(b"HTTP/1.1 200 ")


async def test_requests_that_rules_are_for_are_submitted_one_by_one(
    start_app: StartApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = {"id": "r", "when": {"type": "t"}, "do": [{"action": "notify", "to": "out", "payload": {}}]}
    app = await start_app({"triggers": [rule]})
    await known(app)
    sizes = spy(app, monkeypatch)
    for each in take(app, enqueue("e-1", type="t"), enqueue("e-2", type="t")):
        await each.answer()
    assert sizes == [2, 2]
    for each in take(app, enqueue("e-3", type="u"), enqueue("e-4", type="u")):
        await each.answer()
    assert sizes == [2, 2, 2]
    assert await stored(app, "source_event_id", "stream != 'out'") == ["e-1", "e-2", "e-3", "e-4"]


@pytest.mark.parametrize(
    "outcome",
    [
        Receipts([0], {}),
        Receipts([0], {}, refusals={0: InvalidEnvelope("this one")}),
        Receipts([-7], {0: (1, True)}),
        DiskFull("no room"),
        StorageUnavailable("later", retry_after_seconds=5),
        ValueError("a bug"),
    ],
    ids=["refused", "refused with reason", "conflict", "full", "unavailable", "a bug"],
)
@pytest.mark.parametrize("is_raised", [False, True], ids=["reported", "raised"])
async def test_whatever_becomes_of_an_event_both_ways_say_it_alike(
    app: App, monkeypatch: pytest.MonkeyPatch, outcome: Any, is_raised: bool
) -> None:
    def submit(_events: Any, done: Any, *_rest: Any, **_more: Any) -> None:
        if is_raised and isinstance(outcome, Exception):
            raise outcome
        asyncio.get_running_loop().call_soon(done, outcome)

    async with quick_line(app) as line:
        with monkeypatch.context() as patched:
            patched.setattr(app.gate._appender, "submit_events", submit)
            counted = app.server.traffic.answered.copy()
            quick = await line.ask(enqueue("e-1"))
            after_quick = app.server.traffic.answered - counted
            slow = await line.ask_slowly(enqueue("e-1"))
            assert quick == slow
            assert app.server.traffic.answered - counted - after_quick == after_quick
            assert after_quick.total() == 1
    assert app.server.traffic.under_way == 0


TOKENS = Auth(
    tokens=(Token(token="one", scopes=("streams:*:enqueue",)), Token(token="two", scopes=("streams:x:enqueue",)))
)


def with_token(header: bytes) -> bytes:
    return request(body(), HEAD + header + b"\r\n")


async def start_with_tokens(start_app: StartApp, **more: object) -> App:
    tokens = [
        {"token": "one", "scopes": ["streams:*:enqueue"], **more},
        {"token": "two", "scopes": ["streams:x:enqueue"]},
    ]
    return await start_app({"auth": {"tokens": tokens}})


@pytest.mark.parametrize(
    ("header", "status", "is_quick"),
    [
        (b"Authorization: Bearer one", 200, True),
        (b"authorization: bearer one", 200, True),
        (b"X-Api-Key: one", 200, False),
        (b"X-Pixel-Control-Api-Key: one", 200, True),
        (b"Authorization: Basic one\r\nX-Other: one", 401, False),
        (b"Authorization: Bearer other", 401, False),
        (b"Authorization: Bearer two", 403, False),
        (b"X-Other: one", 401, False),
    ],
)
async def test_callers_are_known_by_the_same_headers_in_both_ways(
    start_app: StartApp, header: bytes, status: int, is_quick: bool
) -> None:
    app = await start_with_tokens(start_app)
    name = app._authenticator.api_key_header.encode()
    header = header.replace(b"X-Pixel-Control-Api-Key", name)
    if header == b"X-Api-Key: one" and name != b"X-Api-Key":
        status = 401
    async with quick_line(app) as line:
        await line.ask(with_token(b"Authorization: Bearer one"))
        before, failures = slow_requests(app), sum(app._authenticator.failures.values())
        quick = await line.ask(with_token(header))
        assert quick.startswith(b"HTTP/1.1 %d " % status)
        assert (slow_requests(app) == before) is is_quick
        assert sum(app._authenticator.failures.values()) - failures == (status == 401)
        assert quick == await line.ask_slowly(with_token(header))


async def test_a_token_that_is_revoked_is_refused_at_the_next_request(start_app: StartApp) -> None:
    app = await start_with_tokens(start_app)
    sent = with_token(b"Authorization: Bearer one")
    async with quick_line(app) as line:
        assert (await line.ask(sent)).startswith(b"HTTP/1.1 200 ")
        await app.replace_tokens(Auth(tokens=(Token(token="two", scopes=("streams:*:enqueue",)),)))
        assert (await line.ask(sent)).startswith(b"HTTP/1.1 401 ")


async def test_a_rate_is_drawn_from_the_slow_way(start_app: StartApp) -> None:
    app = await start_with_tokens(start_app, name="one", rate={"perSecond": 0.001, "burst": 2})
    async with quick_line(app) as line:
        before = slow_requests(app)
        statuses = [(await line.ask(with_token(b"Authorization: Bearer one")))[9:12] for _ in range(3)]
        assert statuses == [b"200", b"200", b"429"]
        assert slow_requests(app) == before + 3


async def test_a_body_of_just_the_bound_is_taken_and_a_byte_more_refused(start_app: StartApp) -> None:
    app = await start_app({"server": {"maxBodyBytes": 1024}})
    spare = 1024 - len(body("e-1", payload=""))
    async with quick_line(app) as line:
        before = slow_requests(app)
        assert (await line.ask(enqueue("e-1", payload="x" * spare))).startswith(b"HTTP/1.1 200 ")
        assert slow_requests(app) == before
        assert (await line.ask_slowly(enqueue("e-1", payload="x" * spare))).startswith(b"HTTP/1.1 200 ")
        assert (await line.ask(enqueue("e-1", payload="x" * (spare + 1)))).startswith(b"HTTP/1.1 413 ")


async def test_a_host_passes_the_guard_before_it_goes_the_quick_way(app: App) -> None:
    async with quick_line(app) as line:
        sent = request(body(), HEAD.replace(b"localhost", b"127.0.0.1:99"))
        before = slow_requests(app)
        await line.ask(sent)
        assert slow_requests(app) == before + 1
        await line.ask(sent)
        assert slow_requests(app) == before + 1
