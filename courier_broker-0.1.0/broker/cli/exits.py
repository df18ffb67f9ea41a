"""The exit codes of `courier`, stable across versions (after sysexits.h where that has one)."""

from typing import Final

FAILED: Final = 1
USAGE: Final = 2
REFUSED: Final = 65
"""The broker refused what was sent, or some of it, and would refuse it again; or a line of stdin is no event."""
UNAVAILABLE: Final = 69
"""No broker answered there."""
STORAGE: Final = 74
"""The journal failed in a way after which nothing can be acknowledged."""
TEMPORARY: Final = 75
"""The broker could not take it now; try again."""
CONFIG: Final = 78
"""The configuration cannot be used."""
INTERRUPTED: Final = 130
"""Ctrl-C ended it: 128 and the number of SIGINT."""
BROKEN_PIPE: Final = 141
"""Whoever read its output went away, as `| head` does: 128 and the number of SIGPIPE."""
