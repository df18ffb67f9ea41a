"""The built-in provider against a real server: the protocol, and every way in which it fails."""

import asyncio

import aiohttp
import orjson
import pytest

from broker.agents.openai import OpenAIProvider
from broker.limits import AGENT_BODY_BYTES_MAX, AGENT_SSE_EVENT_BYTES_MAX
from broker.outgoing.calls import CallFailed
from tests.agents.conftest import REQUEST, MakeProvider, pieces_of
from tests.support.http_server import DONE, answer, delta, document, hang, serving, status, stream
from tests.support.writer import PATIENCE_SECONDS


async def test_the_event_is_asked_about_with_the_instructions_and_the_key(provider: MakeProvider) -> None:
    async with serving(answer("Reminder: ", "Drink water")) as server:
        assert await pieces_of(provider(server.url)) == ["Reminder: ", "Drink water"]
    assert server.paths == ["/v1/chat/completions"]
    assert server.headers[0]["Authorization"] == "Bearer sk-secret"
    (body,) = server.bodies
    assert (body["model"], body["stream"]) == ("gpt-5-mini", True)
    system, user = body["messages"]
    assert system == {"role": "system", "content": "You handle reminders."}
    assert user["role"] == "user"
    assert orjson.loads(user["content"]) == {
        "topic": "reminder.due",
        "source": "reminder",
        "correlation_id": "req-1",
        "payload": {"text": "Drink water"},
    }


async def test_without_a_key_none_is_sent(provider: MakeProvider) -> None:
    async with serving(answer("yes")) as server:
        await pieces_of(provider(server.url, key=None))
    assert "Authorization" not in server.headers[0]


async def test_a_piece_is_there_before_the_answer_is_whole(provider: MakeProvider) -> None:
    hold = asyncio.Event()
    async with serving(stream(delta("first"), delta(" second"), DONE, hold=hold)) as server:
        answered = provider(server.url).invoke(REQUEST)
        assert await asyncio.wait_for(anext(answered), PATIENCE_SECONDS) == "first"
        hold.set()
        assert [piece async for piece in answered] == [" second"]


async def test_an_endpoint_that_does_not_stream_is_understood_too(provider: MakeProvider) -> None:
    whole = {"choices": [{"message": {"role": "assistant", "content": "Reminder: tea"}}]}
    async with serving(document(whole)) as server:
        assert await pieces_of(provider(server.url)) == ["Reminder: tea"]


async def test_a_429_is_tried_again_when_the_server_says(provider: MakeProvider) -> None:
    async with serving(status(429, "slow down", Retry_After="0"), answer("yes")) as server:
        assert await pieces_of(provider(server.url)) == ["yes"]
    assert len(server.bodies) == 2


@pytest.mark.parametrize("code", [408, 500, 502, 503, 504, 529])
async def test_a_failure_that_may_pass_is_tried_again(provider: MakeProvider, code: int) -> None:
    async with serving(status(code), status(code), answer("yes")) as server:
        assert await pieces_of(provider(server.url)) == ["yes"]
    assert len(server.bodies) == 3


async def test_a_failure_that_does_not_pass_is_given_up_after_the_retries(provider: MakeProvider) -> None:
    async with serving(status(500, '{"error": {"message": "the model is overloaded"}}')) as server:
        with pytest.raises(CallFailed, match="answered 500: the model is overloaded; tried 4 times"):
            await pieces_of(provider(server.url))
    assert len(server.bodies) == 4


@pytest.mark.parametrize("code", [400, 401, 403, 404, 422])
async def test_a_refusal_is_not_tried_again_and_says_why(provider: MakeProvider, code: int) -> None:
    error = {"error": {"message": "Incorrect\nAPI key", "type": "invalid_request_error"}}
    async with serving(status(code, orjson.dumps(error).decode())) as server:
        with pytest.raises(CallFailed) as caught:
            await pieces_of(provider(server.url))
    assert len(server.bodies) == 1
    hint = "; look at the key in the variable OPENAI_API_KEY" if code in (401, 403) else ""
    assert str(caught.value) == f"{server.url}/chat/completions answered {code}: Incorrect API key{hint}"
    assert "sk-secret" not in str(caught.value)


async def test_a_redirect_is_not_followed_because_the_key_would_go_along(provider: MakeProvider) -> None:
    async with serving(status(307, Location="http://127.0.0.1:1/elsewhere")) as server:
        with pytest.raises(CallFailed, match="answered 307"):
            await pieces_of(provider(server.url))


async def test_nobody_there_is_tried_again_and_then_said(provider: MakeProvider) -> None:
    async with serving(answer("yes")) as server:
        url = server.url
    with pytest.raises(CallFailed, match=r"cannot be reached: .*; tried 4 times"):
        await pieces_of(provider(url))


async def test_an_answer_that_is_cut_is_a_failure_and_is_not_asked_for_again(provider: MakeProvider) -> None:
    async with serving(stream(delta("half an "), cut=True)) as server:
        answered = provider(server.url).invoke(REQUEST)
        seen = [await anext(answered)]
        with pytest.raises(CallFailed, match="broke off in the middle of its answer"):
            await anext(answered)
    assert seen == ["half an "]
    assert len(server.bodies) == 1


async def test_a_stream_that_ends_without_its_end_is_cut(provider: MakeProvider) -> None:
    async with serving(stream(delta("half an "))) as server:
        with pytest.raises(CallFailed, match=r"the stream ended without \[DONE\]"):
            await pieces_of(provider(server.url))


async def test_a_stream_with_a_finish_reason_and_no_done_is_whole(provider: MakeProvider) -> None:
    async with serving(stream(delta("all"), delta(None, finish="stop"))) as server:
        assert await pieces_of(provider(server.url)) == ["all"]


@pytest.mark.parametrize(
    "nonsense",
    [
        b"data: {not json\n\n",
        b"data: []\n\n",
        b'data: {"choices": {}}\n\n',
        b'data: {"choices": ["x"]}\n\n',
        b'data: {"choices": [{"delta": {"content": 5}}]}\n\n',
        b"data: " + b"[" * 3000 + b"\n\n",
    ],
)
async def test_what_is_not_the_protocol_is_said_to_be_so(provider: MakeProvider, nonsense: bytes) -> None:
    async with serving(stream(nonsense, DONE)) as server:
        with pytest.raises(CallFailed, match="does not speak the protocol: found"):
            await pieces_of(provider(server.url))


@pytest.mark.parametrize("body", [b"<html>", b'{"choices": []}', b'{"choices": [{"message": {"content": 5}}]}'])
async def test_a_whole_answer_that_is_not_the_protocol_is_said_to_be_so(provider: MakeProvider, body: bytes) -> None:
    async with serving(status(200, body.decode())) as server:
        with pytest.raises(CallFailed, match="does not speak the protocol: found"):
            await pieces_of(provider(server.url))


async def test_an_error_inside_the_stream_is_told(provider: MakeProvider) -> None:
    error = b'data: {"error": {"message": "context length exceeded"}}\n\n'
    async with serving(stream(delta("half"), error)) as server:
        with pytest.raises(CallFailed, match="broke off with an error: context length exceeded"):
            await pieces_of(provider(server.url))


async def test_comments_usage_and_events_without_choices_say_nothing(provider: MakeProvider) -> None:
    usage = b'data: {"choices": [], "usage": {"total_tokens": 5}}\n\n'
    async with serving(stream(b": keep-alive\n\n", b"event: x\nid: 1\n", delta("yes"), usage, DONE)) as server:
        assert await pieces_of(provider(server.url)) == ["yes"]


async def test_an_event_without_an_end_is_bounded(provider: MakeProvider) -> None:
    async with serving(stream(b"data: " + b"x" * (AGENT_SSE_EVENT_BYTES_MAX + 1))) as server:
        with pytest.raises(CallFailed, match=f"longer than {AGENT_SSE_EVENT_BYTES_MAX} bytes"):
            await pieces_of(provider(server.url))


async def test_an_endless_stream_of_nothing_is_bounded(provider: MakeProvider) -> None:
    comment = b":" + b"x" * 1023 + b"\n"
    async with serving(stream(*[comment * 1024] * (AGENT_BODY_BYTES_MAX // 1024**2 + 1), DONE)) as server:
        with pytest.raises(CallFailed, match=f"more than {AGENT_BODY_BYTES_MAX} bytes"):
            await pieces_of(provider(server.url))


async def test_whoever_stops_listening_lets_the_connection_go(
    provider: MakeProvider, session: aiohttp.ClientSession
) -> None:
    async with serving(hang()) as server:
        asking = asyncio.create_task(pieces_of(provider(server.url)))
        await asyncio.wait_for(server.asked.wait(), PATIENCE_SECONDS)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert session.connector is not None
    assert not session.connector._acquired  # type: ignore[attr-defined]


def test_a_slash_at_the_end_of_the_base_url_does_not_matter(provider: MakeProvider) -> None:
    assert isinstance(provider("http://a/v1"), OpenAIProvider)
    assert provider("http://a/v1/")._url == provider("http://a/v1")._url == "http://a/v1/chat/completions"
