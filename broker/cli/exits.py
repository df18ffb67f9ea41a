"""The exit codes of `courier`, stable across versions (after sysexits.h where that has one)."""

from typing import Final

FAILED: Final = 1
USAGE: Final = 2
REFUSED: Final = 65
"""The broker refused what was sent, and would refuse it again."""
UNAVAILABLE: Final = 69
"""No broker answered there."""
STORAGE: Final = 74
"""The journal failed in a way after which nothing can be acknowledged."""
TEMPORARY: Final = 75
"""The broker could not take it now; try again."""
CONFIG: Final = 78
"""The configuration cannot be used."""
