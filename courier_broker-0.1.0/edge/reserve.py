"""Room on the disk that is kept for letting rows go.

On a full disk even a delete needs room, for the WAL, and so does the checkpoint that would empty the WAL. An outbox
whose disk is full could then never shrink again, however well the broker can be reached. So a file beside it holds
enough room for that. It is given up when the disk is full; as long as it is missing, events are
refused and acknowledgements are not; and it is made again as soon as there is room.
"""

import contextlib
import os
from pathlib import Path

from edge import limits


class Reserve:
    """`<outbox>.reserve`, or the lack of it."""

    def __init__(self, path: Path) -> None:
        self._path = Path(f"{path}.reserve")
        self.held = False
        self.hold()

    def hold(self) -> bool:
        """Take the room, if there is any; whether it is held."""
        if self.held:
            return True
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, limits.RESERVE_BYTES)
                self.held = True
            finally:
                os.close(descriptor)
        except OSError:
            self.release()
        return self.held

    def release(self) -> None:
        """Give the room up."""
        self.held = False
        with contextlib.suppress(OSError):
            self._path.unlink()
