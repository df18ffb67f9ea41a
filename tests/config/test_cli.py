"""`courier config`: what it prints, where, and its exit code."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker.cli.config import config
from broker.config.reference import reference


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.chdir(tmp_path)
    return CliRunner()


def invoke(run: CliRunner, *arguments: str, env: dict[str, str] | None = None) -> Result:
    return run.invoke(config, arguments, env=env)


@pytest.mark.parametrize(
    ("text", "count"), [("", "0 keys"), ("data: x", "1 key"), ("server: {port: 1, host: localhost}", "2 keys")]
)
def test_check_says_how_many_keys_a_good_file_sets(run: CliRunner, text: str, count: str) -> None:
    Path("courier.yaml").write_text(text)
    result = invoke(run, "check", "courier.yaml")
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"courier.yaml: ok ({count} set)\n", "")


def test_check_prints_each_problem_to_stderr_and_exits_with_ex_config(run: CliRunner) -> None:
    Path("courier.yaml").write_text("server:\n  port: -1\n  prot: 1\n")
    result = invoke(run, "check", "courier.yaml")
    assert result.exit_code == 78
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "courier.yaml:2: server.port: expected an integer between 0 and 65535, found -1",
        "courier.yaml:3: server.prot: unknown key; did you mean port?",
    ]


def test_check_looks_at_the_file_alone(run: CliRunner) -> None:
    Path("courier.yaml").write_text("server: {port: -1}")
    assert invoke(run, "check", "courier.yaml", env={"COURIER_SERVER__PORT": "1"}).exit_code == 78
    Path("courier.yaml").write_text("server: {port: 1}")
    assert invoke(run, "check", "courier.yaml", env={"COURIER_SERVER__PORT": "x"}).exit_code == 0


def test_check_of_a_missing_file_exits_with_ex_config(run: CliRunner) -> None:
    result = invoke(run, "check", "none.yaml")
    assert (result.exit_code, result.stderr) == (78, "none.yaml: cannot be read: No such file or directory\n")


def test_show_prints_what_is_in_effect(run: CliRunner) -> None:
    Path("courier.yaml").write_text("server: {port: 1}\ndata: x\n")
    result = invoke(run, "show", "--config", "courier.yaml", "--origin", env={"COURIER_DATA": "y"})
    assert result.exit_code == 0
    assert "  port: 1  # file courier.yaml:1\n" in result.stdout
    assert 'data: "y"  # environment COURIER_DATA\n' in result.stdout


def test_show_finds_the_file_by_the_environment(run: CliRunner) -> None:
    Path("courier.yaml").write_text("server: {port: 1}")
    result = invoke(run, "show", "--json", env={"COURIER_CONFIG": "courier.yaml"})
    assert json.loads(result.stdout)["server"]["port"] == 1


def test_show_of_something_wrong_exits_with_ex_config(run: CliRunner) -> None:
    result = invoke(run, "show", env={"COURIER_SERVER__PROT": "1"})
    assert result.exit_code == 78
    assert result.stdout == ""
    assert result.stderr == "COURIER_SERVER__PROT: unknown variable; did you mean COURIER_SERVER__PORT?\n"


def test_reference_prints_the_tables_and_is_hidden(run: CliRunner) -> None:
    assert invoke(run, "reference").stdout == reference()
    assert "reference" not in invoke(run, "--help").stdout


@pytest.mark.parametrize("command", [[], ["check"], ["show"]])
def test_help_teaches_with_an_example(run: CliRunner, command: list[str]) -> None:
    assert "courier config " in invoke(run, *command, "--help").stdout
