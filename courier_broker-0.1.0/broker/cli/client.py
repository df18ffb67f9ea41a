"""How the client commands reach a broker: options, requests, sockets, and errors as messages with exit codes."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import aiohttp
import click
import orjson
import uvloop

from broker.cli import exits
from broker.cli.output import say

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

JSON = {"Content-Type": "application/json"}
CONNECT_SECONDS_MAX = 10.0
SILENCE_SECONDS_MAX = 60.0
NO_BROKER = "what answers there is no broker; name one with --url or COURIER_URL"


def broker_options(command: F) -> F:
    """Add `--url` and `--token`."""
    url = click.option(
        "--url",
        envvar="COURIER_URL",
        default="http://127.0.0.1:8787",
        show_default=True,
        callback=_checked_url,
        help="The broker; else COURIER_URL names it.",
    )
    token = click.option(
        "--token", envvar="COURIER_TOKEN", help="The token, if the broker asks for one; else COURIER_TOKEN has it."
    )
    return url(token(command))


def _checked_url(_context: click.Context, _option: click.Parameter, url: str) -> str:
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        raise click.BadParameter(f"{url!r} is not a URL like http://127.0.0.1:8787")
    return url


def run(main: Coroutine[Any, Any, int | None]) -> None:
    """Run a client until it is done; if it returns an exit code, end with that."""
    if code := call(main):
        sys.exit(code)


def call(main: Coroutine[Any, Any, T]) -> T:
    """Run a client until it is done; what it returns. A broker that refuses or cannot be reached ends the command."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main)
    except Refused as refusal:
        fail(str(refusal), refusal.exit_code)
    except (aiohttp.ClientError, TimeoutError) as error:
        fail(unreachable(error), exits.UNAVAILABLE)


def unreachable(error: Exception) -> str:
    """Why no broker answers, and what to do."""
    is_tls = isinstance(error, aiohttp.ClientSSLError)
    if isinstance(error, aiohttp.ClientConnectorError) and not is_tls and error.os_error.errno:
        reason = f"{error.host}:{error.port}: {os.strerror(error.os_error.errno).lower()}"
    else:
        reason = " ".join(str(error).split()) or type(error).__name__
    return f"no broker answers: {reason}; start one with 'courier serve', or name it with --url"


def fail(message: str, code: int) -> NoReturn:
    """Say what went wrong on stderr, and end."""
    say(message)
    sys.exit(code)


class Refused(Exception):
    """The broker's own error, as it was on the wire."""

    def __init__(self, error: Mapping[str, Any], scope: str) -> None:
        super().__init__(error.get("message"))
        self.error = error
        self.scope = scope

    @property
    def is_temporary(self) -> bool:
        """Whether the same can succeed later."""
        return bool(self.error.get("retryable"))

    @property
    def exit_code(self) -> int:
        """What a command ends with that cannot go on."""
        return exits.TEMPORARY if self.is_temporary else exits.REFUSED

    def __str__(self) -> str:
        """What was wrong, and how a token that may do it is made."""
        text = f"{self.error.get('code')}: {self.error.get('message')}"
        match self.error.get("code"):
            case "unauthorized":
                return f"{text}; give one with --token or COURIER_TOKEN; {_new_token(self.scope)} creates one"
            case "forbidden" if "lacks the scope" in text:
                return f"{text}; use another token; {_new_token(self.scope)} creates one"
        return text


def _new_token(scope: str) -> str:
    return f"courier token new NAME --scope '{scope}'"


def session(url: str, token: str | None) -> aiohttp.ClientSession:
    """A client session for one broker."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    # No bound on the whole: a bulk replay takes as long as its rate says, and says how far it is all the time.
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS_MAX, sock_read=SILENCE_SECONDS_MAX)
    return aiohttp.ClientSession(base_url=url.rstrip("/") + "/", headers=headers, timeout=timeout)


class Client:
    """Requests to one broker. `scope` is what a token needs for them."""

    def __init__(self, url: str, token: str | None, scope: str) -> None:
        self._url = url
        self._token = token
        self._scope = scope
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> "Client":
        self._session = session(self._url, self._token)
        return self

    async def __aexit__(self, *details: object) -> None:
        await self._session.close()

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The object that a GET is answered with; raise Refused if it is an error."""
        return self._object(await self._content(path, params))

    async def get_bytes(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """The same as the bytes that came, in which nothing was altered."""
        content = await self._content(path, params)
        self._object(content)
        return content

    async def _content(self, path: str, params: Mapping[str, str] | None) -> bytes:
        async with self._session.get(path, params=params) as response:
            return await response.read()

    async def post(
        self, path: str, body: bytes, kind: Mapping[str, str] = JSON, params: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The object that a POST is answered with; raise Refused if it is an error."""
        async with self._session.post(path, data=body, headers=kind, params=params) as response:
            return self._object(await response.read())

    async def put(self, path: str, body: bytes) -> dict[str, Any]:
        """The object that a PUT is answered with; raise Refused if it is an error."""
        async with self._session.put(path, data=body, headers=JSON) as response:
            return self._object(await response.read())

    async def delete(self, path: str, params: Mapping[str, str]) -> dict[str, Any]:
        """The object that a DELETE is answered with; raise Refused if it is an error."""
        async with self._session.delete(path, params=params) as response:
            return self._object(await response.read())

    async def post_lines(self, path: str, body: bytes, kind: Mapping[str, str] = JSON) -> AsyncIterator[dict[str, Any]]:
        """The lines that a POST is answered with, as they come; raise Refused if it is an error as a whole."""
        async with self._session.post(path, data=body, headers=kind) as response:
            if response.status != 200 or response.content_type != "application/x-ndjson":
                yield self._object(await response.read())
                return
            async for line in response.content:
                yield _decoded(line)

    async def socket(self, path: str, params: Mapping[str, str]) -> aiohttp.ClientWebSocketResponse:
        """A WebSocket; raise Refused, with the broker's own reason, if there is to be none."""
        try:
            return await self._session.ws_connect(path, params=params, max_msg_size=0)
        except aiohttp.WSServerHandshakeError as refusal:
            # The library keeps no body of a refusal: ask again, as a plain request, for the reason.
            await self._explain(path, params, refusal.status)
            raise

    async def _explain(self, path: str, params: Mapping[str, str], status: int) -> None:
        async with self._session.get(path, params=params) as response:
            content = await response.read()
            if response.status == status:
                self._object(content)

    def refusal(self, error: Mapping[str, Any]) -> Refused:
        """An error that came in a frame or a line."""
        return Refused(error, self._scope)

    def _object(self, content: bytes) -> dict[str, Any]:
        answer = _decoded(content)
        if isinstance(error := answer.get("error"), dict):
            raise self.refusal(error)
        return answer


def _decoded(content: bytes) -> dict[str, Any]:
    with contextlib.suppress(orjson.JSONDecodeError):
        answer = orjson.loads(content)
        if isinstance(answer, dict):
            return answer
    fail(NO_BROKER, exits.UNAVAILABLE)


def expect(answer: Mapping[str, Any], *keys: str) -> None:
    """End unless the answer is one that a broker gives."""
    if any(key not in answer for key in keys):
        fail(NO_BROKER, exits.UNAVAILABLE)
