"""What is measured, one file a question.

publish     events in: over HTTP and WebSocket, one at a time and many
end_to_end  from producer to consumer: durable, in memory, by the number of consumers
"""

from collections.abc import Callable, Iterator
from functools import partial

from bench.results import Table
from bench.scenarios import end_to_end, publish
from bench.settings import Settings

Scenario = Callable[[Settings], Iterator[Table]]

SCENARIOS: dict[str, Scenario] = {
    "http": publish.http_one,
    "ws-1": partial(publish.sockets, per_frame=1, goal="≥ 1.5"),
    "ws-10": partial(publish.sockets, per_frame=10),
    "ws-100": partial(publish.sockets, per_frame=100),
    "end-to-end": end_to_end.end_to_end,
    "subscribers": end_to_end.subscribers,
    "memory": end_to_end.memory,
}
SHORT = ("http", "ws-1", "ws-10", "ws-100")
"""What `make bench` runs."""
