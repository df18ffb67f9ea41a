"""Extensions in a directory of their own, hosted on a broker inside the test; and a user who reads."""

import asyncio
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from broker import Broker
from broker.channels import Channels, Message
from broker.extensions import Host
from broker.extensions.extension import Extension
from tests.support.writer import PATIENCE_SECONDS, eventually

StartHost = Callable[..., Awaitable[Host]]

LISTENS = """
events:
  subscribes:
    - {topic: %s, handler: %s}
"""

RECORDS = """
class It:
    seen = []

    async def initialize(self, context):
        self.context = context
        context.subscribe_event("task.received", self.on_task)

    async def on_task(self, event):
        self.seen.append(event)
"""
"""An extension that remembers the events of task.received."""

IT = "entrypoint: extension:It\n"


def write(root: Path, name: str, manifest: str = "{}", code: str | None = None, **modules: str) -> Path:
    """Put an extension into a directory, or change it there."""
    directory = root / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "manifest.yaml").write_text(textwrap.dedent(manifest))
    for module, text in {**({} if code is None else {"extension": code}), **modules}.items():
        (directory / f"{module}.py").write_text(textwrap.dedent(text))
    return directory


class User:
    """The channel of the user, who remembers what was said."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.pieces: list[str] = []
        self._more = asyncio.Event()

    async def send(self, message: Message) -> None:
        self.messages.append(message)
        self._more.set()

    @property
    def told(self) -> list[str]:
        return [message.text for message in self.messages]

    async def until_told(self, count: int = 1) -> list[str]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.messages) < count:
                self._more.clear()
                await self._more.wait()
        return self.told


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The directory of the extensions."""
    directory = tmp_path / "extensions"
    directory.mkdir()
    return directory


@pytest.fixture
def user() -> User:
    """The user, at the other end of the channel `user`."""
    return User()


@pytest.fixture
def problems() -> list[str]:
    """What the host has reported."""
    return []


@pytest.fixture
async def start_host(broker: Broker, root: Path, user: User, problems: list[str]) -> AsyncIterator[StartHost]:
    """Host what is in the directory: `await start_host(environ={…})`; stopped at the end."""
    async with AsyncExitStack() as started:

        async def start(environ: Mapping[str, str] | None = None) -> Host:
            channels = Channels()
            channels.add("user", user)
            host = Host(root, broker.bus, environ=environ or {}, channels=channels, report=problems.append)
            started.push_async_callback(host.stop)
            await host.start()
            return host

        yield start


def named(host: Host, extension_id: str) -> Extension:
    """An extension that runs."""
    (found,) = [each for each in host.extensions if each.id == extension_id]
    return found


def thing(host: Host, extension_id: str) -> Any:
    """Its object."""
    return named(host, extension_id).thing


async def until_seen(things: Any, count: int) -> list[Any]:
    """The events that an extension has, once there are so many."""
    await eventually(lambda: len(things.seen) >= count)
    return list(things.seen)
