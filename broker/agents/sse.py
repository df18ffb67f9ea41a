"""Server-sent events, cut out of bytes as they come: the `data` of each one. Nothing else of the format is used."""

from collections.abc import Iterator

from broker.limits import AGENT_SSE_EVENT_BYTES_MAX


class SseTooLong(Exception):
    """One event is longer than any that is taken."""


class SseCutter:
    """Cuts a stream. Lines end with LF, CR or CR LF; an empty one ends an event."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0
        self._after_cr = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The data of every event that is whole now."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk, self._after_cr = chunk[1:], False
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        *lines, self._rest = (self._rest + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            if not line:
                yield from self._end()
            elif line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
                self._size += len(line)
            self._check()
        self._check()

    def _end(self) -> Iterator[bytes]:
        if self._data:
            data, self._data, self._size = b"\n".join(self._data), [], 0
            yield data

    def _check(self) -> None:
        if self._size + len(self._rest) > AGENT_SSE_EVENT_BYTES_MAX:
            raise SseTooLong(f"an event is longer than {AGENT_SSE_EVENT_BYTES_MAX} bytes")
