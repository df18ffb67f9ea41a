"""Any interleaving of new, duplicate, conflicting and unfit events, and of their outcomes, agrees with a model."""

import asyncio
import hashlib
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.clock import ManualClock
from broker.config import Journal as JournalConfig
from broker.journal.journal import Journal
from tests.journal.conftest import event, rows
from tests.support.streams import acked

IDS = st.sampled_from(["a", "b", "c", "d", "ä"])
STREAMS = st.sampled_from(["x", "y/z"])
BODIES = st.sampled_from([b"{}", b'{"n":1}', b'{"n":2}'])

Event = st.tuples(st.just("event"), STREAMS, IDS, BODIES, st.booleans())
State = st.tuples(st.sampled_from(["processed", "dead"]), st.integers(1, 12))
Restart = st.just(("restart",))
Group = st.lists(Event | State, min_size=1, max_size=8)
Program = st.lists(st.lists(Group, min_size=1, max_size=4) | Restart, min_size=1, max_size=8)


class Model:
    """The ledger as a dictionary."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], dict[str, Any]] = {}

    def append(self, stream: str, identity: str, body: bytes, fits: bool) -> tuple[int, bool]:
        """The sequence that is answered, and whether a conflict is."""
        if not fits:
            return 0, False
        row = self.rows.get((stream, identity))
        if row is not None:
            conflict = row["body"] != body
            row["attempts"] += 1
            row["conflicts"] += conflict
            return -row["seq"], conflict
        seq = len(self.rows) + 1
        self.rows[stream, identity] = {"seq": seq, "body": body, "attempts": 1, "conflicts": 0, "state": "pending"}
        return seq, False

    def settle(self, seq: int, state: str) -> None:
        for row in self.rows.values():
            if row["seq"] == seq and row["state"] == "pending":
                row["state"] = state

    def table(self) -> list[tuple[Any, ...]]:
        return sorted(
            (r["seq"], stream, identity, r["body"], r["attempts"], r["conflicts"], r["state"])
            for (stream, identity), r in self.rows.items()
        )


async def run(program: list[Any], directory: Path) -> None:
    model, clock = Model(), ManualClock()
    journal = await Journal.open(directory, JournalConfig(), clock)
    try:
        for step in program:
            if step == ("restart",):
                await journal.close()
                journal = await Journal.open(directory, JournalConfig(), clock)
                continue
            expected, appends = [], []
            for group in step:
                events = [_inbound(action) for action in group if action[0] == "event"]
                expected.append([model.append(*action[1:]) for action in group if action[0] == "event"])
                appends.append(asyncio.ensure_future(journal.append(events)))
            for receipts, wanted in zip(await asyncio.gather(*appends), expected, strict=True):
                assert list(receipts.seqs) == [seq for seq, _conflict in wanted]
                for position, (seq, conflict) in enumerate(wanted):
                    assert (receipts.duplicates.get(position, (0, False))[1], position in receipts.duplicates) == (
                        conflict,
                        seq < 0,
                    )
            for group in step:
                for action in group:
                    _settle(action, journal, model)
    finally:
        await journal.close()
    found = rows(
        directory,
        "SELECT seq, stream, source_event_id, envelope, ingest_attempt_count, payload_conflict_count, process_state, "
        "payload_sha256 FROM ledger ORDER BY seq",
    )
    assert [row[:-1] for row in found] == model.table()
    assert all(hashlib.sha256(row[3]).digest() == row[-1] for row in found)
    assert rows(directory, "PRAGMA integrity_check") == [("ok",)]


def _inbound(action: Any) -> Any:
    _kind, stream, identity, body, fits = action
    made = event(identity, stream=stream, envelope=body)
    return made if fits else made._replace(payload_sha256=b"unfit")


def _settle(action: Any, journal: Journal, model: Model) -> None:
    if action[0] != "event" and action[1] > len(model.rows):
        return  # nobody can have taken an event that is not there yet
    match action:
        case ("processed", seq):
            journal.processed(acked(seq, 1))
            model.settle(seq, "processed")
        case ("dead", seq):
            journal.dead_letter(seq, 3, None, "poison")
            model.settle(seq, "dead_letter")


@settings(max_examples=300, deadline=None, derandomize=True)
@given(Program)
def test_any_program_of_appends_and_outcomes_agrees_with_the_model(program: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(run(program, Path(directory)))
