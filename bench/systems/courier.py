"""A broker as a process, and what its ledger has at the end."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import apsw

from bench.failure import BenchmarkFailed
from tests.support.process import BrokerProcess


@contextmanager
def courier(
    directory: Path, config: Mapping[str, object] | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[BrokerProcess]:
    """A broker with its journal in this directory, which is told to stop afterwards."""
    with BrokerProcess(directory / "data", config=config, env=environment) as broker:
        yield broker
        if broker.terminate_and_wait() != 0:
            raise BenchmarkFailed(f"the broker did not end well: {broker.stderr_lines[-5:]}")


def check_ledger(directory: Path, events: int, unfinished: int | None = None) -> None:
    """Raise BenchmarkFailed unless the ledger has so many events, and so many of them unfinished, if that is asked."""
    ledger = apsw.Connection(str(directory / "data" / "courier.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        found = ledger.execute("SELECT count(*) FROM ledger").get
        if found != events:
            raise BenchmarkFailed(f"{events} events were acknowledged, and {found} are in the ledger")
        waiting = ledger.execute("SELECT count(*) FROM ledger WHERE process_state = 'pending'").get
        if unfinished is not None and waiting != unfinished:
            raise BenchmarkFailed(f"{unfinished} events should wait in the ledger, and {waiting} do")
    finally:
        ledger.close()
