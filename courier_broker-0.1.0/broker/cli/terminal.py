"""What the terminal can do, if there is one, and what may be shown on it."""

import os
import sys
from typing import Any, TextIO

import click

SIZE_WITHOUT_TERMINAL = (80, 24)
CLEAR_LINE = "\r\x1b[K"


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at it."""
    return stream.isatty()


def can_move(stream: TextIO) -> bool:
    """Whether what is shown can be overwritten in place."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def can_colour(stream: TextIO) -> bool:
    """Whether colour is wanted: on a terminal, unless NO_COLOR is set (https://no-color.org) or it is a dumb one."""
    return can_move(stream) and not os.environ.get("NO_COLOR")


def styled(text: str, stream: TextIO | None = None, **style: Any) -> str:
    """A text in colour, where colour is wanted: on stdout, unless another stream is given."""
    return click.style(text, **style) if can_colour(stream or sys.stdout) else text


def size(stream: TextIO) -> tuple[int, int]:
    """Columns and lines of the terminal, as they are now."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except OSError:
        return SIZE_WITHOUT_TERMINAL
    return columns or SIZE_WITHOUT_TERMINAL[0], lines or SIZE_WITHOUT_TERMINAL[1]


def shown(text: str) -> str:
    """A text of somebody else that cannot control the terminal: what does not print is spelled out."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
