"""Courier as a service of a stream kernel in the same process."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from broker import Broker, KernelAdapter, Pipe
from tests.embedded.conftest import enqueue, ids
from tests.support.events import STREAM, envelope

CAPABILITIES = {"type": "transform", "accepts": ["envelope"], "produces": ["envelope", "view"]}


class Kernel:
    """A kernel that answers at once."""

    def __init__(self) -> None:
        self.services: dict[str, tuple[Mapping[str, Any], Pipe]] = {}

    def register(self, name: str, capabilities: Mapping[str, Any], pipe: Pipe) -> None:
        self.services[name] = (capabilities, pipe)


class AsyncKernel(Kernel):
    """A kernel that takes its time."""

    async def register(self, name: str, capabilities: Mapping[str, Any], pipe: Pipe) -> None:
        await asyncio.sleep(0)
        super().register(name, capabilities, pipe)


class Hostess:
    """A guest book."""

    def __init__(self) -> None:
        self.entries: list[Mapping[str, Any]] = []

    def register(self, registration: Mapping[str, Any]) -> None:
        self.entries.append(registration)


@pytest.mark.parametrize("kind", [Kernel, AsyncKernel])
async def test_courier_is_registered_as_a_transform_with_a_pipe_that_works(broker: Broker, kind: type[Kernel]) -> None:
    kernel = kind()
    pipe = await KernelAdapter(broker, subscribe="agents/**", window=2).register(kernel)
    assert kernel.services == {"courier": (CAPABILITIES, pipe)}
    await pipe.send({"enqueue": {"to": STREAM, "envelope": envelope("e-1")}})
    messages = [await anext(pipe) for _ in range(2)]
    assert {key for message in messages for key in message} == {"deliver", "attempt", "seq", "enqueued"}


async def test_a_pipe_that_a_kernel_refuses_is_closed(broker: Broker) -> None:
    class Refusing:
        pipe: Pipe

        def register(self, name: str, capabilities: Mapping[str, Any], pipe: Pipe) -> None:
            self.pipe = pipe
            raise ValueError("there is a courier already")

    kernel = Refusing()
    with pytest.raises(ValueError, match="there is a courier already"):
        await KernelAdapter(broker, subscribe=STREAM).register(kernel)
    assert [message async for message in kernel.pipe] == []
    assert broker.stats(STREAM)["subscribers"] == 0


async def test_it_is_advertised_with_its_figures_and_its_http_endpoint_if_there_is_one(broker: Broker) -> None:
    await enqueue(broker, *ids(3))
    hostess = Hostess()
    async with broker.subscribe(STREAM, credit=1):
        await KernelAdapter(broker, http_url="http://127.0.0.1:8787").advertise(hostess)
    await KernelAdapter(broker).advertise(hostess)
    linked, plain = hostess.entries
    assert linked["metadata"] == {
        "stats": {"streams": 1, "depth": 2, "inflight": 1},
        "httpUrl": "http://127.0.0.1:8787",
        "statsUrl": "http://127.0.0.1:8787/v1/streams",
        "healthUrl": "http://127.0.0.1:8787/readyz",
    }
    assert plain["metadata"] == {"stats": {"streams": 1, "depth": 3, "inflight": 0}}
    assert (linked["servername"], linked["capabilities"], linked["auth"]) == ("courier", CAPABILITIES, "no")
    assert [(each["name"], each["direction"]) for each in linked["terminals"]] == [
        ("input", "input"),
        ("output", "output"),
    ]


async def test_what_one_kernel_does_to_the_capabilities_is_not_seen_by_the_next(broker: Broker) -> None:
    kernels = [Kernel(), Kernel()]
    for kernel in kernels:
        await KernelAdapter(broker).register(kernel)
        capabilities, _ = kernel.services["courier"]
        assert capabilities == CAPABILITIES
        capabilities["accepts"].append("anything")
