"""One request to somebody else, its bounded answer, and what a refusal says.

Redirects are not followed: they would carry a key, or a notification, to a host that nobody configured. Proxies and
passwords of the environment are not used either.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import orjson

from broker.limits import OUTGOING_ERROR_BODY_BYTES_MAX, OUTGOING_ERROR_CHARACTERS_MAX
from broker.outgoing.retries import RETRIED, Retries

_UNPRINTABLE = re.compile(r"\s+|[\x00-\x1f\x7f-\x9f]")


class CallFailed(Exception):
    """What was asked for was not done; the message names the place and says why."""


def open_session() -> aiohttp.ClientSession:
    """What calls are made with. Close it at the end."""
    return aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False
    )


@asynccontextmanager
async def post(
    session: aiohttp.ClientSession,
    url: str,
    body: Any,
    headers: Mapping[str, str],
    retries: Retries,
    *,
    seconds_a_try: float | None = None,
    hint: str = "",
) -> AsyncIterator[aiohttp.ClientResponse]:
    """The answer to a POST of JSON, once its status is 2xx; the body is still to be read.

    Who cannot be reached, or does not begin to answer in time, and a status that may be another one later: all that is
    tried again. Raise CallFailed for any other refusal, or when no try is left. `hint` says what to look at when
    nobody is let in.
    """
    data = orjson.dumps(body)
    sent = {"Content-Type": "application/json", "Accept-Encoding": "identity", **headers}
    tries = 0
    while True:
        tries += 1
        try:
            async with asyncio.timeout(seconds_a_try):
                response = await session.post(url, data=data, headers=sent, allow_redirects=False)
        except TimeoutError:
            delay = retries.delay(tries)
            if delay is None:
                raise CallFailed(f"{url} did not answer within {seconds_a_try:g} s; tried {_times(tries)}") from None
        except (aiohttp.ClientError, OSError) as error:
            delay = retries.delay(tries)
            if delay is None:
                raise CallFailed(f"{url} cannot be reached: {_reason(error)}; tried {_times(tries)}") from error
        else:
            async with response:
                if 200 <= response.status < 300:
                    yield response
                    return
                again = response.status in RETRIED
                delay = retries.delay(tries, response.headers.get("Retry-After")) if again else None
                if delay is None:
                    tried = f"; tried {_times(tries)}" if again else ""
                    raise CallFailed(f"{url} answered {await _refusal(response)}{tried}{_hint(response, hint)}")
        await asyncio.sleep(delay)


async def _refusal(response: aiohttp.ClientResponse) -> str:
    """The status, and what the body says about it, on one line."""
    try:
        text = (await response.content.read(OUTGOING_ERROR_BODY_BYTES_MAX)).decode(errors="replace")
    except aiohttp.ClientError:
        text = ""
    said = plain(message_of(text))
    return f"{response.status}: {said}" if said else f"{response.status} {plain(response.reason or '')}".rstrip()


def message_of(text: str) -> str:
    """The message in an error as the OpenAI protocol, Courier and many others write it; else the text itself."""
    try:
        document = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text
    error = document.get("error", document) if isinstance(document, dict) else document
    message = error.get("message", error) if isinstance(error, dict) else error
    return message if isinstance(message, str) else text


def plain(text: str) -> str:
    """A text of somebody else as one short line that cannot control a terminal."""
    line = _UNPRINTABLE.sub(" ", text).strip()
    return line if len(line) <= OUTGOING_ERROR_CHARACTERS_MAX else f"{line[:OUTGOING_ERROR_CHARACTERS_MAX]}…"


def _hint(response: aiohttp.ClientResponse, hint: str) -> str:
    return f"; {hint}" if hint and response.status in (401, 403) else ""


def _reason(error: BaseException) -> str:
    return plain(str(error)) or type(error).__name__


def _times(tries: int) -> str:
    return "once" if tries == 1 else f"{tries} times"
