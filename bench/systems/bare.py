"""The bare handlers as a process."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.failure import BenchmarkFailed


@contextmanager
def bare() -> Iterator[int]:
    """The port of bare handlers, which are ended afterwards."""
    process = subprocess.Popen([sys.executable, "-m", "bench.systems.handlers"], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise BenchmarkFailed("the bare handlers did not start; what they said is above")
        yield int(line)
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
