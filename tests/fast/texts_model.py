"""The reader of frames in plain Python: byte after byte, with a regular expression where a grammar is meant."""

import json
import re

CONTROL_BYTES_MAX = 125


class FrameReader:
    """Keeps what is not a whole frame yet, and looks at all of it again when more comes."""

    def __init__(self, text_bytes_max: int) -> None:
        if text_bytes_max < 1:
            raise ValueError(f"text_bytes_max must be at least 1, not {text_bytes_max}")
        self._text_bytes_max = text_bytes_max
        self._held = b""
        self.is_plain = True

    @property
    def held_bytes(self) -> int:
        """How much is kept of a frame that has not come in full."""
        return len(self._held)

    def take(self, chunk: bytes) -> tuple[list[bytes], bytes]:
        """Cut frames off the front, for as long as there is a whole one that is plain."""
        if not isinstance(chunk, bytes):
            raise TypeError("a chunk is bytes")
        if not self.is_plain:
            raise RuntimeError("what came was not plain; the other reader has the rest")
        data, texts, others = self._held + chunk, [], b""
        while self.is_plain and (end := self._end_of_frame(data)):
            if data[0] == 0x81:
                texts.append(_unmasked(data[:end]))
            else:
                others += data[:end]
            data = data[end:]
        self._held = data if self.is_plain else b""
        return texts, others if self.is_plain else others + data

    def _end_of_frame(self, data: bytes) -> int:
        """How long the first frame is; 0 if it is not all there, or not plain."""
        if len(data) < 2:
            return 0
        masked, size, head = data[1] >> 7, data[1] & 0x7F, 2
        if data[0] in (0x89, 0x8A):
            if size > CONTROL_BYTES_MAX:
                self.is_plain = False
                return 0
        elif data[0] != 0x81 or not masked:
            self.is_plain = False
            return 0
        elif size > 125:
            head += 2 if size == 126 else 8
            if len(data) < head:
                return 0
            size = int.from_bytes(data[2:head])
        if data[0] == 0x81 and size > self._text_bytes_max:
            self.is_plain = False
            return 0
        end = head + 4 * masked + size
        return end if len(data) >= end else 0


def _unmasked(frame: bytes) -> bytes:
    head = {126: 4, 127: 10}.get(frame[1] & 0x7F, 2)
    mask, text = frame[head : head + 4], frame[head + 4 :]
    return bytes(byte ^ mask[place % 4] for place, byte in enumerate(text))


_SEQ = rb"[1-9][0-9]{0,17}"
_B = rb"[ \t\n\r]*"
_ACK = re.compile(
    _B + rb"\{" + _B + rb'"ack"' + _B + rb":" + _B
    + rb"(" + _SEQ + rb"|\[" + _B + _SEQ + rb"(?:" + _B + rb"," + _B + _SEQ + rb")*" + _B + rb"\])"
    + _B + rb"\}" + _B
)  # fmt: skip


def ack_keys(texts: list[bytes], first: int, keys_max: int) -> tuple[list[int], int]:
    """What is acknowledged, text by text."""
    if first < 0:
        raise ValueError(f"first must be at least 0, not {first}")
    keys: list[int] = []
    for place in range(first, len(texts)):
        if not isinstance(texts[place], bytes):
            raise TypeError("a text is bytes")
        match = _ACK.fullmatch(texts[place])
        if match is None:
            return keys, place
        found = json.loads(match[1])
        more = found if isinstance(found, list) else [found]
        if len(keys) + len(more) > keys_max:
            return keys, place
        keys += more
    return keys, max(first, len(texts))
