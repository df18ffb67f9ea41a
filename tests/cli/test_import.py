"""`courier import` against the broker: what is carried and what is sent are the same events."""

import asyncio
import json
from pathlib import Path

from edge import Backoff, Edge, Outbox, Pace
from tests.conftest import StartBroker
from tests.support.process import courier

QUICK = Backoff(0.001, 0.05)


def lines(count: int) -> list[bytes]:
    """Whole events, a line each."""
    head = {"schema_version": 1, "type": "t", "ts": "2026-02-16T23:10:21Z", "session_id": "s", "device_id": "pi-1"}
    return [
        json.dumps({**head, "event_id": f"evt_{number}", "payload": {"n": number}}).encode() for number in range(count)
    ]


def test_what_is_imported_and_then_sent_is_there_once(tmp_path: Path, broker_process: StartBroker) -> None:
    broker = broker_process()
    events = lines(700)
    file = tmp_path / "stick.ndjson"
    file.write_bytes(b"\n".join(events) + b"\n\n")
    first = courier("import", str(file), "--url", broker.url)
    assert json.loads(first.stdout) == {"file": str(file), "stored": 700, "duplicates": 0, "refused": 0}, first.stderr
    again = courier("import", str(file), "--url", broker.url)
    assert json.loads(again.stdout) == {"file": str(file), "stored": 0, "duplicates": 700, "refused": 0}

    async def send() -> int:
        url = f"http://127.0.0.1:{broker.port}"
        async with Edge(url, path=tmp_path / "outbox.db", pace=Pace(connect=QUICK)) as edge:
            await asyncio.gather(*(edge.put(event) for event in events))
            async with asyncio.timeout(30):
                await edge.drained()
            return edge.outbox.depth

    assert asyncio.run(send()) == 0
    third = courier("import", str(file), "--url", broker.url)
    assert json.loads(third.stdout) == {"file": str(file), "stored": 0, "duplicates": 700, "refused": 0}


def test_lines_that_the_broker_refuses_are_named_and_the_others_are_stored(
    tmp_path: Path, broker_process: StartBroker
) -> None:
    broker = broker_process()
    good = lines(2)
    file = tmp_path / "stick.ndjson"
    file.write_bytes(good[0] + b'\n{"event_id":"evt_x"}\n"text"\nnot json\n' + good[1])
    done = courier("import", str(file), "--url", broker.url)
    assert done.returncode == 65
    assert json.loads(done.stdout) == {"file": str(file), "stored": 2, "duplicates": 0, "refused": 3}
    assert [line.split(" is refused")[0] for line in done.stderr.decode().splitlines()] == [
        "courier: line 4", "courier: line 2", "courier: line 3",
    ]  # fmt: skip


def test_a_broker_that_is_not_there_is_said(tmp_path: Path) -> None:
    file = tmp_path / "stick.ndjson"
    file.write_bytes(lines(1)[0])
    done = courier("import", str(file), "--url", "http://127.0.0.1:1")
    assert (done.returncode, b"no broker answers" in done.stderr) == (69, True)
    assert courier("import", str(tmp_path / "nothing")).returncode == 2


async def test_an_outbox_without_a_device_takes_events_that_name_theirs(tmp_path: Path) -> None:
    async with Outbox(tmp_path / "outbox.db") as outbox:
        assert (await outbox.put(lines(1)[0])).event_id == "evt_0"
