"""What one connection has received: kept as it came, looked at in bulk while the clock runs, and read afterwards.

It is a chain of buffers. A buffer is left when it has no room for one more read; what was not looked at yet moves
to the next, so a message that is cut in two by the end of a buffer is whole again.
"""

import socket

READ_BYTES = 1 << 16
SEGMENT_BYTES = 1 << 22


class Inbox:
    """The bytes of one connection, in order."""

    def __init__(self, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._segment_bytes = max(segment_bytes, 2 * READ_BYTES)
        self._left: list[tuple[bytearray, int]] = []
        self.buffer = bytearray(self._segment_bytes)
        self._view = memoryview(self.buffer)
        self.scanned = 0
        """Up to here the buffer was looked at."""
        self.end = 0
        """Up to here the buffer is filled."""

    def fill(self, source: socket.socket) -> int:
        """Read once; how many bytes came."""
        if self.end + READ_BYTES > len(self.buffer):
            self._next_buffer()
        got = source.recv_into(self._view[self.end : self.end + READ_BYTES])
        self.end += got
        return got

    def put(self, data: bytes) -> None:
        """Take what was read elsewhere, behind a handshake."""
        self.buffer[self.end : self.end + len(data)] = data
        self.end += len(data)

    def _next_buffer(self) -> None:
        rest = self._view[self.scanned : self.end]
        self._left.append((self.buffer, self.scanned))
        self.buffer = bytearray(max(self._segment_bytes, 2 * len(rest) + READ_BYTES))
        self._view = memoryview(self.buffer)
        self._view[: len(rest)] = rest
        self.scanned, self.end = 0, len(rest)

    def count(self, marker: bytes) -> int:
        """How many of these came since the last look."""
        found = self.buffer.count(marker, self.scanned, self.end)
        if found:
            self.scanned = self.buffer.rfind(marker, self.scanned, self.end) + len(marker)
        return found

    def new(self) -> bytes:
        """What came since the last look; it stays to be looked at."""
        return bytes(self._view[self.scanned : self.end])

    def all(self) -> bytes:
        """Everything, as it came."""
        parts: list[bytes | memoryview] = [memoryview(buffer)[:scanned] for buffer, scanned in self._left]
        return b"".join([*parts, self._view[: self.end]])
