"""The figures of requests, connections and refusals. They are kept by the front, which hands them in."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from broker.ops.metrics import Family, metric, value, values

REQUESTS = metric("courier_http_requests_total", "counter", "Requests that were answered; 101 is a socket.", "status")
REFUSALS = metric("courier_refusals_total", "counter", "Errors that were sent, over HTTP and WebSocket.", "code")
QUOTA = metric("courier_quota_refusals_total", "counter", "Events that found a token bucket empty.", "bucket")
AUTH = metric("courier_auth_failures_total", "counter", "Requests without a token, or with an unknown one.", "reason")
CONNECTIONS = metric("courier_connections", "gauge", "Connections that are open, sockets included.")
CONNECTIONS_MAX = metric("courier_connections_max", "gauge", "How many may be open (server.maxConnections).")
REFUSED = metric("courier_connections_refused_total", "counter", "Connections past the bound.")
SOCKETS = metric("courier_websockets", "gauge", "WebSockets that are open.", "endpoint")


class Front(NamedTuple):
    """Where the figures are: numbers that change are handed in as functions, mappings as they are."""

    requests: Mapping[int, int]
    """Answered requests by status."""
    refusals: Mapping[str, int]
    """Errors that were sent, by code."""
    quota_refusals: Callable[[], Mapping[str, int]]
    auth_failures: Mapping[str, int]
    connections: Callable[[], int]
    connections_refused: Callable[[], int]
    connections_max: int
    sockets: Mapping[str, Callable[[], int]]
    """How many sockets are open, by endpoint."""


class FrontMetrics:
    """A collector."""

    def __init__(self, front: Front) -> None:
        self._front = front

    def __call__(self) -> Iterator[Family]:
        """The families."""
        front = self._front
        yield values(REQUESTS, [(str(status), count) for status, count in sorted(front.requests.items())])
        yield values(REFUSALS, sorted(front.refusals.items()))
        yield values(QUOTA, sorted(front.quota_refusals().items()))
        yield values(AUTH, sorted(front.auth_failures.items()))
        yield value(CONNECTIONS, front.connections())
        yield value(CONNECTIONS_MAX, front.connections_max)
        yield value(REFUSED, front.connections_refused())
        yield values(SOCKETS, [(endpoint, count()) for endpoint, count in sorted(front.sockets.items())])
