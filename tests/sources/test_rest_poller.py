"""The REST poller against a real server: pages, cursors, and answers that are none."""

import asyncio
import gzip
import json

import pytest
from aiohttp import web

from broker.limits import ENVELOPE_BYTES_MAX, SOURCE_PAGE_ITEMS_MAX, SOURCE_REDIRECTS_MAX
from tests.conftest import StartApp
from tests.sources.conftest import Pulling
from tests.support.events import AWKWARD_PAYLOADS
from tests.support.golden import rejections
from tests.support.upstream import STREAM, Upstream, checkpoints, item, rest, serving, until
from tests.support.writer import stored


async def test_every_page_is_taken_and_every_item_is_an_event(upstream: Upstream, pulling: Pulling) -> None:
    upstream.add(*(item(number) for number in range(1, 6)))
    state = await pulling.poll()
    await until(lambda: state.cursor == "5" and len(upstream.requests) >= 4)
    rows = await stored(pulling.app, "source_system, source_event_id, stream, type, source_sequence, source_emitted_at")
    assert rows == [
        ("source:weather", f"w-{number}", STREAM, "rain", number, f"2026-02-16T23:10:0{number}+00:00")
        for number in range(1, 6)
    ]
    assert upstream.asked[:4] == ["/events?after=", "/events?after=2", "/events?after=4", "/events?after=5"]
    assert await checkpoints(pulling.app) == {"source:weather": "5"}
    assert (state.events, state.duplicates, state.rejected, state.errors) == (5, 0, 0, 0)
    await upstream.tell(item(6))
    await until(lambda: state.cursor == "6")
    assert state.events == 6


async def test_what_is_stored_is_the_bytes_that_came(upstream: Upstream, pulling: Pulling) -> None:
    sent = [b'{"id": %d, "payload": %b}' % (at, payload) for at, payload in enumerate(AWKWARD_PAYLOADS)]
    upstream.add(*sent)
    upstream.page = len(sent)
    state = await pulling.poll()
    await until(lambda: state.events == len(sent))
    assert await stored(pulling.app, "envelope") == sent
    assert await stored(pulling.app) == [str(at) for at in range(len(sent))], "a number is an id as well as a text"


async def test_a_restart_goes_on_behind_the_cursor_and_a_fresh_start_begins_where_it_is_told(
    upstream: Upstream, pulling: Pulling
) -> None:
    upstream.add(*(item(number) for number in range(1, 4)))
    state = await pulling.poll(firstCursor="1")
    await until(lambda: state.cursor == "3")
    await pulling.app.drain()
    assert upstream.asked[0] == "/events?after=1"
    assert state.phase == "stopped"
    upstream.requests.clear()
    upstream.add(item(4))
    state = await pulling.poll(firstCursor="1")
    await until(lambda: state.cursor == "4")
    assert upstream.asked[0] == "/events?after=3"
    assert await stored(pulling.app) == ["w-2", "w-3", "w-4"]


async def test_an_answer_that_is_known_is_not_sent_again(upstream: Upstream, pulling: Pulling) -> None:
    upstream.add(item(1))
    state = await pulling.poll()
    await until(lambda: state.rounds >= 4)
    known = [request.headers.get("If-None-Match") for request in upstream.requests]
    assert known[:2] == [None, None], "another cursor is another question"
    assert known[2] == '"v1"'
    await upstream.tell(item(2))
    await until(lambda: state.events == 2)
    assert (state.duplicates, state.errors) == (0, 0)


async def test_what_could_not_be_stored_is_asked_for_without_its_etag(upstream: Upstream, pulling: Pulling) -> None:
    """Else the server would say that nothing is new, and the items would be lost."""
    upstream.add(item(1))
    state = await pulling.poll({"streams": {"autoCreate": False}})
    await until(lambda: state.errors >= 3)
    assert "there is no stream" in (state.last_error or "")
    assert {request.headers.get("If-None-Match") for request in upstream.requests} == {None}
    assert await checkpoints(pulling.app) == {}


async def test_a_feed_without_a_cursor_is_taken_once(upstream: Upstream, pulling: Pulling) -> None:
    upstream.add(item(1), {"no": "id"}, item(2))

    async def whole(request: web.Request) -> web.Response:
        return web.Response(body=b"[%b]" % b",".join(upstream.items), content_type="application/json")

    upstream.answer = whole
    state = await pulling.poll(url=f"{upstream.url}/latest", items=None, nextCursor=None)
    await until(lambda: state.duplicates >= 4)
    assert await stored(pulling.app) == ["w-1", "w-2"]
    assert (state.events, state.cursor) == (2, None)
    assert state.rejected == len(await rejections(pulling.app)) == 1, "what is refused again is not kept again"


async def test_the_cursor_of_the_last_item_counts_and_is_put_into_the_url_as_it_is(
    upstream: Upstream, pulling: Pulling
) -> None:
    awkward = "a b/c?d&e=f#g%20é"

    async def one(request: web.Request) -> web.Response:
        items = [item(1, token="other"), item(2, token=awkward)] if not request.query["after"] else []
        return web.json_response({"data": {"items": items}})

    upstream.answer = one
    state = await pulling.poll(nextCursor=None, cursor="/token")
    await until(lambda: len(upstream.requests) >= 2)
    assert state.cursor == awkward
    assert [request.query["after"] for request in upstream.requests[:2]] == ["", awkward]


async def test_items_that_are_no_events_are_kept_as_refused_and_the_others_are_stored(
    upstream: Upstream, pulling: Pulling
) -> None:
    upstream.page = 10
    bad = [
        b'{"seq": 1}', b'{"id": 1.5}', b'{"id": ""}', b'{"id": "a", "id": "b"}', b"5", b'"text"', b"null", b"[]",
        b'{"id": "deep", "x": ' + b"[" * 70 + b"]" * 70 + b"}",
        b'{"id": "large", "x": "' + b"x" * ENVELOPE_BYTES_MAX + b'"}',
    ]  # fmt: skip
    upstream.add(item(1), *bad[:4], item(2), *bad[4:], item(3))
    upstream.page = len(upstream.items)
    state = await pulling.poll()
    await until(lambda: state.cursor == str(len(upstream.items)))
    assert await stored(pulling.app) == ["w-1", "w-2", "w-3"]
    assert state.rejected == len(bad)
    kept = await rejections(pulling.app, "contract, source_system, body")
    assert kept == [("source", "source:weather", raw[:4096]) for raw in bad]


async def test_a_fact_that_cannot_be_used_leaves_a_note_and_loses_no_event(
    upstream: Upstream, pulling: Pulling
) -> None:
    upstream.add(
        item(1, seq="first", at="yesterday", what=5),
        item(2, seq=2**70, at=1e18),
        {"id": "w-3", "seq": None, "at": 1_771_283_421.5},
    )
    upstream.page = 3
    state = await pulling.poll(defaultType="weather")
    await until(lambda: state.events == 3)
    found = await stored(pulling.app, "type, source_sequence, source_emitted_at, notes")
    first, second, third = ((*each[:3], each[3] and json.loads(each[3])) for each in found)
    assert first[:3] == ("weather", None, None)
    assert first[3].keys() == {"sequence", "time", "type"}
    assert second == (
        "rain",
        None,
        None,
        {
            "sequence": "it has more than 64 bits",
            "time": "it is outside the calendar; a number counts seconds since 1970",
        },
    )
    assert third == ("weather", None, "2026-02-16T23:10:21.500000+00:00", None)


BODIES = {
    "no JSON": (b"<html>", "this is not JSON"),
    "cut short": (b'{"data": {"items": [{"id": 1}', "this is not JSON"),
    "not UTF-8": (b'{"data": {"items": [{"id": "\xff"}]}}', "not valid UTF-8"),
    "nested without end": (b"[" * 100_000, "this is not JSON"),
    "too many items": (
        b'{"data":{"items":[%b]}}' % b",".join([b"1"] * (SOURCE_PAGE_ITEMS_MAX + 1)),
        f"{SOURCE_PAGE_ITEMS_MAX + 1} items in one document",
    ),
    "a cursor that is too long": (b'{"next": "%b"}' % (b"x" * 1025), "the cursor: it is 1025 bytes long"),
}


@pytest.mark.parametrize("kind", BODIES)
async def test_a_document_that_cannot_be_read_stores_nothing_and_is_asked_for_again(
    upstream: Upstream, pulling: Pulling, kind: str
) -> None:
    body, reason = BODIES[kind]

    async def garbage(request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    page, upstream.answer = upstream.answer, garbage
    upstream.add(item(1))
    state = await pulling.poll()
    await until(lambda: state.errors >= 2)
    assert reason in (state.last_error or "")
    assert not state.is_up
    assert (await stored(pulling.app), await checkpoints(pulling.app)) == ([], {})
    upstream.answer = page
    await until(lambda: state.events == 1)
    assert state.is_up


async def test_an_answer_may_be_so_long_and_no_longer_packed_or_not(upstream: Upstream, pulling: Pulling) -> None:
    bytes_max = 4096
    whole = json.dumps({"data": {"items": [item(1)]}, "next": 1}).encode()
    read = []

    async def long(request: web.Request) -> web.StreamResponse:
        """At the bound, past it, and past it by far once it is unpacked; the last goes on for ever."""
        read.append(request)
        match len(read):
            case 1:
                return web.Response(body=whole.ljust(bytes_max), content_type="application/json")
            case 2:
                return web.Response(body=whole.ljust(bytes_max + 1), content_type="application/json")
            case 3:
                packed = gzip.compress(whole.ljust(10_000_000))
                return web.Response(body=packed, headers={"Content-Encoding": "gzip"}, content_type="application/json")
        endless = web.StreamResponse()
        await endless.prepare(request)
        while True:
            await endless.write(b" " * 1000)

    upstream.answer = long
    state = await pulling.poll(maxBodyBytes=bytes_max)
    await until(lambda: state.errors >= 3)
    assert state.events == 1
    assert state.last_error == "the answer has more than 4096 bytes; ask for smaller pages, or raise maxBodyBytes"


async def test_a_server_that_does_not_answer_is_given_up_and_asked_again(upstream: Upstream, pulling: Pulling) -> None:
    async def never(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    upstream.answer = never
    state = await pulling.poll(timeoutMs=100)
    await until(lambda: state.errors >= 2)
    assert state.last_error == "the server did not answer in time; timeoutMs says how long it may take"
    assert len(upstream.requests) >= 2


@pytest.mark.parametrize("status", [400, 401, 404, 500, 503])
async def test_a_refusal_is_said_and_nothing_is_lost(upstream: Upstream, pulling: Pulling, status: int) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.json_response({"data": {"items": [item(1)]}}, status=status)

    upstream.answer = refuse
    state = await pulling.poll()
    await until(lambda: state.errors >= 2)
    assert (state.last_error or "").startswith(f"the server answers {status} ")
    assert (await stored(pulling.app), state.phase) == ([], "retrying")


async def test_retry_after_is_waited_for(upstream: Upstream, pulling: Pulling) -> None:
    async def later(request: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "3600"})

    upstream.answer = later
    state = await pulling.poll()
    await until(lambda: state.next_attempt_at is not None)
    assert state.next_attempt_at is not None
    assert state.next_attempt_at >= pulling.app.core.clock.wall_us() + 3_500 * 1_000_000
    assert (len(upstream.requests), state.phase) == (1, "retrying")


async def test_redirects_are_followed_to_the_same_origin_only(upstream: Upstream, pulling: Pulling) -> None:
    upstream.add(item(1))
    page = upstream.answer

    async def moved(request: web.Request) -> web.StreamResponse:
        if request.path == "/events":
            raise web.HTTPTemporaryRedirect(f"/elsewhere?{request.query_string}")
        return await page(request)

    upstream.answer = moved
    state = await pulling.poll()
    await until(lambda: state.events == 1)
    assert upstream.asked[:2] == ["/events?after=", "/elsewhere?after="]
    async with serving(Upstream()) as stranger:

        async def away(request: web.Request) -> web.StreamResponse:
            raise web.HTTPTemporaryRedirect(f"{stranger.url}/events")

        upstream.answer = away
        await until(lambda: state.errors >= 1)
        assert stranger.requests == []
        assert f"the server redirects to {stranger.url}, which is another origin" in (state.last_error or "")


async def test_so_many_redirects_are_followed_and_no_more(upstream: Upstream, pulling: Pulling) -> None:
    page = upstream.answer
    hops = SOURCE_REDIRECTS_MAX + 1

    async def along(request: web.Request) -> web.StreamResponse:
        hop = int(request.path.rpartition("/")[2]) if request.path != "/events" else hops
        if hop > 0:
            raise web.HTTPTemporaryRedirect(f"/hop/{hop - 1}")
        return await page(request)

    upstream.answer = along
    upstream.add(item(1))
    state = await pulling.poll()
    await until(lambda: state.errors >= 1)
    assert state.last_error == f"the server redirects more than {SOURCE_REDIRECTS_MAX} times"
    hops = SOURCE_REDIRECTS_MAX
    await until(lambda: state.events == 1)


async def test_secrets_are_sent_and_come_from_the_environment_or_a_file(
    upstream: Upstream, start_app: StartApp, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEATHER_TOKEN", "t0ken")
    (tmp_path / "key").write_text("k3y\n")
    headers = {"Authorization": "Bearer ${env:WEATHER_TOKEN}", "X-Api-Key": f"${{file:{tmp_path / 'key'}}}"}
    app = await start_app({"sources": {"rest": [rest(upstream, headers=headers)]}})
    await until(lambda: app.sources.states[0].rounds > 0 and bool(upstream.requests))
    sent = upstream.requests[0].headers
    assert (sent["Authorization"], sent["X-Api-Key"], sent["User-Agent"]) == ("Bearer t0ken", "k3y", "courier-broker")


async def test_a_server_that_keeps_cookies_gets_none_back(upstream: Upstream, pulling: Pulling) -> None:
    async def with_cookie(request: web.Request) -> web.Response:
        answer = web.json_response({})
        answer.set_cookie("session", "1")
        return answer

    upstream.answer = with_cookie
    state = await pulling.poll()
    await until(lambda: state.rounds >= 3)
    assert not any("Cookie" in request.headers for request in upstream.requests)
