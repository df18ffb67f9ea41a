"""The head of a text frame, in each class of length."""

import pytest
from websockets.frames import Frame, Opcode

from broker.deliveries.framing import text_frame_head


@pytest.mark.parametrize(
    ("length", "head"),
    [
        (0, b"\x81\x00"),
        (125, b"\x81\x7d"),
        (126, b"\x81\x7e\x00\x7e"),
        (127, b"\x81\x7e\x00\x7f"),
        (0xFFFF, b"\x81\x7e\xff\xff"),
        (0x1_0000, b"\x81\x7f\x00\x00\x00\x00\x00\x01\x00\x00"),
        (1 << 40, b"\x81\x7f\x00\x00\x01\x00\x00\x00\x00\x00"),
    ],
)
def test_each_class_of_length_has_its_head(length: int, head: bytes) -> None:
    assert text_frame_head(length) == head


@pytest.mark.parametrize("length", [0, 1, 125, 126, 127, 65_535, 65_536, 65_537])
def test_a_frame_is_what_another_library_writes(length: int) -> None:
    text = b"x" * length
    assert text_frame_head(length) + text == Frame(Opcode.TEXT, text).serialize(mask=False)
