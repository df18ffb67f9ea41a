"""What every test shares: uvloop, nothing left over, a broker as a process and one inside the test."""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import uvloop
from pytest_asyncio import is_async_test

from broker import Broker
from broker.app import App
from broker.clock import Clock
from broker.config import Config
from tests.support import leaks
from tests.support.client import Client
from tests.support.process import BrokerProcess

for _ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    # A run that was started in the background may ignore these, and what the tests start would ignore them, too.
    if signal.getsignal(_ignored) is signal.SIG_IGN:
        signal.signal(_ignored, signal.SIG_DFL)

StartBroker = Callable[..., BrokerProcess]
StartApp = Callable[..., Awaitable[App]]
OpenBroker = Callable[..., Awaitable[Broker]]
Connect = Callable[..., Awaitable[Client]]


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], Any]]:
    """Every async test runs on the loop that the broker runs on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session", autouse=True)
def _libuv_is_warm() -> None:
    """The first loop of a process opens a pipe for signals that libuv keeps for good."""
    uvloop.new_event_loop().close()


@pytest.fixture(autouse=True)
def _nothing_is_left_over() -> Iterator[None]:
    """No thread and no descriptor outlives its test. The first fixture of all, so that it ends last."""
    before = leaks.Held()
    yield
    left_over = before.left_over()
    if left_over:
        pytest.fail("the test left over:\n  " + "\n  ".join(left_over), pytrace=False)


@pytest.fixture(autouse=True)
def _no_task_is_left_over(_nothing_is_left_over: None, request: pytest.FixtureRequest) -> None:
    """No task outlives its test; the loop itself would cancel it without a word."""
    if is_async_test(request.node):
        request.getfixturevalue("_tasks_end_with_the_test")


@pytest.fixture
async def _tasks_end_with_the_test() -> AsyncIterator[None]:
    yield
    left_over = await leaks.tasks_left_over()
    if left_over:
        pytest.fail("the test left over:\n  " + "\n  ".join(left_over), pytrace=False)


@pytest.fixture
def broker_process(tmp_path: Path) -> Iterator[StartBroker]:
    """Start `courier serve` on a free port: `broker_process(config=…, env=…, data=…)`."""
    with ExitStack() as started:

        def start(*, data: Path | None = None, **options: Any) -> BrokerProcess:
            return started.enter_context(BrokerProcess(data or tmp_path / "data", **options))

        yield start


@pytest.fixture
async def start_app(tmp_path: Path) -> AsyncIterator[StartApp]:
    """Start a broker inside the test: `await start_app({"streams": {…}}, clock=…)`; drained at the end."""
    async with AsyncExitStack() as started:

        async def start(config: Mapping[str, Any] | None = None, *, clock: Clock | None = None) -> App:
            given = {"data": str(tmp_path / "data"), **(config or {})}
            given["server"] = {"port": 0, **given.get("server", {})}
            app = await App.start(msgspec.convert(given, Config), clock)
            started.push_async_callback(app.drain)
            return app

        yield start


@pytest.fixture
async def app(start_app: StartApp) -> App:
    """A broker inside the test, with the defaults."""
    return await start_app()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path | None:
    """Where a broker without a socket is opened; None for one in memory."""
    return tmp_path / "data"


@pytest.fixture
async def open_broker(data_dir: Path | None) -> AsyncIterator[OpenBroker]:
    """Open a broker without a socket: `await open_broker({"streams": {…}}, clock=…)`; closed at the end."""
    async with AsyncExitStack() as opened:

        async def open_one(config: Mapping[str, Any] | None = None, *, clock: Clock | None = None) -> Broker:
            broker = await Broker.open(data_dir, config, clock=clock)
            opened.push_async_callback(broker.close)
            return broker

        yield open_one


@pytest.fixture
async def broker(open_broker: OpenBroker) -> Broker:
    """A broker without a socket, with the defaults."""
    return await open_broker()


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """A client of the broker at a URL: `await connect(url, headers=…)`."""
    async with AsyncExitStack() as opened:

        async def open_client(url: str, **options: Any) -> Client:
            session = aiohttp.ClientSession(base_url=f"{url}/", **options)
            return Client(await opened.enter_async_context(session))

        yield open_client


@pytest.fixture
async def client(app: App, connect: Connect) -> Client:
    """A client of `app`."""
    return await connect(app.server.address)
