"""The daemon and its commands, as processes."""

import json
import os
import shutil
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from edge.limits import INTAKE_BODY_BYTES_MAX, INTAKE_EVENTS_MAX
from tests.conftest import StartBroker
from tests.edge.conftest import ids, rows
from tests.edge.processes import QUICK, Daemon, ReferenceProcess, courier_edge
from tests.support.process import until

NOBODY = "ws://127.0.0.1:1"


@pytest.fixture
def processes() -> Iterator[ExitStack]:
    with ExitStack() as started:
        yield started


@pytest.fixture
def server(tmp_path: Path, processes: ExitStack) -> ReferenceProcess:
    server = ReferenceProcess(tmp_path)
    processes.callback(server.close)
    server.start()
    return server


def start(processes: ExitStack, path: Path, url: str, **env: str) -> tuple[Daemon, str]:
    daemon = Daemon(path, url, env)
    processes.callback(daemon.kill)
    return daemon, daemon.ready()


def curl(url: str, *arguments: str, body: bytes | None = None) -> tuple[int, Any]:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    data = [] if body is None else ["--data-binary", "@-"]
    done = subprocess.run(
        ["curl", "-s", "-w", "\n%{http_code}", *arguments, *data, url], input=body, capture_output=True, check=True
    )
    content, _, status = done.stdout.rpartition(b"\n")
    try:
        return int(status), json.loads(content)
    except ValueError:
        return int(status), content.decode()


JSON = ("-H", "Content-Type: application/json")
EVENT = b'{"type":"door.opened","payload":{"door":3}}'


def test_an_event_that_was_posted_arrives_with_its_bytes(
    path: Path, processes: ExitStack, server: ReferenceProcess
) -> None:
    daemon, address = start(processes, path, server.url)
    status, answer = curl(f"{address}/events", *JSON, body=EVENT)
    assert (status, answer["status"]) == (200, "queued")
    assert daemon.command("drain", "--timeout", "20").returncode == 0
    ((event_id, envelope),) = server.stored()
    assert event_id == answer["event_id"]
    assert envelope.endswith(EVENT[1:])
    assert json.loads(envelope)["device_id"] == "pi-1"
    assert daemon.stop() == 0
    assert not daemon.socket.exists()


def test_many_may_be_posted_at_once_as_an_array_or_as_lines(path: Path, processes: ExitStack) -> None:
    _, address = start(processes, path, NOBODY)
    array = b"[" + b" ,\n".join([EVENT] * 3) + b"]"
    status, answers = curl(f"{address}/events", *JSON, body=array)
    assert (status, [answer["status"] for answer in answers]) == (200, ["queued"] * 3)
    lines = EVENT + b"\n\n" + b"no event\n" + EVENT
    status, text = curl(f"{address}/events?lane=fast", "-H", "Content-Type: application/x-ndjson", body=lines)
    assert [json.loads(line)["status"] for line in text.splitlines()] == ["queued", "rejected", "queued"]
    assert [lane for (lane,) in rows(path, "lane")] == ["default"] * 3 + ["fast"] * 2


@pytest.mark.parametrize(
    ("arguments", "body", "expected"),
    [
        ((), EVENT, 400),
        (("-H", "Content-Type: text/plain"), EVENT, 400),
        ((*JSON, "-H", "Origin: http://evil.example"), EVENT, 403),
        ((*JSON, "-H", "Host: evil.example"), EVENT, 403),
        (JSON, b"{}", 400),
        (JSON, b"[]", 400),
        (JSON, b"[1,2", 400),
        (JSON, b"[" + b",".join([EVENT] * (INTAKE_EVENTS_MAX + 1)) + b"]", 400),
        (JSON, b" " * (INTAKE_BODY_BYTES_MAX + 1), 413),
    ],
)
def test_what_is_no_event_or_comes_from_a_web_page_is_refused(
    arguments: tuple[str, ...], body: bytes, expected: int, path: Path, processes: ExitStack
) -> None:
    _, address = start(processes, path, NOBODY)
    status, answer = curl(f"{address}/events", *arguments, body=body)
    assert status == expected
    assert answer["error"]["retryable"] is False
    assert ids(path) == []


def test_a_full_outbox_is_said_with_the_time_to_try_again(path: Path, processes: ExitStack) -> None:
    _, address = start(processes, path, NOBODY, COURIER_EDGE_MAX_ROWS="1")
    assert curl(f"{address}/events", *JSON, body=EVENT)[0] == 200
    status, answer = curl(f"{address}/events", "-D", "/dev/stderr", *JSON, body=EVENT)
    assert (status, answer["error"]["code"], answer["error"]["retry_after_seconds"]) == (507, "outbox_full", 1)


def talk(path: Path, *lines: bytes) -> list[Any]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        connection.sendall(b"".join(line + b"\n" for line in lines))
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answers:
            return [json.loads(line) for line in answers]


def test_the_socket_answers_each_line_in_order(path: Path, processes: ExitStack) -> None:
    daemon, _ = start(processes, path, NOBODY)
    assert stat.S_IMODE(os.stat(daemon.socket).st_mode) == 0o660  # noqa: PTH116 - a socket
    events = [b'{"event_id":"evt_%d","type":"t","payload":{}}' % number for number in range(500)]
    answers = talk(
        daemon.socket, *events, b"no event", b'{"command":"lane","lane":"x"}', events[0], b'{"command":"fly"}'
    )
    assert [answer.get("event_id") for answer in answers[:500]] == [f"evt_{number}" for number in range(500)]
    assert answers[500]["error"]["code"] == "invalid_event"
    assert answers[501] == {"lane": "x"}
    assert (answers[502]["event_id"], answers[502]["duplicate"]) == ("evt_0", True)
    assert "no command" in answers[503]["error"]["message"]
    assert len(ids(path)) == 500


def test_a_line_that_never_ends_is_refused(path: Path, processes: ExitStack) -> None:
    daemon, _ = start(processes, path, NOBODY)
    (answer,) = talk(daemon.socket, b"x" * (2 * 1024 * 1024))
    assert "longer than" in answer["error"]["message"]


def test_send_puts_through_the_daemon_or_into_the_file(path: Path, processes: ExitStack) -> None:
    where = ("--path", str(path), "--device-id", "pi-1")
    alone = courier_edge("send", '{"n": 1}', "--type", "t", "--id", "evt_1", *where)
    assert (alone.returncode, json.loads(alone.stdout)) == (0, {"event_id": "evt_1", "status": "queued"})
    daemon, _ = start(processes, path, NOBODY)
    big = b'{"n": 123456789012345678901234567890}\n'
    through = daemon.command("send", "--type", "t", stdin=big * 500)
    assert (through.returncode, len(through.stdout.splitlines())) == (0, 500), through.stderr
    assert len(ids(path)) == 501
    assert rows(path, "payload_json")[-1][0].encode().endswith(b'"payload":' + big.strip() + b"}")
    assert json.loads(daemon.command("send", "--id", "evt_1", '{"n": 1}').stdout)["duplicate"]
    bad = daemon.command("send", "5")
    assert bad.returncode == 65
    assert b"payload is not an object" in bad.stderr
    assert daemon.command("send", "{").returncode == 65


def test_status_tells_depth_age_connection_and_last_error(path: Path, processes: ExitStack) -> None:
    missing = courier_edge("status", "--path", str(path))
    assert (missing.returncode, b"there is no outbox" in missing.stderr) == (1, True)
    daemon, address = start(processes, path, NOBODY)
    curl(f"{address}/events", *JSON, body=EVENT)

    def status() -> Any:
        return json.loads(daemon.command("status", "--json").stdout)

    until(lambda: status()["last_error"] is not None)
    found = status()
    assert (found["depth"], found["waiting"], found["rejected"], found["connected"]) == (1, 1, 0, False)
    assert found["oldest_seconds"] >= 0
    assert found["rate_per_second"] == 0
    assert curl(f"{address}/status")[1].keys() == found.keys()
    text = daemon.command("status").stdout.decode()
    assert "waiting       1 events" in text
    assert "not connected to ws://127.0.0.1:1/v1/ingress" in text
    assert daemon.stop() == 0
    offline = json.loads(courier_edge("status", "--json", "--path", str(path)).stdout)
    assert (offline["depth"], offline["connected"]) == (1, None)


def test_drain_without_a_daemon_sends_from_here(path: Path, server: ReferenceProcess) -> None:
    courier_edge("send", '{"n": 1}', "--path", str(path), env=QUICK)
    gone = courier_edge("drain", "--timeout", "0.3", "--path", str(path), "--url", NOBODY, env=QUICK)
    assert (gone.returncode, b"not drained" in gone.stderr) == (75, True)
    done = courier_edge("drain", "--timeout", "20", "--path", str(path), "--url", server.url, env=QUICK)
    assert (done.returncode, done.stdout) == (0, b"0 events wait, 0 are refused\n"), done.stderr
    assert len(server.stored()) == 1


def test_a_second_daemon_on_one_outbox_is_refused(path: Path, processes: ExitStack) -> None:
    start(processes, path, NOBODY)
    second = courier_edge("run", "--path", str(path), "--port", "0", env=QUICK)
    assert (second.returncode, b"has this outbox open" in second.stderr) == (1, True)


def test_a_daemon_that_was_killed_leaves_a_socket_that_the_next_one_replaces(path: Path, processes: ExitStack) -> None:
    first, _ = start(processes, path, NOBODY)
    first.kill()
    assert first.socket.exists()
    assert courier_edge("status", "--path", str(path)).returncode == 0
    second, _ = start(processes, path, NOBODY)
    assert second.command("status").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--host", "0.0.0.0"), "loopback only"),
        (("--max-rows", "many"), "not a whole number"),
        (("--new-share", "1.5"), "between 0 and 1"),
        (("--when-full", "explode"), "reject or drop-oldest"),
        (("--retry-base", "9", "--retry-cap", "1"), "backoff"),
        (("--device-id", "a b"), "device id"),
        (("--url", "ftp://x"), "is not a URL"),
        (("--token-file", "/nowhere"), "cannot be read"),
    ],
)
def test_a_setting_that_is_wrong_is_said_before_anything_starts(
    arguments: tuple[str, ...], problem: str, path: Path
) -> None:
    done = courier_edge("run", "--path", str(path), *arguments)
    assert (done.returncode, problem in done.stderr.decode()) == (78, True), done.stderr
    assert not path.exists()


def test_the_file_gives_way_to_the_environment_and_that_to_flags(tmp_path: Path, path: Path) -> None:
    file = tmp_path / "edge.toml"
    file.write_text('max_rows = 7\nconnect_cap = 2\n[lanes.live]\nmax_rows = 2\nwhen_full = "drop-oldest"\n')
    lines = b"{}\n" * 9
    arguments = ("send", "--config", str(file), "--path", str(path), "--device-id", "pi-1")
    full = courier_edge(*arguments, stdin=lines, env={"COURIER_EDGE_MAX_ROWS": "8"})
    assert (full.returncode, len(full.stdout.splitlines())) == (75, 8)
    live = courier_edge(*arguments, "--lane", "live", "--max-rows", "10", stdin=lines)
    assert (live.returncode, len(live.stdout.splitlines())) == (0, 9), live.stderr
    assert [lane for (lane,) in rows(path, "lane")] == ["default"] * 8 + ["live"] * 2
    file.write_text("max_row = 7\n")
    unknown = courier_edge(*arguments, stdin=lines)
    assert (unknown.returncode, b"max_row is no setting" in unknown.stderr) == (78, True)
    file.write_text("max_rows = true\n")
    assert b"not a whole number" in courier_edge(*arguments, stdin=lines).stderr


def test_systemd_is_told_that_it_is_ready_and_alive_and_stopping(
    path: Path, tmp_path: Path, processes: ExitStack
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(20)
        manager.bind(str(tmp_path / "notify"))
        daemon, _ = start(processes, path, NOBODY, NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="200000")
        heard = [manager.recv(1000).decode() for _ in range(4)]
        assert heard[0].startswith("READY=1\n")
        assert heard[1:] == ["WATCHDOG=1"] * 3
        assert daemon.stop() == 0
        while (word := manager.recv(1000)) == b"WATCHDOG=1":
            pass
        assert word == b"STOPPING=1"


HARDENING = (
    "CapabilityBoundingSet=", "LockPersonality=yes", "NoNewPrivileges=yes", "PrivateDevices=yes", "PrivateTmp=yes",
    "ProtectClock=yes", "ProtectControlGroups=yes", "ProtectHome=yes", "ProtectHostname=yes", "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes", "ProtectKernelTunables=yes", "ProtectSystem=strict",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX", "RestrictNamespaces=yes", "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes", "SystemCallArchitectures=native", "SystemCallFilter=@system-service", "UMask=0077",
)  # fmt: skip


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    done = courier_edge("service", "install", "--dry-run", "--user", "root")
    text = done.stdout.decode()
    assert done.returncode == 0
    for line in ("Type=notify", "WatchdogSec=30", "User=root", *HARDENING):
        assert line in text.splitlines()
    assert "run --config /etc/courier-edge.toml\n" in text
    unit = tmp_path / "courier-edge.service"
    unit.write_text(text)
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed, so that the unit is checked as text only")
    checked = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    complaints = [line for line in checked.stderr.splitlines() if "courier-edge" in line]
    assert complaints == []
    assert courier_edge("service", "install", "--dry-run", "--user", "a b").returncode == 78


def test_what_the_broker_refuses_is_seen_and_dealt_with_while_the_daemon_runs(
    path: Path, processes: ExitStack, broker_process: StartBroker
) -> None:
    broker = broker_process()
    daemon, address = start(processes, path, f"ws://127.0.0.1:{broker.port}", COURIER_EDGE_REJECTED_BASE="3600")
    for number in range(3):
        refused = b'{"schema_version":%d,"event_id":"evt_%d","type":"t","payload":{}}' % (7 if number else 1, number)
        assert curl(f"{address}/events", *JSON, body=refused)[0] == 200
    assert daemon.command("drain", "--timeout", "20").stdout == b"0 events wait, 2 are refused\n"
    listed = [json.loads(line) for line in daemon.command("rejected", "list").stdout.splitlines()]
    assert [row["event_id"] for row in listed] == ["evt_1", "evt_2"]
    assert all("schema_version" in row["last_error"] for row in listed)
    assert daemon.command("rejected", "drop", "evt_1").stdout == b"1\n"
    assert daemon.command("rejected", "retry", "evt_2").stdout == b"1\n"
    until(lambda: rows(path, "event_id, state, attempt_count") == [("evt_2", "rejected", 2)])
    (answer,) = talk(daemon.socket, b'{"command":"rejected-drop"}')
    assert "say which" in answer["error"]["message"]
    (answer,) = talk(daemon.socket, b'{"command":"rejected-list"}')
    assert [row["event_id"] for row in answer["rejected"]] == ["evt_2"]
    assert talk(daemon.socket, b'{"command":"rejected-drop","all":true}') == [{"dropped": 1}]
    assert ids(path) == []
