"""KernelAdapter: Courier as a service of a stream kernel in the same process (003 §13)."""

import inspect
from collections.abc import Mapping
from typing import Any, Protocol

from broker.embedded.broker import Broker
from broker.embedded.manifest import NAME, capabilities, links, registration
from broker.embedded.pipe import Pipe
from broker.limits import PIPE_WINDOW_DEFAULT


class Kernel(Protocol):
    """What is needed of a kernel. It may answer at once or with an awaitable."""

    def register(self, name: str, capabilities: Mapping[str, Any], pipe: Pipe) -> Any:
        """Take a service in."""


class Hostess(Protocol):
    """What is needed of a kernel's guest book. It may answer at once or with an awaitable."""

    def register(self, registration: Mapping[str, Any]) -> Any:
        """Enter a service, or enter it anew."""


class KernelAdapter:
    """Offers an open broker to a kernel, as the service `courier`."""

    def __init__(
        self,
        broker: Broker,
        *,
        subscribe: str | None = None,
        window: int = PIPE_WINDOW_DEFAULT,
        http_url: str | None = None,
    ) -> None:
        """`subscribe` and `window` are the pipe's; `http_url` is where the same broker serves HTTP, if it does."""
        self._broker = broker
        self._subscribe = subscribe
        self._window = window
        self._http_url = http_url

    async def register(self, kernel: Kernel) -> Pipe:
        """Register `courier` with a pipe of its own, and return that pipe. If the kernel refuses, it is closed."""
        pipe = self._broker.pipe(self._subscribe, window=self._window)
        try:
            answer = kernel.register(NAME, capabilities(), pipe)
            if inspect.isawaitable(answer):
                await answer
        except BaseException:
            await pipe.close()
            raise
        return pipe

    async def advertise(self, hostess: Hostess) -> None:
        """Enter `courier` into a guest book, with the figures of this moment. Call it again to renew them."""
        answer = hostess.register(self.advertisement())
        if inspect.isawaitable(answer):
            await answer

    def advertisement(self) -> dict[str, Any]:
        """What is entered: `metadata` has the figures, and the links to HTTP where there is one."""
        return registration(metadata={"stats": self.stats(), **links(self._http_url)})

    def stats(self) -> dict[str, int]:
        """How many streams there are, and how many events wait and are in flight over all of them."""
        figures = [self._broker.stats(name) for name in self._broker.streams()]
        return {
            "streams": len(figures),
            "depth": sum(each["depth"] for each in figures),
            "inflight": sum(each["inflight"] for each in figures),
        }
