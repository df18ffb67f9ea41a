"""`courier service install`: a unit that systemd takes, and that lets the broker do all that it does."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.cli import main
from broker.cli.unit import WATCHDOG_SECONDS
from broker.journal.backoff import BASE_SECONDS, CAP_SECONDS
from broker.journal.writer import ROOM_LOOK_SECONDS
from broker.limits import COMMIT_LINGER_MS_MAX
from tests.conftest import Connect
from tests.support.process import BrokerProcess, courier

HARDENING = (
    "LockPersonality=yes", "NoNewPrivileges=yes", "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
    "RestrictNamespaces=yes", "RestrictRealtime=yes", "RestrictSUIDSGID=yes", "SystemCallArchitectures=native",
    "SystemCallErrorNumber=EPERM", "SystemCallFilter=@system-service", "UMask=0077",
)  # fmt: skip
HARDENING_OF_THE_SYSTEM = (
    "CapabilityBoundingSet=", "DynamicUser=yes", "PrivateDevices=yes", "PrivateTmp=yes", "ProtectClock=yes",
    "ProtectControlGroups=yes", "ProtectHome=yes", "ProtectHostname=yes", "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes", "ProtectKernelTunables=yes", "ProtectProc=invisible", "ProtectSystem=strict",
)  # fmt: skip


def unit(*arguments: str) -> str:
    done = courier("service", "install", "--dry-run", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


@pytest.mark.parametrize("scope", ["system", "user"])
def test_the_unit_is_one_that_systemd_takes(scope: str, tmp_path: Path) -> None:
    text = unit(*(["--user"] if scope == "user" else []))
    lines = text.splitlines()
    for line in ("Type=notify", "WatchdogSec=60", "StateDirectory=courier", "TimeoutStopSec=25", *HARDENING):
        assert line in lines
    assert [line in lines for line in HARDENING_OF_THE_SYSTEM] == [scope == "system"] * len(HARDENING_OF_THE_SYSTEM)
    assert f"WantedBy={'default' if scope == 'user' else 'multi-user'}.target" in lines
    assert "LoadCredential=tokens:%E/courier/tokens.yaml" in lines
    assert "SetCredential=tokens:[]" in lines, "without a file there are no tokens, and the broker starts"
    assert "Environment=COURIER_DATA=%S/courier COURIER_AUTH__TOKENS_FILE=%d/tokens" in lines
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed, so that the unit is checked as text only")
    file = tmp_path / "courier.service"
    file.write_text(text)
    command = ["systemd-analyze", *(["--user"] if scope == "user" else []), "verify", str(file)]
    environment = {"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)}
    checked = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert [line for line in checked.stderr.splitlines() if "courier" in line] == []
    file.write_text(text.replace("WatchdogSec=60", "WatchdogSec=often"))
    checked = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "often" in checked.stderr, "what is wrong in a unit is found"


async def test_the_filter_of_system_calls_lets_the_broker_do_its_work(tmp_path: Path, connect: Connect) -> None:
    """What it asks of the kernel from start to end, beside what systemd lets through."""
    if shutil.which("strace") is None or shutil.which("systemd-analyze") is None:
        pytest.skip("strace or systemd is not installed")
    log = tmp_path / "calls"
    with BrokerProcess(tmp_path / "data", tracer=("strace", "-f", "-qq", "-o", str(log))) as broker:
        client = await connect(broker.url)
        await client.enqueue("e-1")
        async with client.subscribe() as subscriber:
            await subscriber.credit(1)
            assert await subscriber.ids(1) == ["e-1"]
        pid = int(log.read_text().split(maxsplit=1)[0])
        os.kill(pid, signal.SIGTERM)
        assert broker.wait() == 0
    called = set(re.findall(r"^\d+ +([a-z_0-9]+)\(", log.read_text(), re.MULTILINE))
    assert {"fdatasync", "epoll_ctl"} <= called
    assert called - let_through("@system-service") == set()


def let_through(name: str) -> set[str]:
    """The system calls of a set of systemd, those of the sets in it too."""
    printed = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True)
    members = [line.strip() for line in printed.stdout.splitlines()[1:]]
    below = (let_through(each) for each in members if each.startswith("@"))
    return {each for each in members if each and each[0] not in "@#"}.union(*below)


def test_the_watchdog_is_more_patient_than_any_pause_of_the_writer() -> None:
    """It is fed at half its interval, once the writer has come round: after a linger, or before another attempt."""
    pauses = COMMIT_LINGER_MS_MAX / 1000, CAP_SECONDS + BASE_SECONDS, ROOM_LOOK_SECONDS
    assert sum(pauses) < WATCHDOG_SECONDS / 2


def test_settings_and_tokens_are_named_where_they_are(tmp_path: Path) -> None:
    config, tokens = tmp_path / "courier.yaml", tmp_path / "tokens.yaml"
    config.write_text("server: {drainMs: 60500, host: 0.0.0.0}")
    tokens.write_text("- {name: a, token: x, scopes: ['admin:*']}")
    lines = unit("--config", str(config), "--tokens", str(tokens)).splitlines()
    assert f"LoadCredential=tokens:{tokens}" in lines
    assert "TimeoutStopSec=76" in lines
    (start,) = (line for line in lines if line.startswith("ExecStart="))
    assert start.endswith(f" -m broker serve --config {config}")


@pytest.mark.parametrize(
    ("config", "arguments", "problem"),
    [
        ("server: {port: x}", (), "courier.yaml:1: server.port: expected an integer"),
        ("server: {host: 0.0.0.0}", (), "server.host: expected localhost or a loopback address"),
        ("", ("--tokens", "nowhere.yaml"), "nowhere.yaml: cannot be read"),
        ("", ("--tokens", "a b.yaml"), "the unit cannot hold the path"),
        ("", ("--tokens", "%h.yaml"), "the unit cannot hold the path"),
    ],
)
def test_what_would_not_start_is_not_installed(
    tmp_path: Path, config: str, arguments: tuple[str, ...], problem: str
) -> None:
    (tmp_path / "courier.yaml").write_text(config)
    for name in ("a b.yaml", "%h.yaml"):
        (tmp_path / name).write_text("[]")
    home = {"XDG_CONFIG_HOME": str(tmp_path / "home")}
    done = courier("service", "install", "--user", "--config", "courier.yaml", *arguments, cwd=tmp_path, env=home)
    assert (done.returncode, problem in done.stderr.decode()) == (78, True), done.stderr
    assert not (tmp_path / "home").exists()


def test_a_unit_of_a_user_is_written_whole_and_the_next_step_is_told(tmp_path: Path) -> None:
    done = courier("service", "install", "--user", env={"XDG_CONFIG_HOME": str(tmp_path)})
    file = tmp_path / "systemd/user/courier.service"
    assert file.read_text() == unit("--user")
    assert list(file.parent.iterdir()) == [file]
    told = f"{file} is written. Now: systemctl --user daemon-reload && systemctl --user enable --now courier\n"
    assert (done.returncode, done.stdout.decode()) == (0, told)


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "systemd").write_text("not a directory")
    done = courier("service", "install", "--user", env={"XDG_CONFIG_HOME": str(tmp_path)})
    assert done.returncode == 1
    assert re.search(r"courier.service cannot be written: Not a directory\n$", done.stderr.decode())


def test_a_program_in_a_home_directory_is_one_that_the_service_cannot_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/home/pi/venv/bin/courier"])
    for arguments, hidden in (([], True), (["--user"], False)):
        told = CliRunner().invoke(main, ["service", "install", "--dry-run", *arguments])
        assert told.exit_code == 0
        assert "ExecStart=/home/pi/venv/bin/courier serve\n" in told.stdout
        assert ("cannot see home directories, so not /home/pi/venv/bin/courier;" in told.stderr) is hidden
