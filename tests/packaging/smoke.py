"""What an installed wheel must do, wherever it is installed: `python smoke.py`. It needs nothing but the wheel.

The release workflow runs it on every wheel, and `make arm64` in a Debian for arm64. It imports nothing of this
tree, so that it tests what is installed and not what lies beside it.
"""

import json
import platform
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _fast
from edge import SyncEdge

PATIENCE_SECONDS = 120.0
"""For everything that is waited for: an emulated machine is slow."""

LINES = 200
STREAM = "smoke/readings"


def say(text: str) -> None:
    """One line of the transcript."""
    print(f"  {text}", flush=True)


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"it never came: {what}"
        time.sleep(0.02)


def courier(*arguments: str, stdin: str = "") -> list[dict[str, Any]]:
    """Run a command to its end; the lines of JSON that it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "broker", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, (arguments, done.returncode, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Broker:
    """`courier serve` on a free port, and calls to it."""

    def __init__(self, data: Path) -> None:
        command = [sys.executable, "-m", "broker", "serve", "--port", "0", "--data", str(data)]
        started = time.monotonic()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        listens = self.process.stdout.readline()
        found = re.match(r"courier listens on (http://127\.0\.0\.1:\d+),", listens)
        assert found is not None, listens
        self.url = found[1]
        self.seconds_to_listen = time.monotonic() - started

    def post(self, event_id: str) -> dict[str, Any]:
        """Publish an event; its receipt, once it is on disk."""
        envelope = {"id": event_id, "ts": "2026-02-19T18:30:00Z", "from": "smoke", "to": STREAM, "type": "reading"}
        body = json.dumps({"to": STREAM, "envelope": envelope | {"payload": {"id": event_id}}}).encode()
        request = urllib.request.Request(f"{self.url}/v1/enqueue", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            receipt: dict[str, Any] = json.loads(answer.read())
        return receipt

    def take(self, stream: str, count: int) -> list[str]:
        """Consume so many events; their ids, in order."""
        envelopes = courier("sub", stream, "-n", str(count), "--json", "--url", self.url)
        return [each.get("id") or each["event_id"] for each in envelopes]

    def end(self, number: signal.Signals) -> int:
        """Send a signal, and wait for the end."""
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def publish_until_it_dies(broker: Broker, acknowledged: list[str]) -> None:
    """Publish one event after another, and note each that is acknowledged."""
    while True:
        event_id = f"live-{len(acknowledged):05d}"
        try:
            broker.post(event_id)
        except OSError:
            return
        acknowledged.append(event_id)


def killed_while_it_takes_events(broker: Broker) -> list[str]:
    """Kill -9 in the middle of a producer; what it had been told is stored."""
    acknowledged: list[str] = []
    producer = threading.Thread(target=publish_until_it_dies, args=(broker, acknowledged))
    producer.start()
    until(lambda: len(acknowledged) >= LINES, f"{LINES} acknowledgements")
    broker.end(signal.SIGKILL)
    producer.join()
    return acknowledged


def events_of_a_device(broker: Broker, directory: Path) -> None:
    """The edge keeps events, and sends them until the broker has them."""
    with SyncEdge(broker.url.replace("http", "ws"), path=directory / "outbox.db", device_id="pi-1") as edge:
        for number in range(LINES):
            edge.put({"type": "door.opened", "payload": {"number": number}})
        until(lambda: edge.status().acknowledged == LINES, f"{LINES} events that the broker has")
    taken = broker.take("devices/pi-1/events", LINES)
    assert len(set(taken)) == LINES


def main() -> None:
    """All of it; an AssertionError says what does not hold."""
    assert not _fast.DEBUG_BUILD
    assert "site-packages" in str(_fast.__file__), f"{_fast.__file__} is not the installed one"
    say(f"{platform.machine()}, Python {platform.python_version()}, {_fast.__file__}")
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        broker = Broker(directory / "data")
        try:
            say(f"serve: listens after {broker.seconds_to_listen:.1f} s")
            lines = "".join(f'{{"number": {number}}}\n' for number in range(LINES))
            stored = courier("pub", STREAM, "-", "--id-prefix", "bulk-", "--json", "--url", broker.url, stdin=lines)
            assert [each["duplicate"] for each in stored] == [False] * LINES
            again = broker.post(stored[0]["id"])
            assert (again["duplicate"], again["seq"]) == (True, stored[0]["seq"]), again
            say(f"publish: {LINES} events stored, and the first one once more is a duplicate of {again['seq']}")
            first = broker.take(STREAM, LINES)
            assert first == [each["id"] for each in stored]
            say(f"subscribe: {LINES} events, in order")
            acknowledged = killed_while_it_takes_events(broker)
            say(f"kill -9 beside a producer that was told of {len(acknowledged)} events")
            broker = Broker(directory / "data")
            taken = broker.take(STREAM, len(acknowledged))
            while not set(acknowledged) <= set(taken):  # the kill may have taken acks: what they were for comes again
                taken += broker.take(STREAM, 1)
            say(f"restart: all {len(acknowledged)} are there, nothing is lost")
            events_of_a_device(broker, directory)
            say(f"edge: {LINES} events of a device, each once")
            assert broker.end(signal.SIGTERM) == 0
            say("SIGTERM: drained, and ended with 0")
        finally:
            if broker.process.poll() is None:
                broker.end(signal.SIGKILL)


if __name__ == "__main__":
    main()
