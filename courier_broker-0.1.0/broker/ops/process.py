"""The figures of the process, under the names that Prometheus' own clients use."""

import asyncio
import gc
import os
import platform
import resource
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from broker.ops.metrics import Family, metric, value, values

CPU = metric("process_cpu_seconds_total", "counter", "Time on the processor, of user and system.")
RESIDENT = metric("process_resident_memory_bytes", "gauge", "Memory that is resident.")
VIRTUAL = metric("process_virtual_memory_bytes", "gauge", "Memory that is mapped.")
FDS = metric("process_open_fds", "gauge", "File descriptors that are open.")
FDS_MAX = metric("process_max_fds", "gauge", "File descriptors that may be open.")
STARTED = metric("process_start_time_seconds", "gauge", "When the process started, in seconds since 1970.")
GC_RUNS = metric("python_gc_collections_total", "counter", "Runs of the garbage collector.", "generation")
GC_FOUND = metric("python_gc_objects_collected_total", "counter", "Objects that it collected.", "generation")
GC_STUCK = metric("python_gc_objects_uncollectable_total", "counter", "Objects that it could not.", "generation")
PYTHON = metric("python_info", "gauge", "The Python that runs this.", "implementation", "version")
BUILD = metric("courier_build_info", "gauge", "The version of Courier.", "version")

_SELF = Path("/proc/self")


class Facts(NamedTuple):
    """What `/proc` tells. Where there is none, there are no facts."""

    resident_bytes: int
    virtual_bytes: int
    fds: int
    started: float


def facts(home: Path = _SELF) -> Facts | None:
    """Read them; may take a moment, where very many files are open."""
    try:
        pages = (home / "statm").read_text().split()
        after_name = (home / "stat").read_text().rpartition(")")[2].split()
        fds = len(os.listdir(home / "fd")) - 1  # noqa: PTH208 - names will do; one is that of the list itself
        booted = next(line for line in (home / "../stat").read_text().splitlines() if line.startswith("btime "))
    except OSError:
        return None
    page_bytes, ticks = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
    started = int(booted.split()[1]) + int(after_name[19]) / ticks
    return Facts(int(pages[1]) * page_bytes, int(pages[0]) * page_bytes, fds, started)


class ProcessMetrics:
    """A collector; `refresh` reads `/proc` on another thread."""

    def __init__(self) -> None:
        self._facts: Facts | None = None
        self._python = (platform.python_implementation(), platform.python_version())
        self._version = version("courier-broker")

    async def refresh(self) -> None:
        """Read the facts anew."""
        self._facts = await asyncio.to_thread(facts)

    def __call__(self) -> Iterator[Family]:
        """The families."""
        yield value(CPU, time.process_time())
        yield value(FDS_MAX, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        found = self._facts
        if found is not None:
            yield value(RESIDENT, found.resident_bytes)
            yield value(VIRTUAL, found.virtual_bytes)
            yield value(FDS, found.fds)
            yield value(STARTED, found.started)
        generations = [(str(number), each) for number, each in enumerate(gc.get_stats())]
        yield values(GC_RUNS, [(number, each["collections"]) for number, each in generations])
        yield values(GC_FOUND, [(number, each["collected"]) for number, each in generations])
        yield values(GC_STUCK, [(number, each["uncollectable"]) for number, each in generations])
        yield values(PYTHON, [(self._python, 1)])
        yield values(BUILD, [(self._version, 1)])
