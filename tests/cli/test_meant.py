"""A wrong call is answered with what was meant, and every exit code means one thing."""

import re
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from broker.cli import exits, main
from broker.cli.groups import OTHER_WORDS
from broker.cli.table import Column, table
from broker.cli.units import duration, events, rate, size


def said(*arguments: str) -> str:
    """What a wrong call is answered with on stderr."""
    result = CliRunner().invoke(main, list(arguments), prog_name="courier")
    assert (result.exit_code, result.stdout) == (exits.USAGE, "")
    return " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["stremas"], "there is no command 'stremas'; did you mean 'courier streams'?"),
        (["publish", "s", "1"], "did you mean 'courier pub'?"),
        (["SUB", "s"], "did you mean 'courier sub'?"),
        (["dlq"], "did you mean 'courier dead'?"),
        (["dead", "shwo", "1"], "there is no command 'shwo'; did you mean 'courier dead show'?"),
        (["dead", "delete"], "did you mean 'courier dead discard'?"),
        (["token", "create"], "did you mean 'courier token new'?"),
        (["config", "chekc"], "did you mean 'courier config check'?"),
        (["xyzzy"], "there is no command 'xyzzy'; there are backup, config, "),
        (["pub", "s", "1", "--tpye", "x"], "--type"),
        (["sub", "s", "--no-akc"], "--no-ack"),
        (["streams", "--sort", "size"], "'depth'"),
        (["sub", "a//b"], "'a//b' cannot name a stream or a pattern: segment 2 is empty; did you mean 'a/b'?"),
        (["tail", "a/**/b"], "segment 2 is **, which may only come last"),
        (["top", "--once", "-n", "2"], "--once is -n 1"),
        (["sub"], "Missing argument 'STREAM'"),
    ],
)
def test_a_wrong_call_says_what_was_meant(arguments: list[str], meant: str) -> None:
    assert meant in said(*arguments)


def test_every_other_word_leads_to_a_command() -> None:
    context = click.Context(main)
    found = {name: main.get_command(context, name) for name in main.list_commands(context)}
    assert None not in found.values()
    known = set(found) | {name for group in found.values() for name in getattr(group, "commands", ())}
    assert set(OTHER_WORDS.values()) <= known
    assert not set(OTHER_WORDS) & set(found)


def test_a_command_imports_no_other_one() -> None:
    program = (
        "import sys; from broker.cli import main; main(['token', '--help'], standalone_mode=False);"
        "print(sorted(each for each in ('aiohttp', 'broker.app', 'broker.cli.serve') if each in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.endswith(
        "[]\n"
    )


def test_the_exit_codes_are_what_they_were() -> None:
    codes = {name: code for name, code in vars(exits).items() if re.fullmatch("[A-Z_]+", name)}
    assert codes == {
        "FAILED": 1, "USAGE": 2, "REFUSED": 65, "UNAVAILABLE": 69, "STORAGE": 74, "TEMPORARY": 75, "CONFIG": 78,
        "INTERRUPTED": 130, "BROKEN_PIPE": 141,
    }  # fmt: skip


def test_a_table_is_no_wider_than_it_may_be() -> None:
    columns = [Column("name", is_number=False, may_shrink=True), Column("n"), Column("why", is_number=False)]
    rows = [["a" * 30, "1", "x"], ["b", "1,000", "yy"]]
    assert table(columns, rows, 80)[1] == f"{'a' * 30}      1  x"
    for width in (80, 40, 24, 20, 5, 1):
        assert max(map(len, table(columns, rows, width))) <= width
    assert table(columns, rows, 24)[1].startswith("aaaaaaaaaaa…")
    assert table(columns, [], 80) == ["name  n  why"]


def test_figures_are_written_as_people_read_them() -> None:
    times = {None: "-", 0.04: "0.0 ms", 9.96: "10.0 ms", 12: "12 ms", 1500: "1.5 s", 180_000: "3.0 min", 9e7: "1.0 d"}
    assert {each: duration(each) for each in times} == times
    assert [rate(each) for each in (0, 0.04, 0.05, 9.94, 12, 12345.6)] == ["0", "0", "0.1", "9.9", "12", "12,346"]
    assert [events(each) for each in (0, 1, 2000)] == ["0 events", "1 event", "2,000 events"]
    assert [size(each) for each in (0, 1023, 1024, 1536, 5 * 2**30)] == [
        "0 bytes", "1023 bytes", "1.0 KiB", "1.5 KiB", "5.0 GiB",
    ]  # fmt: skip
