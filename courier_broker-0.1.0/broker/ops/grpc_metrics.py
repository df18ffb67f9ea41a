"""The figures of gRPC. They are kept by the front, which hands them in; there are none where gRPC is off."""

from collections.abc import Callable, Iterator, Mapping

from broker.ops.metrics import Family, metric, value, values

STREAMS = metric("courier_grpc_streams", "gauge", "Streams of gRPC that are open.")
CALLS = metric("courier_grpc_calls_total", "counter", "Calls of gRPC that have ended.", "method", "code")


class GrpcMetrics:
    """A collector."""

    def __init__(self, streams: Callable[[], int], calls: Mapping[tuple[str, str], int]) -> None:
        self._streams = streams
        self._calls = calls

    def __call__(self) -> Iterator[Family]:
        """The families."""
        yield value(STREAMS, self._streams())
        yield values(CALLS, sorted(self._calls.items()))
