"""What is measured, one file a question.

publish     events in: over HTTP and WebSocket, one at a time and many
end_to_end  from producer to consumer: durable, in memory, by the number of consumers
peers       the same through other brokers
in_process  the broker inside a program, and queues that one would take instead
latency     at a fixed rate, from when an event was due to when it was there
disk        a slow disk, a large ledger, a million events that wait
bus         the event bus: published to handled, scheduled to fired
edge        outboxes of devices, one and a fleet
"""

from collections.abc import Callable, Iterator
from functools import partial

from bench.results import Table
from bench.scenarios import bus, disk, edge, end_to_end, in_process, latency, peers, publish
from bench.settings import Settings

Scenario = Callable[[Settings], Iterator[Table]]

SCENARIOS: dict[str, Scenario] = {
    "http": publish.http_one,
    "ws-1": partial(publish.sockets, per_frame=1, goal="≥ 1.5"),
    "ws-10": partial(publish.sockets, per_frame=10),
    "ws-100": partial(publish.sockets, per_frame=100),
    "ndjson": publish.ndjson,
    "sizes": publish.sizes,
    "duplicates": publish.duplicates,
    "end-to-end": end_to_end.end_to_end,
    "peers": peers.with_peers,
    "subscribers": end_to_end.subscribers,
    "latency": latency.latency,
    "memory": end_to_end.memory,
    "slow-disk": disk.slow,
    "ledger": disk.ledger,
    "waiting": disk.waiting,
    "bus": bus.bus,
    "deferred": bus.deferred,
    "edge": edge.edge,
    "in-process": in_process.durable,
    "in-process-memory": in_process.memory,
}
SHORT = ("http", "ws-1", "ws-100", "peers", "latency", "in-process-memory")
"""What `make bench` runs, within three minutes."""
