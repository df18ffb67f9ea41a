"""Every view by its name: fed together, loaded together, closed together."""

from collections.abc import Iterable, Mapping, Sequence

from broker.config import Views as ViewsConfig
from broker.contracts.inbound import InboundEvent
from broker.errors import NotFound
from broker.views.latest_per_agent import LATEST_PER_AGENT
from broker.views.live import Deltas
from broker.views.store import Executor, Store
from broker.views.view import Rule, View

RULES: tuple[Rule, ...] = (LATEST_PER_AGENT,)
"""Every view that there is. A new one is a file beside this one, and its rule here."""


class Views:
    """The views of a broker; without a journal, they are in memory only."""

    def __init__(self, config: ViewsConfig, journal: Executor | None, rules: Sequence[Rule] = RULES) -> None:
        self._config = config
        self._views = {rule.name: View(rule, config.max_entries, config.max_bytes) for rule in rules}
        self._stores = {} if journal is None else {name: Store(view, journal) for name, view in self._views.items()}
        self._live: dict[str, set[Deltas]] = {name: set() for name in self._views}
        self._ended_coalesced = dict.fromkeys(self._views, 0)
        self._ended_resets = dict.fromkeys(self._views, 0)

    def find(self, name: str) -> View:
        """The view of this name; raise NotFound, which names those that there are."""
        view = self._views.get(name)
        if view is None:
            raise NotFound(f"there is no view {name[:100]!r}; there is {', '.join(self._views)}")
        return view

    def store_of(self, name: str) -> Store:
        """How the view of this name is kept on disk."""
        return self._stores[name]

    @property
    def by_name(self) -> Mapping[str, View]:
        """Every view, by its name."""
        return self._views

    def all(self) -> list[View]:
        """Every view."""
        return list(self._views.values())

    @property
    def saved_seq(self) -> int:
        """What is on disk of every view is true at least for this sequence."""
        return min(store.saved_seq for store in self._stores.values())

    def follow(self, name: str) -> Deltas:
        """Frames for one more reader of a view; `leave` when it is gone."""
        deltas = Deltas(self.find(name), self._config.max_entries)
        self._live[name].add(deltas)
        return deltas

    def leave(self, name: str, deltas: Deltas) -> None:
        """A reader is gone."""
        deltas.close()
        self._live[name].discard(deltas)
        self._ended_coalesced[name] += deltas.coalesced
        self._ended_resets[name] += deltas.resets

    def readers(self, name: str) -> int:
        """How many readers follow a view."""
        return len(self._live[name])

    def coalesced(self, name: str) -> int:
        """How many changes were never sent to a reader, because a newer one took their place."""
        return self._ended_coalesced[name] + sum(deltas.coalesced for deltas in self._live[name])

    def resets(self, name: str) -> int:
        """How often a reader was so slow that it was given a new snapshot."""
        return self._ended_resets[name] + sum(deltas.resets for deltas in self._live[name])

    async def load(self) -> None:
        """Bring every view to where the ledger is."""
        for store in self._stores.values():
            await store.load()

    def want(self, kinds: Iterable[tuple[str, str]]) -> bool:
        """Whether some view is about events of one of these streams and types."""
        for stream, kind in kinds:
            for view in self._views.values():
                if view.rule.key_of(stream, kind) is not None:
                    return True
        return False

    def take(self, events: Sequence[tuple[int, InboundEvent]]) -> None:
        """Take the new events of a group commit, or of streams in memory, in order."""
        for view in self._views.values():
            view.take(events)
        for store in self._stores.values():
            store.moved()

    def start(self) -> None:
        """See to it that what was read of the ledger is saved."""
        for store in self._stores.values():
            store.moved()

    async def close(self) -> None:
        """Put every view on disk as it is."""
        for store in self._stores.values():
            await store.close()
