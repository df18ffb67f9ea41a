"""What a test may not leave behind: asyncio tasks, threads, file descriptors."""

import asyncio
import os
import threading
from pathlib import Path

PATIENCE_SECONDS = 5.0
"""How long something that is about to end is waited for."""


class Held:
    """The threads and descriptors of this process at one moment."""

    def __init__(self) -> None:
        self._threads = set(threading.enumerate())
        self._descriptors = _descriptors()

    def left_over(self) -> list[str]:
        """What there is now and was not then, each with a line that says what it is."""
        threads = [thread for thread in threading.enumerate() if thread not in self._threads]
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
        found = [f"thread {thread.name!r}, daemon={thread.daemon}" for thread in threads if thread.is_alive()]
        return found + [
            f"descriptor {number}: {target}"
            for number, target in sorted(_descriptors().items())
            if self._descriptors.get(number) != target
        ]


def _descriptors() -> dict[int, str]:
    found = {}
    with os.scandir("/proc/self/fd") as entries:
        for entry in entries:
            try:
                found[int(entry.name)] = str(Path(entry.path).readlink())
            except FileNotFoundError:
                continue
    return {number: target for number, target in found.items() if not target.endswith(f"/proc/{os.getpid()}/fd")}


async def tasks_left_over() -> list[str]:
    """The tasks of the running loop that do not come to an end."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    if tasks:
        _, tasks = await asyncio.wait(tasks, timeout=PATIENCE_SECONDS)
    return [f"task {task!r}" for task in tasks]
