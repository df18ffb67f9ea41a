"""How a command reaches the daemon through its Unix socket; without a daemon, it opens the outbox itself."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import orjson

from edge.config import Settings
from edge.errors import DiskFull, EdgeError, EventInvalid, OutboxFull, OutboxUnavailable, RequestInvalid
from edge.lines import Target
from edge.outbox import Outbox

T = TypeVar("T")
LINES_AT_ONCE = 200


def connect(settings: Settings) -> socket.socket | None:
    """A connection to the daemon; None when there is none."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(settings.socket_path))
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    return connection


def converse(connection: socket.socket, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Send lines and yield the answers, some at a time, so that neither side waits for the other to read."""
    remaining = iter(lines)
    with connection, connection.makefile("rb") as answers:
        while page := list(islice(remaining, LINES_AT_ONCE)):
            connection.sendall(b"".join(line + b"\n" for line in page))
            for _ in page:
                line = answers.readline()
                if not line:
                    raise OutboxUnavailable("the daemon ended before it answered; send it again")
                yield orjson.loads(line)


def ask(connection: socket.socket, command: str, **more: Any) -> dict[str, Any]:
    """Give the daemon a command; its answer. Raise the error that it answers with."""
    (answer,) = converse(connection, [orjson.dumps({"command": command, **more})])
    if "error" in answer:
        raise error_of(answer["error"])
    return answer


def error_of(error: dict[str, Any]) -> EdgeError:
    """An error that the daemon answered with, as the one that it was."""
    kinds: tuple[type[EdgeError], ...] = (EventInvalid, RequestInvalid, OutboxFull, DiskFull)
    for kind in kinds:
        if kind.code == error["code"]:
            return kind(error["message"])
    return OutboxUnavailable(error["message"]) if error["retryable"] else EdgeError(error["message"])


def with_outbox(settings: Settings, work: Callable[[Outbox], Awaitable[T]]) -> T:
    """Do something with the file itself, when there is no daemon."""

    async def run() -> T:
        async with Outbox(
            settings.path,
            device_id=settings.device,
            bounds=settings.bounds(),
            lanes=settings.lane_bounds(),
            contract=Target(settings.url).contract,
        ) as outbox:
            return await work(outbox)

    return asyncio.run(run())
