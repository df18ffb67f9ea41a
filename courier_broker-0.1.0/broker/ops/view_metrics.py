"""The figures of the views."""

from collections.abc import Iterator

from broker.ops.metrics import Family, metric, values
from broker.views.catalogue import Views

ENTRIES = metric("courier_view_entries", "gauge", "Addresses in a view.", "view")
BYTES = metric("courier_view_bytes", "gauge", "Bytes of envelopes in a view.", "view")
FORGOTTEN = metric("courier_view_forgotten_total", "counter", "Addresses that a full view had to forget.", "view")
READERS = metric("courier_view_readers", "gauge", "Live readers of a view.", "view")
COALESCED = metric(
    "courier_view_coalesced_changes_total", "counter", "Changes that slow readers were spared, for newer ones.", "view"
)
RESETS = metric(
    "courier_view_reader_resets_total", "counter", "Readers so slow that they were given a new snapshot.", "view"
)
UNSAVED = metric("courier_view_unsaved_events", "gauge", "Events of the ledger that a copy is behind.", "view")
SAVES = metric("courier_view_saves_total", "counter", "Commits that brought the copy of a view up to date.", "view")
FAILURES = metric("courier_view_save_failures_total", "counter", "Saves that failed and are tried again.", "view")


class ViewMetrics:
    """A collector."""

    def __init__(self, views: Views) -> None:
        self._views = views

    def __call__(self) -> Iterator[Family]:
        """The families."""
        all_views = {view.rule.name: view for view in self._views.all()}
        stores = {name: self._views.store_of(name) for name in all_views}
        yield values(ENTRIES, [(name, len(view)) for name, view in all_views.items()])
        yield values(BYTES, [(name, view.bytes) for name, view in all_views.items()])
        yield values(FORGOTTEN, [(name, view.forgotten) for name, view in all_views.items()])
        yield values(READERS, [(name, self._views.readers(name)) for name in all_views])
        yield values(COALESCED, [(name, self._views.coalesced(name)) for name in all_views])
        yield values(RESETS, [(name, self._views.resets(name)) for name in all_views])
        yield values(UNSAVED, [(name, all_views[name].seq - store.saved_seq) for name, store in stores.items()])
        yield values(SAVES, [(name, store.saves) for name, store in stores.items()])
        yield values(FAILURES, [(name, store.failures) for name, store in stores.items()])
