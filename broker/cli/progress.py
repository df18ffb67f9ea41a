"""How far long work has come: one line on stderr, overwritten in place; nothing unless that is a terminal."""

import sys
import time
from types import TracebackType

from broker.cli.output import say
from broker.cli.terminal import CLEAR_LINE, can_move, size
from broker.cli.units import duration, rate

_REDRAW_SECONDS = 0.1
_BAR_WIDTH = 30
_WHOLE = 1_000_000


class Progress:
    """One piece of work. Its line is gone when the work has ended."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._is_shown = can_move(sys.stderr)
        self._started = time.monotonic()
        self._drawn_at = -_REDRAW_SECONDS
        self._first_share: float | None = None
        self._has_line = False

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def update(self, done: int, total: int | None = None, share: float | None = None) -> None:
        """So much is done, of so much if that is known; or such a share of all, where only that is."""
        now = time.monotonic()
        if self._first_share is None:
            self._first_share = share
        is_last = done == total or share == 1.0
        if not self._is_shown or (now - self._drawn_at < _REDRAW_SECONDS and not is_last):
            return
        self._drawn_at = now
        seconds = max(now - self._started, 0.001)
        bar = self._bar(done, total) if share is None else self._bar(int(share * _WHOLE), _WHOLE)
        text = f"{self._label} {bar}{done:,}"
        text += f" of {total:,}" if total is not None else ""
        text += f", {rate(done / seconds)}/s"
        if share is not None and self._first_share is not None and share > self._first_share:
            left = seconds * (1 - share) / (share - self._first_share)
            text += f", {duration(left * 1000)} left"
        self._write(CLEAR_LINE + text[: size(sys.stderr)[0] - 1])
        self._has_line = True

    def say(self, message: str) -> None:
        """A line on stderr that stays, above the progress."""
        self.clear()
        say(message)

    def clear(self) -> None:
        """Take the line away."""
        if self._has_line:
            self._write(CLEAR_LINE)
            self._has_line = False

    @staticmethod
    def _bar(done: int, total: int | None) -> str:
        if total is None:
            return ""
        filled = _BAR_WIDTH if not total else min(_BAR_WIDTH, _BAR_WIDTH * done // total)
        percent = 100 if not total else min(100, 100 * done // total)
        return f"[{'#' * filled}{'-' * (_BAR_WIDTH - filled)}] {percent:3d}%  "

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
