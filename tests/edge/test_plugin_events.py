"""The outbox of a plugin: its envelopes go to `POST /plugin/events` of the broker, one a request."""

import asyncio
import json
from pathlib import Path
from typing import Any

import apsw
import pytest

from broker.app import App
from edge import Edge, EventInvalid, Pace
from tests.edge.conftest import ids, rows
from tests.edge.test_sender import PACE, QUICK, drained
from tests.support.pixel import envelope, key

STALE = {"schema_version": "1999-01-01.1"}


def numbered(number: int, **fields: Any) -> dict[str, Any]:
    """The n-th envelope."""
    event_id = f"pc-evt-lifecycle-maniaplanet_beginmatch-{number + 1}"
    return envelope(event_id=event_id, source_sequence=number + 1, idempotency_key=key(number), **fields)


def ledger(app: App) -> dict[str, bytes]:
    connection = apsw.Connection(str(app.journal.path))
    try:
        return dict(connection.execute("SELECT source_event_id, envelope FROM ledger").fetchall())  # type: ignore[arg-type]
    finally:
        connection.close()


async def test_envelopes_arrive_once_with_identical_bytes(app: App, path: Path) -> None:
    sent = {key(number): json.dumps(numbered(number)).encode() for number in range(30)}
    async with Edge(f"{app.server.address}/plugin/events", path=path, pace=PACE) as edge:
        await asyncio.gather(*(edge.put(each) for each in sent.values()))
        assert (await edge.put(sent[key(0)])).duplicate
        await drained(edge)
        await edge.put(sent[key(0)])
        await drained(edge)
    assert ledger(app) == sent
    assert ids(path) == []


async def test_an_envelope_that_is_rejected_stays_and_holds_up_nobody(app: App, path: Path) -> None:
    pace = Pace(retry=QUICK, connect=QUICK)
    async with Edge(f"{app.server.address}/plugin/events", path=path, pace=pace) as edge:
        for number in range(5):
            await edge.put(numbered(number, **(STALE if number == 1 else {})))
        await drained(edge)
    ((event_id, state, error),) = rows(path, "event_id, state, last_error")
    assert (event_id, state) == (key(1), "rejected")
    assert error.startswith("schema_version_unsupported: ")
    assert ledger(app).keys() == {key(number) for number in (0, 2, 3, 4)}


@pytest.mark.parametrize("field", ["idempotency_key", "event_id", "event_name"])
async def test_an_envelope_without_its_names_is_refused_at_once(field: str, path: Path) -> None:
    async with Edge("http://127.0.0.1:1/plugin/events", path=path) as edge:
        with pytest.raises(EventInvalid, match=f"{field} is not a text"):
            await edge.put(envelope(**{field: ...}))
        with pytest.raises(EventInvalid, match="not a JSON object"):
            await edge.put(b"[]")
