"""A pipe over two file descriptors, which are stdin and stdout of `courier pipe --stdio`.

Each side has a thread that does nothing but wait for the kernel. Rejected: non-blocking descriptors on the loop. That
flag belongs to the open file and not to this process, so that whoever shares it (a terminal, stderr with `2>&1`,
the parent) would suddenly meet it too; and a loop cannot wait for a plain file at all.
"""

import asyncio
import os
import select
from concurrent.futures import ThreadPoolExecutor

from broker.embedded.duplex import Duplex
from broker.embedded.lines import LineCutter
from broker.errors import TooLarge
from broker.limits import STDIO_READ_BYTES


class Input:
    """Reads a descriptor at the speed at which it is asked to, until it is stopped."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC)
        self._thread = ThreadPoolExecutor(1, "courier-stdin")

    async def read(self) -> bytes:
        """What is there, waiting for something; b"" at the end, or when it was stopped."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read)

    def _read(self) -> bytes:
        waiting = select.poll()
        waiting.register(self._descriptor, select.POLLIN)
        waiting.register(self._wake_read, select.POLLIN)
        ready = [descriptor for descriptor, _ in waiting.poll()]
        return b"" if self._wake_read in ready else os.read(self._descriptor, STDIO_READ_BYTES)

    def stop(self) -> None:
        """Let whoever reads see the end."""
        os.write(self._wake_write, b"x")

    def close(self) -> None:
        """End the thread. The descriptor itself stays open."""
        self.stop()
        self._thread.shutdown()
        os.close(self._wake_read)
        os.close(self._wake_write)


class Output:
    """Writes to a descriptor at the speed of whoever reads there."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._thread = ThreadPoolExecutor(1, "courier-stdout")

    async def write(self, data: bytes) -> None:
        """Return when the kernel has all of it; raise OSError when nobody reads any more."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._write, data)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def close(self) -> None:
        """End the thread, once the write that it is at has ended."""
        self._thread.shutdown()


async def run(duplex: Duplex, stdin: int, stdout: int, stop: asyncio.Event) -> None:
    """Serve a pipe until the end of input, until `stop`, or until nobody reads; then drain it.

    Every event that was read from the input is answered first.
    """
    source, sink = Input(stdin), Output(stdout)
    feeding = asyncio.create_task(_feed(source, duplex))
    draining = asyncio.create_task(_drain(duplex, sink))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([feeding, draining, stopping], return_when=asyncio.FIRST_COMPLETED)
        source.stop()
        await asyncio.wait([feeding, draining], return_when=asyncio.FIRST_COMPLETED)
        if feeding.done():
            feeding.result()  # what was read is obeyed, also when the end was a signal
        else:
            feeding.cancel()  # nobody reads the answers
        await duplex.close()
        await draining
    finally:
        for task in (feeding, draining, stopping):
            task.cancel()
        await asyncio.gather(feeding, draining, stopping, return_exceptions=True)
        await duplex.close()
        source.close()
        sink.close()


async def _feed(source: Input, duplex: Duplex) -> None:
    """Obey every line of the input."""
    cutter = LineCutter()
    while data := await source.read():
        for number, line in cutter.feed(data):
            await _obey(duplex, number, line)
    for number, line in cutter.end():
        await _obey(duplex, number, line)


async def _obey(duplex: Duplex, number: int, line: bytes | TooLarge) -> None:
    if isinstance(line, TooLarge):
        await duplex.reject(line, number)
    else:
        await duplex.obey(line, number)


async def _drain(duplex: Duplex, sink: Output) -> None:
    """Write every message, until there will be no more."""
    while lines := await duplex.read_lines():
        try:
            await sink.write(lines)
        except BrokenPipeError:
            return
