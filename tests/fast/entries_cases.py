"""Events and entries for the tests of `_fast/entries.pyx`, and all that can be seen of an entry."""

from broker.contracts.inbound import InboundEvent

SEEN = ("stream", "seq", "id", "envelope", "received_at", "partition", "attempt", "origin", "lease", "holder",
        "first_attempt_at", "unsent", "uncounted")  # fmt: skip


def event(
    name="e-1", stream="s", contract="courier", envelope=b"{}", received_at=5, partition_key=None, source="stream:s"
):
    return InboundEvent(contract, stream, "t", source, name, received_at, envelope, b"", partition_key=partition_key)


def pairs(*streams):
    """Events of these streams, with their sequences."""
    return [(seq, event(f"e-{seq}", stream)) for seq, stream in enumerate(streams, start=1)]


def entry(module, seq=1, envelope=b"{}", attempt=0, received_at=5):
    return module.Entry("a stream", seq, f"e-{seq}", envelope, received_at, None, attempt)


def some(module, count, start=1):
    return [entry(module, seq) for seq in range(start, start + count)]


def seen(entry):
    """Everything that an entry shows."""
    return {name: getattr(entry, name) for name in SEEN}


class Desk:
    """What entries are leased with."""

    def __init__(self, module, capacity=100):
        self.module = module
        self.leases = module.Leases(capacity)
        self.latency = module.Histogram()
        self.counters = module.Counters()

    def lease_out(self, entries, holders, first_lease=1, deadline_ms=1000, now_us=30):
        return self.module.lease_out(
            entries, holders, self.leases, first_lease, deadline_ms, now_us, self.latency, self.counters
        )

    def seen(self, entries):
        """Everything that leasing can change."""
        counts = (self.counters.delivered, self.counters.redelivered, self.latency.count, self.latency.total)
        return [seen(each) for each in entries], counts, len(self.leases), self.leases.next_deadline_ms()
