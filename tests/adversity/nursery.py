"""A process that has the edge imported and forks devices from itself: a life costs a fork, not a start of Python.

    python -m tests.adversity.nursery

Each line of its input is an order. `{"environment": {…}, "aim": …}` begins the life of a daemon, `{}` ends it with
kill -9. What the daemon prints is its output, and then `ended CODE`. One device lives at a time.

An aim is `[class, method, call, after]`: the device kills itself with -9 there. So the kill hits its point however busy
the machine is.
"""

import os
import select
import signal
import sys
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

import orjson

from edge.cli import main
from edge.flights import Flights
from edge.lines import SocketLine
from edge.outbox import Outbox
from edge.store import Store

CLASSES = {each.__name__: each for each in (Flights, Outbox, SocketLine, Store)}


def aim_at(name: str, method: str, call: int, after: bool) -> None:
    """Let this process die at a call of a method, before it or after it."""
    owner = CLASSES[name]
    plain: Callable[..., Any] = getattr(owner, method)
    calls = 0

    def here(is_after: bool) -> None:
        nonlocal calls
        calls += is_after is after
        if calls == call:
            os.kill(os.getpid(), signal.SIGKILL)

    def aimed(*given: Any) -> Any:
        here(False)
        result = plain(*given)
        here(True)
        return result

    async def aimed_and_awaited(*given: Any) -> Any:
        here(False)
        result = await plain(*given)
        here(True)
        return result

    setattr(owner, method, aimed_and_awaited if iscoroutinefunction(plain) else aimed)


def live(order: dict[str, Any]) -> None:
    """Be a device, from here to the end of the process."""
    code = 70
    try:
        os.environ.update(order["environment"])
        if order["aim"] is not None:
            aim_at(*order["aim"])
        sys.argv = ["courier-edge", "run"]
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        os._exit(code)


def attend(device: int) -> int:
    """Wait until a device has ended, by itself or as ordered; how. An end of the orders is an order to end it."""
    ended = os.pidfd_open(device)
    try:
        ready, _, _ = select.select([ended, sys.stdin], [], [])
        if ended not in ready:
            os.read(0, 3)
            os.kill(device, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(device, 0)[1])
    finally:
        os.close(ended)


def serve() -> None:
    """Obey until there are no more orders."""
    while line := sys.stdin.buffer.raw.readline():
        order = orjson.loads(line)
        if not order:
            continue  # it had ended by itself when this was said
        device = os.fork()
        if not device:
            live(order)
        os.write(1, f"ended {attend(device)}\n".encode())


if __name__ == "__main__":
    serve()
