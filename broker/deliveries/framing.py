"""WebSocket text frames as bytes (RFC 6455 §5.2), the way a server sends them: final, not masked.

The front builds them itself because several can then leave in one write. Frames that aiohttp writes (pings,
pongs, the close) cannot come between: it hands each to the transport whole, in one step of the loop.
"""

from collections.abc import Iterable
from typing import Final

FINAL_TEXT: Final = 0x81
_LENGTH_7_BIT_MAX: Final = 125
_LENGTH_16_BIT_MAX: Final = 0xFFFF


class Framed(bytes):
    """Bytes that are whole frames already."""


def text_frame_head(length: int) -> bytes:
    """What precedes a payload of so many bytes."""
    if length <= _LENGTH_7_BIT_MAX:
        return bytes((FINAL_TEXT, length))
    if length <= _LENGTH_16_BIT_MAX:
        return b"\x81\x7e" + length.to_bytes(2, "big")
    return b"\x81\x7f" + length.to_bytes(8, "big")


def framed(texts: Iterable[bytes]) -> bytes:
    """Texts as whole frames, in one piece, among what is framed already."""
    parts: list[bytes] = []
    for text in texts:
        if not isinstance(text, Framed):
            parts.append(text_frame_head(len(text)))
        parts.append(text)
    return parts[0] if len(parts) == 1 else b"".join(parts)
