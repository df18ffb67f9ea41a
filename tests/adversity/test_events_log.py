"""The log of events on a disk that is full: events go on, lines are counted, and the log says what it lacks."""

import json
import signal
from pathlib import Path

from tests.conftest import Connect, StartBroker
from tests.support.metrics import scrape
from tests.support.process import until


async def test_a_full_disk_costs_lines_and_no_events(
    broker_process: StartBroker, connect: Connect, small_disk: Path
) -> None:
    path = small_disk / "events.jsonl"
    broker = broker_process(config={"events": {"log": str(path)}})
    client = await connect(broker.url)
    filler = small_disk / "filler"
    await client.enqueue("before")
    until(lambda: path.stat().st_size > 0)
    with filler.open("wb", buffering=0) as full:
        try:
            while full.write(b"x" * 4096):
                pass
        except OSError:
            pass
    dropped = 0.0
    sent = 0
    while not dropped:  # the page of the last line has some room left
        sent += 1
        await client.enqueue(f"during-{sent}")
        dropped = (await scrape(client))("courier_event_log_dropped_total", reason="failing")
        assert sent < 1_000
    await client.enqueue("more")
    filler.unlink()
    broker.until_it_says("the log of events is written again")
    await client.enqueue("after")
    found = await scrape(client)
    assert broker.terminate_and_wait() == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    missing = sum(line["lines"] for line in lines if line["event"] == "dropped")
    written = [line["id"] for line in lines if line["event"] == "enqueue"]
    assert missing == found("courier_event_log_dropped_total", reason="failing")
    assert (written[0], written[-1]) == ("before", "after")
    assert missing + len(written) == sent + 3, "every event has its line, or is counted as missing"


async def test_a_log_that_was_renamed_is_begun_anew_after_sighup(
    broker_process: StartBroker, connect: Connect, tmp_path: Path
) -> None:
    path = tmp_path / "events.jsonl"
    broker = broker_process(config={"events": {"log": str(path)}})
    client = await connect(broker.url)
    await client.enqueue("e-1")
    until(lambda: path.stat().st_size > 0)
    path.rename(tmp_path / "events.jsonl.old")
    broker.signal(signal.SIGHUP)
    broker.until_it_says("the configuration was reloaded")
    await client.enqueue("e-2")
    assert broker.terminate_and_wait() == 0
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["e-2"]
    assert "e-1" in (tmp_path / "events.jsonl.old").read_text()
