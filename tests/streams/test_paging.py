"""A stream that is longer than its window: the rest waits in the ledger, and comes in order."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from broker.clock import ManualClock
from broker.config import Streams
from broker.streams.registry import Registry
from tests.support.streams import FakeLedger, Inbox, pages_are_read
from tests.support.writer import eventually

WINDOW = 4
STREAM = "s"
MakeRegistry = Callable[[], Registry]


@pytest.fixture
async def make(ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MakeRegistry]:
    monkeypatch.setattr("broker.streams.stream.WINDOW_MAX", WINDOW)
    made = []

    def make_registry() -> Registry:
        made.append(Registry(Streams(), ManualClock(), ledger))
        return made[-1]

    yield make_registry
    for each in made:
        await each.close()


def names(first: int, last: int) -> list[str]:
    return [f"e-{number:03}" for number in range(first, last + 1)]


async def consume(registry: Registry, inbox: Inbox, subscription: object, total: int) -> None:
    """Ack what comes, one at a time, with one credit at a time."""
    done = 0
    while done < total:
        if len(inbox.deliveries) == done:
            await pages_are_read(registry)
        assert len(inbox.deliveries) == done + 1, (done, inbox.ids)
        registry.ack(subscription, inbox.deliveries[done][0])
        done += 1
        registry.grant(subscription, 1)


@pytest.mark.parametrize("total", [1, WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW, 50])
async def test_a_long_stream_is_paged_in_order_without_gap_or_repeat(
    make: MakeRegistry, ledger: FakeLedger, total: int
) -> None:
    registry, inbox = make(), Inbox()
    registry.committed(ledger.write_all(STREAM, *names(1, total)))
    subscription = registry.subscribe(STREAM, inbox)
    registry.grant(subscription, 1)
    await consume(registry, inbox, subscription, total)
    assert inbox.deliveries == [(name, 1) for name in names(1, total)]
    stream = registry.find(STREAM)
    assert (stream.pending, stream.in_flight, stream.behind, len(stream.ring), stream.ring.held) == (0, 0, False, 0, 0)
    assert (ledger.pages_read > 0) == (total > WINDOW)


ENVELOPE_BYTES = len(b'{"id":"e-001"}')


@pytest.mark.parametrize(
    ("window_bytes", "kept"), [(2 * ENVELOPE_BYTES - 1, 1), (2 * ENVELOPE_BYTES, 2), (2 * ENVELOPE_BYTES + 1, 2)]
)
async def test_a_window_is_full_when_it_has_no_bytes_left(
    make: MakeRegistry, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch, window_bytes: int, kept: int
) -> None:
    monkeypatch.setattr("broker.streams.stream.WINDOW_BYTES_MAX", window_bytes)
    registry, inbox = make(), Inbox()
    registry.committed(ledger.write_all(STREAM, *names(1, 20)))
    stream = registry.find(STREAM)
    assert (len(stream.ring), stream.bytes, stream.behind) == (kept, kept * ENVELOPE_BYTES, True)
    subscription = registry.subscribe(STREAM, inbox)
    registry.grant(subscription, 1)
    await consume(registry, inbox, subscription, 20)
    assert inbox.ids == names(1, 20)
    assert (stream.bytes, stream.behind) == (0, False)


async def test_a_window_that_fits_needs_no_page(make: MakeRegistry, ledger: FakeLedger) -> None:
    registry = make()
    registry.committed(ledger.write_all(STREAM, *names(1, WINDOW)))
    assert not registry.find(STREAM).behind
    registry.committed(ledger.write_all(STREAM, "one too many"))
    assert registry.find(STREAM).behind
    await pages_are_read(registry)
    assert ledger.pages_read == 0


async def test_producers_that_go_on_while_pages_are_read_change_nothing(make: MakeRegistry, ledger: FakeLedger) -> None:
    registry, inbox = make(), Inbox()
    registry.committed(ledger.write_all(STREAM, *names(1, 10)))
    subscription = registry.subscribe(STREAM, inbox)
    registry.grant(subscription, 1)
    written = 10
    for done in range(60):
        if len(inbox.deliveries) == done:
            await pages_are_read(registry)
        registry.ack(subscription, inbox.ids[done])
        if written < 60:
            registry.committed(ledger.write_all(STREAM, *names(written + 1, written + 5)))
            written += 5
        registry.grant(subscription, 1)
    assert inbox.ids == names(1, 60)


async def test_what_is_on_disk_but_not_announced_is_not_delivered_twice(make: MakeRegistry, ledger: FakeLedger) -> None:
    """The writer commits, a page reads it, and only then does the loop hear of the commit."""
    registry, inbox = make(), Inbox()
    registry.committed(ledger.write_all(STREAM, *names(1, 5)))
    late = ledger.write_all(STREAM, *names(6, 7))
    subscription = registry.subscribe(STREAM, inbox)
    registry.grant(subscription, 100)
    for name in names(1, 4):
        registry.ack(subscription, name)
    await pages_are_read(registry)
    registry.committed(late)
    await pages_are_read(registry)
    assert inbox.ids == names(1, 7)
    for name in names(5, 7):
        registry.ack(subscription, name)
    registry.committed(ledger.write_all(STREAM, "e-008"))
    assert inbox.ids == names(1, 8)
    stream = registry.find(STREAM)
    assert (stream.pending, stream.in_flight, stream.counters.came) == (1, 1, 8)


async def test_what_is_acked_before_it_is_announced_is_counted_right(make: MakeRegistry, ledger: FakeLedger) -> None:
    registry, inbox = make(), Inbox()
    registry.committed(ledger.write_all(STREAM, *names(1, 5)))
    late = ledger.write_all(STREAM, "e-006")
    subscription = registry.subscribe(STREAM, inbox)
    registry.grant(subscription, 100)
    for name in names(1, 4):
        registry.ack(subscription, name)
    await pages_are_read(registry)
    registry.ack(subscription, "e-005")
    registry.ack(subscription, "e-006")
    registry.committed(late)
    stream = registry.find(STREAM)
    assert (stream.pending, stream.in_flight, stream.behind, stream.counters.acked) == (0, 0, False, 6)


async def test_what_is_announced_while_a_page_is_on_its_way_comes_after_it(
    make: MakeRegistry, ledger: FakeLedger
) -> None:
    registry, inbox = make(), Inbox()
    registry.committed(ledger.write_all(STREAM, *names(1, 5)))
    subscription = registry.subscribe(STREAM, inbox)
    ledger.hold_pages = asyncio.Event()
    registry.grant(subscription, 100)
    for name in names(1, 4):
        registry.ack(subscription, name)
    await eventually(lambda: ledger.pages_read == 1)
    registry.committed(ledger.write_all(STREAM, *names(6, 7)))
    assert inbox.ids == names(1, 4)
    ledger.hold_pages.set()
    await pages_are_read(registry)
    assert inbox.ids == names(1, 7)


async def test_what_a_restart_finds_comes_before_what_arrives(make: MakeRegistry, ledger: FakeLedger) -> None:
    ledger.write_all(STREAM, *names(1, 10))
    ledger.rows[2].state = "processed"
    registry, inbox = make(), Inbox()
    registry.recover(STREAM, 9, 10)
    subscription = registry.subscribe(STREAM, inbox)
    registry.grant(subscription, 1)
    registry.committed(ledger.write_all(STREAM, "e-011"))
    assert registry.find(STREAM).pending == 10
    await consume(registry, inbox, subscription, 10)
    assert inbox.ids == [name for name in names(1, 11) if name != "e-003"]


async def test_the_attempts_of_the_ledger_count_on(make: MakeRegistry, ledger: FakeLedger) -> None:
    ledger.write_all(STREAM, "e-001")
    ledger.rows[0].attempts = 4
    registry, inbox = make(), Inbox()
    registry.recover(STREAM, 1, 1)
    registry.grant(registry.subscribe(STREAM, inbox), 1)
    await pages_are_read(registry)
    assert inbox.deliveries == [("e-001", 5)]


async def test_held_and_delayed_events_keep_their_place_in_the_window(make: MakeRegistry, ledger: FakeLedger) -> None:
    registry, inbox = make(), Inbox()
    registry.committed(ledger.write_all(STREAM, *names(1, 10)))
    subscription = registry.subscribe(STREAM, inbox)
    registry.grant(subscription, 100)
    registry.nack(subscription, "e-001", 5000)
    registry.ack(subscription, "e-002")
    await pages_are_read(registry)
    assert ledger.pages_read == 0  # less than half of the window is free
    registry.ack(subscription, "e-003")
    await pages_are_read(registry)
    assert inbox.ids == names(1, 6)


async def test_a_page_that_cannot_be_read_is_asked_for_again(
    make: MakeRegistry, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("broker.streams.catch_up.PAGE_RETRY_SECONDS", 0.0)
    ledger.write_all(STREAM, *names(1, 3))
    ledger.failures = 2
    registry, inbox = make(), Inbox()
    registry.recover(STREAM, 3, 3)
    registry.grant(registry.subscribe(STREAM, inbox), 10)
    await pages_are_read(registry)
    assert inbox.ids == names(1, 3)
    assert caplog.text.count("could not be read; trying again") == 2


async def test_the_end_does_not_wait_for_a_page(make: MakeRegistry, ledger: FakeLedger) -> None:
    ledger.write_all(STREAM, *names(1, 3))
    ledger.hold_pages = asyncio.Event()
    registry = make()
    registry.recover(STREAM, 3, 3)
    registry.grant(registry.subscribe(STREAM, Inbox()), 10)
    await eventually(lambda: ledger.pages_read == 1)
    await registry.close()
    assert not registry._dispatcher.catch_up.tasks


async def test_after_the_end_no_page_is_asked_for(registry: Registry, ledger: FakeLedger) -> None:
    stream = registry.open("s")
    stream.behind = True
    await registry.close()
    registry.committed(ledger.write_all("s", "e-1"))
    assert registry._dispatcher.catch_up.tasks == set()
