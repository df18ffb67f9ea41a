"""A view on disk: its rows, and the sequence that they are true for, saved together, now and then.

    events ──► view (in memory) ──► unsaved keys ──► a second later: rows + sequence, in one group commit
                 ▲                                        │
                 └── start: rows, then the ledger behind the sequence ──┘

The copy may lag behind the ledger, and never leads: a crash at any moment leaves rows that are true for their
sequence, and the short tail of the ledger behind it makes them right again. The envelopes are copied from the
ledger by one statement, whatever the number of keys, because a statement for each would take the GIL for each
(see "the GIL trap" in docs/ARCHITECTURE.md). They are copied and not referred to, because retention may empty
the ledger's row; retention itself goes no further than `saved_seq`, so that the tail is always whole.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from broker.errors import CourierError
from broker.journal import view_rows
from broker.journal.reader import ReaderPool
from broker.limits import VIEW_SAVE_BYTES_MAX, VIEW_SAVE_ROWS_MAX, VIEW_TAIL_ROWS
from broker.views.view import View

log = logging.getLogger(__name__)

SAVE_EVERY_SECONDS = 1.0
"""How long a change may wait to be saved. A crash costs a restart the reading of what was committed since."""


class Executor(Protocol):
    """What is needed of the journal."""

    readers: ReaderPool

    async def execute(self, job: Callable[..., Any]) -> Any:
        """Run a job on the write connection, in a group commit."""


class Store:
    """Keeps one view on disk. A listener of the view."""

    def __init__(self, view: View, journal: Executor) -> None:
        self._view = view
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._unsaved: dict[str, int] = {}
        """The sequence of each key that the disk does not have yet, in order of sequence."""
        self._stored: set[str] = set()
        """Keys that may have a row."""
        self._gone: dict[str, None] = {}
        """Keys whose rows are to be deleted."""
        self._timer: asyncio.TimerHandle | None = None
        self._saving: asyncio.Task[None] | None = None
        self._closed = False
        self.saved_seq = 0
        """What is on disk is true for this sequence."""
        self.saves = 0
        self.failures = 0
        """How often a save could not be committed; the next one tries again."""
        view.listeners.add(self)

    async def load(self) -> None:
        """Bring the view to where the ledger is: what was saved, and what was committed behind it."""
        name, key_of = self._view.rule
        saved = await self._journal.readers.run(view_rows.load, name)
        self._stored.update(key for key, _seq, _envelope in saved.rows)
        self._view.restore(saved.rows)
        self._unsaved.clear()  # the disk is where this came from
        self.saved_seq, after_seq = saved.seq, saved.seq
        while True:
            page = await self._journal.readers.run(view_rows.tail, key_of, after_seq, VIEW_TAIL_ROWS)
            if page.last_seq == after_seq:
                break
            self._view.restore(page.rows)
            after_seq = page.last_seq
        self._view.seq = max(self._view.seq, after_seq)
        if after_seq > saved.seq:
            log.info("view %s: the events from %d to %d were read behind its copy", name, saved.seq + 1, after_seq)

    # A listener of the view.

    def changed(self, keys: Mapping[str, None]) -> None:
        """Note what the disk does not have."""
        for key in keys:
            self._unsaved.pop(key, None)
            held = self._view.get(key)
            if held is not None and held.in_ledger:
                self._unsaved[key] = held.seq
                self._gone.pop(key, None)
            elif held is None and key in self._stored:
                self._gone[key] = None

    def moved(self) -> None:
        """The view may be true for a later sequence: see to it that the disk follows, if it is not about to."""
        if self._timer is None and self._saving is None and not self._closed and self._is_behind:
            self._timer = self._loop.call_later(SAVE_EVERY_SECONDS, self._start_saving)

    @property
    def _is_behind(self) -> bool:
        return self.saved_seq < self._view.seq or bool(self._gone)

    def _start_saving(self) -> None:
        self._timer = None
        self._saving = self._loop.create_task(self._save_and_go_on())

    async def _save_and_go_on(self) -> None:
        try:
            await self.save()
        except CourierError as error:
            self.failures += 1
            log.warning("view %s could not be saved, trying again: %s", self._view.rule.name, error.message)
        except Exception:
            self.failures += 1
            log.exception("view %s could not be saved, trying again", self._view.rule.name)
        finally:
            self._saving = None
            self.moved()

    async def save(self) -> None:
        """Put the view as it is now on disk, in as many commits as its size asks for."""
        target = self._view.seq
        while self._is_behind:
            rows, up_to_seq = self._next_rows()
            gone = list(self._gone)[:VIEW_SAVE_ROWS_MAX]
            self._stored.update(rows)
            await self._journal.execute(view_rows.saver(self._view.rule.name, rows, gone, up_to_seq))
            for key, seq in rows.items():
                if self._unsaved.get(key) == seq:
                    del self._unsaved[key]
            for key in gone:  # one that came back meanwhile has no row either, and is unsaved
                self._gone.pop(key, None)
                self._stored.discard(key)
            self.saved_seq = up_to_seq
            self.saves += 1
            if up_to_seq >= target:  # what came meanwhile is for the next time
                return

    def _next_rows(self) -> tuple[dict[str, int], int]:
        """The oldest unsaved keys, as many as one commit may have, and the sequence that the disk is true for then."""
        rows: dict[str, int] = {}
        size = 0
        for key, seq in self._unsaved.items():
            held = self._view.get(key)
            size += 0 if held is None else len(held.envelope)
            if rows and (len(rows) == VIEW_SAVE_ROWS_MAX or size > VIEW_SAVE_BYTES_MAX):
                return rows, seq - 1
            rows[key] = seq
        return rows, self._view.seq

    async def close(self) -> None:
        """Save the rest, if that can be done, and stop."""
        self._closed = True
        self._view.listeners.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._start_saving()
        if self._saving is not None:
            await self._saving
