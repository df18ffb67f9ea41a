"""`courier serve`: what it refuses to start with, in one clear line, and without touching anything."""

import socket
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from tests.conftest import StartBroker
from tests.support.process import courier

CONFIG = 78
Refused = Callable[..., list[str]]


@pytest.fixture
def refused(tmp_path: Path) -> Refused:
    """Run `courier serve`, which must end with EX_CONFIG; the lines that say why."""

    def run(*arguments: str, env: dict[str, str] | None = None) -> list[str]:
        ended = courier("serve", *arguments, cwd=tmp_path, env=env)
        assert (ended.returncode, ended.stdout) == (CONFIG, b""), ended
        return [line for line in ended.stderr.decode().splitlines() if line.startswith("courier: ")]

    return run


def test_a_second_broker_on_the_same_data_is_refused(broker_process: StartBroker, refused: Refused) -> None:
    broker = broker_process()
    (line,) = refused("--port", "0", "--data", str(broker.data))
    reason = f"another broker (process {broker.pid}) uses this data directory; stop it, or give another"
    assert line == f"courier: {broker.data}: {reason}"
    assert broker.terminate_and_wait() == 0
    assert broker_process().terminate_and_wait() == 0


def test_a_killed_broker_leaves_no_lock_behind(broker_process: StartBroker) -> None:
    broker_process().kill()
    assert broker_process().terminate_and_wait() == 0


def test_a_port_in_use_is_refused(refused: Refused, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (line,) = refused("--port", str(port), "--data", str(tmp_path / "data"))
    assert line.startswith(f"courier: server: cannot listen on 127.0.0.1:{port}: ")
    assert line.endswith("address already in use; is another broker there?")


def test_a_file_in_place_of_the_data_directory_is_refused(refused: Refused, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_text("precious")
    (line,) = refused("--port", "0", "--data", str(data))
    assert line == f"courier: {data}: cannot be used as data directory: Not a directory"
    assert data.read_text() == "precious"


def test_a_file_above_the_data_directory_is_refused(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    (line,) = refused("--port", "0", "--data", str(tmp_path / "file" / "data"))
    assert "cannot be used as data directory: Not a directory" in line


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_an_address_that_others_reach_is_refused_without_tokens(refused: Refused, host: str) -> None:
    (line,) = refused("--host", host, "--port", "0")
    assert "server.host: expected localhost or a loopback address, because there are no auth.tokens" in line


def test_every_problem_of_a_file_is_named_with_its_path(refused: Refused, tmp_path: Path) -> None:
    file = tmp_path / "courier.yaml"
    file.write_text("server:\n  prot: 1\njournal:\n  synchronous: off\n")
    assert refused("--config", str(file)) == [
        f"courier: {file}:2: server.prot: unknown key; did you mean port?",
        f'courier: {file}:4: journal.synchronous: expected "full" or "normal", found "off"',
    ]


def test_an_unknown_variable_is_refused(refused: Refused) -> None:
    assert refused(env={"COURIER_SERVER__PROT": "1"}) == [
        "courier: COURIER_SERVER__PROT: unknown variable; did you mean COURIER_SERVER__PORT?"
    ]


def test_a_missing_file_is_refused(refused: Refused) -> None:
    assert refused("--config", "none.yaml") == ["courier: none.yaml: cannot be read: No such file or directory"]


def test_a_wrong_flag_is_a_wrong_usage(tmp_path: Path) -> None:
    for arguments in (["--port", "x"], ["--nonsense"], ["argument"]):
        assert courier("serve", *arguments, cwd=tmp_path).returncode == 2


def pragma(file: Path, statement: str) -> None:
    connection = apsw.Connection(str(file))
    connection.execute(statement).fetchall()
    connection.close()


def test_a_database_of_a_newer_courier_is_refused_and_not_touched(
    broker_process: StartBroker, refused: Refused
) -> None:
    broker = broker_process()
    assert broker.terminate_and_wait() == 0
    file = broker.data / "courier.db"
    pragma(file, "PRAGMA user_version = 999")
    before = file.read_bytes()
    (line,) = refused("--port", "0", "--data", str(broker.data))
    assert line.startswith(f"courier: {file}: written by a newer Courier (schema 999, this program knows ")
    assert line.endswith("nothing was changed: upgrade, or use another data directory")
    assert file.read_bytes() == before
    assert sorted(path.name for path in broker.data.iterdir()) == ["courier.db", "courier.lock"]


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE theirs (x)", "PRAGMA application_id = 7", "PRAGMA user_version = 7"]
)
def test_a_database_of_another_program_is_refused_and_not_touched(
    refused: Refused, tmp_path: Path, statement: str
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    file = data / "courier.db"
    pragma(file, statement)
    before = file.read_bytes()
    (line,) = refused("--port", "0", "--data", str(data))
    assert line == f"courier: {file}: this database belongs to another program; nothing was changed"
    assert file.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_not_touched(refused: Refused, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    file = data / "courier.db"
    file.write_text("a diary, not a database\n" * 100)
    before = file.read_bytes()
    (line,) = refused("--port", "0", "--data", str(data))
    assert line == f"courier: {file}: not an SQLite database; nothing was changed"
    assert file.read_bytes() == before
