"""What else one could take: the same events, the same promise, the same concurrency, through other brokers."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from bench.load.events import Shape
from bench.results import Table, table_of
from bench.scenarios.end_to_end import ACKS_NOTE, Flow, broker_contender, flow_through, text_of
from bench.settings import Settings
from bench.systems import peers
from bench.systems.peers import Peer
from bench.turns import Contender, Turn, in_turns

Start = Callable[[Path, Shape, int, int, dict[str, str]], AbstractContextManager[Peer]]

PEERS: dict[str, tuple[Start, str]] = {
    "Redis Streams": (
        peers.redis_streams,
        "appendfsync always, SET NX and XADD pipelined: a duplicate is found, but added all the same; "
        "a crash between the two loses the event; no leases, no retries by itself",
    ),
    "NATS JetStream": (
        peers.jetstream,
        "sync_interval: always, message ids; it forgets ids after two minutes",
    ),
    "RabbitMQ": (peers.rabbitmq, "quorum queue of one member, confirms; no dedupe"),
    "beanstalkd": (peers.beanstalkd, "-f 0; no dedupe; a worker holds one job at a time"),
}
GOALS = {"Redis Streams": "≥ 1.3", "NATS JetStream": "≥ 10", "RabbitMQ": "≥ 10", "beanstalkd": "≥ 10"}


def peer_contender(name: str, flow: Flow, environment: Callable[[Path], dict[str, str]] = lambda _: {}) -> Contender:
    """Another broker, for a flow."""
    start_peer, note = PEERS[name]

    @contextmanager
    def start(directory: Path) -> Iterator[Turn]:
        with start_peer(directory, flow.shape, flow.consumers, flow.window, environment(directory)) as peer:
            yield flow_through(flow, peer)

    return Contender(name, start, note=note)


def with_peers(settings: Settings) -> Iterator[Table]:
    """Durable, end to end, eight consumers: all brokers in turns."""
    flow = Flow()
    contenders = [broker_contender("Courier", flow, ACKS_NOTE), *(peer_contender(name, flow) for name in PEERS)]
    yield table_of(
        "peers",
        "From producer to consumer, beside other brokers",
        f"{text_of(flow)} Every broker acknowledges an event only when it is synced to the disk.",
        in_turns(contenders, settings.plan, settings.directory),
        goals={("Courier", name): goal for name, goal in GOALS.items()},
    )
