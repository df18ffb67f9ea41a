"""What the broker inside a program keeps of the speed of a queue without its promises: a gate, a ratio within one run.

The queue reads each envelope, remembers its id and hands it out of a deque: no leases, no acknowledgements, no bounds.
The margin is far below what is measured: it is to find what made the way through memory slow, on any machine.
"""

import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

import _fast
from bench.load.drive import Timed, no_collections
from bench.load.events import Shape
from bench.scenarios.in_process import MEMORY_CALL
from bench.systems import embedded
from bench.turns import Contender, Plan, Turn, in_turns
from broker.contracts.courier import Envelope

OF_QUEUE_MIN = 0.6  # 1.3 to 1.6 is what was measured; with calls of Python for each event, it was 0.2
PLAN = Plan(seconds=0.2, rounds=5, events_max=100_000)

pytestmark = pytest.mark.skipif(_fast.DEBUG_BUILD, reason="a debug build is not built for speed")


@contextmanager
def queue(shape: Shape) -> Iterator[Turn]:
    """A deque of envelopes whose fields were read, and whose ids are known."""
    decode = msgspec.json.Decoder(Envelope).decode
    known: dict[str, int] = {}

    def turn(first: int, count: int) -> Timed:
        envelopes = shape.envelopes(range(first, first + count))
        waiting: deque[tuple[int, bytes]] = deque()
        out: list[bytes] = []
        with no_collections():
            started = time.perf_counter()
            for at in range(0, count, MEMORY_CALL):
                for envelope in envelopes[at : at + MEMORY_CALL]:
                    event_id = decode(envelope).id
                    if event_id not in known:
                        seq = known[event_id] = len(known)
                        waiting.append((seq, envelope))
                while waiting:
                    out.append(waiting.popleft()[1])
            seconds = time.perf_counter() - started
        assert Counter(out) == Counter(envelopes)
        return Timed(seconds, 0.0)

    yield turn


def test_a_thousand_a_call_through_memory_keep_three_fifths_of_the_rate_of_a_bare_queue(tmp_path: Path) -> None:
    shape = Shape()
    cycle = embedded.by_many(MEMORY_CALL)
    contenders = [
        Contender("broker", lambda _directory: embedded.broker_inside(None, shape, cycle), MEMORY_CALL),
        Contender("queue", lambda _directory: queue(shape), MEMORY_CALL),
    ]
    broker, bare = in_turns(contenders, PLAN, tmp_path)
    found = broker.ratio(bare)
    print(f"broker {broker.rate:,.0f} a second, bare queue {bare.rate:,.0f}: {found:.2f}")
    assert found >= OF_QUEUE_MIN
