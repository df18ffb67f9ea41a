"""A broker is opened, looked at and closed; nothing of it stays behind, and little of it comes with an import."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import broker as package
from broker import Broker
from broker.config import Config, Streams
from broker.errors import ConfigError, Draining, InvalidRequest, UnknownStream
from tests.conftest import OpenBroker
from tests.embedded.conftest import enqueue, ids
from tests.support import leaks
from tests.support.events import STREAM
from tests.support.process import PATIENCE_SECONDS, environment

EXPORTED = ["Broker", "Delivery", "Event", "KernelAdapter", "Pipe", "Reader", "Receipt", "effect"]


def test_the_package_exports_what_the_reference_lists_and_nothing_else() -> None:
    assert package.__all__ == EXPORTED
    assert [getattr(package, name).__name__ for name in EXPORTED] == EXPORTED
    assert set(EXPORTED) <= set(dir(package))
    with pytest.raises(AttributeError, match="has no attribute 'Brocker'"):
        _ = package.Brocker


LARGE = {"broker.embedded", "broker.core", "broker.journal", "_fast", "apsw", "aiohttp", "uvloop", "asyncio"}


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import broker.limits, broker.errors", LARGE),
        ("import broker", LARGE),
        ("import edge", {"broker", "_fast", "uvloop", "msgspec", "click", "yaml"}),
    ],
)
def test_a_small_import_brings_nothing_large_with_it(statement: str, unwanted: set[str]) -> None:
    code = f"{statement}; import sys; print(sorted({unwanted!r} & set(sys.modules)))"
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert ended.stdout == b"[]\n", ended.stderr


async def test_the_embedded_broker_needs_no_server(tmp_path: Path) -> None:
    code = "from broker import Broker; import sys; print({'aiohttp', 'uvloop', 'broker.app'} & set(sys.modules))"
    ended = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], env=environment(), capture_output=True, check=False
    )
    assert ended.stdout == b"set()\n", ended.stderr


def test_it_runs_on_the_loop_that_python_comes_with(tmp_path: Path) -> None:
    async def main() -> list[int]:
        async with Broker.open(tmp_path / "data") as broker, broker.subscribe(STREAM, ack="auto") as reader:
            for number in range(3):
                await broker.enqueue(STREAM, number)
            return [(await anext(reader)).payload for _ in range(3)]

    assert asyncio.run(main()) == [0, 1, 2]


async def test_a_broker_that_was_closed_leaves_no_thread_no_descriptor_and_no_task(data_dir: Path | None) -> None:
    async def use() -> None:
        async with Broker.open(data_dir) as broker:
            pipe = broker.pipe(STREAM)
            async with broker.subscribe("**") as reader:
                await enqueue(broker, *ids(20))
                await anext(pipe)
                await (await anext(reader)).ack()

    await use()  # the threads that the loop keeps for good are there now
    before, tasks = leaks.Held(), asyncio.all_tasks()
    for _ in range(3):
        await use()
    assert before.left_over() == []
    assert asyncio.all_tasks() == tasks


def files_in(directory: Path) -> list[Path]:
    return list(directory.iterdir())


async def test_in_memory_there_is_no_file_and_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before, threads = leaks.Held(), threading.active_count()
    async with Broker.open(None, {"streams": {"perStreamCaps": {"a/**": {"durability": "journal"}}}}) as broker:
        await broker.enqueue("a/b", 1)
        assert broker.stats("a/b")["durability"] == "memory"
        assert threading.active_count() == threads
        assert before.left_over() == []
    assert files_in(tmp_path) == []


async def test_a_second_broker_on_the_same_directory_is_refused_until_the_first_is_closed(tmp_path: Path) -> None:
    async with Broker.open(tmp_path) as broker:
        with pytest.raises(ConfigError, match=r"another broker .* uses this data directory"):
            await Broker.open(tmp_path)
        await broker.enqueue(STREAM, 1)
    async with Broker.open(str(tmp_path)) as again:
        assert again.stats(STREAM)["depth"] == 1


async def test_a_directory_that_cannot_be_used_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(ConfigError, match="cannot be used as data directory"):
        await Broker.open(tmp_path / "file")


async def test_a_configuration_is_checked_as_a_file_would_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        await Broker.open(tmp_path / "data", {"streams": {"maxDepth": 0, "leaseMs": 1}, "colour": "red"})
    assert [problem.split(":")[0] for problem in refused.value.problems] == [
        "streams.maxDepth",
        "streams.leaseMs",
        "colour",
    ]
    assert not (tmp_path / "data").exists()
    with pytest.raises(InvalidRequest, match="config must be a Config or a mapping, not str"):
        await Broker.open(tmp_path / "data", "courier.yaml")


async def test_a_configuration_that_was_loaded_is_taken_as_it_is() -> None:
    async with Broker.open(None, Config(streams=Streams(auto_create=False))) as broker:
        with pytest.raises(UnknownStream):
            await broker.enqueue(STREAM, 1)


async def test_the_streams_and_their_figures_can_be_looked_at(broker: Broker) -> None:
    assert broker.streams() == []
    with pytest.raises(UnknownStream, match=f"there is no stream '{STREAM}' now"):
        broker.stats(STREAM)
    await enqueue(broker, *ids(3))
    assert broker.streams() == [STREAM]
    async with broker.subscribe(STREAM, credit=2):
        figures = broker.stats(STREAM)
    assert (figures["depth"], figures["inflight"], figures["subscribers"]) == (1, 2, 1)
    assert figures["totals"]["in"] == 3


async def test_an_exception_in_the_block_of_a_broker_goes_on_and_the_broker_is_closed(data_dir: Path | None) -> None:
    opened: list[Broker] = []

    async def use() -> None:
        async with Broker.open(data_dir) as broker:
            opened.append(broker)
            await broker.enqueue(STREAM, 1)
            raise RuntimeError("the program failed")

    with pytest.raises(RuntimeError, match="the program failed"):
        await use()
    with pytest.raises(Draining):
        opened[0].pipe()


async def test_a_cancelled_program_closes_its_broker(tmp_path: Path) -> None:
    opened = asyncio.Event()

    async def use() -> None:
        async with Broker.open(tmp_path):
            opened.set()
            await asyncio.Event().wait()

    using = asyncio.create_task(use())
    await opened.wait()
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    async with Broker.open(tmp_path):
        pass


async def test_a_cancelled_opening_leaves_the_directory_free(tmp_path: Path) -> None:
    opening = asyncio.ensure_future(Broker.open(tmp_path)._open())
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    async with Broker.open(tmp_path):
        pass


async def test_a_cancelled_close_goes_on_and_can_be_waited_for(tmp_path: Path) -> None:
    broker = await Broker.open(tmp_path)
    await broker.enqueue(STREAM, 1)
    closing = asyncio.create_task(broker.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await broker.close()
    async with Broker.open(tmp_path) as again:
        assert again.stats(STREAM)["depth"] == 1


async def test_closing_twice_is_harmless(open_broker: OpenBroker) -> None:
    broker = await open_broker()
    await broker.close()
    await broker.close()
