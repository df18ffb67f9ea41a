"""A program that puts events off and is killed: `python -m tests.scheduler.child DIRECTORY FIRST COUNT [WHEN COMMIT]`.

It puts numbers off by a few milliseconds, cancels some of them, and says on stdout what is on disk and what a handler
has seen. It ends by itself once nothing is put off any more and nothing is pending.

WHEN is `before` or `after`: it kills itself before or after the commit that stores what is due, the COMMIT-th one.
"""

import asyncio
import os
import random
import signal
import sys
from typing import Any

from broker import Broker
from broker.bus import Event
from broker.core import DurableCore
from broker.journal.batch import Batch
from broker.journal.writer import Writer

TOPICS = ("task.a", "task.b", "alert")
CANCELS_EVERY = 5
DELAY_MAX = 0.05


def say(line: str) -> None:
    """One line, at once."""
    os.write(1, f"{line}\n".encode())


class DiesAtCommit:
    """The committer of the writer, that commits once less, or once and no more."""

    def __init__(self, committer: Any, when: str) -> None:
        self._committer = committer
        self._when = when

    def __getattr__(self, name: str) -> Any:
        return getattr(self._committer, name)

    def commit(self) -> None:
        """The end of the transaction, and of the process."""
        if self._when == "after":
            self._committer.commit()
        os.kill(os.getpid(), signal.SIGKILL)


def die_at(when: str, number: int) -> None:
    """Kill this process before or after the commit of a promotion, the one of this number."""
    commit: Any = Writer._commit
    promotions = 0

    def dying(writer: Any, batch: Batch) -> None:
        nonlocal promotions
        promotions += any(each.events and each.job is not None for each in batch.submissions)
        if promotions == number:
            writer._committer = DiesAtCommit(writer._committer, when)
        commit(writer, batch)

    Writer._commit = dying  # type: ignore[method-assign]


async def first(event: Event) -> None:
    say(f"first {event.payload['n']}")


async def last(event: Event) -> None:
    await asyncio.sleep(0)
    say(f"last {event.payload['n']}")


async def main(directory: str, start: int, count: int) -> None:
    rng = random.Random(start)
    async with Broker.open(directory) as broker:
        broker.bus.subscribe("**", first, subscriber_id="first")
        broker.bus.subscribe("task.*", last, subscriber_id="last")
        broker.bus.subscribe("alert", last, subscriber_id="last")

        async def put_off(n: int) -> None:
            delay = rng.uniform(0, DELAY_MAX)
            deferred_id = await broker.bus.schedule_at(delay, TOPICS[n % len(TOPICS)], "child", {"n": n})
            say(f"scheduled {n}")
            if n % CANCELS_EVERY == 0:
                await asyncio.sleep(rng.uniform(0, DELAY_MAX))
                if await broker.bus.cancel(deferred_id):
                    say(f"cancelled {n}")

        for begin in range(start, start + count, 8):
            await asyncio.gather(*(put_off(n) for n in range(begin, min(begin + 8, start + count))))
        core = broker._core
        assert isinstance(core, DurableCore)

        def waiting(connection: Any) -> Any:
            return connection.execute("SELECT count(*) FROM deferrals WHERE status = 'scheduled'").get

        while await core.journal.execute(waiting) or any(  # noqa: ASYNC110 - nobody is told when the last one is done
            broker.stats(name)["depth"] + broker.stats(name)["inflight"] for name in broker.streams()
        ):
            await asyncio.sleep(0)
        say("drained")


if __name__ == "__main__":
    if len(sys.argv) > 4:
        die_at(sys.argv[4], int(sys.argv[5]))
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
