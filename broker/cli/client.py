"""How the client commands reach a broker: options, connection, and errors as messages with exit codes."""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import aiohttp
import click
import orjson
import uvloop

from broker.cli import exits

F = TypeVar("F", bound=Callable[..., Any])


def broker_options(command: F) -> F:
    """Add `--url` and `--token`."""
    url = click.option(
        "--url",
        envvar="COURIER_URL",
        default="http://127.0.0.1:8787",
        show_default=True,
        callback=_checked_url,
        help="The broker.",
    )
    token = click.option("--token", envvar="COURIER_TOKEN", help="The token, if the broker asks for one.")
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


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a client until it is done; a broker that cannot be reached is a message, not a traceback."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main)
    except (aiohttp.ClientError, TimeoutError) as error:
        reason = " ".join(str(error).split())
        fail(f"no broker answers: {reason}; start one with 'courier serve', or name it with --url", exits.UNAVAILABLE)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)


def fail(message: str, code: int) -> NoReturn:
    """Say what went wrong on stderr, and end."""
    click.echo(f"courier: {message}", err=True)
    sys.exit(code)


def refused(error: dict[str, Any]) -> NoReturn:
    """End with the broker's own error."""
    code = exits.TEMPORARY if error.get("retryable") else exits.REFUSED
    fail(f"{error.get('code')}: {error.get('message')}", code)


def accepted(content: bytes) -> dict[str, Any]:
    """The broker's answer to an event that it took; end when it did not, or when no broker said this."""
    answer: dict[str, Any] = {}
    with contextlib.suppress(orjson.JSONDecodeError):
        answer = orjson.loads(content)
    match answer:
        case {"error": dict(error)}:
            refused(error)
        case {"id": str(), "seq": int()}:
            return answer
    fail("what answers there is no broker; name one with --url", exits.UNAVAILABLE)


def session(url: str, token: str | None) -> aiohttp.ClientSession:
    """A client session for one broker."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return aiohttp.ClientSession(base_url=url.rstrip("/") + "/", headers=headers, json_serialize=_dumps)


def _dumps(value: Any) -> str:
    return orjson.dumps(value).decode()
