"""JSON on lines: input cut into lines of bounded length, envelopes brought onto one line."""

from collections.abc import Iterator

from broker.errors import TooLarge
from broker.limits import STDIO_LINE_BYTES_MAX

_LINE_BREAKS = bytes.maketrans(b"\r\n", b"  ")
_SEPARATORS = (("\u2028".encode(), rb"\u2028"), ("\u2029".encode(), rb"\u2029"))


def on_one_line(envelope: bytes) -> bytes:
    """The same JSON without anything that a reader of lines would take for the end of one.

    A line break in valid JSON stands between its parts, never in a string, so a space does as well. U+2028 and
    U+2029 only stand in strings; Node's readline cuts lines at them, so they are escaped.
    """
    if b"\n" in envelope or b"\r" in envelope:
        envelope = envelope.translate(_LINE_BREAKS)
    if envelope.isascii():  # the separators are not, and looking for them took most of the time of a delivery
        return envelope
    for separator, escaped in _SEPARATORS:
        if separator in envelope:
            envelope = envelope.replace(separator, escaped)
    return envelope


class LineCutter:
    """Cuts what is read into numbered lines. One that is too long is passed over, and reported once."""

    def __init__(self, line_bytes_max: int = STDIO_LINE_BYTES_MAX) -> None:
        self._line_bytes_max = line_bytes_max
        self._rest = bytearray()
        self._number = 1
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes | TooLarge]]:
        """The lines that end in `data`, without blank ones; each with its number."""
        *ended, rest = data.split(b"\n")
        for part in ended:
            if (line := self._line(part)) is not None:
                yield line
            self._skipping = False
            self._number += 1
        if (line := self._keep(rest)) is not None:
            yield line

    def end(self) -> Iterator[tuple[int, bytes | TooLarge]]:
        """The last line, if it has no line break behind it."""
        if (line := self._line(b"")) is not None:
            yield line

    def _line(self, part: bytes) -> tuple[int, bytes | TooLarge] | None:
        """The line that ends with a part."""
        if (too_long := self._keep(part)) is not None:
            return too_long
        line = bytes(self._rest)
        self._rest.clear()
        return (self._number, line) if line and not line.isspace() else None

    def _keep(self, part: bytes) -> tuple[int, TooLarge] | None:
        """Keep a part of a line, unless the line is too long; then say so, the first time."""
        if self._skipping:
            return None
        if len(self._rest) + len(part) <= self._line_bytes_max:
            self._rest += part
            return None
        self._rest.clear()
        self._skipping = True
        return self._number, TooLarge(f"the line is longer than {self._line_bytes_max} bytes; split it")
