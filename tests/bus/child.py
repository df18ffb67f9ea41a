"""A program with a bus that is killed: `python -m tests.bus.child DIRECTORY FIRST COUNT`.

It publishes numbers, and says on stdout what was published and which handler has seen what. At the end of its input it
waits until nothing is pending, and ends.
"""

import asyncio
import os
import sys

from broker import Broker
from broker.bus import Event

TOPICS = ("task.a", "task.b", "alert")
FAILS_EVERY = 7


def say(line: str) -> None:
    """One line, at once."""
    os.write(1, f"{line}\n".encode())


async def first(event: Event) -> None:
    say(f"first {event.payload['n']}")


async def fragile(event: Event) -> None:
    say(f"fragile {event.payload['n']}")
    if event.payload["n"] % FAILS_EVERY == 0:
        raise ValueError("seven")


async def last(event: Event) -> None:
    await asyncio.sleep(0)
    say(f"last {event.payload['n']}")


async def main(directory: str, start: int, count: int) -> None:
    async with Broker.open(directory) as broker:
        broker.bus.subscribe("**", first, subscriber_id="first")
        broker.bus.subscribe("task.*", fragile, subscriber_id="fragile")
        broker.bus.subscribe("alert", fragile, subscriber_id="fragile")
        broker.bus.subscribe("**", last, subscriber_id="last")

        async def publish(n: int) -> None:
            await broker.bus.publish(TOPICS[n % len(TOPICS)], "child", {"n": n})
            say(f"published {n}")

        for begin in range(start, start + count, 8):
            await asyncio.gather(*(publish(n) for n in range(begin, min(begin + 8, start + count))))
        while any(  # noqa: ASYNC110 - nobody is told when the last one is done
            broker.stats(name)["depth"] + broker.stats(name)["inflight"] for name in broker.streams()
        ):
            await asyncio.sleep(0)
        say("drained")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
