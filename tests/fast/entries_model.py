"""Entries and what is done with many at once, in plain Python; `models.py` says what a model is."""

from itertools import groupby

from broker.contracts.inbound import InboundEvent
from tests.fast.counters_model import Counters
from tests.fast.histogram_model import Histogram
from tests.fast.models import Leases

__all__ = [
    "Counters", "Entry", "Histogram", "Leases", "any_partition", "changes_of", "delivery_frames", "entries_of",
    "envelope_bytes", "hold", "lease_out", "let_go", "stream_runs", "waiting_of",
]  # fmt: skip

MEMORY_SEQ_FIRST = 2**52


def check_number(value: object, least: int = -(2**63)) -> None:
    """Raise unless it is an int of 64 bits, and no less than that."""
    if type(value) is not int:
        raise TypeError(f"an int is needed, not {value!r}")
    if not -(2**63) <= value < 2**63:
        raise OverflowError(f"{value} is wider than 64 bits")
    if value < least:
        raise ValueError(f"{value} is below {least}")


class Entry:
    """Its attributes."""

    def __init__(self, stream, seq, event_id, envelope, received_at, partition, attempt=0, origin=None):
        if type(envelope) is not bytes:
            raise TypeError("an envelope is bytes")
        check_number(attempt)
        check_number(seq, least=0)
        check_number(received_at)
        self.stream, self.seq, self.id, self.envelope = stream, seq, event_id, envelope
        self.received_at, self.partition, self.attempt, self.origin = received_at, partition, attempt, origin
        self.holder = self.first_attempt_at = None
        self.lease = self.uncounted = 0
        self.unsent = False

    @property
    def failures(self):
        return self.attempt - self.uncounted

    @property
    def in_ledger(self):
        return self.seq < MEMORY_SEQ_FIRST


def check_entries(entries):
    if not all(isinstance(entry, Entry) for entry in entries):
        raise TypeError("something else is among the entries")


def check_event(event):
    if not isinstance(event, tuple) or len(event) != len(InboundEvent._fields):
        raise TypeError(f"{event!r} is no event")
    return InboundEvent(*event)


def event_of(pair):
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise TypeError(f"{pair!r} is no pair")
    return check_event(pair[1])


def stream_runs(events):
    pairs = [(event_of(pair).stream, pair) for pair in events]
    return [(name, [pair for _, pair in run]) for name, run in groupby(pairs, key=lambda pair: pair[0])]


def entries_of(stream, events, with_origin, origin_of):
    made = []
    for pair in events:
        event, seq = event_of(pair), pair[0]
        check_number(seq, least=0)
        check_number(event.received_at)
        origin = origin_of(pair[1]) if event.contract == with_origin else None
        made.append(
            Entry(stream, seq, event.source_event_id, event.envelope, event.received_at, event.partition_key, 0, origin)
        )
    return made


def envelope_bytes(entries):
    check_entries(entries)
    return sum(len(entry.envelope) for entry in entries)


def any_partition(entries):
    check_entries(entries)
    return any(entry.partition is not None for entry in entries)


def lease_out(entries, holders, leases, first_lease, deadline_ms, now_us, latency, counters):
    if len(holders) != len(entries):
        raise ValueError(f"{len(entries)} entries, but {len(holders)} holders")
    if not 0 <= deadline_ms < 2**48:
        raise ValueError(f"deadline_ms must be 0 .. 2**48 - 1, not {deadline_ms}")
    if entries and first_lease + len(entries) > 2**63:
        raise OverflowError("the last key is wider than 64 bits")
    check_entries(entries)
    if None in holders:
        raise TypeError("a holder cannot be None")
    if len(entries) > leases.capacity - len(leases):
        raise ValueError("there is no room for the leases")
    shares = {holder: [] for holder in holders}
    leases.grant_many(first_lease, [entry.attempt + 1 for entry in entries], deadline_ms, entries)
    for lease, (entry, holder) in enumerate(zip(entries, holders, strict=True), first_lease):
        entry.attempt += 1
        entry.first_attempt_at = now_us if entry.first_attempt_at is None else entry.first_attempt_at
        counters.count_delivered(entry.attempt > 1)
        if entry.attempt == 1:
            latency.record(entry.first_attempt_at - entry.received_at)
        entry.holder, entry.lease, entry.unsent = holder, lease, False
        shares[holder].append(entry)
    return shares


def hold(held, entries):
    check_entries(entries)
    held.update((entry.seq, entry) for entry in entries)


def let_go(held, keys, leases):
    if any(type(key) is not int for key in keys):
        return None
    ended, lost = [], []
    for key in keys:
        entry = held.pop(key, None)
        if entry is None:
            lost.append(key)
            continue
        entry.holder = None
        leases.release(entry.lease, entry.attempt)
        ended.append(entry)
    return ended, lost


def changes_of(entries, state, at):
    check_entries(entries)
    return [(entry.seq, state, at, entry.attempt, None, None) for entry in entries if entry.in_ledger]


def waiting_of(entries):
    check_entries(entries)
    for entry in entries:
        entry.unsent = True
    return [(entry, entry.attempt) for entry in entries]


def frame_of(deliveries, batch):
    texts = [b',"attempt":%d,"seq":%d}' % (attempt, entry.seq) for entry, attempt in deliveries]
    if batch:
        each = (b'{"envelope":' + entry.envelope + end for (entry, _), end in zip(deliveries, texts, strict=True))
        text = b'{"deliver":[' + b",".join(each) + b"]}"
    else:
        text = b'{"deliver":' + deliveries[0][0].envelope + texts[0]
    if len(text) <= 125:
        return bytes((0x81, len(text))) + text
    if len(text) <= 65_535:
        return b"\x81\x7e" + len(text).to_bytes(2, "big") + text
    return b"\x81\x7f" + len(text).to_bytes(8, "big") + text


def delivery_frames(deliveries, batch, bytes_max):
    if batch < 0:
        raise ValueError(f"a batch is at least 0, not {batch}")
    frames, ends = b"", []
    while len(ends) < len(deliveries) and len(frames) < bytes_max:
        rest = deliveries[len(ends) :]
        count, size = 0, 0
        while count < len(rest) and (count == 0 or (count < batch and len(frames) + size < bytes_max)):
            size += envelope_bytes([check_delivery(rest[count])])
            count += 1
        frames += frame_of(rest[:count], batch)
        ends += [len(frames)] * count
    for entry, attempt in deliveries[: len(ends)]:
        entry.unsent = entry.unsent and entry.attempt != attempt
    return frames, ends


def check_delivery(delivery):
    if not isinstance(delivery, tuple) or len(delivery) != 2:
        raise TypeError("a delivery is an entry with its attempt")
    check_number(delivery[1], least=0)
    return delivery[0]
